//! Compares a fit that stays on its device with the pooled fit on the host, step for step, and counts its reads.

use std::collections::BTreeMap;

use fixtures::cut::cut_and_resumed;
use fixtures::far;
use fixtures::worlds::{Visit, every_world};
use partita::burn::module::Module;
use partita::burn::tensor::Tensor;
use partita::core::{
    Array, BayesianLinear, Design, Differentiable, Key, Latents, LkjCholesky, LogDensity, MultivariateStudentT, Noise,
    OrderedLogistic, OrderedProbit, Part, Purpose, SkewNormal, SparseRows, VonMises, WishartCholesky, cholesky,
    custom_vjp, host_reads, ln_gamma, log_sum_exp, low_rank_multinomial,
};
use partita::inference::{
    Algorithm, Central, Error, Exchange, InProcess, OnDeviceSilo, Progress, Severity, Sgd, StartFrom,
};
use partita::models::{Activation, BayesianNetwork, Head, LabelledRows, Mlp};
use partita::{
    AlgorithmChoice, Censoring, Chance, Clip, Device, Estimator, FamilyPlan, Fit, FitOptions, Gaussian, Mixture, Model,
    MultivariateNormal, Normal, Poisson, Schedule, Scope, Settings, SiteTable, fit,
};

/// One random point of the latents of a table: the global vector, and one vector a local block.
fn point(table: &SiteTable) -> (Vec<f64>, Vec<Vec<f64>>) {
    let noise = Noise::new(5);
    let normal = |length: usize, block: u32| {
        let mut values = vec![0.0; length];
        noise.stream(Key::new(Purpose::Check, 9).block(block)).normal(&mut values);
        values.iter_mut().for_each(|value| *value *= 0.7);
        values
    };
    let blocks = table.blocks().iter().zip(1..).map(|(block, index)| normal(block.rows * block.width, index));
    (normal(table.global_len(), 0), blocks.collect())
}

struct SameDensity;

impl Visit for SameDensity {
    fn world<M: Model>(&mut self, name: &str, model: &M, data: &M::Data, _: &Settings) {
        let device = Device::flex();
        let model = partita::core::with_theta(model, &partita::core::theta(model).unwrap(), &device).unwrap();
        let table = SiteTable::of(&model, &device, data).unwrap();
        let (globals, locals) = point(&table);
        let density = LogDensity::new(&model, &device, &table);
        let expected = density.joint(Latents { globals: &globals, locals: &locals }, data).unwrap();
        let mut latents = Vec::new();
        for site in table.latents(Part::Global) {
            latents.push(device.tensor(globals[site.offset()..][..site.width()].to_vec(), [1, site.width()]));
        }
        for site in table.latents(Part::Local) {
            let block = &table.blocks()[site.block()];
            let rows = locals[site.block()].chunks_exact(block.width);
            let own = rows.flat_map(|row| &row[site.offset()..][..site.width()]).copied().collect();
            latents.push(device.tensor(own, [block.rows, site.width()]));
        }
        let found = density.on_device(&latents, data).unwrap();
        let read = |tensor: partita::core::Handle| tensor.read().unwrap().values;
        let near = |what: &str, a: &[f64], b: &[f64]| {
            for (a, b) in a.iter().zip(b) {
                assert!((a - b).abs() < 1e-10 * (1.0 + b.abs()), "{name}, {what}: {a} on the device, {b} on the host");
            }
        };
        near("value", &read(found.value.into()), &[expected.value]);
        near("value alone", &read(density.value_on_device(&latents, data).unwrap().into()), &[expected.value]);
        let theta: Vec<f64> = found.theta.into_iter().flat_map(|own| read(own.into())).collect();
        near("gradient by θ", &theta, &expected.theta);
        let mut gradients = found.latents.into_iter();
        for site in table.latents(Part::Global) {
            let own = read(gradients.next().unwrap().into());
            near(&site.name, &own, &expected.globals[site.offset()..][..site.width()]);
        }
        for site in table.latents(Part::Local) {
            let width = table.blocks()[site.block()].width;
            let rows = expected.locals[site.block()].chunks_exact(width);
            let own: Vec<f64> = rows.flat_map(|row| &row[site.offset()..][..site.width()]).copied().collect();
            near(&site.name, &read(gradients.next().unwrap().into()), &own);
        }
    }
}

#[test]
fn the_density_on_the_device_is_that_of_the_host_for_every_model() {
    every_world(&Device::flex(), &mut SameDensity);
}

struct SameRun;

const STEPS: u64 = 50;

/// Holds numbers of a fit on the device to those of the host.
#[track_caller]
fn same(at: &str, what: &str, found: &[f64], expected: &[f64]) {
    let off = far(found, expected);
    assert!(off < 1e-9, "{at}: {what} by {off:e}");
}

/// Holds the globals and θ of a fit on the device to those of the host.
#[track_caller]
fn same_globals(at: &str, globals: &str, resident: &Fit, host: &Fit) {
    let (found, expected) = (resident.posterior(), host.posterior());
    same(at, &format!("{globals} differ"), found.parameters, expected.parameters);
    same(at, "θ differs", found.theta, expected.theta);
}

/// The same, and the bounds of its rounds or visits.
#[track_caller]
pub(super) fn same_course(at: &str, [globals, exchanges]: [&str; 2], resident: &Fit, host: &Fit) {
    same_globals(at, globals, resident, host);
    let trace = |fit: &Fit| fit.record.trace.iter().map(|(_, elbo)| *elbo).collect::<Vec<_>>();
    same(at, &format!("the bounds of {exchanges} differ"), &trace(resident), &trace(host));
}

/// Holds the bound and the local posteriors of both silos of a fit on the device to those of the host.
#[track_caller]
pub(super) fn same_ends(at: &str, resident: &mut Fit, host: &mut Fit) {
    same(at, "bounds differ", &[resident.report.elbo], &[host.report.elbo]);
    for silo in 0..2 {
        let moments = |fit: &mut Fit| flat(fit.exchange.programs()[silo].local_moments().unwrap());
        same(at, &format!("local posteriors of silo {silo} differ"), &moments(resident), &moments(host));
    }
}

impl Visit for SameRun {
    fn world<M: Model>(&mut self, name: &str, model: &M, data: &M::Data, settings: &Settings) {
        let device = Device::flex();
        let silos = [("all".to_owned(), data.clone())];
        for estimator in [Estimator::StickingTheLanding, Estimator::Total, Estimator::ClosedFormEntropy] {
            // Fits on the device start as declared and know no phases: so does the pooled fit.
            let (schedule, start) = (Schedule::cosine(), StartFrom::Declared);
            let settings = Settings { steps: STEPS, estimator, schedule, start, ..settings.clone() };
            let run = |algorithm| fit(model, &silos, &device, &options(algorithm, &settings), None).unwrap();
            let (mut host, mut resident) =
                (run(AlgorithmChoice::Central), run(AlgorithmChoice::OnDevice { interval: STEPS }));
            let at = format!("{name}, {estimator:?}");
            same_globals(&at, "parameters", &resident, &host);
            same(&at, "bounds differ", &[resident.report.elbo], &[host.report.elbo]);
            // The first hundred bounds of a run are kept: the interval's bound is their mean.
            #[expect(clippy::cast_precision_loss, reason = "fifty steps")]
            let mean = host.record.trace.iter().map(|(_, elbo)| elbo).sum::<f64>() / STEPS as f64;
            same(&at, "the interval's bound differs", &[resident.record.trace[0].1], &[mean]);
            let moments = |fit: &mut Fit| flat(fit.exchange.programs()[0].local_moments().unwrap());
            same(&at, "local posteriors differ", &moments(&mut resident), &moments(&mut host));
        }
    }
}

/// Options of a fit of these settings, with few draws after it.
pub(super) fn options(algorithm: AlgorithmChoice, settings: &Settings) -> FitOptions {
    let (settings, trust_draws) = (settings.clone(), Some(0));
    FitOptions { algorithm, settings, elbo_draws: 3, summary_draws: 2, trust_draws, ..FitOptions::default() }
}

/// A fit of two silos with the same rows, whose noise and minibatches differ.
pub(super) fn twins<M: Model>(
    (model, data): (&M, &M::Data),
    device: &Device,
    algorithm: AlgorithmChoice,
    settings: &Settings,
) -> Result<Fit, Error> {
    let silos = ["north", "south"].map(|name| (name.to_owned(), data.clone()));
    fit(model, &silos, device, &options(algorithm, settings), None)
}

pub(super) fn flat(moments: Vec<(Vec<f64>, Vec<f64>)>) -> Vec<f64> {
    moments.into_iter().flat_map(|(mean, sd)| [mean, sd].concat()).collect()
}

#[test]
fn a_fit_on_the_device_takes_the_steps_of_the_pooled_fit_for_every_model() {
    every_world(&Device::flex(), &mut SameRun);
}

struct CountReads;

impl Visit for CountReads {
    fn world<M: Model>(&mut self, name: &str, model: &M, data: &M::Data, settings: &Settings) {
        let device = Device::flex();
        let settings = Settings { steps: 30, ..settings.clone() };
        let mut algorithm = Central::new(model, &device, &settings, "all").unwrap().every(10).unwrap();
        let party = OnDeviceSilo::new("all", model, data, &device, &settings).unwrap();
        let mut exchange = InProcess::new(vec![Box::new(party)], 1).unwrap();
        let before = host_reads();
        for interval in 1..=3 {
            let outcomes = exchange.exchange(algorithm.outgoing().unwrap(), algorithm.manifest(), None).unwrap();
            assert_eq!(algorithm.incoming(outcomes).unwrap().step, 10 * interval);
            assert_eq!(host_reads() - before, interval, "{name}");
        }
        let outcomes = exchange.exchange(algorithm.elbo_requests(7, 0), algorithm.manifest(), None).unwrap();
        assert_eq!(algorithm.elbo_samples(outcomes, 7, 0).unwrap().elbos.len(), 7);
        assert_eq!(host_reads() - before, 4, "{name}: the bounds of seven draws are one read");
    }
}

#[test]
fn ten_steps_on_the_device_are_one_read() {
    every_world(&Device::flex(), &mut CountReads);
}

/// A fit of the conjugate model: on a device of one silo, otherwise of two.
pub(super) fn conjugate_fit(options: &FitOptions) -> Result<Fit, Error> {
    conjugate_fit_shown(options, None)
}

fn conjugate_fit_shown(options: &FitOptions, progress: Option<&mut dyn Progress>) -> Result<Fit, Error> {
    let device = Device::flex();
    let data = |groups| fixtures::ConjugateGaussian::data(&fixtures::groups(groups, 3), &device).unwrap();
    let mut silos = vec![("north".to_owned(), data(6)), ("south".to_owned(), data(4))];
    if matches!(options.algorithm, AlgorithmChoice::OnDevice { .. }) {
        silos.truncate(1);
    }
    fit(&fixtures::conjugate(), &silos, &device, options, progress)
}

/// Cuts a fit of the conjugate model at its first checkpoint, and compares where it then leads with the whole fit.
///
/// Gives the steps of the fit that was cut.
pub(super) fn goes_on_to_the_same_bits(options: &FitOptions, every: u64) -> u64 {
    let whole = conjugate_fit(options).unwrap();
    let [cut, resumed] =
        cut_and_resumed(options, [1, every], |options, progress| conjugate_fit_shown(options, progress).unwrap());
    assert!(cut.report.gradient_steps < whole.report.gradient_steps);
    assert_eq!(resumed.posterior().parameters, whole.posterior().parameters);
    assert_eq!(resumed.report.elbo.to_bits(), whole.report.elbo.to_bits());
    cut.report.gradient_steps
}

#[test]
fn a_run_cut_at_a_checkpoint_goes_on_to_the_same_bits() {
    let settings = Settings { steps: 40, family: fixtures::structured(), ..Settings::default() };
    let algorithm = AlgorithmChoice::OnDevice { interval: 10 };
    let options = FitOptions { algorithm, settings, elbo_draws: 2, summary_draws: 2, ..FitOptions::default() };
    assert_eq!(goes_on_to_the_same_bits(&options, 10), 10);
}

#[test]
fn what_has_no_device_form_is_refused_in_words() {
    let base = FitOptions {
        algorithm: AlgorithmChoice::OnDevice { interval: 5 },
        settings: Settings { steps: 5, ..Settings::default() },
        ..FitOptions::default()
    };
    let with = |settings: Settings| FitOptions { settings, ..base.clone() };
    let five = || Settings { steps: 5, ..Settings::default() };
    let refused = [
        (FitOptions { algorithm: AlgorithmChoice::OnDevice { interval: 0 }, ..base.clone() }, "interval"),
        (with(Settings { estimator: Estimator::LocallyEnhanced { inner: 2 }, ..five() }), "StickingTheLanding"),
        (with(Settings { optimiser: Sgd { momentum: 0.0 }.into(), ..five() }), "Adam"),
        (with(Settings { clip: Some(Clip { norm: 1.0 }), ..five() }), "clip"),
        (with(Settings { family: FamilyPlan::new().global(Gaussian::low_rank(1)), ..five() }), "low_rank(1) for `mu`"),
        (with(Settings { family: FamilyPlan::new().global(Gaussian::isotropic()), ..five() }), "isotropic for `mu`"),
    ];
    for (options, word) in refused {
        let error = conjugate_fit(&options).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn an_interval_that_fails_is_named_and_leaves_the_party_where_it_was() {
    let device = Device::flex();
    let data = fixtures::ConjugateGaussian::data(&fixtures::groups(6, 3), &device).unwrap();
    // A rate of this size overflows within the interval.
    let schedule = partita::Schedule::Constant { rate: 1e200 };
    let settings = Settings { steps: 20, schedule, family: fixtures::structured(), ..Settings::default() };
    let mut algorithm = Central::new(&fixtures::conjugate(), &device, &settings, "all").unwrap().every(10).unwrap();
    let party = OnDeviceSilo::new("all", &fixtures::conjugate(), &data, &device, &settings).unwrap();
    let mut exchange = InProcess::new(vec![Box::new(party)], 1).unwrap();
    let before = flat(exchange.programs()[0].local_moments().unwrap());
    let outcomes = exchange.exchange(algorithm.outgoing().unwrap(), algorithm.manifest(), None).unwrap();
    let error = algorithm.incoming(outcomes).unwrap_err().to_string();
    assert!(error.contains("steps 1 to 10"), "{error}");
    assert_eq!(flat(exchange.programs()[0].local_moments().unwrap()), before);
}

/// One observation, or one latent, that has no device form; or an operation that has none.
#[derive(Module, Debug)]
struct OnHost {
    #[module(skip)]
    statement: fn(&mut Scope<'_>, Tensor<1>) -> partita::Result<()>,
}

impl Model for OnHost {
    type Globals = Tensor<1>;
    type Data = ();

    fn global(&self, scope: &mut Scope<'_>) -> partita::Result<Tensor<1>> {
        scope.sample("level", Normal::new(0.0, 1.0))
    }

    fn local(&self, scope: &mut Scope<'_>, level: &Tensor<1>, (): &()) -> partita::Result<()> {
        (self.statement)(scope, level.clone())
    }
}

fn on_device_fit(statement: fn(&mut Scope<'_>, Tensor<1>) -> partita::Result<()>) -> Result<Fit, String> {
    let options = FitOptions {
        algorithm: AlgorithmChoice::OnDevice { interval: 5 },
        settings: Settings { steps: 5, ..Settings::default() },
        elbo_draws: 2,
        summary_draws: 2,
        ..FitOptions::default()
    };
    let silos = [("all".to_owned(), ())];
    fit(&OnHost { statement }, &silos, &Device::flex(), &options, None).map_err(|error| error.to_string())
}

fn number(value: f64) -> Tensor<1> {
    Device::flex().tensor(vec![value], [1])
}

fn identity() -> Tensor<2> {
    Device::flex().tensor(vec![1.0, 0.0, 0.0, 1.0], [2, 2])
}

#[test]
fn a_distribution_without_a_device_form_is_named_with_its_site() {
    type Statement = fn(&mut Scope<'_>, Tensor<1>) -> partita::Result<()>;
    let statements: [(&str, Statement); 12] = [
        ("OrderedLogistic", |scope, level| {
            let cuts = Device::flex().tensor(vec![-1.0, 1.0], [2]);
            scope.observe("grade", OrderedLogistic::new(level, cuts), number(1.0))
        }),
        ("OrderedProbit", |scope, level| {
            let cuts = Device::flex().tensor(vec![-1.0, 1.0], [2]);
            scope.observe("grade", OrderedProbit::new(level, cuts), number(1.0))
        }),
        ("SkewNormal", |scope, level| scope.observe("y", SkewNormal::new(level, 1.0, 2.0), number(0.5))),
        ("VonMises", |scope, level| scope.observe("angle", VonMises::new(level, 2.0), number(0.5))),
        ("MultivariateNormal", |scope, level| {
            let mean = level.reshape([1, 1]).expand([1, 2]);
            scope.observe(
                "pair",
                MultivariateNormal::new(mean, identity()),
                Device::flex().tensor(vec![0.5; 2], [1, 2]),
            )
        }),
        ("MultivariateStudentT", |scope, level| {
            let mean = level.reshape([1, 1]).expand([1, 2]);
            let pair = MultivariateStudentT::new(4.0, mean, identity());
            scope.observe("pair", pair, Device::flex().tensor(vec![0.5; 2], [1, 2]))
        }),
        ("LkjCholesky", |scope, level| scope.observe("corr", LkjCholesky::new(level.exp(), 2), identity())),
        ("WishartCholesky", |scope, _| scope.observe("cov", WishartCholesky::new(4.0, identity()), identity())),
        ("truncated", |scope, level| scope.observe("y", Normal::new(level, 1.0).truncated(0.0, 2.0), number(0.5))),
        ("censored", |scope, level| {
            let censoring = Censoring::right(number(0.0));
            scope.observe("time", Normal::new(level, 1.0).censored(censoring), number(0.5))
        }),
        ("ZeroInflated", |scope, level| {
            let counts = Poisson::log_rate(level).zero_inflated(Chance::logits(0.5));
            scope.observe("count", counts, number(0.0))
        }),
        ("mixture", |scope, level| {
            let parts = vec![Normal::new(level.clone(), 1.0), Normal::new(level, 2.0)];
            let weights = Device::flex().tensor(vec![0.0, 0.0], [2]);
            scope.observe("y", Mixture::logits(weights, parts), number(0.5))
        }),
    ];
    for (name, statement) in statements {
        let error = on_device_fit(statement).unwrap_err();
        assert!(error.contains("site `") && error.contains("has no device form"), "{name}: {error}");
        assert!(error.to_lowercase().contains(&name.to_lowercase()), "{name}: {error}");
    }
    // A latent whose map has none, and the sites of correlated slopes.
    let latent = on_device_fit(|scope, _| scope.sample("corr", LkjCholesky::new(2.0, 2)).map(|_| ())).unwrap_err();
    assert!(latent.contains("site `corr`") && latent.contains("LkjCholesky"), "{latent}");
}

#[test]
fn operations_on_the_host_are_named_in_a_report() {
    let notes = |statement| {
        let mut warnings = on_device_fit(statement).unwrap().report.warnings;
        warnings.retain(|warning| warning.severity == Severity::Note);
        warnings
    };
    let warnings = notes(|scope, level| {
        let curve = log_sum_exp::<1>(ln_gamma(level.clone().exp()));
        let twice = custom_vjp::<1>("twice", [level.clone().into()], |inputs| {
            let value = Array::new(inputs[0].values.iter().map(|x| 2.0 * x).collect(), vec![1])?;
            Ok(Differentiable::new(value, |gradient, by| by[0][0] += 2.0 * gradient[0]))
        })?;
        scope.observe("y", Normal::new(twice, 1.0), number(0.3))?;
        scope.factor("f", Normal::new(0.0, 1.0).log_prob(level.clone())?)?;
        let rows = SparseRows::new(&[vec![(0, 0.5)]], 1)?;
        let design = Design::<2>::new(vec![0.5], [1, 1])?;
        let sums = vec![
            Normal::new(0.0, 1.0).log_prob_each(level.clone())?,
            rows.multiply(level.clone().reshape([1, 1]))?.reshape([1]),
            design.predictor(level.clone(), None)?,
            low_rank_multinomial(&rows, level.clone().reshape([1, 1]), level.reshape([1, 1]))?,
        ];
        scope.factor("g", Tensor::cat(sums, 0))?;
        let root = cholesky(curve.clone().exp().reshape([1, 1]))?;
        scope.observe("z", Normal::new(curve + root.reshape([1]), 1.0), number(0.3))
    });
    let shown: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(shown.len(), 4, "{shown:?}");
    assert!(shown[0].contains("`ln_gamma`, `log_sum_exp`, `twice`") && shown[0].contains("(`y`)"), "{}", shown[0]);
    assert!(shown[1].contains("`log_prob`") && shown[1].contains("(`f`)"), "{}", shown[1]);
    let products = "`log_prob_each`, `SparseRows::predictor`, `Design::predictor`, `low_rank_multinomial`";
    assert!(shown[2].contains(products) && shown[2].contains("(`g`)"), "{}", shown[2]);
    assert!(shown[3].contains("`cholesky`") && shown[3].contains("(`z`)"), "{}", shown[3]);
    // What a model takes of Burn's own operations is not warned of, and a fit on the host reads without a word.
    assert!(notes(|scope, level| scope.observe("y", Normal::new(level.exp(), 1.0), number(0.3))).is_empty());
}

/// One linear layer, whose outputs are less their mean over the rows where rows are `mixed`.
#[derive(Module, Debug)]
struct Classes {
    #[module(skip)]
    layer: BayesianLinear,
    #[module(skip)]
    mixed: bool,
}

impl Model for Classes {
    type Globals = BayesianLinear;
    type Data = [Tensor<2>; 2];
    fn global(&self, scope: &mut Scope<'_>) -> Result<BayesianLinear, partita::core::Error> {
        scope.linear("layer", &self.layer, Normal::new(0.0, 1.0))
    }
    fn local(
        &self,
        scope: &mut Scope<'_>,
        layer: &BayesianLinear,
        [x, y]: &[Tensor<2>; 2],
    ) -> Result<(), partita::core::Error> {
        scope.plate("row", x.dims()[0], |scope, rows| {
            let outputs = layer.forward(rows.take(x)?);
            let shift = outputs.clone().mean_dim(0) * f64::from(u8::from(self.mixed));
            scope.observe("y", Normal::new(outputs - shift, 0.5), rows.take(y)?)
        })
    }
}

/// Whether draws are evaluated together, and how far a fit on the device is from the pooled fit on the host.
fn with_five_draws<M: Model>(model: &M, data: &M::Data, batch: Option<usize>) -> (bool, f64) {
    let device = Device::flex();
    let minibatch = batch.map(|size| ("row".to_owned(), size)).into_iter().collect();
    let mut worst = 0.0_f64;
    let mut together = None;
    for estimator in [Estimator::StickingTheLanding, Estimator::Total, Estimator::ClosedFormEntropy] {
        let settings = Settings {
            steps: 20,
            particles: 5,
            estimator,
            minibatch: BTreeMap::clone(&minibatch),
            schedule: Schedule::cosine(),
            start: StartFrom::Declared,
            family: FamilyPlan::new().global(Gaussian::diagonal()),
            ..Settings::default()
        };
        let party = OnDeviceSilo::new("all", model, data, &device, &settings).unwrap();
        let own = format!("{party:?}").contains("has_draws_together: true");
        assert_eq!(*together.get_or_insert(own), own);
        let silos = [("all".to_owned(), data.clone())];
        let run = |algorithm| fit(model, &silos, &device, &options(algorithm, &settings), None).unwrap();
        let (host, found) = (run(AlgorithmChoice::Central), run(AlgorithmChoice::OnDevice { interval: 20 }));
        let off = far(found.posterior().parameters, host.posterior().parameters);
        let trace = host.record.trace.iter().map(|(_, elbo)| elbo).sum::<f64>() / 20.0;
        let (theta, bound) =
            (far(found.posterior().theta, host.posterior().theta), far(&[found.record.trace[0].1], &[trace]));
        worst = fixtures::largest([worst, off, theta, bound]);
    }
    (together.unwrap(), worst)
}

#[test]
fn draws_of_linear_layers_are_evaluated_together_and_take_the_steps_of_draws_one_by_one() {
    let device = Device::flex();
    let numbers = |count: u32| (0..count).map(|k| f64::from(k * 7 % 11) / 5.0 - 1.0).collect::<Vec<_>>();
    let classes = (0..12).map(|row| f64::from(row % 3)).collect();
    let rows = LabelledRows::new(numbers(24), classes, 12, &device).unwrap();
    let network = || Mlp::new(&[2, 4, 3], Activation::Tanh, 1, &device);
    let plain = BayesianNetwork::new(network(), Head::Categorical, Normal::new(0.0, 1.0));
    // Its θ is the prior scale of every weight.
    let relevance = BayesianNetwork::relevance(network(), Head::Categorical, 0.7, &device);
    let layer = || {
        let weight = device.tensor(numbers(4), [2, 2]);
        BayesianLinear::new(weight, device.tensor(vec![0.1, -0.1], [2]))
    };
    let two = [device.tensor(numbers(24), [12, 2]), device.tensor(numbers(24), [12, 2])];
    for batch in [None, Some(5)] {
        let found = [
            with_five_draws(&plain, &rows, batch),
            with_five_draws(&relevance, &rows, batch),
            with_five_draws(&Classes { layer: layer(), mixed: false }, &two, batch),
            // Rows of one draw would be centred by those of all.
            with_five_draws(&Classes { layer: layer(), mixed: true }, &two, batch),
        ];
        assert_eq!(found.map(|(together, _)| together), [true, true, true, false]);
        assert!(found.iter().all(|(_, off)| *off < 1e-9), "{found:?}");
    }
}
