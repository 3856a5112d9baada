//! A coordinator whose study lists what may be asked sends nothing else over a real engine.

use fixtures::engine::{Deployment, Pace, installed};
use fixtures::table::{IDENTITY, Served, fitted, how, patience, program, rows};
use partita::flower::{CoordinatorOptions, Flower, LostSilo};
use partita::inference::{AlgorithmChoice, Conjugate};
use partita::models::GaussianMean;
use partita::{Device, FitOptions, PviOptions, Settings};

#[test]
fn a_request_that_the_study_does_not_list_never_leaves_its_coordinator() {
    let Some(programs) = installed() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let deployment = Deployment::start(&programs, scratch.path(), 1, Pace::Capped);
    let silos = vec![("north".to_owned(), GaussianMean::data(&[1.0, 2.5], &Device::flex()))];
    let algorithm = AlgorithmChoice::Pvi(PviOptions { solver: Conjugate.into(), ..PviOptions::new(1) });
    let settings = Settings { steps: 2, ..Settings::default() };
    let options = FitOptions { algorithm, settings, elbo_draws: 1, summary_draws: 0, ..FitOptions::default() };
    let (make, count) = program((&GaussianMean {}, &silos), 0, &options);
    let north = Served::start(("north", count), deployment.silo(0), &scratch.path().join("run"), IDENTITY, make);
    let names = ["north".to_owned()];
    let usual = how(deployment.coordinator(), &names, 1, patience(20, LostSilo::Wait));
    let asks = Some(["avg", "sfvi"].map(str::to_owned).to_vec());
    let mut exchange = Flower::connect(CoordinatorOptions { asks, ..usual }, IDENTITY).unwrap();
    let own = rows(&exchange);
    let problem = fitted(&GaussianMean {}, &mut exchange, &own, &options).map(drop).unwrap_err().to_string();
    assert!(problem.contains("`pvi`, of the request `pvi."), "{problem}");
    assert!(problem.contains("one of avg, sfvi, which `asks` of study.toml lists"), "{problem}");
    exchange.end(Some("the study does not list it")).unwrap();
    let said = north.said();
    assert!(said.contains("says hello") && !said.contains("pvi."), "{said}");
    north.end().unwrap();
}
