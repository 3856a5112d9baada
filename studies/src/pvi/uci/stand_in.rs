//! Repeats section 5.2 of the paper on a bank's calls, a stand-in for its hospital records (MIMIC-III).

use std::collections::BTreeMap;

use partita::core::{Noise, Scaling, partition_by_k_means};
use partita::datasets::{CovariateRows, Standardisation};
use partita::inference::{Posterior, StartFrom};
use partita::models::{Activation, BayesianNetwork, BinaryRows, Head, LabelledRows, LogisticRegression, Mlp};
use partita::{Estimator, FamilyPlan, Gaussian, Normal, Schedule, Settings};

use super::study::{Curve, MINIBATCH, Method, Setting, TRAINING, loss_and_error, regression_loss};
use super::{Panel, Study};
use crate::harness::Result;

/// The paper's number of silos, its learning rate, damping of synchronous PVI and hidden units.
const SILOS: usize = 5;
const RATE: f64 = 1e-3;
const DAMPING: f64 = 0.4;
const HIDDEN: [usize; 2] = [50, 50];

/// Not in the paper: the standard deviation at which posteriors start.
const INITIAL_SCALE: f64 = 0.1;

/// Not in the paper: posterior draws of a prediction of the network, the same at every point of a curve.
const DRAWS: u64 = 10;

/// The seed of training rows and silos, which all fits share: they differ by start and noise.
const ROWS: u64 = 1;

/// Global VI and both kinds of PVI, which are the first of [`Method::ALL`].
const METHODS: [Method; 3] = [Method::GlobalVi, Method::Sequential, Method::Synchronous];

/// The rows of a table in the form of Figure 5: clusters of inputs as silos, and test rows.
struct World<'a> {
    study: &'a Study,
    silos: Vec<CovariateRows>,
    test: CovariateRows,
}

/// The panels of Figure 5: the regression, and the network.
pub(crate) fn panels(study: &Study) -> Result<Vec<Panel>> {
    let mut panels = Vec::new();
    for name in &study.options.table {
        let noise = Noise::new(ROWS);
        let [train, test] = name.read()?.split(TRAINING, Standardisation::TrainingRows, &noise)?;
        let rows = partition_by_k_means(train.inputs(), train.columns(), SILOS, Scaling::AsGiven, &noise)?;
        let silos = rows.iter().map(|rows| train.select(rows)).collect::<std::result::Result<_, _>>()?;
        let world = World { study, silos, test };
        world.print(name.name());
        let regression = format!("{} regression", name.name());
        let network = format!("{} network", name.name());
        panels.push(study.panel(&regression, None, |seed| world.regressions(seed))?);
        panels.push(study.panel(&network, None, |seed| world.networks(seed))?);
    }
    Ok(panels)
}

impl World<'_> {
    /// Prints the numbers of the paper's Table 3.
    fn print(&self, table: &str) {
        println!("Stand-in for MIMIC-III: {table} in {SILOS} clusters, {} test rows", self.test.rows());
        for (silo, number) in self.silos.iter().zip(1..) {
            println!("  silo {number}: {:>6} rows, {:.3} positive", silo.rows(), silo.positive_share());
        }
    }

    fn settings(&self, seed: u64) -> Settings {
        Settings {
            seed,
            particles: self.study.options.particles,
            family: FamilyPlan::new().global(Gaussian::diagonal()).initial_scale(INITIAL_SCALE),
            schedule: Schedule::Constant { rate: RATE },
            minibatch: BTreeMap::from([("row".to_owned(), MINIBATCH)]),
            start: StartFrom::Declared,
            ..Settings::default()
        }
    }

    /// The rows of each silo in the form of a model, with names.
    fn data<D>(&self, of: impl Fn(&CovariateRows) -> Result<D>) -> Result<Vec<(String, D)>> {
        self.silos.iter().zip(1..).map(|(silo, number)| Ok((format!("silo-{number}"), of(silo)?))).collect()
    }

    fn regressions(&self, seed: u64) -> Result<Vec<Curve>> {
        let model = LogisticRegression::new(self.test.columns());
        let silos =
            self.data(|rows| Ok(BinaryRows::new(rows.inputs(), rows.columns(), rows.labels(), &self.study.device)?))?;
        let settings = self.settings(seed);
        let judge = |posterior: Posterior<'_>| regression_loss(&model, &self.test, posterior);
        let study = self.study;
        let setting = Setting { study, model: &model, silos: &silos, damping: DAMPING, settings: &settings };
        METHODS.iter().map(|method| setting.curve(*method, judge)).collect()
    }

    fn networks(&self, seed: u64) -> Result<Vec<Curve>> {
        let rows = |rows: &CovariateRows| {
            let labels = rows.labels().iter().map(|label| f64::from(u8::from(*label))).collect();
            Ok(LabelledRows::new(rows.inputs().to_vec(), labels, rows.rows(), &self.study.device)?)
        };
        let [first, second] = HIDDEN;
        let network = Mlp::new(&[self.test.columns(), first, second, 1], Activation::Relu, seed, &self.study.device);
        let model = BayesianNetwork::new(network, Head::Bernoulli, Normal::new(0.0, 1.0));
        let (silos, test) = (self.data(rows)?, rows(&self.test)?);
        let settings = Settings { particles: 1, estimator: Estimator::LocalReparameterisation, ..self.settings(seed) };
        let judge = |posterior: Posterior<'_>| {
            let noise = Noise::new(seed);
            let draws = (0..DRAWS).map(|index| posterior.draw(&noise, index));
            let yes = model.predict(&self.study.device, test.features(), draws)?.values;
            loss_and_error(&yes.iter().flat_map(|yes| [1.0 - yes, *yes]).collect::<Vec<_>>(), &self.test)
        };
        let study = self.study;
        let setting = Setting { study, model: &model, silos: &silos, damping: DAMPING, settings: &settings };
        METHODS.iter().map(|method| setting.curve(*method, judge)).collect()
    }
}
