//! Runs federated fits through a real SuperLink and two SuperNodes: the bits are those of one process.

use std::path::Path;

use fixtures::engine::{Deployment, Pace, installed};
use fixtures::engine_run::{over_the_engine, seats};
use fixtures::table::rows;
use partita::core::{Noise, SmallLarge, partition_small_large};
use partita::datasets::{Standardisation, credit};
use partita::flower::RunFile;
use partita::inference::{
    AlgorithmChoice, Counters, Evaluation, Exchange, FewRoundsOptions, InProcess, RunOptions, Silent, coordinator,
    evaluate, fit_parties, run,
};
use partita::models::{BinaryRows, LogisticRegression, MixedLogistic, RepeatedBinary};
use partita::{
    Device, FamilyPlan, FitOptions, Gaussian, Model, PviOptions, RoundOptions, Schedule, Settings, SiloSchedule,
};

fn options(algorithm: AlgorithmChoice, steps: u64) -> FitOptions {
    let family = FamilyPlan::new().global(Gaussian::full_rank()).local(Gaussian::diagonal().given_globals());
    let settings = Settings { steps, family, schedule: Schedule::Constant { rate: 0.01 }, ..Settings::default() };
    FitOptions { algorithm, settings, elbo_draws: 10, summary_draws: 0, ..FitOptions::default() }
}

fn six_cities() -> Vec<(String, RepeatedBinary)> {
    fixtures::six_cities_halves(["north", "south"], &Device::flex())
}

/// Runs silos with a coordinator; returns the parameters of the posterior, and the silos' evaluation of it.
fn found<M: Model>(model: &M, rows: &[usize], exchange: &mut dyn Exchange, fit: &FitOptions) -> (Vec<f64>, Evaluation) {
    let names = exchange.silos().to_vec();
    let mut algorithm = coordinator(model, &names, rows, &Device::flex(), fit).unwrap();
    let how = RunOptions { steps: fit.settings.steps, ..RunOptions::default() };
    run(&mut *algorithm, exchange, &how, &mut Silent).unwrap();
    let judged = evaluate(&*algorithm, exchange, 10, fit.settings.seed, None, &mut Counters::default()).unwrap();
    (algorithm.posterior().parameters.to_vec(), judged)
}

fn assert_same_bits<M: Model>(
    (deployment, folder): (&Deployment, &Path),
    (model, silos): (&M, &[(String, M::Data)]),
    fit: &FitOptions,
    observed: usize,
) where
    M::Data: Clone + Send + 'static,
{
    let afar = over_the_engine(deployment, folder, seats(model, silos, fit), |exchange| {
        found(model, &rows(exchange), exchange, fit)
    });
    let here = seats(model, silos, fit);
    let rows: Vec<usize> = here.iter().map(|seat| seat.rows).collect();
    let programs = here.into_iter().map(|mut seat| (seat.make)().unwrap()).collect();
    assert_eq!(afar, found(model, &rows, &mut InProcess::new(programs, 1).unwrap(), fit));
    // What is judged are observations: `observed` of each row of the outermost plate.
    let judged: Vec<u64> = afar.1.silos.iter().map(|silo| silo.rows).collect();
    assert_eq!(judged, rows.iter().map(|rows| (observed * rows) as u64).collect::<Vec<_>>());
}

#[test]
fn averaging_over_a_stock_deployment_has_the_bits_of_one_process() {
    let Some(programs) = installed() else { return };
    let folder = tempfile::tempdir().unwrap();
    let deployment = Deployment::start(&programs, folder.path(), 2, Pace::Stock);
    let how = options(AlgorithmChoice::SfviAvg(RoundOptions::paper(100)), 300);
    assert_same_bits((&deployment, folder.path()), (&MixedLogistic::new(4), &six_cities()), &how, 4);
}

#[test]
fn structured_partitioned_inference_and_steps_of_sfvi_over_the_engine_have_the_bits_of_one_process() {
    let Some((folder, deployment)) = Deployment::capped(2) else { return };
    let together = PviOptions { schedule: SiloSchedule::Synchronous, ..PviOptions::new(100) };
    let all = [
        ("sequential", AlgorithmChoice::Pvi(PviOptions::new(100)), 400),
        ("synchronous", AlgorithmChoice::Pvi(together), 400),
        ("steps", AlgorithmChoice::Sfvi, 6),
    ];
    for (name, algorithm, steps) in all {
        let how = options(algorithm, steps);
        let own = folder.path().join(name);
        assert_same_bits((&deployment, &own), (&MixedLogistic::new(4), &six_cities()), &how, 4);
    }
}

#[test]
fn adaptive_steps_of_sfvi_over_the_engine_have_the_bits_of_one_process() {
    let Some((folder, deployment)) = Deployment::capped(2) else { return };
    // As a run file asks for them. The rate falls over the last quarter, and the answer is the last iterate.
    let text = "model = \"six-cities\"\nalgorithm = \"sfvi\"\nsilos = [\"north\", \"south\"]\nsteps = 24\n\
                elbo_draws = 10\n[settings]\nschedule = { Adaptive = { initial = 0.05 } }\n";
    let base = options(AlgorithmChoice::Sfvi, 24).settings;
    let how = RunFile::parse(text).unwrap().fit_options(&base).unwrap();
    assert_eq!(how.settings.schedule, Schedule::Adaptive { initial: 0.05 });
    assert_same_bits((&deployment, folder.path()), (&MixedLogistic::new(4), &six_cities()), &how, 4);
}

#[test]
fn few_rounds_over_the_engine_have_the_bits_of_one_process_and_nothing_to_choose() {
    let Some((folder, deployment)) = Deployment::capped(2) else { return };
    let algorithm = AlgorithmChoice::FewRounds(FewRoundsOptions::default());
    let how = FitOptions { algorithm, elbo_draws: 10, summary_draws: 0, ..FitOptions::default() };
    assert_same_bits((&deployment, folder.path()), (&MixedLogistic::new(4), &six_cities()), &how, 4);
}

#[test]
fn rows_left_out_and_predictive_checks_over_the_engine_have_the_bits_of_one_process() {
    let Some((folder, deployment)) = Deployment::capped(2) else { return };
    let algorithm = AlgorithmChoice::FewRounds(FewRoundsOptions::default());
    let checks = vec!["mean of y".parse().unwrap(), "sd of rows of y".parse().unwrap()];
    let how = FitOptions { algorithm, checks, leave_one_out_draws: 200, summary_draws: 0, ..FitOptions::default() };
    let (model, silos) = (MixedLogistic::new(4), six_cities());
    let judged = |rows: &[usize], exchange: &mut dyn Exchange| {
        let names = exchange.silos().to_vec();
        let mut algorithm = coordinator(&model, &names, rows, &Device::flex(), &how).unwrap();
        let report = fit_parties(&model, &Device::flex(), &how, &mut *algorithm, exchange, None).unwrap().report;
        (report.leave_one_out.unwrap(), report.checks.unwrap())
    };
    let afar = over_the_engine(&deployment, folder.path(), seats(&model, &silos, &how), |exchange| {
        judged(&rows(exchange), exchange)
    });
    let here = seats(&model, &silos, &how);
    let rows: Vec<usize> = here.iter().map(|seat| seat.rows).collect();
    let programs = here.into_iter().map(|mut seat| (seat.make)().unwrap()).collect();
    assert_eq!(afar, judged(&rows, &mut InProcess::new(programs, 1).unwrap()));
    assert_eq!((afar.0.rows(), afar.1.draws), (537, 1_000));
}

/// Credit approval at a small and a large silo with different labels, as in split B of the PVI paper.
fn credit_silos() -> Option<(LogisticRegression, Vec<(String, BinaryRows)>)> {
    let Ok(table) = credit() else {
        fixtures::skip("data", "credit approval is neither in PARTITA_DATA nor in the cache, and cannot be downloaded");
        return None;
    };
    let noise = Noise::new(1);
    let [train, _] = table.split(0.8, Standardisation::TrainingRows, &noise).unwrap();
    let imbalance = SmallLarge { size_imbalance: 0.3, label_imbalance: -0.7 };
    let parts = partition_small_large(train.labels(), 2, imbalance, &noise).unwrap();
    let silo = |(name, rows): (&str, Vec<usize>)| {
        let own = train.select(&rows).unwrap();
        let rows = BinaryRows::new(own.inputs(), own.columns(), own.labels(), &Device::flex()).unwrap();
        (name.to_owned(), rows)
    };
    let silos = ["small", "large"].into_iter().zip(parts).map(silo).collect();
    Some((LogisticRegression::new(train.columns()), silos))
}

#[test]
fn credit_approval_by_partitioned_inference_over_the_engine_has_the_bits_of_one_process() {
    let Some((model, silos)) = credit_silos() else { return };
    let Some((folder, deployment)) = Deployment::capped(2) else { return };
    // The settings of the example `pvi_uci`: three sweeps over both silos, with minibatches.
    let settings = Settings {
        steps: 6 * 300,
        particles: 4,
        family: FamilyPlan::new().global(Gaussian::diagonal()).initial_scale(1.0),
        schedule: Schedule::Cosine { initial: 1e-2, last: 0.0 },
        minibatch: [("row".to_owned(), 64)].into(),
        ..Settings::default()
    };
    let algorithm = AlgorithmChoice::Pvi(PviOptions::new(300));
    let how = FitOptions { algorithm, settings, elbo_draws: 10, summary_draws: 0, ..FitOptions::default() };
    assert_same_bits((&deployment, folder.path()), (&model, &silos), &how, 1);
}
