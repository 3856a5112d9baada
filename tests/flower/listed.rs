//! What a study does not list, its coordinator does not send and its silos do not answer, over a real engine.

use fixtures::engine::Deployment;
use fixtures::table::{IDENTITY, Keys, Served, fitted, how, patience, program, rows};
use partita::flower::{CoordinatorOptions, Flower, LostSilo};
use partita::inference::{AlgorithmChoice, Conjugate};
use partita::models::GaussianMean;
use partita::{Device, FitOptions, PviOptions, Settings};

#[test]
fn a_request_that_the_study_does_not_list_never_leaves_its_coordinator_and_is_refused_from_another() {
    let Some((scratch, deployment)) = Deployment::capped(1) else { return };
    let silos = vec![("north".to_owned(), GaussianMean::data(&[1.0, 2.5], &Device::flex()))];
    let algorithm = AlgorithmChoice::Pvi(PviOptions { solver: Conjugate.into(), ..PviOptions::new(1) });
    let settings = Settings { steps: 2, ..Settings::default() };
    let options = FitOptions { algorithm, settings, elbo_draws: 1, summary_draws: 0, ..FitOptions::default() };
    let (make, count) = program((&GaussianMean {}, &silos), 0, &options);
    let north = Served::start(("north", count), deployment.silo(0), &scratch.path().join("run"), IDENTITY, make);
    let names = ["north".to_owned()];
    let usual = how(deployment.coordinator(), &names, 1, patience(20, LostSilo::Wait));
    let asks = Some(["avg", "sfvi"].map(str::to_owned).to_vec());
    let mut exchange = Flower::connect(CoordinatorOptions { asks: asks.clone(), ..usual.clone() }, IDENTITY).unwrap();
    let own = rows(&exchange);
    let problem = fitted(&GaussianMean {}, &mut exchange, &own, &options).map(drop).unwrap_err().to_string();
    assert!(problem.contains("`pvi`, of the request `pvi."), "{problem}");
    assert!(problem.contains("one of avg, sfvi, which `asks` of study.toml lists"), "{problem}");
    exchange.end(Some("the study does not list it")).unwrap();
    let said = north.said();
    assert!(said.contains("says hello") && !said.contains("pvi."), "{said}");
    north.end().unwrap();

    // A coordinator without the list sends it, and the silo, whose owner allows it, refuses.
    let make = program((&GaussianMean {}, &silos), 0, &options).0;
    let keys = Keys { asks, ..Keys::default() };
    let folder = scratch.path().join("other");
    let north = Served::answering(keys, ("north", count), deployment.silo(0), &folder, IDENTITY, make);
    let mut exchange = Flower::connect(usual, IDENTITY).unwrap();
    let problem = fitted(&GaussianMean {}, &mut exchange, &own, &options).map(drop).unwrap_err().to_string();
    assert!(problem.contains("`asks` of study.toml does not list `pvi`. Add `pvi` to `asks`"), "{problem}");
    exchange.end(Some("the study does not list it")).unwrap();
    let said = north.said();
    assert!(said.contains("what a study asks of its silos: found `pvi`, of the request `pvi."), "{said}");
    north.end().unwrap();
}
