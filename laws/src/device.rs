//! Checks that the device forms of densities and bijectors agree with their twins on the host, gradients included.

use burn::tensor::Tensor;
use partita_core::{Bijector, Density, Device, Error, Gradient, Handle, Key, Noise, Purpose, Term};

use crate::DensityCase;
use crate::difference::within;

const SEED: u64 = 161_803;
/// Points of each scale.
const POINTS: usize = 4;

/// A device form that does not agree with its twin on the host.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceViolation {
    /// A number differs by more than the bound, relative to one plus its size.
    #[error("{name}: {quantity} is {found} on the device and {expected} on the host (case {case}, bound {bound:e})")]
    Differs {
        /// The density or the map.
        name: String,
        /// What differs.
        quantity: String,
        /// The case, counted from zero.
        case: usize,
        /// The number on the device.
        found: f64,
        /// The number on the host.
        expected: f64,
        /// The bound.
        bound: f64,
    },
    /// A number could not be read, or an event has no unconstrained form.
    #[error(transparent)]
    Model(#[from] Error),
}

/// Where numbers are compared, with the words of a violation.
struct Place<'a> {
    name: &'a str,
    case: usize,
    bound: f64,
}

impl Place<'_> {
    fn same(&self, quantity: &str, found: &[f64], expected: &[f64]) -> Result<(), DeviceViolation> {
        let Self { case, bound, .. } = *self;
        let mut pairs = found.iter().copied().zip(expected.iter().copied());
        match pairs.find(|(found, expected)| !within(*found, *expected, bound * (1.0 + expected.abs()))) {
            None => Ok(()),
            Some((found, expected)) => {
                let (name, quantity) = (self.name.to_owned(), quantity.to_owned());
                Err(DeviceViolation::Differs { name, quantity, case, found, expected, bound })
            }
        }
    }
}

/// The sum of terms over one event and its gradient by each leaf, read to the host; zeros where it does not depend on
/// one.
fn read(terms: Vec<Term>, leaves: &[Tensor<2>]) -> Result<(f64, Vec<Vec<f64>>), Error> {
    let events = leaves.first().map_or(1, |leaf| leaf.dims()[0]);
    let (constant, sum) = Term::total(terms, events);
    let zeros = |leaf: &Tensor<2>| vec![0.0; leaf.dims().iter().product()];
    let Some(sum) = sum.filter(|sum| sum.is_require_grad() || sum.is_autodiff()) else {
        return Ok((constant, leaves.iter().map(zeros).collect()));
    };
    let value = constant + Handle::from(sum.clone()).read()?.values[0];
    let gradients = sum.backward();
    let gradient = |leaf: &Tensor<2>| match leaf.grad(&gradients) {
        Some(gradient) => Ok(Handle::from(gradient).read()?.values),
        None => Ok(zeros(leaf)),
    };
    Ok((value, leaves.iter().map(gradient).collect::<Result<_, Error>>()?))
}

/// Checks the device form of `density` against its log density on the host in each of `cases`: the value, and the
/// derivatives by value and parameters, to `bound` relative to one plus their size.
///
/// Says whether there is a device form for tensors as parameters.
///
/// # Errors
/// The first [`DeviceViolation`] found.
///
/// # Example
/// ```
/// use partita_core::{Device, Normal};
/// use partita_laws as laws;
/// let case = laws::DensityCase::new(&[0.3], &[&[1.0], &[2.0]]);
/// assert!(laws::density_on_device(&Normal, &[case], &Device::flex(), 1e-14)?);
/// # Ok::<(), laws::DeviceViolation>(())
/// ```
pub fn density_on_device(
    density: &dyn Density,
    cases: &[DensityCase],
    device: &Device,
    bound: f64,
) -> Result<bool, DeviceViolation> {
    let mut takes_tensors = true;
    for (number, case) in cases.iter().enumerate() {
        let place = Place { name: density.name(), case: number, bound };
        let mut by_value = vec![0.0; case.value.len()];
        let mut by_parameters = case.parameters.clone();
        by_parameters.iter_mut().for_each(|slots| slots.fill(0.0));
        let [a, b, c] = &mut by_parameters;
        let mut gradient = Gradient { scale: 1.0, value: &mut by_value, parameters: [a, b, c] };
        let expected = density.log_prob(&case.value, case.parameters(), &mut gradient);
        let leaf = |values: &Vec<f64>| device.leaf(values.clone(), [1, values.len()]);
        let value = leaf(&case.value);
        let given: Vec<&Vec<f64>> = case.parameters.iter().filter(|values| !values.is_empty()).collect();
        if given.iter().all(|values| values.len() == 1) {
            let mut numbers = [const { Term::Number(0.0) }; 3];
            numbers.iter_mut().zip(&given).for_each(|(slot, values)| *slot = Term::Number(values[0]));
            if let Some(terms) = density.on_device(Term::Tensor(value.clone()), numbers) {
                let (found, _) = read(terms, std::slice::from_ref(&value))?;
                place.same("the log density with numbers as parameters", &[found], &[expected])?;
            }
        }
        let mut leaves = vec![value];
        leaves.extend(given.iter().copied().map(leaf));
        let mut parameters = [const { Term::Number(0.0) }; 3];
        parameters.iter_mut().zip(&leaves[1..]).for_each(|(slot, leaf)| *slot = Term::Tensor(leaf.clone()));
        let Some(terms) = density.on_device(Term::Tensor(leaves[0].clone()), parameters) else {
            takes_tensors = false;
            continue;
        };
        let (found, gradients) = read(terms, &leaves)?;
        place.same("the log density", &[found], &[expected])?;
        if !density.support(case.parameters()).is_discrete() {
            place.same("the gradient by the value", &gradients[0], &by_value)?;
        }
        for ((rule, found), expected) in density.parameters().iter().zip(&gradients[1..]).zip(&by_parameters) {
            place.same(&format!("the gradient by `{}`", rule.name), found, expected)?;
        }
    }
    Ok(takes_tensors)
}

/// Checks the device form of `bijector` against its twin on the host for events of `event` numbers, two at a time:
/// value, log-determinant and the gradient of $g \cdot x + \log|\det J|$, to `bound` relative to one plus their size.
///
/// # Errors
/// The first [`DeviceViolation`] found.
pub fn bijector_on_device(
    bijector: &dyn Bijector,
    event: usize,
    device: &Device,
    bound: f64,
) -> Result<(), DeviceViolation> {
    const EVENTS: usize = 2;
    let mut stream = Noise::new(SEED).stream(Key::new(Purpose::Check, 2));
    let one = bijector.unconstrained_len(event)?;
    let name = format!("{bijector:?}");
    for (case, scale) in [0.5, 1.5, 5.0].into_iter().flat_map(|scale| [scale; POINTS]).enumerate() {
        let place = Place { name: &name, case, bound };
        let u: Vec<f64> = (0..EVENTS * one).map(|_| scale * stream.standard_normal()).collect();
        let weights: Vec<f64> = (0..EVENTS * event).map(|_| stream.standard_normal()).collect();
        let (mut x, mut pulled, mut log_det) = (vec![0.0; EVENTS * event], vec![0.0; EVENTS * one], 0.0);
        for (u, x) in u.chunks_exact(one).zip(x.chunks_exact_mut(event)) {
            log_det += bijector.forward(u, x);
        }
        let events = u.chunks_exact(one).zip(x.chunks_exact(event)).zip(weights.chunks_exact(event));
        for (((u, x), weights), pulled) in events.zip(pulled.chunks_exact_mut(one)) {
            bijector.vjp(u, x, weights, 1.0, pulled);
        }
        let leaf: Tensor<2> = device.leaf(u.clone(), [EVENTS, one]);
        let Some((Term::Tensor(value), mut terms)) = bijector.on_device(Term::Tensor(leaf.clone())) else {
            return Err(Error::NoDeviceForm { operation: "laws of device forms".into(), what: name }.into());
        };
        place.same("the value", &Handle::from(value.clone()).read()?.values, &x)?;
        let product: f64 = x.iter().zip(&weights).map(|(x, weight)| x * weight).sum();
        terms.push(Term::Tensor(value * device.tensor(weights, [EVENTS, event])));
        let (found, gradients) = read(terms, &[leaf])?;
        place.same("the log-determinant with a weighted sum of the value", &[found], &[log_det + product])?;
        place.same("the pull-back", &gradients[0], &pulled)?;
    }
    Ok(())
}
