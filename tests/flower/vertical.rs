//! Fits and predicts models with columns at different parties over a real engine: the bits are those of one process.

use std::path::Path;

use fixtures::engine::Deployment;
use fixtures::engine_run::{Seat, over_the_engine};
use fixtures::programs::Folder;
use fixtures::vertical_run::BinaryWorld;
use partita::compiled_in::CompiledIn;
use partita::flower::RunFile;
use partita::inference::{Counters, Exchange, SiloProgram, VerticalOptions};
use partita::vertical::{
    PredictedModel, Prediction, Predictive, coordinator, fit, fit_parties, party_program, predict,
};
use partita::{AlgorithmChoice, Device, FamilyPlan, FitOptions, Gaussian, Report, Settings};
use serde_json::{Value, json};

const ROWS: usize = 40;
const DRAWS: u64 = 20;

/// Rows to fit, and other rows of the same parties to predict.
fn worlds() -> [BinaryWorld; 2] {
    [BinaryWorld::new(ROWS, 2, 3), BinaryWorld::new(ROWS / 2, 2, 3)]
}

fn options(how: VerticalOptions, steps: u64) -> FitOptions {
    let family = FamilyPlan::new().global(Gaussian::full_rank());
    let settings = Settings { steps, family, particles: 2, ..Settings::default() };
    let algorithm = AlgorithmChoice::Vertical(how);
    FitOptions { algorithm, settings, elbo_draws: 10, summary_draws: 100, ..FitOptions::default() }
}

/// The label holder's results: the numbers of the report, and its predictions for rows never seen in training.
fn known(report: &Report, prediction: &Prediction) -> Value {
    json!([report.sites, report.elbo, report.elbo_se, prediction.mean.values, prediction.log_density])
}

fn over_parties(deployment: &Deployment, folder: &Path, how: &FitOptions) -> Value {
    let (device, [world, unseen]) = (Device::flex(), worlds());
    let seat = |(index, (party, rows)): (u32, (partita::vertical::Party, partita::vertical::Party))| {
        let (labels, how) = (worlds()[0].labels.clone(), how.clone());
        let AlgorithmChoice::Vertical(algorithm) = how.algorithm else { unreachable!("it is vertical") };
        let (name, count) = (party.name().to_owned(), party.rows());
        let make = move || {
            // Labels stay with their holder unless the algorithm needs them at every party.
            let labels = algorithm.shares_labels().then_some(&labels);
            let mut own = party_program(&party, index, labels, &Device::flex(), &how)?;
            own.hold_out(rows.clone());
            Ok(Box::new(own) as Box<dyn SiloProgram>)
        };
        Seat { name, rows: count, make: Box::new(make) }
    };
    let seats = (0..).zip(world.parties.into_iter().zip(unseen.parties)).map(seat).collect();
    over_the_engine(deployment, folder, seats, |exchange| {
        let names = exchange.silos().to_vec();
        let mut algorithm = coordinator(&world.labels, &names, &device, how).unwrap();
        let report = fit_parties(&world.labels, &device, how, &mut *algorithm, exchange, None).unwrap().report;
        let ask =
            Predictive { draws: DRAWS, model: PredictedModel::Augmented, seed: how.settings.seed, deadline: None };
        let predicted = predict(&unseen.labels, &device, &*algorithm, exchange, ask, &mut Counters::default());
        known(&report, &predicted.unwrap())
    })
}

fn in_one_process(how: &FitOptions) -> Value {
    let [world, unseen] = worlds();
    let mut fitted = fit(&world.parties, &world.labels, &Device::flex(), how, None).unwrap();
    let prediction = fitted.predict(&unseen.parties, &unseen.labels, DRAWS, PredictedModel::Augmented).unwrap();
    known(&fitted.report, &prediction)
}

#[test]
fn augmented_and_power_likelihood_fits_and_their_predictions_over_the_engine_have_the_bits_of_one_process() {
    let Some((folder, deployment)) = Deployment::capped(2) else { return };
    for (name, how) in [
        ("augmented", VerticalOptions::augmented(0.5).mean_field().local_steps(3)),
        ("power", VerticalOptions::power_likelihood(0.5)),
    ] {
        let how = options(how, 5);
        assert_eq!(over_parties(&deployment, &folder.path().join(name), &how), in_one_process(&how), "{name}");
    }
}

/// A table of columns `x0, x1, ...`, or of labels.
fn table(path: &Path, columns: usize, values: &[f64], name: &str) {
    let head: Vec<String> =
        (0..columns).map(|column| if columns > 1 { format!("{name}{column}") } else { name.into() }).collect();
    let rows = values.chunks(columns).map(|row| row.iter().map(f64::to_string).collect::<Vec<_>>().join(","));
    let lines: Vec<String> = std::iter::once(head.join(",")).chain(rows).collect();
    std::fs::write(path, lines.join("\n") + "\n").unwrap();
}

const RUN: &str = r#"
model = "vertical-logistic"
algorithm = "vertical"
silos = ["p0", "p1"]
steps = 5
elbo_draws = 10
held_out_draws = 20
[vertical]
augmentation = { PowerLikelihood = { rho = 0.5 } }
auxiliary = { Amortised = { hidden = 4, labels = true } }
local_steps = 1
"#;

/// Writes all files of a run of the executables into a folder, with more in the files of its parties.
fn files(folder: &Path, deployment: &Deployment, run: &str, more: impl Fn(usize) -> String) {
    let worlds = worlds();
    for (part, world) in ["", "new-"].iter().zip(&worlds) {
        for (index, columns) in world.inputs.iter().enumerate() {
            table(&folder.join(format!("{part}p{index}.csv")), 3, columns, "x");
        }
        let labels: Vec<f64> = world.yes.iter().map(|yes| f64::from(u8::from(*yes))).collect();
        table(&folder.join(format!("{part}labels.csv")), 1, &labels, "label");
    }
    std::fs::write(folder.join("run.toml"), run).unwrap();
    for index in 0..2 {
        let text = format!(
            "name = \"p{index}\"\ndata = \"p{index}.csv\"\nlabels = \"labels.csv\"\nheld_out = \"new-p{index}.csv\"\nstate = \
             \"p{index}-state\"\nnoise = \"run\"\n{}\n[engine]\naddress = \"{}\"\n",
            more(index),
            deployment.silo(index).address
        );
        std::fs::write(folder.join(format!("p{index}.toml")), text).unwrap();
    }
    let text = format!(
        "state = \"state\"\noutput = \"output\"\nlabels = \"labels.csv\"\nheld_out = \"new-labels.csv\"\n\
         appear_seconds = 60\n[engine]\naddress = \"{}\"\n",
        deployment.coordinator().address
    );
    std::fs::write(folder.join("coordinator.toml"), text).unwrap();
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn the_executables_fit_columns_at_different_parties_from_their_files_with_the_bits_of_one_process() {
    let Some((scratch, deployment)) = Deployment::capped(2) else { return };
    let folder = scratch.path();
    files(folder, &deployment, RUN, |_| "allow = [\"vertical\"]".into());
    let run = Folder(folder.to_path_buf());
    let _parties = ["p0", "p1"].map(|name| run.silo(name));
    run.wait_for_end(&mut run.coordinator(&[]));
    assert!(folder.join("output/prediction.json").exists(), "{}", run.log("coordinator.log"));

    let how = RunFile::parse(RUN).unwrap().fit_options(&CompiledIn::VerticalLogistic.settings()).unwrap();
    let [world, unseen] = worlds();
    let mut fitted = fit(&world.parties, &world.labels, &Device::flex(), &how, None).unwrap();
    let expected = fitted.predict(&unseen.parties, &unseen.labels, DRAWS, PredictedModel::Augmented).unwrap();
    let (found, report) = (read(&folder.join("output/result.json")), serde_json::to_value(&fitted.report).unwrap());
    for entry in ["sites", "elbo", "elbo_se"] {
        assert_eq!(found[entry], report[entry], "{entry}");
    }
    let page = std::fs::read_to_string(folder.join("output/report.html")).unwrap();
    assert!(page.contains("The dashed line is the density of the prior"), "{page}");
    let found = read(&folder.join("output/prediction.json"));
    assert_eq!(found["mean"], json!(expected.mean.values));
    assert_eq!(found["log_density"], json!(expected.log_density));
    // A party's posterior of its own coefficients is in its own folder only.
    for party in ["p0", "p1"] {
        let own = read(&folder.join(format!("{party}-state/own.json")));
        assert_eq!(own["sites"], serde_json::to_value(fitted.summary_of(party).unwrap()).unwrap());
    }
}

#[test]
fn parties_that_mask_their_contributions_are_fitted_and_predicted_as_in_one_process_to_rounding() {
    let Some((scratch, deployment)) = Deployment::capped(2) else { return };
    let folder = scratch.path();
    let augmented = "[vertical]\naugmentation = { Auxiliary = { rho = 0.5 } }\nauxiliary = \"MeanField\"\n";
    let plain = format!("{}{augmented}", RUN.split("[vertical]").next().unwrap());
    let masked = plain.replace("[vertical]", "secure_sums = true\n[vertical]");
    for name in ["p0", "p1"] {
        fixtures::said(folder, &["keys", "silo", name]);
    }
    let secure = |index: usize| {
        let (other, allow) = (1 - index, "allow = [\"private\"]");
        format!(
            "{allow}\nsigns = \"p{index}-signs.key\"\n[secure]\nfewest = 2\n[secure.peers]\np{other} = \"p{other}-signs.pub\""
        )
    };
    // Who does not ask for the same does not begin.
    let run = Folder(folder.to_path_buf());
    files(folder, &deployment, &masked, |_| "allow = [\"private\"]".into());
    run.wait_for_end(&mut run.silo("p0"));
    assert!(run.log("p0.log").contains("no `[secure]` in the silo's file"), "{}", run.log("p0.log"));
    files(folder, &deployment, &plain, |index| secure(index).replace("private", "vertical"));
    run.wait_for_end(&mut run.silo("p1"));
    assert!(run.log("p1.log").contains("a run without masks"), "{}", run.log("p1.log"));

    files(folder, &deployment, &masked, secure);
    let _parties = ["p0", "p1"].map(|name| run.silo(name));
    run.wait_for_end(&mut run.coordinator(&[]));
    assert!(folder.join("output/prediction.json").exists(), "{}", run.log("coordinator.log"));
    let said = run.log("p0.log");
    assert!(said.contains("private.masked_round") && !said.contains("vertical."), "{said}");

    let how = RunFile::parse(&plain).unwrap().fit_options(&CompiledIn::VerticalLogistic.settings()).unwrap();
    let [world, unseen] = worlds();
    let mut fitted = fit(&world.parties, &world.labels, &Device::flex(), &how, None).unwrap();
    let expected = fitted.predict(&unseen.parties, &unseen.labels, DRAWS, PredictedModel::Augmented).unwrap();
    let near = |found: &Value, expected: f64| {
        let found = found.as_f64().unwrap();
        assert!((found - expected).abs() < 1e-9 * expected.abs().max(1.0), "{found} of {expected}");
    };
    let found = read(&folder.join("output/result.json"));
    near(&found["elbo"], fitted.report.elbo);
    for (found, expected) in found["sites"].as_array().unwrap().iter().zip(&fitted.report.sites) {
        near(&found["mean"], expected.mean);
    }
    let found = read(&folder.join("output/prediction.json"));
    for (found, expected) in found["mean"].as_array().unwrap().iter().zip(&expected.mean.values) {
        near(found, *expected);
    }
}
