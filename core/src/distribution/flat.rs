//! Gives the improper flat prior on the real numbers, which no number can be drawn from.

use super::batch::{Continuous, Distribution};
use super::law::Law;
use super::{Density, Gradient, ParameterRule, Signature, Support, Term};
use crate::noise::NoiseStream;

/// The improper distribution with log density 0 at every real number.
///
/// Its integral is infinite: the posterior exists only if the data determine the latent. The table of sites marks it as
/// improper, and drawing from it or from a prior that contains it is [`Error::Improper`](crate::Error::Improper).
///
/// # Example
/// ```
/// use partita_core::{Array, Error, Flat, Key, Noise, Purpose};
/// let flat = Flat::new().iid([2]);
/// assert_eq!(flat.log_prob_of(&Array::new(vec![3.0, -1e9], vec![2])?)?, 0.0);
/// let mut noise = Noise::new(1).stream(Key::new(Purpose::Prior, 0));
/// assert!(matches!(flat.draw(&mut noise), Err(Error::Improper { .. })));
/// # Ok::<(), partita_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Flat;

impl Flat {
    /// The flat distribution of one number; `iid` gives more.
    #[expect(clippy::new_ret_no_self, reason = "the density is a marker; what a model uses is the distribution")]
    #[must_use]
    pub fn new() -> Distribution<1, Continuous> {
        Distribution::from_law(Law::of(&Self))
    }
}

impl Signature for Flat {
    fn name(&self) -> &'static str {
        "Flat"
    }

    fn parameters(&self) -> &'static [ParameterRule] {
        &[]
    }

    fn support(&self, _: [&[f64]; 3]) -> Support {
        Support::Real
    }
}

impl Density for Flat {
    fn is_improper(&self) -> bool {
        true
    }

    fn log_prob(&self, _: &[f64], _: [&[f64]; 3], _: &mut Gradient<'_>) -> f64 {
        0.0
    }

    fn on_device(&self, _: Term, _: [Term; 3]) -> Option<Vec<Term>> {
        Some(vec![0.0.into()])
    }

    fn draw(&self, _: [&[f64]; 3], _: &mut NoiseStream, out: &mut [f64]) {
        out.fill(f64::NAN);
    }
}
