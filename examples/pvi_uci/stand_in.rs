//! Repeats section 5.2 of the paper on a stand-in: its hospital records (MIMIC-III) are not public, a bank's calls are.

use std::collections::BTreeMap;

use partita::datasets::{CovariateRows, Standardisation};
use partita::inference::Posterior;
use partita::models::{Activation, BayesianNetwork, BinaryRows, Head, LabelledRows, LogisticRegression, Mlp};
use partita::{
    Device, Estimator, FamilyPlan, Gaussian, Noise, Normal, Scaling, Schedule, Settings, partition_by_k_means,
};

use super::study::{Curve, MINIBATCH, Method, TRAINING, curve, loss_and_error, regression_loss};
use super::{Failure, Options, Panel, panel};

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

/// The rows of a table as Figure 5 has those of its hospital: clusters of inputs, and test rows.
struct World<'a> {
    options: &'a Options,
    device: &'a Device,
    silos: Vec<CovariateRows>,
    test: CovariateRows,
}

/// The panels of Figure 5: the regression, and the network.
pub(crate) fn panels(options: &Options, device: &Device) -> Result<Vec<Panel>, Failure> {
    let mut panels = Vec::new();
    for name in &options.table {
        let noise = Noise::new(ROWS);
        let [train, test] = name.read()?.split(TRAINING, Standardisation::TrainingRows, &noise)?;
        let rows = partition_by_k_means(train.inputs(), train.columns(), SILOS, Scaling::AsGiven, &noise)?;
        let silos = rows.iter().map(|rows| train.select(rows)).collect::<Result<_, _>>()?;
        let world = World { options, device, silos, test };
        world.print(name.name());
        let regression = format!("{} regression", name.name());
        let network = format!("{} network", name.name());
        panels.push(panel((&regression, None), options, |seed| world.regressions(seed))?);
        panels.push(panel((&network, None), options, |seed| world.networks(seed))?);
    }
    Ok(panels)
}

impl World<'_> {
    /// What the paper's Table 3 has for its hospital.
    fn print(&self, table: &str) {
        println!("Stand-in for MIMIC-III: {table} in {SILOS} clusters, {} test rows", self.test.rows());
        for (silo, number) in self.silos.iter().zip(1..) {
            println!("  silo {number}: {:>6} rows, {:.3} positive", silo.rows(), silo.positive_share());
        }
    }

    fn settings(&self, seed: u64) -> Settings {
        Settings {
            seed,
            particles: self.options.particles,
            family: FamilyPlan::new().global(Gaussian::diagonal()).initial_scale(INITIAL_SCALE),
            schedule: Schedule::Constant { rate: RATE },
            minibatch: BTreeMap::from([("row".to_owned(), MINIBATCH)]),
            ..Settings::default()
        }
    }

    /// The rows of each silo as a model takes them, with names.
    fn data<D>(&self, of: impl Fn(&CovariateRows) -> Result<D, Failure>) -> Result<Vec<(String, D)>, Failure> {
        self.silos.iter().zip(1..).map(|(silo, number)| Ok((format!("silo-{number}"), of(silo)?))).collect()
    }

    fn regressions(&self, seed: u64) -> Result<Vec<Curve>, Failure> {
        let model = LogisticRegression::new(self.test.columns());
        let silos =
            self.data(|rows| Ok(BinaryRows::new(rows.inputs(), rows.columns(), rows.labels(), self.device)?))?;
        let settings = self.settings(seed);
        let judge = |posterior: Posterior<'_>| regression_loss(&model, &self.test, posterior);
        let how = (self.options, DAMPING, &settings, self.device);
        METHODS.iter().map(|method| curve(*method, (&model, &silos), how, judge)).collect()
    }

    fn networks(&self, seed: u64) -> Result<Vec<Curve>, Failure> {
        let rows = |rows: &CovariateRows| {
            let labels = rows.labels().iter().map(|label| f64::from(u8::from(*label))).collect();
            Ok(LabelledRows::new(rows.inputs().to_vec(), labels, rows.rows(), self.device)?)
        };
        let [first, second] = HIDDEN;
        let network = Mlp::new(&[self.test.columns(), first, second, 1], Activation::Relu, seed, self.device);
        let model = BayesianNetwork::new(network, Head::Bernoulli, Normal::new(0.0, 1.0));
        let (silos, test) = (self.data(rows)?, rows(&self.test)?);
        let settings = Settings { particles: 1, estimator: Estimator::LocalReparameterisation, ..self.settings(seed) };
        let judge = |posterior: Posterior<'_>| {
            let noise = Noise::new(seed);
            let draws = (0..DRAWS).map(|index| posterior.draw(&noise, index));
            let yes = model.predict(self.device, test.features(), draws)?.values;
            loss_and_error(&yes.iter().flat_map(|yes| [1.0 - yes, *yes]).collect::<Vec<_>>(), &self.test)
        };
        let how = (self.options, DAMPING, &settings, self.device);
        METHODS.iter().map(|method| curve(*method, (&model, &silos), how, judge)).collect()
    }
}
