//! Checks the laws of bijectors: inverses, log-determinants and pull-backs, near the middle and far in the tails.

use partita_core::{Bijector, Error, Key, Noise, NoiseStream, Purpose};

use crate::difference::{derivative, log_abs_det, within};

const SEED: u64 = 314_159;
/// Points of each scale.
const POINTS: usize = 8;
/// Scales of unconstrained points where x still tells them apart, so that u comes back and J can be differenced.
const MIDDLE: [f64; 2] = [0.5, 1.5];
/// Scales that reach past u = 30, where 1 − σ(u) is below the last digit of one.
const TAILS: [f64; 2] = [5.0, 15.0];
/// Digits lost between u and x in the middle: at most a factor of 1e6 of the last digit.
const ROUND_TRIP: f64 = 1e-9;
/// Fourth-order differences are good to about 1e-12 relative to the largest number in them; determinants amplify that.
const DIFFERENCE: f64 = 1e-7;

/// A law of [`Bijector`] that does not hold at a point.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BijectorViolation {
    /// Inverse and forward map do not undo each other.
    #[error("{bijector}: {law} gives {found} for {expected} at index {index}, from u = {point:?}")]
    RoundTrip {
        /// The map.
        bijector: String,
        /// Which way round.
        law: &'static str,
        /// The unconstrained point.
        point: Vec<f64>,
        /// The number that differs.
        index: usize,
        /// What came back.
        found: f64,
        /// What went in.
        expected: f64,
    },
    /// The log-determinant is not that of the Jacobian.
    #[error("{bijector}: log|det J| is {found}, but {law} gives {expected} at u = {point:?}")]
    LogDeterminant {
        /// The map.
        bijector: String,
        /// Where the Jacobian comes from.
        law: &'static str,
        /// The unconstrained point.
        point: Vec<f64>,
        /// What the map returned.
        found: f64,
        /// What the Jacobian gives.
        expected: f64,
    },
    /// The pull-back is not the derivative.
    #[error("{bijector}: pull-back is {found}, differences give {expected}, at index {index} of u = {point:?}")]
    Vjp {
        /// The map.
        bijector: String,
        /// The unconstrained point.
        point: Vec<f64>,
        /// The number that differs.
        index: usize,
        /// What the map wrote.
        found: f64,
        /// What the differences give.
        expected: f64,
    },
    /// The map refused a value it made itself, or the event.
    #[error("the map refused its own value: {0}")]
    Refused(#[from] Error),
}

/// Checks all laws of `bijector` for events of `event` numbers whose free entries are `free`.
///
/// # Errors
/// The first [`BijectorViolation`] found.
///
/// # Example
/// ```
/// use partita_core::SimplexMap;
/// use partita_laws as laws;
/// laws::bijector(&SimplexMap, 4, &[0, 1, 2])?;
/// # Ok::<(), laws::BijectorViolation>(())
/// ```
pub fn bijector(bijector: &dyn Bijector, event: usize, free: &[usize]) -> Result<(), BijectorViolation> {
    let mut stream = Noise::new(SEED).stream(Key::new(Purpose::Check, 0));
    let length = bijector.unconstrained_len(event)?;
    for (scale, is_middle) in MIDDLE.map(|scale| (scale, true)).into_iter().chain(TAILS.map(|scale| (scale, false))) {
        for _ in 0..POINTS {
            let point: Vec<f64> = (0..length).map(|_| scale * stream.standard_normal()).collect();
            let place = Place { bijector, event, free, point: &point };
            place.forward_after_inverse()?;
            if is_middle {
                place.inverse_after_forward()?;
                place.numerical_determinant()?;
            }
            place.pulled_back_determinant()?;
            place.vjp(&mut stream)?;
        }
    }
    Ok(())
}

/// A bijector at a point.
struct Place<'a> {
    bijector: &'a dyn Bijector,
    event: usize,
    free: &'a [usize],
    point: &'a [f64],
}

impl Place<'_> {
    fn name(&self) -> String {
        format!("{:?}", self.bijector)
    }

    fn forward(&self, point: &[f64]) -> (Vec<f64>, f64) {
        let mut x = vec![0.0; self.event];
        let log_det = self.bijector.forward(point, &mut x);
        (x, log_det)
    }

    fn inverse(&self, x: &[f64]) -> Result<Vec<f64>, BijectorViolation> {
        let mut u = vec![0.0; self.point.len()];
        self.bijector.inverse(x, &mut u)?;
        Ok(u)
    }

    fn forward_after_inverse(&self) -> Result<(), BijectorViolation> {
        let (x, _) = self.forward(self.point);
        self.equal("forward after inverse", &self.forward(&self.inverse(&x)?).0, &x)
    }

    fn inverse_after_forward(&self) -> Result<(), BijectorViolation> {
        let (x, _) = self.forward(self.point);
        self.equal("inverse after forward", &self.inverse(&x)?, self.point)
    }

    fn equal(&self, law: &'static str, found: &[f64], expected: &[f64]) -> Result<(), BijectorViolation> {
        for (index, (&found, &expected)) in found.iter().zip(expected).enumerate() {
            if !within(found, expected, ROUND_TRIP * (1.0 + expected.abs())) {
                let (bijector, point) = (self.name(), self.point.to_vec());
                return Err(BijectorViolation::RoundTrip { bijector, law, point, index, found, expected });
            }
        }
        Ok(())
    }

    fn numerical_determinant(&self) -> Result<(), BijectorViolation> {
        let n = self.point.len();
        let entry = |cell: usize| derivative(|u| self.forward(u).0[self.free[cell / n]], self.point, cell % n);
        self.determinant("the numerical Jacobian", (0..n * n).map(entry).collect())
    }

    fn pulled_back_determinant(&self) -> Result<(), BijectorViolation> {
        let (x, _) = self.forward(self.point);
        let mut jacobian = Vec::new();
        for free in self.free {
            let mut unit = vec![0.0; self.event];
            unit[*free] = 1.0;
            let mut row = vec![0.0; self.point.len()];
            self.bijector.vjp(self.point, &x, &unit, 0.0, &mut row);
            jacobian.extend(row);
        }
        self.determinant("the Jacobian made of pull-backs", jacobian)
    }

    fn determinant(&self, law: &'static str, jacobian: Vec<f64>) -> Result<(), BijectorViolation> {
        let (_, found) = self.forward(self.point);
        let expected = log_abs_det(jacobian, self.point.len());
        if within(found, expected, DIFFERENCE * (1.0 + found.abs())) {
            return Ok(());
        }
        let (bijector, point) = (self.name(), self.point.to_vec());
        Err(BijectorViolation::LogDeterminant { bijector, law, point, found, expected })
    }

    /// Checks the two parts of the pull-back apart, since one may be far larger than the other in the tails.
    fn vjp(&self, stream: &mut NoiseStream) -> Result<(), BijectorViolation> {
        let mut gradient = vec![0.0; self.event];
        self.compare_vjp(&gradient, 1.5)?;
        stream.normal(&mut gradient);
        self.compare_vjp(&gradient, 0.0)?;
        self.compare_vjp(&gradient, -0.7)
    }

    fn compare_vjp(&self, gradient: &[f64], weight: f64) -> Result<(), BijectorViolation> {
        let objective = |u: &[f64]| {
            let (x, log_det) = self.forward(u);
            x.iter().zip(gradient).map(|(x, g)| x * g).sum::<f64>() + weight * log_det
        };
        let (x, log_det) = self.forward(self.point);
        let mut out = vec![f64::NAN; self.point.len()];
        self.bijector.vjp(self.point, &x, gradient, weight, &mut out);
        let size = x.iter().zip(gradient).map(|(x, g)| (x * g).abs()).sum::<f64>() + (weight * log_det).abs();
        for (index, found) in out.into_iter().enumerate() {
            let expected = derivative(objective, self.point, index);
            if !within(found, expected, DIFFERENCE * (1.0 + size)) {
                let (bijector, point) = (self.name(), self.point.to_vec());
                return Err(BijectorViolation::Vjp { bijector, point, index, found, expected });
            }
        }
        Ok(())
    }
}
