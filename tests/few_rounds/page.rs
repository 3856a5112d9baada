//! Holds the page of a report: what it says, what it escapes, and that a browser opens it without a complaint.

use std::path::{Path, PathBuf};
use std::process::Command;

use fixtures::six_cities_halves;
use partita::inference::{
    ClippedShare, Effect, Error, Evaluation, HtmlOptions, PageContent, PriorLine, PriorSource, Privacy, Report, Scale,
    Severity, ShownContrast, SiloEvaluation, Warning, fit_parties, parties,
};
use partita::models::MixedLogistic;
use partita::{AlgorithmChoice, Device, Fit, FitOptions, Settings, fit};
use serde_json::Value;

use super::options;

/// A name that a browser would take for a script, an attribute or an entity.
const HOSTILE: &str = "<script>console.error('ran')</script>\"'&amp;";

/// A text that would leave an attribute, load an image and run a script.
const PLANTED: &str = "\"><img src=x onerror=alert(1)><script>alert(1)</script>";

/// The standard deviation of the normal prior of each global of six cities.
const SD_PRIOR: f64 = 10.0;

fn six_cities(names: [&str; 2]) -> Fit {
    fitted(names, &options())
}

fn fitted(names: [&str; 2], options: &FitOptions) -> Fit {
    let device = Device::flex();
    fit(&MixedLogistic::new(4), &six_cities_halves(names, &device), &device, options, None).unwrap()
}

fn effect(label: &str, name: &str, scale: Scale) -> Effect {
    Effect { label: label.into(), name: name.into(), unit: "odds ratio".into(), scale }
}

/// The page of a fit whose silos have these names, as a file and as text.
fn page(folder: &Path, names: [&str; 2], title: &str) -> (PathBuf, String) {
    let effects = vec![
        effect("beta[1]", "Mother smokes", Scale::Exponential),
        effect("beta[2]", title, Scale::Exponential),
        effect("omega", "Between children", Scale::ExponentialOfMinus),
    ];
    let path = folder.join("report.html");
    let fit = six_cities(names);
    let prior = fit.prior(&MixedLogistic::new(4), &Device::flex()).unwrap();
    fit.write_html(&path, &HtmlOptions { title: title.into(), effects, prior, ..HtmlOptions::default() }).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    (path, text)
}

/// The first place where tags are not closed in the order in which they are opened; `None` in a well-formed page.
fn broken(page: &str) -> Option<String> {
    let mut open: Vec<&str> = Vec::new();
    let body = page.strip_prefix("<!DOCTYPE html>")?;
    let pieces: Vec<&str> = body.split('<').collect();
    if !pieces[0].trim().is_empty() {
        return Some(format!("text before the first tag: {}", pieces[0]));
    }
    for piece in &pieces[1..] {
        let Some((tag, _)) = piece.split_once('>') else { return Some(format!("a tag that does not end: {piece}")) };
        let quotes = tag.matches('"').count();
        let name = tag.split([' ', '/']).find(|part| !part.is_empty()).unwrap_or_default();
        match (tag.starts_with('/'), name) {
            _ if quotes % 2 == 1 => return Some(format!("an attribute that does not end: {tag}")),
            (true, name) if open.last() == Some(&name) => _ = open.pop(),
            (true, name) => return Some(format!("`{name}` is closed within {open:?}")),
            (false, "meta" | "link") => {}
            (false, name) => open.push(name),
        }
    }
    (!open.is_empty()).then(|| format!("never closed: {open:?}"))
}

#[test]
fn a_page_says_what_a_report_says() {
    let folder = tempfile::tempdir().unwrap();
    let (_, page) = page(folder.path(), ["north", "south"], "Wheezing");
    assert_eq!(broken(&page), None);
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
    let opens = page.find("<strong>trust these numbers</strong>").unwrap();
    assert!(opens < page.find("<table>").unwrap());
    let expected = [
        "beta[0]",
        "beta[1]",
        "beta[2]",
        "beta[3]",
        "omega",
        "without north",
        "without south",
        "without the prior",
        "Forest plot: odds ratio",
        "no effect",
        "Marginal density of omega",
        "Settled: yes",
        "Log evidence −819.3",
        "All that a message from a silo may hold",
        "Depends on data",
        "Pareto k",
        "seed 1",
        "Settings",
        // Long chains have 0.464 and 0.288 for smoking: an odds ratio of 1.59, 0.90 to 2.80, as the note writes it.
        "Mother smokes",
        "The dashed line is the density of the prior",
    ];
    fixtures::says(&page, &expected);
    // Nothing is loaded and nothing runs.
    for word in ["<script", "src=", "@import", "url(", "onload"] {
        assert!(!page.contains(word), "{word}");
    }
    assert_eq!(page.matches("http").count(), page.matches("http://www.w3.org/2000/svg").count() + 1, "one http-equiv");
    assert_eq!(page.matches("<svg").count(), page.matches("</desc>").count());
}

#[test]
fn odds_ratios_are_those_of_long_chains() {
    let folder = tempfile::tempdir().unwrap();
    let (_, page) = page(folder.path(), ["north", "south"], "Wheezing");
    // beta[1] is 0.464 with sd 0.288 by long chains; quantiles of weighted draws have an error of 0.07 sd.
    let line = page.split("<desc").find(|piece| piece.contains("Mother smokes: ")).unwrap();
    let words = line.split("Mother smokes: ").nth(1).unwrap().split(')').next().unwrap();
    let numbers: Vec<f64> = words.split([' ', '(']).filter_map(|word| word.parse().ok()).collect();
    let expected = [0.464_f64, 0.464 - 1.96 * 0.288, 0.464 + 1.96 * 0.288];
    assert_eq!(numbers.len(), 3, "{words}");
    for (found, log) in numbers.iter().zip(expected) {
        assert!((found.ln() - log).abs() < 0.06, "{words}");
    }
    // The standard deviation between children, exp(0.787), and not minus its logarithm.
    assert!(page.contains("Between children: 2.1") || page.contains("Between children: 2.2"), "{page}");
}

#[test]
fn parties_elsewhere_have_the_same_page() {
    let (device, model, own) = (Device::flex(), MixedLogistic::new(4), options());
    let silos = six_cities_halves(["north", "south"], &device);
    let (mut algorithm, mut exchange) = parties(&model, &silos, &device, &own).unwrap();
    let elsewhere = fit_parties(&model, &device, &own, &mut *algorithm, &mut exchange, None).unwrap();
    let here = fit(&model, &silos, &device, &own, None).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    // All but the seconds, and why a method was chosen: parties elsewhere are of a method that was.
    let read = |prior| {
        let options = HtmlOptions { prior, ..HtmlOptions::default() };
        move |write: &dyn Fn(&Path, &HtmlOptions)| {
            write(&path, &options);
            let page = std::fs::read_to_string(&path).unwrap();
            let (before, after) = page.split_once("Seconds").unwrap();
            format!("{before}{}", after.split_once("</tr>").unwrap().1)
        }
    };
    let prior = elsewhere.prior(&model, &device).unwrap();
    assert_eq!(prior, here.prior(&model, &device).unwrap());
    let read = read(prior);
    let page = read(&|path, options| elsewhere.page(options).write_html(&elsewhere.report, path).unwrap());
    for words in
        ["Marginal density of beta[0]", "The dashed line", "Trace of the bound", "All that a message from a silo"]
    {
        assert!(page.contains(words), "{words}");
    }
    assert_eq!(page, read(&|path, options| here.write_html(path, options).unwrap()));
}

#[test]
fn a_page_that_is_written_anew_from_the_files_of_a_fit_is_its_page() {
    let folder = tempfile::tempdir().unwrap();
    let fit = six_cities(["north", "south"]);
    let effects = vec![effect("beta[1]", "Mother smokes", Scale::Exponential)];
    let prior = fit.prior(&MixedLogistic::new(4), &Device::flex()).unwrap();
    let options = HtmlOptions { title: "Six cities".into(), effects, prior, ..HtmlOptions::default() };
    let at = |name: &str| folder.path().join(name);
    let text = |name: &str| std::fs::read_to_string(at(name)).unwrap();
    fit.write_html(&at("report.html"), &options).unwrap();
    fit.report.write_json(&at("result.json")).unwrap();
    fit.page(&options).write_json(&at("page.json")).unwrap();
    let content = PageContent::read_json(&at("page.json")).unwrap();
    content.write_html(&Report::read_json(&at("result.json")).unwrap(), &at("again.html")).unwrap();
    for words in ["Marginal density of beta[0]", "The dashed line", "Trace of the bound", "Correlations of pairs"] {
        assert!(text("again.html").contains(words), "{words}");
    }
    assert!(text("again.html") == text("report.html"));
    // The numbers to read stand in the file by that name, beside those before the correction.
    let found: serde_json::Value = serde_json::from_str(&text("result.json")).unwrap();
    for (place, label) in ["beta[0]", "omega"].map(|label| (if label == "omega" { 4 } else { 0 }, label)) {
        let (own, before) = (fit.report.site(label).unwrap(), fit.report.uncorrected(label).unwrap());
        assert_eq!(own, fit.report.answer()[place]);
        assert!(own != before && before == &fit.report.sites[place], "{own:?} {before:?}");
        assert_eq!(found["answer"][place], serde_json::to_value(own).unwrap());
        assert_eq!(found["sites"][place], serde_json::to_value(before).unwrap());
    }
    std::fs::write(at("page.json"), "{\"marginals\": 3}").unwrap();
    let found = PageContent::read_json(&at("page.json")).unwrap_err().to_string();
    assert!(found.contains("reading the content of a page"), "{found}");
}

#[test]
fn a_report_alone_has_a_page_that_opens_with_every_reason_to_doubt_it() {
    let settings = Settings { steps: 20, ..Settings::default() };
    let own = FitOptions { algorithm: AlgorithmChoice::Sfvi, settings, elbo_draws: 50, ..options() };
    let report = fitted(["north", "south"], &own).report;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    report.write_html(&path, &HtmlOptions::default()).unwrap();
    let page = std::fs::read_to_string(&path).unwrap();
    assert_eq!(broken(&page), None);
    let opening = page.split("<nav").next().unwrap();
    assert!(opening.contains("<strong>do not trust these numbers, for the reasons below</strong>"), "{opening}");
    assert_eq!(opening.matches("<li>").count(), report.warnings.len());
    fixtures::says(&opening, &["Doubt: ", "Threshold", "What to do: ", "Vehtari"]);
    // What a backtick marks is code.
    assert!(opening.contains("<code>Nuts</code>") && !opening.contains('`'), "{opening}");
    assert!(page.contains("Settled: no") && page.contains("Report of a fit"));
    assert!(!page.contains("Marginal densities") && !page.contains("<svg"));
}

#[test]
fn draws_of_the_prior_are_those_that_the_model_declares() {
    let fit = six_cities(["north", "south"]);
    let prior = fit.prior(&MixedLogistic::new(4), &Device::flex()).unwrap();
    let labels: Vec<&str> = prior.iter().map(|(_, label, _)| label.as_str()).collect();
    assert_eq!(labels, fit.report.sites.iter().map(|site| site.label.as_str()).collect::<Vec<_>>());
    for (_, label, draws) in &prior {
        let count = draws.len() as f64;
        let mean = draws.iter().sum::<f64>() / count;
        let sd = (draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / count).sqrt();
        // SD_PRIOR is what the model declares; five standard errors of a mean and of a deviation of 2,000 draws.
        assert!(mean.abs() < 5.0 * SD_PRIOR / count.sqrt(), "{label}: {mean}");
        assert!((sd / SD_PRIOR - 1.0).abs() < 5.0 / (2.0 * count).sqrt(), "{label}: {sd}");
    }
}

#[test]
fn names_are_words_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let (_, page) = page(folder.path(), [HOSTILE, "south"], HOSTILE);
    assert_eq!(broken(&page), None);
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;") && page.contains("&amp;amp;"));
}

/// The places in a JSON value of all that is of a kind.
fn places(value: &Value, is_wanted: fn(&Value) -> bool, place: String, found: &mut Vec<String>) {
    match value {
        own if is_wanted(own) => found.push(place),
        Value::Array(all) => {
            all.iter().enumerate().for_each(|(index, own)| places(own, is_wanted, format!("{place}/{index}"), found));
        }
        Value::Object(all) => {
            all.iter().for_each(|(name, own)| places(own, is_wanted, format!("{place}/{name}"), found));
        }
        _ => {}
    }
}

/// The same with `PLANTED` in place of every text in whose place it can still be read.
fn planted(mut whole: Value, is_read: impl Fn(&Value) -> bool) -> Value {
    let mut all = Vec::new();
    places(&whole, Value::is_string, String::new(), &mut all);
    for place in all {
        let before = std::mem::replace(whole.pointer_mut(&place).unwrap(), PLANTED.into());
        if !is_read(&whole) {
            *whole.pointer_mut(&place).unwrap() = before;
        }
    }
    whole
}

/// A report with all that a fit of silos may have, and what its page shows beside it.
fn whole() -> (Report, PageContent) {
    let own = FitOptions { checks: vec!["zeros of y".parse().unwrap()], leave_one_out_draws: 500, ..options() };
    let fit = fitted(["north", "south"], &own);
    let difference = fit.report.sites[1].quantiles;
    let (name, unit, scale) = ("two to one".into(), "odds ratio".into(), Scale::Exponential);
    let options = HtmlOptions {
        title: "Six cities".into(),
        effects: vec![effect("beta[1]", "Mother smokes", Scale::Exponential)],
        contrasts: vec![ShownContrast { name, unit, scale, difference, above: 0.9 }],
        prior: fit.prior(&MixedLogistic::new(4), &Device::flex()).unwrap(),
    };
    let content = fit.page(&options);
    let mut report = fit.report;
    let (name, prior, source) = ("beta[1]".into(), "normal(0, 10)".into(), PriorSource::Usual);
    report.priors = vec![PriorLine { name, prior, source, normal: None, numbers: Vec::new() }];
    report.choice = Some("there are few globals".into());
    report.warnings.push(Warning {
        severity: Severity::Note,
        problem: "it is `planted`".into(),
        site: Some("beta".into()),
        silo: Some("north".into()),
        number: None,
        threshold: Some(0.7),
        source: Some("this test".into()),
        remedy: "none".into(),
    });
    (report, content)
}

/// A fit's numbers, which are no counts.
fn numbers(value: &Value) -> Vec<String> {
    let mut all = Vec::new();
    places(value, Value::is_f64, String::new(), &mut all);
    // Settings that are no numbers are refused before the fit.
    all.retain(|place| !place.starts_with("/options/") && !place.starts_with("/algorithm/"));
    all
}

/// The same with this word in all these places.
fn with_word(mut value: Value, places: &[String], word: &Value) -> Value {
    places.iter().for_each(|place| *value.pointer_mut(place).unwrap() = word.clone());
    value
}

#[test]
fn a_report_whose_numbers_are_infinite_or_none_is_read_back_and_has_its_page() {
    let (mut report, content) = whole();
    let silo = SiloEvaluation { silo: "north".into(), log_density: -9.5, rows: 10, replicated: vec![-8.5; 8] };
    report.evaluation = Some(Evaluation { silos: vec![silo], draws: 20 });
    report.privacy = Some(Privacy {
        epsilon: 3.0,
        delta: 1e-5,
        unit: "row".into(),
        releases: 24,
        noise: 7.5,
        colluders: None,
        widened: vec![1.5],
        last_step: vec![0.5],
        last_step_of_noise: vec![0.5],
        clipping_moves: Some(0.5),
        clipped: Some(ClippedShare { share: 0.5, deviation: 0.25 }),
        integrates_rows: None,
    });
    report.theta = vec![0.5];
    let (report, content) = (serde_json::to_value(report).unwrap(), serde_json::to_value(content).unwrap());
    let (of_report, of_content) = (numbers(&report), numbers(&content));
    for place in ["/checks/silos/0/p_values/0", "/privacy/widened/0", "/leave_one_out/silos/1/sum", "/theta/0"] {
        assert!(of_report.iter().any(|own| own == place), "{place}: {of_report:?}");
    }
    assert!(of_content.iter().any(|own| own == "/marginals/0/density/0"), "{of_content:?}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    for word in [Value::Null, "inf".into(), "-inf".into()] {
        let own: Report = serde_json::from_value(with_word(report.clone(), &of_report, &word)).unwrap();
        let beside: PageContent = serde_json::from_value(with_word(content.clone(), &of_content, &word)).unwrap();
        let (again, again_beside) = (serde_json::to_value(&own).unwrap(), serde_json::to_value(&beside).unwrap());
        for (again, places) in [(again, &of_report), (again_beside, &of_content)] {
            assert!(places.iter().all(|place| again.pointer(place) == Some(&word)), "{word}: {again}");
        }
        beside.write_html(&own, &path).unwrap();
        assert_eq!(broken(&std::fs::read_to_string(&path).unwrap()), None, "{word}");
    }
}

#[test]
fn no_text_of_a_report_or_of_what_its_page_shows_beside_it_is_markup() {
    let (report, content) = whole();
    let mut report = serde_json::to_value(&report).unwrap();
    report["algorithm"] = PLANTED.into();
    report["checks"]["checks"][0] = format!("zeros of {PLANTED}").into();
    let report = planted(report, |own| serde_json::from_value::<Report>(own.clone()).is_ok());
    let report: Report = serde_json::from_value(report).unwrap();
    let content = serde_json::to_value(content).unwrap();
    let content = planted(content, |own| serde_json::from_value::<PageContent>(own.clone()).is_ok());
    let content: PageContent = serde_json::from_value(content).unwrap();
    let (warning, shown) = (report.warnings.last().unwrap(), &content.options);
    let own = [&report.silos[0], &report.sites[0].label, &report.device, &report.priors[0].prior, &warning.problem];
    assert_eq!(own, [PLANTED; 5]);
    assert_eq!([&shown.title, &shown.effects[0].unit, &shown.contrasts[0].name], [PLANTED; 3]);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    content.write_html(&report, &path).unwrap();
    let page = std::fs::read_to_string(&path).unwrap();
    assert_eq!(broken(&page), None);
    assert!(!page.contains("<script") && !page.contains("<img"));
    // It stands in every part of the page as words.
    let parts =
        ["effects", "contrasts", "posterior", "priors", "marginals", "silos", "checks", "left", "cost", "repeat"];
    for part in parts {
        let own = page.split(&format!("<section id=\"{part}\"")).nth(1).unwrap_or_default();
        let own = own.split("</section>").next().unwrap_or_default();
        assert!(own.contains("&quot;&gt;&lt;img src=x onerror=alert(1)&gt;&lt;script&gt;"), "{part}: {own}");
    }
}

#[test]
fn the_check_of_tags_sees_what_is_broken() {
    for page in ["<p></p>", "<!DOCTYPE html><p><b></p></b>", "<!DOCTYPE html><p a=\"></p>", "<!DOCTYPE html><p>"] {
        assert!(broken(page).is_some() || !page.starts_with("<!"), "{page}");
    }
}

#[test]
fn an_effect_that_is_no_number_of_the_report_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    let options = HtmlOptions { effects: vec![effect("beta[9]", "x", Scale::Identity)], ..HtmlOptions::default() };
    let refused = six_cities(["north", "south"]).report.write_html(&path, &options).unwrap_err();
    assert!(matches!(&refused, Error::Setting { setting: "effects", found, .. } if found == "beta[9]"), "{refused}");
    assert!(!path.exists());
}

/// The browser that `PARTITA_CHROMIUM` names, or one on the path.
fn chromium() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("PARTITA_CHROMIUM") {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
    names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name))).find(|file| file.is_file())
}

/// What the browser makes of a page, and what it writes on its console.
fn opened(browser: &Path, page: &Path) -> (String, Vec<String>) {
    let profile = tempfile::tempdir().unwrap();
    let own = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    let console = String::from_utf8_lossy(&own.stderr)
        .lines()
        .filter(|line| line.contains("CONSOLE"))
        .map(str::to_owned)
        .collect();
    (String::from_utf8_lossy(&own.stdout).into_owned(), console)
}

#[test]
fn a_browser_opens_it_without_a_word_on_its_console() {
    let Some(browser) = chromium() else {
        return fixtures::skip("chromium", "no browser is named by PARTITA_CHROMIUM or on the path");
    };
    let folder = tempfile::tempdir().unwrap();
    let (path, page) = page(folder.path(), [HOSTILE, "south"], HOSTILE);
    let (seen, console) = opened(&browser, &path);
    assert!(seen.contains("<strong>trust these numbers</strong>"), "{seen}");
    assert_eq!(console, Vec::<String>::new());
    // A script in the page does not run, and the console says so.
    let planted = folder.path().join("planted.html");
    std::fs::write(&planted, page.replace("<main>", "<main><script>document.title = 'ran'</script>")).unwrap();
    let (seen, console) = opened(&browser, &planted);
    assert!(!seen.contains("<title>ran"), "{seen}");
    assert!(!console.is_empty(), "the console was not read");
}
