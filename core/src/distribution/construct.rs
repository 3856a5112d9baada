//! Builds distributions from numbers and tensors, and checks that the shapes of the parameters agree.

use burn::tensor::Tensor;

use super::batch::{Discrete, Distribution};
use super::law::{Law, Parameter};
use super::{Categorical, Continuous, Density, Dirichlet, Multinomial, MultivariateNormal, SymmetricDirichlet};
use super::{LkjCholesky, MultivariateStudentT, OrderedLogistic, OrderedProbit, PiecewiseExponential, WishartCholesky};
use crate::error::Error;
use crate::handle::Handle;

/// The parameters of a univariate distribution: a tuple of numbers and tensors.
///
/// A tensor of one element serves every event, whatever the rank of the others: a scale of shape `[1]` stands beside a
/// predictor of rank 2, 3 or 4. All other tensors have the batch shape; a tensor of rank 1 with more elements beside one
/// of a higher rank is an [`Error::Shape`] where the distribution is used.
///
/// Numbers alone give a distribution of shape `[1]`, to be repeated with [`Distribution::iid`] or by a plate.
///
/// A model uses a density of a user's own through [`Parameters::build`]; the type that it is bound to says whether values
/// are [`Continuous`] or [`Discrete`].
///
/// # Example
/// ```
/// use partita_core::{Array, Continuous, Device, Distribution, Normal, Parameters};
/// let device = Device::flex();
/// let (predictor, scale) = (device.tensor(vec![0.5; 6], [2, 3]), device.tensor(vec![2.0], [1]));
/// assert_eq!(Normal::new(predictor, scale).variance()?.unwrap().values, [4.0; 6]);
/// // `Normal` stands for a density of one's own, which has no constructor.
/// let mean = device.tensor(vec![0.0, 1.0], [2]);
/// let own: Distribution<1, Continuous> = (mean.clone(), 2.0).build(&Normal);
/// let value = Array::new(vec![0.5, 0.5], vec![2])?;
/// assert_eq!(own.log_prob_of(&value)?, Normal::new(mean, 2.0).log_prob_of(&value)?);
/// # Ok::<(), partita_core::Error>(())
/// ```
///
/// # Laws
/// A number is equivalent to a tensor of that number: both make the same density (`tests/laws/densities.rs`).
#[diagnostic::on_unimplemented(
    message = "`{Self}` are no parameters of a distribution",
    label = "one of these is neither an `f64` nor a tensor, or two tensors of a rank above 1 have unlike ranks",
    note = "a parameter is an `f64` (`1.0`, not `1`) or a tensor; give a reference by `.clone()`",
    note = "tensors have one rank, that of a value; a tensor of rank 1 with one element may stand beside rank 2, 3 or 4"
)]
pub trait Parameters<S> {
    /// The distribution these parameters make: its rank is that of the tensors.
    type Distribution;

    /// Applies `density`, which may be a user's own, to these parameters.
    fn build(self, density: &'static dyn Density) -> Self::Distribution;
}

macro_rules! tuple {
    ($rank:literal; $(($kind:ty, $name:ident)),+) => {
        impl<S> Parameters<S> for ($($kind,)+) {
            type Distribution = Distribution<$rank, S>;
            fn build(self, density: &'static dyn Density) -> Self::Distribution {
                let ($($name,)+) = self;
                Distribution::from_law(assemble(density, vec![$(Parameter::from($name)),+], 0))
            }
        }
    };
    (D; $(($kind:ty, $name:ident)),+) => {
        impl<const D: usize, S> Parameters<S> for ($($kind,)+) {
            type Distribution = Distribution<D, S>;
            fn build(self, density: &'static dyn Density) -> Self::Distribution {
                let ($($name,)+) = self;
                Distribution::from_law(assemble(density, vec![$(Parameter::from($name)),+], 0))
            }
        }
    };
}

tuple!(1; (f64, a));
tuple!(D; (Tensor<D>, a));
tuple!(1; (f64, a), (f64, b));
tuple!(D; (f64, a), (Tensor<D>, b));
tuple!(D; (Tensor<D>, a), (f64, b));
tuple!(D; (Tensor<D>, a), (Tensor<D>, b));
tuple!(1; (f64, a), (f64, b), (f64, c));
tuple!(D; (f64, a), (f64, b), (Tensor<D>, c));
tuple!(D; (f64, a), (Tensor<D>, b), (f64, c));
tuple!(D; (f64, a), (Tensor<D>, b), (Tensor<D>, c));
tuple!(D; (Tensor<D>, a), (f64, b), (f64, c));
tuple!(D; (Tensor<D>, a), (f64, b), (Tensor<D>, c));
tuple!(D; (Tensor<D>, a), (Tensor<D>, b), (f64, c));
tuple!(D; (Tensor<D>, a), (Tensor<D>, b), (Tensor<D>, c));

/// Tensors of rank 1, which must have one element, in every place beside tensors of a higher rank.
macro_rules! beside_one_element {
    ($($rank:literal)+) => {$(
        tuple!($rank; (Tensor<1>, a), (Tensor<$rank>, b));
        tuple!($rank; (Tensor<$rank>, a), (Tensor<1>, b));
        tuple!($rank; (f64, a), (Tensor<1>, b), (Tensor<$rank>, c));
        tuple!($rank; (f64, a), (Tensor<$rank>, b), (Tensor<1>, c));
        tuple!($rank; (Tensor<1>, a), (f64, b), (Tensor<$rank>, c));
        tuple!($rank; (Tensor<$rank>, a), (f64, b), (Tensor<1>, c));
        tuple!($rank; (Tensor<1>, a), (Tensor<$rank>, b), (f64, c));
        tuple!($rank; (Tensor<$rank>, a), (Tensor<1>, b), (f64, c));
        tuple!($rank; (Tensor<1>, a), (Tensor<1>, b), (Tensor<$rank>, c));
        tuple!($rank; (Tensor<1>, a), (Tensor<$rank>, b), (Tensor<1>, c));
        tuple!($rank; (Tensor<$rank>, a), (Tensor<1>, b), (Tensor<1>, c));
        tuple!($rank; (Tensor<1>, a), (Tensor<$rank>, b), (Tensor<$rank>, c));
        tuple!($rank; (Tensor<$rank>, a), (Tensor<1>, b), (Tensor<$rank>, c));
        tuple!($rank; (Tensor<$rank>, a), (Tensor<$rank>, b), (Tensor<1>, c));
    )+};
}

beside_one_element!(2 3 4);

impl From<f64> for Parameter {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl<const D: usize> From<Tensor<D>> for Parameter {
    fn from(tensor: Tensor<D>) -> Self {
        Self::Tensor(Handle::from(tensor))
    }
}

/// Assembles a law; `vector` is the number of trailing event dimensions of the first vector parameter.
fn assemble(density: &'static dyn Density, parameters: Vec<Parameter>, vector: usize) -> Law {
    let rules = density.parameters();
    let mut batch = vec![1];
    let mut event = Vec::new();
    let mut defect = None;
    let batch_rank =
        |shape: &[usize], event_rank: usize| shape.len().saturating_sub(if vector > 0 { event_rank } else { 0 });
    let ranks = parameters.iter().zip(rules).map(|(parameter, rule)| match parameter {
        Parameter::Tensor(handle) => batch_rank(&handle.shape(), rule.event_rank),
        Parameter::Number(_) => 0,
    });
    let rank = ranks.max().unwrap_or(0);
    for (parameter, rule) in parameters.iter().zip(rules) {
        let Parameter::Tensor(handle) = parameter else { continue };
        let shape = handle.shape();
        let own = batch_rank(&shape, rule.event_rank);
        let (front, back) = shape.split_at(own);
        if rule.event_rank == 1 && vector > 0 {
            event = back.to_vec();
        }
        let many = front.iter().product::<usize>() != 1;
        if many && front.len() < rank {
            let (name, found) = (rule.name, front.to_vec());
            defect = Some(lower_rank(format!("parameter `{name}` of {}", density.name()), found));
        } else if many && batch.iter().product::<usize>() != 1 && batch != front {
            defect = Some(Error::Shape {
                operation: format!("parameter `{}` of {}", rule.name, density.name()),
                found: front.to_vec(),
                expected: batch.clone(),
                remedy: "All parameters must have the batch shape, or one element that serves every event.".into(),
            });
        } else if many || batch.len() < front.len() {
            batch = front.to_vec();
        }
    }
    Law { parameters, batch, event, defect, ..Law::of(density) }
}

/// The refusal of a tensor of rank 1 with several elements beside tensors of a higher rank.
fn lower_rank(operation: String, found: Vec<usize>) -> Error {
    Error::Shape {
        operation,
        found,
        expected: vec![1],
        remedy: "Beside a tensor of a higher rank it may have one element; reshape it to the batch shape.".into(),
    }
}

impl Dirichlet {
    /// The Dirichlet distribution with this `concentration`; the last dimension is the event.
    ///
    /// # Shapes
    /// `concentration`: `[batch..., categories]`, rank at least 2: one simplex has shape `[1, categories]`.
    #[expect(clippy::new_ret_no_self, reason = "the density is a marker; what a model uses is the distribution")]
    pub fn new<const D: usize>(concentration: Tensor<D>) -> Distribution<D> {
        Distribution::from_law(vector_law(&Self, vec![concentration.into()], D))
    }

    /// The symmetric Dirichlet distribution with one known concentration for all cells of `[batch..., categories]`.
    ///
    /// [`SymmetricDirichlet`] takes a concentration that is inferred or trained.
    pub fn symmetric<const D: usize>(concentration: f64, shape: [usize; D], device: &crate::Device) -> Distribution<D> {
        SymmetricDirichlet::new(device.tensor(vec![concentration], [1]), shape)
    }
}

impl SymmetricDirichlet {
    /// The symmetric Dirichlet distribution with one `concentration` for all cells of `[batch..., categories]`.
    ///
    /// # Shapes
    /// `concentration`: `[1]`; `shape`: rank at least 2, one simplex is `[1, categories]`.
    #[expect(clippy::new_ret_no_self, reason = "the density is a marker; what a model uses is the distribution")]
    pub fn new<const D: usize>(concentration: Tensor<1>, shape: [usize; D]) -> Distribution<D> {
        let found = concentration.dims();
        let mut law = assemble(&Self, vec![concentration.into()], 0);
        let (batch, event) = shape.split_at(D.saturating_sub(1));
        (law.batch, law.event) = (batch.to_vec(), event.to_vec());
        let operation = "parameter `concentration` of SymmetricDirichlet";
        let remedy = "Give one number for all cells, or use `Dirichlet::new` with one for each.";
        law.defect = Error::same_shape(operation, &found, &[1], remedy).err().or(law.defect);
        Distribution::from_law(law)
    }
}

impl MultivariateNormal {
    /// The normal distribution of vectors with this `mean` and lower Cholesky factor of the covariance.
    ///
    /// # Shapes
    /// `mean`: `[batch..., k]`; `scale_tril`: `[k, k]`, shared by the batch. One vector may be rank 1: `[k]`.
    #[expect(clippy::new_ret_no_self, reason = "the density is a marker; what a model uses is the distribution")]
    pub fn new<const D: usize>(mean: Tensor<D>, scale_tril: Tensor<2>) -> Distribution<D> {
        let event = mean.dims()[D - 1];
        let mut law = vector_law(&Self, vec![mean.into(), scale_tril.clone().into()], D);
        let operation = "parameter `scale_tril` of MultivariateNormal";
        let remedy = "Give the lower Cholesky factor of the covariance, square with the length of the mean.";
        law.defect = Error::same_shape(operation, &scale_tril.dims(), &[event, event], remedy).err().or(law.defect);
        Distribution::from_law(law)
    }
}

/// The refusal of a factor that is not square with the length of a vector.
fn square_defect(name: &str, found: [usize; 2], order: usize) -> Option<Error> {
    let operation = format_args!("parameter `scale_tril` of {name}");
    let remedy = "Give a lower Cholesky factor, square with the length of the vector.";
    Error::same_shape(operation, &found, &[order, order], remedy).err()
}

/// One number of `parameter`, for densities whose parameter serves all events.
fn single(name: &str, distribution: Distribution<1>) -> (Parameter, Option<Error>) {
    let Law { mut parameters, batch, defect, .. } = distribution.law;
    let operation = format_args!("the first parameter of {name}");
    let rule = Error::same_shape(operation, &batch, &[1], "Give one number for all events.").err();
    (parameters.swap_remove(0), defect.or(rule))
}

impl MultivariateStudentT {
    /// Student's t distribution of vectors with these `degrees_of_freedom`, `location` and lower factor `scale_tril`.
    ///
    /// # Shapes
    /// `degrees_of_freedom`: a number or `[1]`; `location`: `[batch..., k]`; `scale_tril`: `[k, k]`, shared by the
    /// batch. One vector may be rank 1: `[k]`.
    #[expect(clippy::new_ret_no_self, reason = "the density is a marker; what a model uses is the distribution")]
    pub fn new<N, const D: usize>(degrees_of_freedom: N, location: Tensor<D>, scale_tril: Tensor<2>) -> Distribution<D>
    where
        (N,): Parameters<Continuous, Distribution = Distribution<1>>,
    {
        let (degrees, defect) = single("MultivariateStudentT", (degrees_of_freedom,).build(&Self));
        let (event, found) = (location.dims()[D - 1], scale_tril.dims());
        let mut law = vector_law(&Self, vec![degrees, location.into(), scale_tril.into()], D);
        law.defect = law.defect.or(defect).or(square_defect("MultivariateStudentT", found, event));
        Distribution::from_law(law)
    }
}

impl LkjCholesky {
    /// The LKJ distribution of one Cholesky factor of `order` rows.
    ///
    /// # Shapes
    /// `concentration`: a number or `[1]`; a value is `[order, order]`.
    #[expect(clippy::new_ret_no_self, reason = "the density is a marker; what a model uses is the distribution")]
    pub fn new<C>(concentration: C, order: usize) -> Distribution<2>
    where
        (C,): Parameters<Continuous, Distribution = Distribution<1>>,
    {
        Self::of_shape(concentration, [order, order])
    }

    /// Independent Cholesky factors in a batch: `shape` is `[batch..., order, order]`.
    pub fn of_shape<C, const D: usize>(concentration: C, shape: [usize; D]) -> Distribution<D>
    where
        (C,): Parameters<Continuous, Distribution = Distribution<1>>,
    {
        let (concentration, defect) = single("LkjCholesky", (concentration,).build(&Self));
        let (batch, event) = shape.split_at(D.saturating_sub(2));
        let square = matches!(event, [rows, columns] if rows == columns).then_some(());
        let shape_defect = square.is_none().then(|| Error::Shape {
            operation: "shape of LkjCholesky".into(),
            found: shape.to_vec(),
            expected: [batch, &[event[0], event[0]]].concat(),
            remedy: "The last two dimensions are those of a square matrix.".into(),
        });
        let defect = defect.or(shape_defect);
        let (batch, event) = (batch.to_vec(), event.to_vec());
        Distribution::from_law(Law { parameters: vec![concentration], batch, event, defect, ..Law::of(&Self) })
    }
}

impl WishartCholesky {
    /// The distribution of the Cholesky factor of a Wishart matrix, whose mean is `degrees_of_freedom` times the matrix
    /// of factor `scale_tril`.
    ///
    /// # Shapes
    /// `degrees_of_freedom`: a number or `[1]`; `scale_tril` and a value: `[k, k]`.
    #[expect(clippy::new_ret_no_self, reason = "the density is a marker; what a model uses is the distribution")]
    pub fn new<N>(degrees_of_freedom: N, scale_tril: Tensor<2>) -> Distribution<2>
    where
        (N,): Parameters<Continuous, Distribution = Distribution<1>>,
    {
        let (degrees, defect) = single("WishartCholesky", (degrees_of_freedom,).build(&Self));
        let found = scale_tril.dims();
        let defect = defect.or(square_defect("WishartCholesky", found, found[0]));
        let parameters = vec![degrees, scale_tril.into()];
        Distribution::from_law(Law { parameters, batch: Vec::new(), event: found.to_vec(), defect, ..Law::of(&Self) })
    }
}

impl OrderedLogistic {
    /// The ordered logistic distribution of classes 0 to K - 1 with this `predictor` and `cutpoints`.
    ///
    /// # Shapes
    /// `predictor`: the shape of a value; `cutpoints`: `[K - 1]`, increasing.
    #[expect(clippy::new_ret_no_self, reason = "the density is a marker; what a model uses is the distribution")]
    pub fn new<const D: usize>(predictor: Tensor<D>, cutpoints: Tensor<1>) -> Distribution<D, Discrete> {
        Distribution::from_law(ordered_law(&Self, predictor, cutpoints))
    }
}

impl OrderedProbit {
    /// The ordered probit distribution of classes 0 to K - 1 with this `predictor` and `cutpoints`.
    ///
    /// # Shapes
    /// `predictor`: the shape of a value; `cutpoints`: `[K - 1]`, increasing.
    #[expect(clippy::new_ret_no_self, reason = "the density is a marker; what a model uses is the distribution")]
    pub fn new<const D: usize>(predictor: Tensor<D>, cutpoints: Tensor<1>) -> Distribution<D, Discrete> {
        Distribution::from_law(ordered_law(&Self, predictor, cutpoints))
    }
}

impl PiecewiseExponential {
    /// Times whose hazard is $e^{\eta + a_k}$ between two cuts, with this `predictor` $\eta$ and `log_hazards` $a$.
    ///
    /// # Shapes
    /// `predictor`: the shape of a value; `log_hazards`: `[K]`; `cuts`: `[K - 1]`, increasing and above zero.
    #[expect(clippy::new_ret_no_self, reason = "the density is a marker; what a model uses is the distribution")]
    pub fn new<const D: usize>(
        predictor: Tensor<D>,
        log_hazards: Tensor<1>,
        cuts: Tensor<1>,
    ) -> Distribution<D, Continuous> {
        let (mut law, [hazards, cuts_found]) =
            (ordered_law(&Self, predictor, log_hazards.clone()), [&log_hazards, &cuts].map(|own| own.dims()[0]));
        law.parameters.push(cuts.into());
        let operation = "parameter `log_hazards` of PiecewiseExponential";
        let remedy = "Give one log hazard more than there are cuts.";
        law.defect = Error::same_shape(operation, &[hazards], &[cuts_found + 1], remedy).err().or(law.defect);
        Distribution::from_law(law)
    }
}

/// A law with one predictor for each event, and a vector that serves all.
fn ordered_law<const D: usize>(density: &'static dyn Density, predictor: Tensor<D>, cutpoints: Tensor<1>) -> Law {
    let batch = predictor.dims().to_vec();
    Law { parameters: vec![predictor.into(), cutpoints.into()], batch, ..Law::of(density) }
}

impl Categorical {
    /// The categorical distribution with these unnormalised log probabilities.
    ///
    /// # Shapes
    /// `logits`: `[batch, categories]`; a value has shape `[batch]` and holds class indices 0, 1, ...
    pub fn logits(logits: Tensor<2>) -> Distribution<1, Discrete> {
        let batch = vec![logits.dims()[0]];
        let mut law = vector_law(&Self, vec![logits.into()], 2);
        law.batch = batch;
        law.event = Vec::new();
        Distribution::from_law(law)
    }
}

impl Multinomial {
    /// The multinomial distribution of `trials` draws with these unnormalised log probabilities.
    ///
    /// # Shapes
    /// `logits`: `[batch..., categories]`; a value has the same shape and holds counts.
    pub fn logits<const D: usize>(trials: f64, logits: Tensor<D>) -> Distribution<D, Discrete> {
        Distribution::from_law(vector_law(&Self, vec![trials.into(), logits.into()], D))
    }
}

/// A law whose vector parameter has rank `rank`, the last dimension being the event.
fn vector_law(density: &'static dyn Density, parameters: Vec<Parameter>, rank: usize) -> Law {
    let mut law = assemble(density, parameters, 1);
    // A single vector of rank 1 has no batch dimension of its own.
    if rank == 1 {
        law.batch = Vec::new();
    }
    law
}
