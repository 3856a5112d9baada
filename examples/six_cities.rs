//! Fits the six-cities mixed model over two hospitals that share no data (SFVI paper, section 4.3, Figure 6).
//!
//! ```sh
//! cargo run --release --example six_cities
//! ```
//!
//! What you should see: a table of five posteriors, federated beside NUTS on the pooled data and beside each silo
//! alone; the verdict "trust these numbers"; a log evidence of -819.37 nats; beta[1] (smoking) near 0.465 with sd 0.289. Seconds on
//! two cores after the build. Options after `--`: `--output DIR`, `--seed N`, `--device NAME`. Other algorithms,
//! families and bounds: `cargo run -p partita-studies -- six_cities --help`.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::path::PathBuf;

use partita::inference::{Effect, HtmlOptions, Panel, Scale, SiteSummary, plot};
use partita::models::{MixedLogistic, ReferencePosterior, RepeatedBinary, six_cities_reference, six_cities_silos};
use partita::{Fit, FitOptions, Metrics, Settings, fit};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given: Vec<String> = std::env::args().collect();
    let value = |name: &str| given.iter().skip_while(|word| *word != name).nth(1).cloned();
    let folder = PathBuf::from(value("--output").unwrap_or("output/six_cities".into()));
    let known = ["--output", "--seed", "--device"];
    if let Some(other) = given.iter().find(|word| word.starts_with("--") && !known.contains(&word.as_str())) {
        return Err(format!("{other} is none of {known:?}: `partita-studies six_cities` has more options").into());
    }
    let device = partita::gpu::device(value("--device").as_deref())?;

    // Everything else is at its default: rows are integrated in their silos, in a handful of exchanges.
    let seed = value("--seed").map_or(Ok(1), |seed| seed.parse())?;
    let settings = Settings { seed, ..Settings::default() };
    let [first, second] = six_cities_silos().map(|children| RepeatedBinary::six_cities(&children, &device));
    let silos = [("hospital-1".to_owned(), first?), ("hospital-2".to_owned(), second?)];
    let model = MixedLogistic::new(4);
    let options = FitOptions { threads: 2, settings, ..FitOptions::default() };
    let mut metrics = Metrics::new(options.settings.steps, Some(&folder.join("metrics.jsonl")), 1)?;
    let federated = fit(&model, &silos, &device, &options, Some(&mut metrics))?;
    let alone = |place: usize| fit(&model, &silos[place..=place], &device, &options, None);

    // Mean and sd of each global.
    let found = |fit: &Fit| fit.report.answer().iter().map(|site| [site.mean, site.sd]).collect::<Vec<_>>();
    let sampled = |known: &ReferencePosterior| (0..5).map(|row| [known.mean[row], known.sd[row]]).collect();
    let [pooled, one, two] = six_cities_reference()?.posteriors.each_ref().map(sampled);
    let names = ["federated", "NUTS pooled", "silo 1 alone", "NUTS silo 1", "silo 2 alone", "NUTS silo 2"];
    let columns = [found(&federated), pooled, found(&alone(0)?), one, found(&alone(1)?), two];
    println!("Posterior mean / sd of each global (NUTS columns: reference runs on the data named)\n");
    println!("{:<10}{}", "", names.map(|name| format!(" {name:>17}")).concat());
    for (row, site) in federated.report.sites.iter().enumerate() {
        let cell = |own: &Vec<[f64; 2]>| format!(" {:>17}", format!("{:>8.3} / {:.3}", own[row][0], own[row][1]));
        println!("{:<10}{}", site.label, columns.each_ref().map(cell).concat());
    }
    println!("\n{}\nWhat may leave a silo:\n{}", federated.report, federated.algorithm.manifest());

    federated.report.write_json(&folder.join("result.json"))?;
    let odds = |label: &str, name: &str| Effect {
        label: label.into(),
        name: name.into(),
        unit: "odds ratio".into(),
        scale: Scale::Exponential,
    };
    let deviation = Effect {
        label: "omega".into(),
        name: "Between children".into(),
        unit: "standard deviation of the log odds".into(),
        scale: Scale::ExponentialOfMinus,
    };
    let effects =
        vec![odds("beta[1]", "Mother smokes"), odds("beta[2]", "A year of age"), odds("beta[3]", "Both"), deviation];
    let prior = federated.prior(&model, &device)?;
    let page = HtmlOptions { title: "Wheezing in six cities".into(), effects, prior, ..HtmlOptions::default() };
    federated.write_html(&folder.join("report.html"), &page)?;
    let point = |(step, elbo): &(u64, f64)| Ok((f64::from(u32::try_from(*step)?), *elbo));
    let trace = federated.record.trace.iter().map(point).collect::<Result<Vec<_>, std::num::TryFromIntError>>()?;
    let title = format!("ELBO of the six-cities model, settled: {}", federated.report.settled_in_words());
    plot::trace(&folder.join("elbo.svg"), &trace, &title)?;
    let panel = |(row, site): (usize, &SiteSummary)| {
        // Omega is minus the logarithm of a standard deviation: the picture shows that itself.
        let density = |own: &Vec<[f64; 2]>| match (site.site.as_str(), own[row]) {
            ("omega", [mean, sd]) => plot::Density::LogNormal { mean: -mean, sd },
            (_, [mean, sd]) => plot::Density::Normal { mean, sd },
        };
        let curves = [0, 1, 2, 4].map(|column| (names[column].to_owned(), density(&columns[column]))).into();
        let title = if site.site == "omega" { "standard deviation between children" } else { &site.label };
        Panel { title: title.into(), unit: "log odds".into(), curves }
    };
    let panels: Vec<Panel> = federated.report.sites.iter().enumerate().map(panel).collect();
    plot::marginals(&folder.join("marginals.svg"), &panels)?;
    println!("Wrote report.html, result.json, metrics.jsonl, elbo.svg and marginals.svg to {}", folder.display());
    Ok(())
}
