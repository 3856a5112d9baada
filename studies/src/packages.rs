//! Fits analyses of package manuals from formulas, over one file and over three silos, beside the estimates of R's packages.
//!
//! ```sh
//! cargo run --release -p partita-studies -- packages --page docs/src/study-packages.md
//! ```
//!
//! What you should see: every analysis is trusted, its coefficients are within half a standard error of the package's, and
//! three silos give the means of one file to within a tenth of a standard deviation.

use std::path::{Path, PathBuf};

use partita::formula::{SiloTable, Study};
use partita::inference::{SiteSummary, in_places, write_atomically};
use partita::{FitOptions, Report, fit};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::harness::{Claim, Claims, Result, Session, WithPage};

/// One analysis, with a package's estimates.
#[derive(Debug, Clone)]
struct Analysis {
    file: String,
    formula: String,
    family: String,
    parameters: Vec<String>,
    /// The column by which rows are dealt to silos.
    deal: String,
    package: &'static str,
    estimates: Vec<Estimate>,
    path: PathBuf,
}

#[derive(Debug, Clone, Serialize)]
struct Estimate {
    name: String,
    value: f64,
    error: f64,
}

/// What was found of one coefficient.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Coefficient {
    name: String,
    package: [f64; 2],
    one_file: [f64; 2],
    three_silos: [f64; 2],
}

/// What was found of one analysis.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Row {
    command: String,
    package: String,
    verdicts: [String; 2],
    coefficients: Vec<Coefficient>,
    seconds: [f64; 2],
}

/// How far means may be from a package's estimates, in its standard errors, and three silos from one file, in standard
/// deviations; fixed before the first run.
const HALF: f64 = 0.5;
const TENTH: f64 = 0.1;

pub(crate) fn run(options: &WithPage) -> Result<()> {
    let session = Session::start("packages", &options.shared)?;
    let mut analyses = analyses()?;
    if options.shared.quick {
        analyses.retain(|own| ["cars", "menarche"].contains(&own.file.as_str()));
    }
    let mut rows = Vec::new();
    for analysis in &analyses {
        session.check()?;
        if !analysis.path.is_file() {
            return Err(format!(
                "{} is not there: name the folder of mixed_models with --data",
                analysis.path.display()
            )
            .into());
        }
        let row = analysis.row(&session)?;
        println!("{}", row.line());
        rows.push(row);
    }
    let mut claims = Claims::from(claims(&rows));
    claims.print_new("claims");
    write_atomically(&session.file("result.json"), &serde_json::to_vec_pretty(&(&rows, &claims))?)?;
    if let Some(page) = &options.page {
        write_atomically(page, book(&rows, &claims).as_bytes())?;
    }
    Ok(())
}

/// All analyses: those of the repository's own data, then those of the folder `mixed_models`.
fn analyses() -> Result<Vec<Analysis>> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden");
    let read = |name: &str| -> Result<Vec<Value>> { Ok(serde_json::from_slice(&std::fs::read(golden.join(name))?)?) };
    let staged = std::env::var_os("PARTITA_DATA").map(PathBuf::from).unwrap_or_default().join("mixed_models");
    let mut all = Vec::new();
    for case in read("family_fits.json")? {
        all.push(Analysis::of(&case, &case, &golden.join("family_data"))?);
    }
    for case in read("formula_fits.json")? {
        all.push(Analysis::of(&case, &case["fixed"], &staged)?);
    }
    Ok(all)
}

impl Analysis {
    fn of(case: &Value, estimates: &Value, folder: &Path) -> Result<Self> {
        let text = |key: &str| -> Result<String> {
            Ok(case[key].as_str().ok_or_else(|| format!("no `{key}` in the golden file"))?.to_owned())
        };
        let texts = |value: &Value| -> Vec<String> {
            value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let numbers = |key: &str| estimates[key].as_array().into_iter().flatten().filter_map(Value::as_f64);
        let (file, formula, family) = (text("file")?, text("formula")?, text("family")?);
        let each = texts(&estimates["names"]).into_iter().zip(numbers("estimates").zip(numbers("errors")));
        let parameters = texts(&case["parameters"]);
        Ok(Self {
            deal: text("deal").unwrap_or_else(|_| grouping(&file).to_owned()),
            package: package(&formula, &family, &parameters),
            estimates: each.map(|(name, (value, error))| Estimate { name, value, error }).collect(),
            path: folder.join(format!("{file}.csv")),
            file,
            formula,
            family,
            parameters,
        })
    }

    /// The command that a user types for the file.
    fn command(&self) -> String {
        let parameters: String = self.parameters.iter().map(|own| format!(" --parameter '{own}'")).collect();
        let family = if self.family.contains('(') { format!("'{}'", self.family) } else { self.family.clone() };
        format!("partita fit '{}' --family {family}{parameters} --silo {}.csv", self.formula, self.file)
    }

    fn row(&self, session: &Session) -> Result<Row> {
        let folder = session.file("silos").join(&self.file);
        std::fs::create_dir_all(&folder)?;
        let parts = deal_in_three(&self.path, &self.deal, &folder)?;
        let (one, three) = (self.fit(std::slice::from_ref(&self.path), session)?, self.fit(&parts, session)?);
        let of = |report: &Report, name: &str| -> Result<[f64; 2]> {
            let answer = report.answer();
            let own: Option<&&SiteSummary> = answer.iter().find(|own| own.label == name);
            let own = own.ok_or_else(|| format!("{}: no `{name}` in the report", self.formula))?;
            Ok([own.mean, own.sd])
        };
        let coefficients = self.estimates.iter().map(|Estimate { name, value, error }| {
            Ok(Coefficient {
                name: name.clone(),
                package: [*value, *error],
                one_file: of(&one, name)?,
                three_silos: of(&three, name)?,
            })
        });
        Ok(Row {
            command: self.command(),
            package: self.package.to_owned(),
            coefficients: coefficients.collect::<Result<_>>()?,
            verdicts: [&one, &three].map(|report| report.verdict.to_string()),
            seconds: [&one, &three].map(|report| report.seconds),
        })
    }

    fn fit(&self, files: &[PathBuf], session: &Session) -> Result<Report> {
        let device = session.device()?;
        let silo = |(place, path): (usize, &PathBuf)| SiloTable { name: format!("silo {place}"), path: path.clone() };
        let silos: Vec<SiloTable> = files.iter().enumerate().map(silo).collect();
        let mut study = Study::new(&self.formula, self.family.parse()?)?;
        for parameter in &self.parameters {
            study = study.with_parameter(parameter)?;
        }
        let prepared = study.prepare(&silos, &device)?;
        let options = FitOptions { threads: session.shared.threads, ..FitOptions::default() };
        Ok(fit(&prepared.plan.model, &prepared.silos, &device, &options, None)?.report)
    }
}

/// The column of groups by which the rows of a file of `mixed_models` are dealt.
fn grouping(file: &str) -> &'static str {
    match file {
        "bacteria" => "ID",
        "cbpp" => "herd",
        "epil" => "subject",
        "toenail" => "patientID",
        "radon" => "county",
        _ => "id",
    }
}

/// What gave the estimates, as in tests/golden/family_fits.R and formula_fits.R.
fn package(formula: &str, family: &str, parameters: &[String]) -> &'static str {
    let (has_groups, name) = (formula.contains("(1 "), family.split('(').next().unwrap_or(family));
    match name {
        "cumulative" | "cumulative_probit" if has_groups => "ordinal::clmm",
        "cumulative" | "cumulative_probit" => "MASS::polr",
        "categorical" => "nnet::multinom",
        "zero_inflated_poisson" | "zero_inflated_negbinomial" => "pscl::zeroinfl",
        "hurdle_poisson" | "hurdle_negbinomial" => "pscl::hurdle",
        "hurdle_gamma" => "glm of those above 0, and MLE",
        "hurdle_lognormal" => "lm of logarithms above 0",
        "piecewise_exponential" if formula.contains("cuts") => "survival::survSplit and glm",
        "piecewise_exponential" => "survival::coxph",
        "zero_inflated_binomial" | "beta_binomial" | "beta" | "student" => "MLE by optim",
        "weibull" => "survival::survreg",
        _ if !parameters.is_empty() => "MLE by optim",
        "gaussian" if has_groups => "lme4::lmer, ML",
        _ if has_groups => "lme4::glmer, nAGQ = 25",
        "negbinomial" => "MASS::glm.nb",
        "gaussian" if family == "gaussian" => "lm",
        _ => "glm",
    }
}

/// Writes the rows of a file to three files in `folder`, all rows with the same cell of `column` to one of them.
///
/// # Errors
/// Of a file without rows, one without that column, and what reading and writing report.
pub fn deal_in_three(path: &Path, column: &str, folder: &Path) -> Result<Vec<PathBuf>> {
    let text = std::fs::read_to_string(path)?;
    let (header, rows) = text.split_once('\n').ok_or("a file without rows")?;
    let place = header.trim().split(',').position(|name| name.trim_matches('"') == column);
    let place = place.ok_or_else(|| format!("{}: no column `{column}`", path.display()))?;
    let mut keys: Vec<&str> = Vec::new();
    let mut parts = [0; 3].map(|_| format!("{header}\n"));
    for row in rows.lines() {
        let key = row.split(',').nth(place).unwrap_or_default();
        let known = keys.iter().position(|own| *own == key).unwrap_or_else(|| {
            keys.push(key);
            keys.len() - 1
        });
        parts[known % 3] += &format!("{row}\n");
    }
    let write = |(index, text): (usize, &String)| -> Result<PathBuf> {
        let path = folder.join(format!("part-{index}.csv"));
        std::fs::write(&path, text)?;
        Ok(path)
    };
    parts.iter().enumerate().map(write).collect()
}

/// A mean and a standard deviation, or an estimate and its standard error, with the digits of a report.
fn printed(own: [f64; 2]) -> [String; 2] {
    own.map(|number| in_places(number, own[1]))
}

impl Coefficient {
    /// From the package's estimate, in its standard errors.
    fn beside_package(&self) -> f64 {
        (self.one_file[0] - self.package[0]).abs() / self.package[1]
    }

    /// Between one file and three silos, in standard deviations.
    fn between(&self) -> f64 {
        let [[mean, sd], [other, other_sd]] = [self.one_file, self.three_silos];
        ((mean - other).abs() / sd).max((other_sd / sd - 1.0).abs())
    }

    /// Between one file and three silos, in units of the last digit that is printed of either number.
    fn last_digits(&self) -> f64 {
        let unit = 10_f64.powf(self.one_file[1].log10().floor() - 1.0);
        let number = |text: String| text.parse().unwrap_or(f64::NAN);
        let apart = printed(self.one_file).into_iter().zip(printed(self.three_silos));
        apart.map(|(one, three)| ((number(one) - number(three)) / unit).abs().round()).fold(0.0, f64::max)
    }
}

impl Row {
    fn most(&self, of: impl Fn(&Coefficient) -> f64) -> f64 {
        self.coefficients.iter().map(of).fold(0.0, f64::max)
    }

    fn line(&self) -> String {
        let Self { command, package, verdicts, .. } = self;
        let (from, between) = (self.most(Coefficient::beside_package), self.most(Coefficient::between));
        format!(
            "{command}\n    {package}: {from:.2} standard errors, three silos {between:.4}, {}",
            verdicts.join("; ")
        )
    }
}

fn claims(rows: &[Row]) -> Vec<Claim> {
    let share = |of: &dyn Fn(&Row) -> bool| (rows.iter().filter(|own| of(own)).count(), rows.len());
    let claim = |words: &str, of: &dyn Fn(&Row) -> bool| {
        let (met, all) = share(of);
        Claim::new(words, met == all).by(format!("{met} of {all} analyses"))
    };
    vec![
        claim("both fits are trusted", &|own| own.verdicts.iter().all(|own| own == "trust these numbers")),
        claim("every mean is within half a standard error of the package's estimate", &|own| {
            own.most(Coefficient::beside_package) < HALF
        }),
        claim("three silos are within a tenth of a standard deviation of one file", &|own| {
            own.most(Coefficient::between) < TENTH
        }),
        claim("three silos have every digit of one file that a report prints", &|own| {
            own.most(Coefficient::last_digits) < 0.5
        }),
        claim("three silos are within one of the last digit", &|own| own.most(Coefficient::last_digits) < 1.5),
    ]
}

/// The page of the book.
fn book(rows: &[Row], claims: &Claims) -> String {
    let mut text = "# Analyses of package manuals\n\n\
        `cargo run --release -p partita-studies -- packages --page docs/src/study-packages.md` makes this page. Each analysis is the\n\
        one command in the table, with default options and priors. The estimates beside it are of packages of R\n\
        (`tests/golden/family_fits.R`, `tests/golden/formula_fits.R`), mostly maxima of a likelihood; ours are means and standard\n\
        deviations of the corrected posterior, over the file, and over its rows dealt to three silos. Data are those of\n\
        `tests/golden/family_data`, of which `simulated`, `terms`, `shares`, `tails` and `varied` are simulated, and of `mixed_models`.\n\n"
        .to_owned();
    text += &claims.table();
    text += "\nDistances, the largest of all coefficients: of the means over one file from the package's estimates, in its standard\n\
        errors; of means and standard deviations over three silos from those over one file, in standard deviations, and in units\n\
        of the last digit that a report prints, which is the second of the standard deviation. Where `surv` states no cuts, they are\n\
        quantiles that silos agree on from a few of each: not those of the pooled file to every digit.\n\n";
    text += "| command | package | from it | three silos from one file | in last digits | verdict |\n|---|---|---|---|---|---|\n";
    for own in rows {
        let (from, between) = (own.most(Coefficient::beside_package), own.most(Coefficient::between));
        let verdict = match own.verdicts.as_slice() {
            [one, three] if one == three => one.clone(),
            all => all.join("; three silos: "),
        };
        let command = own.command.replace('|', "\\|");
        let last = own.most(Coefficient::last_digits);
        text += &format!("| `{command}` | {} | {from:.2} | {between:.4} | {last:.0} | {verdict} |\n", own.package);
    }
    text += "\n## Coefficients\n\nEstimate and standard error of the package, then mean and standard deviation over one file and\n\
        over three silos.\n";
    for own in rows {
        text += &format!(
            "\n`{}`, {}\n\n| | package | one file | three silos |\n|---|---|---|---|\n",
            own.command, own.package
        );
        for Coefficient { name, package, one_file, three_silos } in &own.coefficients {
            let of = |own: [f64; 2]| {
                let [mean, sd] = printed(own);
                format!("{mean} ({sd})")
            };
            text += &format!("| `{name}` | {} | {} | {} |\n", of(*package), of(*one_file), of(*three_silos));
        }
    }
    text
}
