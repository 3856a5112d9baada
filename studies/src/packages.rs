//! Fits analyses of package manuals from formulas, over one file and over three silos, beside the estimates of R's packages.
//!
//! ```sh
//! cargo run --release -p partita-studies -- packages --page docs/src/study-packages.md
//! ```
//!
//! What you should see: every analysis is trusted, its coefficients are within half a standard error of the package's, the
//! package's standard deviations of groups are inside our intervals, and three silos give the means of one file to within a
//! tenth of a standard deviation.

use std::path::{Path, PathBuf};

use partita::formula::{SiloTable, Study};
use partita::inference::{SiteSummary, in_places, write_atomically};
use partita::{FitOptions, Report, fit};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::harness::{Claim, Claims, Result, Session, WithPage, largest};

/// One analysis, with a package's estimates.
#[derive(Debug, Clone)]
struct Analysis {
    file: String,
    formula: String,
    family: String,
    parameters: Vec<String>,
    /// The column by which rows are dealt to silos.
    deal: String,
    /// The formula over silos where it is another, of which each silo has the rows of one cell of `deal`.
    over_silos: Option<String>,
    package: String,
    estimates: Vec<Estimate>,
    /// Standard deviations and correlations of groups, and of a normal outcome, which packages give without an error.
    deviations: Vec<(String, f64)>,
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

/// What was found of a standard deviation or a correlation.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Deviation {
    name: String,
    package: f64,
    one_file: [f64; 2],
    three_silos: [f64; 2],
    /// The 95 % interval over one file.
    interval: [f64; 2],
}

/// What was found of one analysis.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Row {
    command: String,
    /// What is another over silos, in words.
    over_silos: Option<String>,
    package: String,
    verdicts: [String; 2],
    coefficients: Vec<Coefficient>,
    deviations: Vec<Deviation>,
    seconds: [f64; 2],
}

/// How far means may be from a package's estimates, in its standard errors, and three silos from one file, in standard
/// deviations; fixed before the first run.
const HALF: f64 = 0.5;
const TENTH: f64 = 0.1;

pub(crate) fn run(options: &WithPage) -> Result<()> {
    let session = Session::start("packages", &options.shared)?;
    let mut analyses = analyses(&session)?;
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

/// All analyses: those of the repository's own data, then those of the folder `mixed_models` and of `fitted_groups.json`.
fn analyses(session: &Session) -> Result<Vec<Analysis>> {
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
    let (groups, written) = (read("fitted_groups.json")?, session.file("data"));
    std::fs::create_dir_all(&written)?;
    for case in read("package_fits.json")? {
        let rows = groups.iter().find(|own| own["formula"] == case["formula"]).and_then(|own| own["file"].as_str());
        let analysis = Analysis::of(&case, &case, if rows.is_some() { &written } else { &staged })?;
        if let Some(rows) = rows {
            std::fs::write(&analysis.path, rows)?;
        }
        all.push(analysis);
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
        let deviations = case["sds"].as_object().into_iter().flatten();
        Ok(Self {
            deal: text("deal").unwrap_or_else(|_| grouping(&file).to_owned()),
            over_silos: text("over_silos").ok(),
            package: text("package").unwrap_or_else(|_| package(&formula, &family, &parameters).to_owned()),
            estimates: each.map(|(name, (value, error))| Estimate { name, value, error }).collect(),
            deviations: deviations.filter_map(|(name, own)| Some((name.clone(), own.as_f64()?))).collect(),
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
        let most = if self.over_silos.is_some() { usize::MAX } else { 3 };
        let parts = deal(&self.path, &self.deal, &folder, most)?;
        let over_silos = self.over_silos.as_ref().unwrap_or(&self.formula);
        let one = self.fit(&self.formula, std::slice::from_ref(&self.path), session)?;
        let three = self.fit(over_silos, &parts, session)?;
        let of = |report: &Report, name: &str| -> Result<SiteSummary> {
            let answer = report.answer();
            let own: Option<&&SiteSummary> = answer.iter().find(|own| own.label == name);
            Ok((*own.ok_or_else(|| format!("{}: no `{name}` in the report", self.formula))?).clone())
        };
        let moments = |own: &SiteSummary| [own.mean, own.sd];
        let coefficients = self.estimates.iter().map(|Estimate { name, value, error }| {
            Ok(Coefficient {
                name: name.clone(),
                package: [*value, *error],
                one_file: moments(&of(&one, name)?),
                three_silos: moments(&of(&three, name)?),
            })
        });
        let deviations = self.deviations.iter().map(|(name, value)| {
            let own = of(&one, name)?;
            Ok(Deviation {
                name: name.clone(),
                package: *value,
                one_file: moments(&own),
                three_silos: moments(&of(&three, &self.name_over_silos(name))?),
                interval: [own.quantiles.p2_5, own.quantiles.p97_5],
            })
        });
        let words = |formula: &String| format!("over {} silos, one for each `{}`: `{formula}`", parts.len(), self.deal);
        Ok(Row {
            command: self.command(),
            over_silos: self.over_silos.as_ref().map(words),
            package: self.package.clone(),
            coefficients: coefficients.collect::<Result<_>>()?,
            deviations: deviations.collect::<Result<_>>()?,
            verdicts: [&one, &three].map(|report| report.verdict.to_string()),
            seconds: [&one, &three].map(|report| report.seconds),
        })
    }

    /// What a number of groups is called over silos: where each silo is a group, it is of `silo`.
    fn name_over_silos(&self, name: &str) -> String {
        match self.over_silos {
            Some(_) => name.replace(&format!("| {})", self.deal), "| silo)"),
            None => name.to_owned(),
        }
    }

    fn fit(&self, formula: &str, files: &[PathBuf], session: &Session) -> Result<Report> {
        let device = session.device()?;
        let silo = |(place, path): (usize, &PathBuf)| SiloTable { name: format!("silo {place}"), path: path.clone() };
        let silos: Vec<SiloTable> = files.iter().enumerate().map(silo).collect();
        let mut study = Study::new(formula, self.family.parse()?)?;
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

/// What gave the estimates, as in tests/golden/family_fits.R and formula_fits.R; package_fits.R says it.
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
        "lognormal" => "lm of logarithms",
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
    deal(path, column, folder, 3)
}

/// The same with at most so many files.
fn deal(path: &Path, column: &str, folder: &Path, most: usize) -> Result<Vec<PathBuf>> {
    let text = std::fs::read_to_string(path)?;
    let (header, rows) = text.split_once('\n').ok_or("a file without rows")?;
    let place = header.trim().split(',').position(|name| name.trim_matches('"') == column);
    let place = place.ok_or_else(|| format!("{}: no column `{column}`", path.display()))?;
    let (mut keys, mut parts): (Vec<&str>, Vec<String>) = (Vec::new(), Vec::new());
    for row in rows.lines() {
        let key = row.split(',').nth(place).unwrap_or_default();
        let known = keys.iter().position(|own| *own == key).unwrap_or_else(|| {
            keys.push(key);
            keys.len() - 1
        });
        if known % most == parts.len() {
            parts.push(format!("{header}\n"));
        }
        parts[known % most] += &format!("{row}\n");
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
}

/// Between one file and three silos, in standard deviations.
fn between([mean, sd]: [f64; 2], [other, other_sd]: [f64; 2]) -> f64 {
    largest([(mean - other).abs() / sd, (other_sd / sd - 1.0).abs()])
}

/// Between one file and three silos, in units of the last digit that is printed of either number.
fn last_digits(one_file: [f64; 2], three_silos: [f64; 2]) -> f64 {
    let unit = 10_f64.powf(one_file[1].log10().floor() - 1.0);
    let number = |text: String| text.parse().unwrap_or(f64::NAN);
    let apart = printed(one_file).into_iter().zip(printed(three_silos));
    largest(apart.map(|(one, three)| ((number(one) - number(three)) / unit).abs().round()))
}

impl Row {
    /// The largest distance of a coefficient from the package's, in its standard errors.
    fn off_package(&self) -> f64 {
        largest(self.coefficients.iter().map(Coefficient::beside_package))
    }

    /// The largest of a distance between one file and three silos, of all that is shown.
    fn most(&self, of: fn([f64; 2], [f64; 2]) -> f64) -> f64 {
        let coefficients = self.coefficients.iter().map(|own| of(own.one_file, own.three_silos));
        let deviations = self.deviations.iter().map(|own| of(own.one_file, own.three_silos));
        largest(coefficients.chain(deviations))
    }

    /// What a user types, with what is another over silos; `bar` stands for every bar of it.
    fn shown(&self, bar: &str) -> String {
        let text = match &self.over_silos {
            Some(words) => format!("`{}`; {words}", self.command),
            None => format!("`{}`", self.command),
        };
        text.replace('|', bar)
    }

    fn line(&self) -> String {
        let Self { command, package, verdicts, .. } = self;
        let (from, between) = (self.off_package(), self.most(between));
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
        claim("every mean is within half a standard error of the package's estimate", &|own| own.off_package() < HALF),
        claim("every standard deviation and correlation of a package is inside the 95 % interval", &|own| {
            own.deviations.iter().all(|own| (own.interval[0]..=own.interval[1]).contains(&own.package))
        }),
        claim("three silos are within a tenth of a standard deviation of one file", &|own| own.most(between) < TENTH),
        claim("three silos have every digit of one file that a report prints", &|own| own.most(last_digits) < 0.5),
        claim("three silos are within one of the last digit", &|own| own.most(last_digits) < 1.5),
    ]
}

/// The page of the book.
fn book(rows: &[Row], claims: &Claims) -> String {
    let mut text = "# Analyses of package manuals\n\n\
        `cargo run --release -p partita-studies -- packages --page docs/src/study-packages.md` makes this page. Each analysis is the\n\
        one command in the table, with default options and priors. The estimates beside it are of packages of R\n\
        (`family_fits.R`, `formula_fits.R` and `package_fits.R` of `tests/golden`), mostly maxima of a likelihood; ours are means and\n\
        standard deviations of the corrected posterior, over the file, and over its rows dealt to three silos, or to a silo for each\n\
        group. Data are those of `tests/golden/family_data`, of which `simulated`, `terms`, `shares`, `tails` and `varied` are\n\
        simulated, of `mixed_models`, and `sleepstudy` and `pastes` of `tests/golden/fitted_groups.json`.\n\n"
        .to_owned();
    text += &claims.table();
    text += "\nDistances, the largest of all coefficients: of the means over one file from the package's estimates, in its standard\n\
        errors; and the largest of all numbers shown: of means and standard deviations over three silos from those over one file, in\n\
        standard deviations, and in units of the last digit that a report prints, which is the second of the standard deviation.\n\
        Where `surv` states no cuts, they are quantiles of counts that silos add up.\n\n";
    text += "| command | package | from it | three silos from one file | in last digits | verdict |\n|---|---|---|---|---|---|\n";
    for own in rows {
        let (from, between) = (own.off_package(), own.most(between));
        let verdict = match own.verdicts.as_slice() {
            [one, three] if one == three => one.clone(),
            all => all.join("; three silos: "),
        };
        let (shown, last) = (own.shown("\\|"), own.most(last_digits));
        text += &format!("| {shown} | {} | {from:.2} | {between:.4} | {last:.0} | {verdict} |\n", own.package);
    }
    text += "\n## Coefficients\n\nEstimate and standard error of the package, then mean and standard deviation over one file and\n\
        over three silos. Of standard deviations and correlations the package has an estimate alone.\n";
    for own in rows {
        text += &format!(
            "\n{}, {}\n\n| | package | one file | three silos |\n|---|---|---|---|\n",
            own.shown("|"),
            own.package
        );
        let of = |own: [f64; 2]| {
            let [mean, sd] = printed(own);
            format!("{mean} ({sd})")
        };
        for Coefficient { name, package, one_file, three_silos } in &own.coefficients {
            text += &format!("| `{name}` | {} | {} | {} |\n", of(*package), of(*one_file), of(*three_silos));
        }
        for Deviation { name, package, one_file, three_silos, .. } in &own.deviations {
            let (name, package) = (name.replace('|', "\\|"), in_places(*package, one_file[1]));
            text += &format!("| `{name}` | {package} | {} | {} |\n", of(*one_file), of(*three_silos));
        }
    }
    text
}
