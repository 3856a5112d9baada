//! Holds every model, in both parametrisations where it has two, to the laws of models, and the laws to planted faults.

use fixtures::{ConjugateGaussian, ConjugateSettings};
use partita::burn::module::{Module, Param};
use partita::burn::tensor::Tensor;
use partita::core::{Latents, LogDensity};
use partita::models::{
    BinaryPictures, BinaryRows, ClassifiedRows, DeepLatentGaussian, EIGHT_SCHOOLS, EightSchools, GaussianMean,
    KnownTopics, LinearRegression, LogisticRegression, MeasuredRows, MixedLogistic, MultinomialRegression,
    RepeatedBinary, Schools, TopicLink, TopicModel, six_cities,
};
use partita::{
    Bernoulli, Beta, Design, Device, Dirichlet, Gamma, HalfCauchy, LogNormal, Model, MultivariateNormal, Normal,
    Result, Scope, SiteTable, SparseRows, StudentT, Uniform,
};
use partita_laws::{ModelViolation, model};

/// Differences cost four evaluations for every latent: a few rows suffice.
const CHILDREN: usize = 5;

#[test]
fn the_conjugate_hierarchy_keeps_the_laws() {
    let device = Device::flex();
    let settings = ConjugateSettings { prior_mean: 0.5, prior_sd: 2.0, group_sd: 0.7, noise_sd: 1.3 };
    let data = ConjugateGaussian::data(&[vec![1.0, 2.0], vec![-0.3, 0.1], vec![4.0, 3.5]], &device).unwrap();
    model(&ConjugateGaussian::new(settings), &device, &data).unwrap();
}

#[test]
fn the_eight_schools_keep_the_laws() {
    let device = Device::flex();
    model(&EightSchools {}, &device, &Schools::new(&EIGHT_SCHOOLS, &device)).unwrap();
}

#[test]
fn the_deep_latent_gaussian_model_keeps_the_laws() {
    let device = Device::flex();
    let pictures = BinaryPictures::new(&[255, 0, 0, 255, 255, 255], 3, 128, &device).unwrap();
    model(&DeepLatentGaussian::new(2, &[4], 3, 1, &device), &device, &pictures).unwrap();
}

#[test]
fn the_mixed_logistic_model_keeps_the_laws_centred_and_not() {
    let device = Device::flex();
    let data = RepeatedBinary::six_cities(&six_cities()[..CHILDREN], &device).unwrap();
    model(&MixedLogistic::new(4), &device, &data).unwrap();
    model(&MixedLogistic::new(4).centred(), &device, &data).unwrap();
}

#[test]
fn the_multinomial_regression_keeps_the_laws_centred_and_not() {
    let device = Device::flex();
    let covariates = SparseRows::from_dense(&[0.0, 0.5, 1.0, 0.25, 0.0, 0.0, 0.0, 0.0, 0.75], [3, 3]).unwrap();
    let data = ClassifiedRows::new(covariates, &[1, 0, 3], &device).unwrap();
    model(&MultinomialRegression::new([3, 4], &device), &device, &data).unwrap();
    model(&MultinomialRegression::new([3, 4], &device).centred(), &device, &data).unwrap();
}

#[test]
fn the_regressions_and_the_gaussian_mean_keep_the_laws() {
    let device = Device::flex();
    let (inputs, targets) = ([0.5, -1.0, 2.0, 0.3, -0.7, 1.1], [1.0, -0.4, 2.5]);
    let rows = BinaryRows::new(&inputs, 2, &[true, false, true], &device).unwrap();
    model(&LogisticRegression::new(2).prior_sd(1.5), &device, &rows).unwrap();
    let rows = MeasuredRows::new(&inputs, 2, &targets, &device).unwrap();
    model(&LinearRegression::new(2, 0.6).prior_sd(1.5), &device, &rows).unwrap();
    model(&GaussianMean {}, &device, &GaussianMean::data(&targets, &device)).unwrap();
}

fn documents() -> Result<SparseRows> {
    let rows = [vec![(0, 2.0), (3, 1.0)], vec![(1, 1.0)], vec![(2, 4.0), (3, 2.0), (4, 1.0)]];
    SparseRows::new(&rows, 5)
}

#[test]
fn the_topic_model_keeps_the_laws_with_either_link() {
    let device = Device::flex();
    for link in [TopicLink::Experts, TopicLink::Printed] {
        model(&TopicModel::new(2, 5, &device).starting(0.8, 0.6, &device).link(link), &device, &documents().unwrap())
            .unwrap();
    }
}

#[test]
fn known_topics_give_the_density_of_documents_at_these_topics() {
    let (device, data) = (Device::flex(), documents().unwrap());
    let whole = TopicModel::new(2, 5, &device).starting(0.8, 0.6, &device);
    let table = SiteTable::of(&whole, &device, &data).unwrap();
    let (globals, locals) = ([0.3, -1.0, 0.2, 0.5, 0.0, 1.0, -0.4, 0.1], [vec![0.5, -0.2, 1.0, 0.0, 0.3, -1.1]]);
    let topics = table.natural_globals(&whole, &device, &globals).unwrap().remove(0).1;
    let known = KnownTopics::new(topics, 0.8, TopicLink::Experts).unwrap();
    let own = SiteTable::of(&known, &device, &data).unwrap();
    let expected =
        LogDensity::new(&whole, &device, &table).local(Latents { globals: &globals, locals: &locals }, &data).unwrap();
    let found = LogDensity::new(&known, &device, &own).local(Latents { globals: &[], locals: &locals }, &data).unwrap();
    assert!((found.value - expected.value).abs() < 1e-12, "{} {}", found.value, expected.value);
    for (found, expected) in found.locals[0].iter().zip(&expected.locals[0]) {
        assert!((found - expected).abs() < 1e-12);
    }
}

/// A hierarchy with a point parameter, in either parametrisation, and a factor and a site outside any plate.
#[derive(Module, Debug)]
struct Hierarchy {
    offset: Param<Tensor<1>>,
    #[module(skip)]
    centred: bool,
}

impl Model for Hierarchy {
    type Globals = [Tensor<1>; 2];
    type Data = Tensor<1>;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Self::Globals> {
        let center = scope.sample("center", Normal::new(self.offset.val(), 2.0))?;
        let scale = scope.sample("scale", HalfCauchy::new(1.0))?;
        Ok([center, scale])
    }

    fn local(&self, scope: &mut Scope<'_>, [center, scale]: &Self::Globals, data: &Tensor<1>) -> Result<()> {
        let silo = scope.sample("silo", Normal::new(self.offset.val(), 1.0))?;
        scope.factor("tie", -(silo.clone() - center.clone()).powi_scalar(2))?;
        scope.plate("row", data.dims()[0], |scope, rows| {
            let effect = StudentT::new(4.0, center.clone(), scale.clone());
            let effect = scope.sample("effect", if self.centred { effect } else { effect.non_centred() })?;
            scope.observe("y", Normal::new(effect + silo.clone().expand([rows.len()]), 0.5), rows.take(data)?)
        })
    }
}

#[test]
fn a_trained_parameter_keeps_the_laws_centred_and_not() {
    let device = Device::flex();
    for centred in [false, true] {
        let offset = Param::from_tensor(device.tensor(vec![0.3], [1]));
        model(&Hierarchy { offset, centred }, &device, &device.tensor(vec![0.4, -1.0, 2.0], [3])).unwrap();
    }
}

/// One latent of each support, with parameters that are latents themselves.
#[derive(Module, Debug)]
struct Supports {}

impl Model for Supports {
    type Globals = [Tensor<1>; 4];
    type Data = Design;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Self::Globals> {
        let rate = scope.sample("rate", LogNormal::new(0.0, 1.0))?;
        let shape = scope.sample("shape", Gamma::new(2.0, rate.clone()))?;
        let share = scope.sample("share", Beta::new(shape.clone(), 1.5))?;
        let bound = scope.sample("bound", Uniform::new(-1.0, 2.0))?;
        Ok([rate, shape, share, bound])
    }

    fn local(&self, scope: &mut Scope<'_>, [rate, shape, share, bound]: &Self::Globals, data: &Design) -> Result<()> {
        let device = scope.device().clone();
        let weights = scope.sample("weights", Dirichlet::symmetric(1.5, [1, 3], &device))?;
        let factor = device.tensor(vec![1.0, 0.0, -0.4, 0.6], [2, 2]);
        let pair =
            scope.sample("pair", MultivariateNormal::new(Tensor::cat(vec![rate.clone(), bound.clone()], 0), factor))?;
        let [rows, ..] = data.shape();
        scope.plate("row", rows, |scope, rows| {
            let intercepts = scope.sample("intercept", Normal::new(share.clone(), shape.clone()))?;
            let mixed = weights.clone().reshape([3]).narrow(0, 0, 2) + pair.clone();
            let logits = data.take(rows)?.predictor(mixed, Some(intercepts))?;
            let outcomes = scope.device().tensor(vec![1.0, 0.0, 0.0, 1.0], [2, 2]);
            scope.observe("y", Bernoulli::logits(logits), rows.take(&outcomes)?)
        })
    }
}

#[test]
fn latents_of_every_support_keep_the_laws() {
    let design = Design::new(vec![1.0, 0.5, 1.0, -0.5, 1.0, 2.0, 1.0, 0.0], [2, 2, 2]).unwrap();
    model(&Supports {}, &Device::flex(), &design).unwrap();
}

/// A model that hides half of a derivative from the tape, or declares data in the wrong function.
#[derive(Module, Debug)]
struct Faulty {
    #[module(skip)]
    detaches: bool,
}

impl Model for Faulty {
    type Globals = Tensor<1>;
    type Data = ();

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        scope.sample("mean", Normal::new(0.0, 1.0))
    }

    fn local(&self, scope: &mut Scope<'_>, mean: &Tensor<1>, (): &()) -> Result<()> {
        let other = if self.detaches { mean.clone().detach() } else { mean.clone() };
        scope.factor("square", mean.clone() * other)
    }
}

#[test]
fn the_laws_find_a_gradient_that_is_cut() {
    model(&Faulty { detaches: false }, &Device::flex(), &()).unwrap();
    let violation = model(&Faulty { detaches: true }, &Device::flex(), &()).unwrap_err();
    assert!(matches!(violation, ModelViolation::Gradient { reading: "local", index: 0, .. }), "{violation}");
}
