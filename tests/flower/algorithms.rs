//! Runs averaging with its options and point estimation by the executables: the bits are those of one process.

use fixtures::engine::Deployment;
use fixtures::programs::{Folder, NAMES, ROUNDS, found_by, run_file};
use partita::compiled_in::{CompiledIn, labelled_data};
use partita::flower::RunFile;
use partita::models::LogisticRegression;
use partita::{Device, fit};
use serde_json::{Value, json};

#[test]
fn averaging_with_a_scaled_entropy_and_a_warm_start_is_fitted_by_the_executables_with_the_bits_of_one_process() {
    let Some((scratch, deployment)) = Deployment::capped(2) else { return };
    // Two rounds, and two steps of SFVI after them.
    let steps = run_file("sfvi-avg").replace(&format!("steps = {}\n", 20 * ROUNDS), "steps = 42\n");
    let text = format!("{steps}[sfvi-avg]\nscale_entropy = true\nby_size = true\nmost = 2\n");
    let run = RunFile::parse(&text).unwrap();
    let expected = found_by(&run.fit_options(&CompiledIn::SixCities.settings()).unwrap());
    let silos = [&deployment.silo(0), &deployment.silo(1)];
    let folder = Folder::new(scratch.path().join("run"), "sfvi-avg", &deployment.coordinator(), silos, "");
    std::fs::write(folder.path("run.toml"), text).unwrap();
    let _silos = [folder.silo("north"), folder.silo("south")];
    folder.wait_for_end(&mut folder.coordinator(&[]));
    assert_eq!(folder.found(), expected);
}

/// The run of point estimation.
const POINTS: &str = "model = \"logistic-regression\"\nalgorithm = \"fed-opt\"\nsilos = [\"north\", \"south\"]\nsteps = 40\n\
                      local_steps = 10\nelbo_draws = 1\n[fed-opt]\nserver = { Adam = { rate = 0.1 } }\nproximal = 0.01\n\
                      [settings]\nschedule = { Constant = { rate = 0.05 } }\n";

/// The table of a silo: a covariate, and a label that mostly follows it.
fn table(silo: usize) -> String {
    let row = |row: usize| {
        let x = (row * 7 + silo * 3) % 11;
        format!("{},{x}\n", u8::from(x + row % 4 > 6))
    };
    format!("label,x\n{}", (0..40).map(row).collect::<String>())
}

#[test]
fn point_estimation_is_fitted_by_the_executables_with_the_bits_of_one_process() {
    let Some((scratch, deployment)) = Deployment::capped(2) else { return };
    let silos = [&deployment.silo(0), &deployment.silo(1)];
    let folder = Folder::new(scratch.path().join("run"), "fed-opt", &deployment.coordinator(), silos, "");
    std::fs::write(folder.path("run.toml"), POINTS).unwrap();
    let device = Device::flex();
    let mut data = Vec::new();
    for (silo, name) in NAMES.into_iter().enumerate() {
        let (own, path) = (format!("{name}.toml"), folder.path(&format!("{name}.csv")));
        std::fs::write(&path, table(silo)).unwrap();
        let text = std::fs::read_to_string(folder.path(&own)).unwrap();
        let text = text.replace(&format!("example:{}", silo + 1), &format!("{name}.csv")).replace("\"avg\"", "\"fed\"");
        std::fs::write(folder.path(&own), text).unwrap();
        data.push((name.to_owned(), labelled_data(&path, &device).unwrap().1));
    }
    let run = RunFile::parse(POINTS).unwrap();
    let options = run.fit_options(&CompiledIn::LogisticRegression.settings()).unwrap();
    let report = fit(&LogisticRegression::new(1), &data, &device, &options, None).unwrap().report;
    let report: Value = serde_json::to_value(report).unwrap();

    let _silos = [folder.silo("north"), folder.silo("south")];
    folder.wait_for_end(&mut folder.coordinator(&["--columns", "1"]));
    assert_eq!(folder.found(), json!([report["sites"], report["elbo"]]));
    // It has moved from its start, and is a point.
    assert!(
        report["sites"][1]["mean"].as_f64().unwrap() > 0.01 && report["sites"][1]["sd"].as_f64().unwrap() < 1e-9,
        "{report}"
    );
}
