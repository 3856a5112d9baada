//! Writes the files of each party of a study, with comments that say what to change.

use std::error::Error;
use std::path::{Path, PathBuf};

use crate::executables::{StudyFile, problem};
use crate::flower::Engine;
use crate::models::{Child, six_cities};
use clap::{Args, Subcommand};

use super::keys::is_plain;
use super::say::{note, say};

/// Whose files.
#[derive(Args, Debug)]
pub(super) struct Options {
    #[command(subcommand)]
    party: Party,
}

#[derive(Subcommand, Debug)]
enum Party {
    /// The file that all parties share: study.toml.
    Study {
        /// The formula, as in 'wheeze ~ smoke * age + (1 | child)'.
        formula: String,
        /// The family of the outcome.
        #[arg(long)]
        family: String,
        /// The name of a silo; once for each silo.
        #[arg(long = "silo", required = true)]
        silos: Vec<String>,
    },
    /// A silo's own file, NAME.toml, and its key, as `partita keys silo` makes it.
    Silo {
        /// The silo's name in the study.
        name: String,
        /// Its CSV file.
        #[arg(long)]
        data: PathBuf,
        /// The address of the SuperLink, as in link.example.org:8000.
        #[arg(long)]
        link: String,
    },
    /// Files to try a study with: the children of the six-cities study, a line a visit, dealt to silos.
    Example {
        /// The name of a silo, whose file is NAME.csv; once for each silo.
        #[arg(long = "silo", required = true)]
        silos: Vec<String>,
    },
    /// The coordinator's own file, coordinator.toml, and its key, as `partita keys coordinator` makes it.
    Coordinator {
        /// The address of the SuperLink.
        #[arg(long)]
        link: String,
        /// A silo whose key NAME.pub is here: no other node is taken for it. Once for each silo.
        #[arg(long = "silo")]
        silos: Vec<String>,
    },
}

pub(super) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    match &options.party {
        Party::Study { formula, family, silos } => {
            silos.iter().try_for_each(|name| is_plain(name))?;
            // What is written is what can be read.
            let text = study(formula, family, silos);
            StudyFile::parse(&text).map_err(problem)?;
            write("study.toml", &text)
        }
        Party::Silo { name, data, link } => {
            is_plain(name)?;
            is_address(link)?;
            of_study(std::slice::from_ref(name))?;
            if !data.exists() {
                note(format_args!("{} is not there yet: the silo reads it when it starts", data.display()));
            }
            write(&format!("{name}.toml"), &silo(name, data, link))?;
            super::keys::silo(name, Path::new("."))
        }
        Party::Example { silos } => {
            silos.iter().try_for_each(|name| is_plain(name))?;
            let deal = |place| six_cities().into_iter().enumerate().skip(place).step_by(silos.len());
            silos.iter().enumerate().try_for_each(|(place, name)| write(&format!("{name}.csv"), &visits(deal(place))))
        }
        Party::Coordinator { link, silos } => {
            silos.iter().try_for_each(|name| is_plain(name))?;
            is_address(link)?;
            of_study(silos)?;
            write("coordinator.toml", &coordinator(link, silos))?;
            super::keys::coordinator(Path::new("."))
        }
    }
}

/// Refuses a silo that the study of this folder does not list, before keys are made for it; without a study any is one.
fn of_study(names: &[String]) -> Result<(), Box<dyn Error>> {
    let path = Path::new("study.toml");
    if !path.exists() {
        return Ok(());
    }
    let study = StudyFile::read(path)?;
    match names.iter().find(|name| !study.silos.contains(name)) {
        None => Ok(()),
        Some(name) => Err(format!(
            "`{name}` as the name of a silo: expected one that study.toml lists, {}. Take one of them, or add `{name}` to `silos` \
             of study.toml at all parties",
            study.silos.join(", ")
        )
        .into()),
    }
}

/// Refuses an address that no party could speak to.
fn is_address(link: &str) -> crate::flower::Result<()> {
    Engine { insecure: true, ..Engine::insecure(link) }.check()
}

fn write(name: &str, text: &str) -> Result<(), Box<dyn Error>> {
    let path = Path::new(name);
    if path.exists() {
        return Err(format!("{name} is there already: move it away to write it anew").into());
    }
    crate::inference::write_atomically(path, text.as_bytes())?;
    Ok(say(format_args!("{name} is written"))?)
}

/// A table `child,wheeze,smoke,age` of children with their places in the study.
fn visits(children: impl Iterator<Item = (usize, Child)>) -> String {
    let line = |(id, child): (usize, Child)| -> String {
        let smoke = u8::from(child.smoke);
        let visits = child.wheeze.into_iter().zip([-2, -1, 0, 1]);
        visits.map(|(wheeze, age)| format!("c{id},{},{smoke},{age}\n", u8::from(wheeze))).collect()
    };
    "child,wheeze,smoke,age\n".to_owned() + &children.map(line).collect::<String>()
}

/// A text between quotes, as TOML reads it.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn study(formula: &str, family: &str, silos: &[String]) -> String {
    let silos: Vec<String> = silos.iter().map(|name| quoted(name)).collect();
    format!(
        r#"# The study, the same at all parties: whoever has another file is refused.
formula = {}
family = {}
silos = [{}]

# Rows with missing cells: "refuse" ends the study with a count of them, "drop" leaves them out.
missing = "refuse"

# Posterior predictive checks that silos make of their own rows; p-values alone leave. The outcome is called y.
# checks = ["mean of y", "zeros of y"]

# Contrasts, on the linear predictor or averaged over the rows of all silos.
# contrasts = ["smoke: 1 - 0 averaged"]

# Draws at which silos leave their rows out one at a time.
# leave_one_out_draws = 1000

# The requests that the coordinator may make of silos, in the words of `allow` of a silo's file; without this line those that
# the other entries need. A silo refuses all others.
# asks = ["formula", "few", "trust", "predictive", "average", "leave_one_out"]

# Priors in place of the usual ones, which the coordinator prints: of a number, or of a class (b, sd, cor).
# [priors]
# smoke = "normal(0, 1)"
# sd = "half_normal(1)"

# Columns that every file has to have, with their units.
# [columns]
# age = "years from the ninth"

# What is fixed here, no silo is asked for. Of a column of text it is the levels: others are compared with the first.
# [declared.levels]
# sex = ["female", "male"]
# [declared.scalings]
# "scale(age)" = {{ centre = 50.0, divisor = 10.0 }}
"#,
        quoted(formula),
        quoted(family),
        silos.join(", ")
    )
}

fn silo(name: &str, data: &Path, link: &str) -> String {
    let data = data.to_string_lossy();
    format!(
        r#"# The file of silo {name}: it stays here.
name = {}
data = {}

# The folder of its state. It must survive a restart, and no other silo may use it.
state = {}
# The folder of the report that the coordinator sends at the end.
output = {}
# The silo answers this coordinator, and no other.
coordinator = "coordinator.pub"
# Signs the answers: the coordinator has {name}-signs.pub. `partita keys silo {name}` makes both.
signs = {}
# The most requests that are answered in a day.
# requests_a_day = 200
# The most draws at which a request may ask for an evaluation, predictive checks, rows left out, averages or the round of trust.
# most_draws = 10000
# What is known of this silo's own rows, for its owner alone.
# own_rows = "own-rows.csv"
# own_checks = "own-checks.html"
# fitted = "fitted.csv"

# Requests that the silo answers; without this line those of study.toml.
# allow = ["formula", "few", "trust"]
# What it does not say of its rows before the fit, by the names that it prints at its start.
# refuse = ["products"]

# How the file is read, where it does not show it.
# [read]
# decimal = "comma"
# encoding = "latin1"

[engine]
address = {}
certificate_authority = "ca.pem"
# The silo is a node of the SuperLink itself. `partita keys silo {name}` makes this key.
key = {}
"#,
        quoted(name),
        quoted(&data),
        quoted(&format!("{name}-state")),
        quoted(&format!("{name}-report")),
        quoted(&format!("{name}-signs.key")),
        quoted(link),
        quoted(&format!("{name}.key")),
    )
}

fn coordinator(link: &str, silos: &[String]) -> String {
    let keys: String =
        silos.iter().map(|name| format!("{} = {}\n", quoted(name), quoted(&format!("{name}.pub")))).collect();
    let signatures: String =
        silos.iter().map(|name| format!("{} = {}\n", quoted(name), quoted(&format!("{name}-signs.pub")))).collect();
    let keys = match keys.as_str() {
        "" => "# Keys of silos: no other node is taken for them, and no answer that they have not signed is taken.\n# [keys]\n\
               # north = \"north.pub\"\n# [signatures]\n# north = \"north-signs.pub\"\n"
            .to_owned(),
        keys => format!(
            "# Keys of silos: no other node is taken for them, and no answer that they have not signed is taken.\n[keys]\n{keys}\n\
             [signatures]\n{signatures}"
        ),
    };
    format!(
        r#"# The file of the coordinator.
# The folder of its checkpoints: `partita coordinator --resume` goes on from there.
state = "coordinator-state"
# The folder of report.html, result.json and history.json.
output = "output"
# Signs the requests: silos have coordinator.pub. `partita keys coordinator` makes both.
key = "coordinator.key"

# How long a silo has to appear, and to answer a request, in seconds.
# appear_seconds = 300
# deadline_seconds = 600

# How files of --predict are read, where they do not show it.
# [read]
# decimal = "comma"

[engine]
address = {}
certificate_authority = "ca.pem"

{keys}"#,
        quoted(link)
    )
}
