//! Runs generalised partitioned inference by the executables, from a run file: the bits are those of one process.

use fixtures::engine::Deployment;
use fixtures::programs::{Folder, ROUNDS, found_by, run_file};
use partita::compiled_in::CompiledIn;
use partita::flower::RunFile;
use partita::inference::{Divergence, GradientDescent, KullbackLeibler, Plug, Renyi};
use partita::{AlgorithmChoice, FitOptions, PviOptions, Settings, SiloSchedule};

/// What the run file says below, as somebody says it who fits in one process.
fn options(divergence: Plug<dyn Divergence>) -> FitOptions {
    let how = PviOptions {
        schedule: SiloSchedule::Synchronous,
        first_damping: Some(0.25),
        divergence,
        backtracking: 2,
        solver: GradientDescent { halvings: 5, ..GradientDescent::default() }.into(),
        ..PviOptions::new(20)
    };
    let settings = Settings { steps: 20 * ROUNDS, ..CompiledIn::SixCities.settings() };
    FitOptions { algorithm: AlgorithmChoice::Pvi(how), settings, elbo_draws: 20, ..FitOptions::default() }
}

fn text() -> String {
    let table = "[pvi]\ndivergence = { Renyi = 0.5 }\nfirst_damping = 0.25\nbacktracking = 2\nsolver = { Gradient = { halvings = 5 } }\n";
    format!("{}schedule = \"synchronous\"\n{table}", run_file("pvi"))
}

#[test]
fn renyi_s_divergence_in_a_run_file_is_fitted_by_the_executables_with_the_bits_of_one_process() {
    let expected = found_by(&options(Renyi { alpha: 0.5 }.into()));
    // It is another posterior than that without the entry, and the file says the same to a fit in one process.
    assert_ne!(expected, found_by(&options(KullbackLeibler.into())));
    let read = RunFile::parse(&text()).unwrap().fit_options(&CompiledIn::SixCities.settings()).unwrap();
    assert_eq!(read.algorithm, options(Renyi { alpha: 0.5 }.into()).algorithm);

    let Some((scratch, deployment)) = Deployment::capped(2) else { return };
    let silos = [&deployment.silo(0), &deployment.silo(1)];
    let folder = Folder::new(scratch.path().join("run"), "pvi", &deployment.coordinator(), silos, "");
    std::fs::write(folder.path("run.toml"), text()).unwrap();
    let _silos = [folder.silo("north"), folder.silo("south")];
    folder.wait_for_end(&mut folder.coordinator(&[]));
    assert_eq!(folder.found(), expected);
}
