//! Compares rounds whose rows are evaluated on the device with those of the host, and counts their reads.

use fixtures::far;
use fixtures::regression::{Regression, silos};
use partita::burn::module::Module;
use partita::burn::tensor::Tensor;
use partita::core::{Key, Noise, Purpose, host_reads};
use partita::inference::{
    Algorithm, AlgorithmChoice, FewRounds, FewRoundsOptions, FewRoundsSilo, Outcome, SiloProgram,
};
use partita::models::{MixedLogistic, RepeatedBinary, six_cities_silos};
use partita::{Bernoulli, Device, FitOptions, Groups, Model, Normal, Poisson, Precision, Result, Scope, Settings, fit};

fn on_device(on_device: bool) -> FewRoundsOptions {
    FewRoundsOptions { on_device, ..FewRoundsOptions::default() }
}

/// Groups of visits with some effects each, the first of which is an intercept.
#[derive(Module, Debug)]
struct Mixed {
    #[module(skip)]
    effects: usize,
    /// Whether outcomes are counts, or yes and no.
    #[module(skip)]
    is_count: bool,
}

/// The visits of one silo.
#[derive(Debug, Clone)]
struct Visits {
    groups: Groups,
    /// `[visits, effects]`
    columns: Tensor<2>,
    y: Tensor<1>,
}

impl Model for Mixed {
    type Globals = [Tensor<1>; 2];
    type Data = Visits;

    fn global(&self, scope: &mut Scope<'_>) -> Result<[Tensor<1>; 2]> {
        let mean = scope.sample("mean", Normal::new(0.0, 2.0).iid([self.effects]))?;
        Ok([mean, scope.sample("log_sd", Normal::new(-0.5, 0.7).iid([self.effects]))?])
    }

    fn local(&self, scope: &mut Scope<'_>, [mean, log_sd]: &[Tensor<1>; 2], data: &Visits) -> Result<()> {
        scope.plate("group", data.groups.groups(), |scope, rows| {
            let shape = [rows.len(), self.effects];
            let each = |own: Tensor<1>| own.reshape([1, self.effects]).expand(shape);
            let effects = Normal::new(each(mean.clone()), each(log_sd.clone().exp()));
            let effects = scope.sample("effect", effects)?;
            scope.plate("visit", &data.groups, |scope, rows| {
                let (eta, y) = (rows.inner_products(&effects, &data.columns)?, rows.take(&data.y)?);
                match self.is_count {
                    true => scope.observe("y", Poisson::log_rate(eta), y),
                    false => scope.observe("y", Bernoulli::logits(eta), y),
                }
            })
        })
    }
}

impl Mixed {
    /// Silos of so many groups of two to six visits.
    fn silos(&self, sizes: &[usize], device: &Device) -> Vec<(String, Visits)> {
        let mut noise = Noise::new(7).stream(Key::new(Purpose::Prior, 0));
        let mut silo = |(place, groups): (usize, &usize)| {
            let visits: Vec<usize> = (0..*groups).map(|group| 2 + (3 * group + place) % 5).collect();
            let (mut columns, mut y) = (Vec::new(), Vec::new());
            for count in &visits {
                let effects: Vec<f64> = (0..self.effects).map(|_| 0.3 + 0.7 * noise.standard_normal()).collect();
                for visit in 0..*count {
                    let own = |column: usize| if column == 0 { 1.0 } else { (visit as f64 - 1.5) / column as f64 };
                    let eta: f64 = effects.iter().enumerate().map(|(column, effect)| effect * own(column)).sum();
                    y.push(match self.is_count {
                        true => (2.0 * noise.uniform() * eta.exp()).floor(),
                        false => f64::from(u8::from(noise.uniform() < 1.0 / (1.0 + (-eta).exp()))),
                    });
                    columns.extend((0..self.effects).map(own));
                }
            }
            let (groups, count) = (Groups::of_sizes(&visits).unwrap(), y.len());
            let columns = device.tensor(columns, [count, self.effects]);
            (format!("silo-{place}"), Visits { groups, columns, y: device.tensor(y, [count]) })
        };
        sizes.iter().enumerate().map(&mut silo).collect()
    }
}

/// The two silos of six cities.
fn children(device: &Device) -> Vec<(String, RepeatedBinary)> {
    let silo = |children| RepeatedBinary::six_cities(children, device).unwrap();
    six_cities_silos().iter().zip(["a", "b"]).map(|(own, name)| (name.to_owned(), silo(own))).collect()
}

/// The posterior of a fit.
fn parameters<M: Model>(model: &M, silos: &[(String, M::Data)], device: &Device, is_on_device: bool) -> Vec<f64> {
    let algorithm = AlgorithmChoice::FewRounds(on_device(is_on_device));
    let options = FitOptions { algorithm, trust_draws: Some(0), ..super::options() };
    fit(model, silos, device, &options, None).unwrap().posterior().parameters.to_vec()
}

/// How far a fit on the device is from that of the host.
fn apart<M: Model>(model: &M, data: impl Fn(&Device) -> Vec<(String, M::Data)>, precision: Precision) -> f64 {
    let (host, device) = (Device::flex(), Device::flex().with_precision(precision));
    far(&parameters(model, &data(&device), &device, true), &parameters(model, &data(&host), &host, false))
}

#[test]
fn a_fit_on_the_device_is_that_of_the_host() {
    let (model, data) = (Regression { columns: 3, binary: true }, |device: &Device| silos(&[40, 25], 3, true, device));
    let double = apart(&model, data, Precision::Double);
    assert!(double < 1e-9, "{double:e}");
    // In single precision a run ends where 0.001 nats are left to gain, which is 0.04 standard deviations before the last step
    // and the square of that after it; sums of 65 rows are 1e-5 nats off.
    let single = apart(&model, data, Precision::Single);
    assert!(single < 2e-3, "{single:e}");
}

#[test]
fn rows_with_latents_on_the_device_have_the_fit_of_the_host() {
    let found = apart(&MixedLogistic::new(4), children, Precision::Double);
    assert!(found < 1e-8, "six cities: {found:e}");
    for (effects, is_count) in [(1, true), (2, false), (2, true)] {
        let model = Mixed { effects, is_count };
        let found = apart(&model, |device| model.silos(&[30, 22], device), Precision::Double);
        assert!(found < 1e-8, "{model:?}: {found:e}");
    }
}

#[test]
fn rows_with_latents_in_single_precision_have_the_fit_of_double_precision() {
    // As above; a sum of 537 rows is 1e-4 nats off.
    let found = apart(&MixedLogistic::new(4), children, Precision::Single);
    assert!(found < 5e-3, "six cities: {found:e}");
}

/// The reads of each silo in each round but the start.
fn reads<M: Model>(model: &M, data: &[(String, M::Data)], device: &Device) -> Vec<u64> {
    let names: Vec<String> = data.iter().map(|(name, _)| name.clone()).collect();
    let (settings, options) = (Settings::default(), on_device(true));
    let mut algorithm = FewRounds::new(model, device, &settings, &names, &options).unwrap();
    let silo =
        |(name, rows): &(String, M::Data)| FewRoundsSilo::new(name, model, rows, device, &settings, &options).unwrap();
    let mut parties: Vec<FewRoundsSilo> = data.iter().map(silo).collect();
    let mut reads = Vec::new();
    for _ in 0..12 {
        if algorithm.ended().is_some() {
            break;
        }
        let mut outcomes = Vec::new();
        for request in algorithm.outgoing().unwrap() {
            let before = host_reads();
            outcomes.push(Outcome::Reply(parties[request.silo].answer(&request.message).unwrap()));
            if request.message.kind == "few.round" {
                reads.push(host_reads() - before);
            }
        }
        algorithm.incoming(outcomes).unwrap();
    }
    reads
}

#[test]
fn a_round_is_one_read_of_each_silo() {
    let device = Device::flex();
    let found = reads(&Regression { columns: 3, binary: false }, &silos(&[12, 9], 3, false, &device), &device);
    assert!(found.len() >= 2 && found.iter().all(|own| *own == 1), "rows without latents: {found:?}");
    // Where points change, each number that is tried is a read: after the start's, whose posterior is another, here in the first
    // round alone.
    for (effects, is_count, changes) in [(1, true, false), (2, false, true), (2, true, false)] {
        let model = Mixed { effects, is_count };
        let found = reads(&model, &model.silos(&[30, 22], &device), &device);
        let (first, others) = found.split_at(2);
        assert!(!others.is_empty() && others.iter().all(|own| *own == 1), "{model:?}: {found:?}");
        assert!(
            first.iter().any(|own| *own > 1) == changes && first.iter().all(|own| *own <= 8),
            "{model:?}: {found:?}"
        );
    }
    let found = reads(&MixedLogistic::new(4), &children(&device), &device);
    assert!(found.last() == Some(&1) && found.iter().all(|own| *own <= 8), "six cities: {found:?}");
}

#[test]
fn four_latents_a_row_are_refused_with_what_to_do() {
    let (device, model) = (Device::flex(), Mixed { effects: 4, is_count: false });
    let (name, data) = model.silos(&[6], &device).remove(0);
    let refused = FewRoundsSilo::new(&name, &model, &data, &device, &Settings::default(), &on_device(true));
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("on_device") && error.contains("4 latents of rows of plate `group`"), "{error}");
    assert!(error.contains("at most three a row; or false"), "{error}");
}
