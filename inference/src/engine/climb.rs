//! Climbs to the mode of a log density by its gradients, and says where a family starts by the curvature there.

mod limited;
mod newton;

use crate::engine::family::{CovarianceMatrix, Family, real, row_major};
use crate::engine::natural::dot;
use crate::engine::trainer::units::power_of_two;
use limited::Limited;
use newton::Newton;

/// Numbers up to which all of the curvature is found, and up to which a climb is made.
const FEW: usize = 64;
const MOST: usize = 20_000;

/// A place with the log density and its gradient there.
#[derive(Debug, Clone)]
struct Place {
    point: Vec<f64>,
    value: f64,
    gradient: Vec<f64>,
}

/// The mode, or the best place on the way to one, with the curvature there.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Summit {
    pub(crate) mode: Vec<f64>,
    spread: Spread,
}

/// What is known of the curvature.
#[derive(Debug, Clone, PartialEq)]
enum Spread {
    /// All of it.
    Full {
        /// Minus the second derivatives, row-major.
        precision: Vec<f64>,
        /// Their inverse.
        covariance: Vec<f64>,
    },
    /// The conditional standard deviations alone: no matrix of so many numbers is made.
    Conditional(Vec<f64>),
}

/// Where a family starts at a mode, and the coordinates in which its parameters move.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Footing {
    pub(crate) mode: Vec<f64>,
    pub(crate) parameters: Vec<f64>,
    /// Powers of two, by which multiplication does not round.
    pub(crate) units: Vec<f64>,
    /// The Cholesky factor of the covariance, for a family of full rank.
    pub(crate) factor: Option<Vec<f64>>,
}

impl Summit {
    /// The member of a family that is nearest to the normal density with this mode and curvature, of those with its
    /// covariance, with its conditional standard deviations and with one for all of them.
    pub(crate) fn footing(&self, family: &dyn Family) -> Option<Footing> {
        let size = self.mode.len();
        let (conditional, covariance) = match &self.spread {
            Spread::Full { precision, covariance } => {
                let own: Vec<f64> = precision.iter().step_by(size + 1).map(|p| p.abs().sqrt().recip()).collect();
                (own, Some(CovarianceMatrix::Full(covariance.clone())))
            }
            Spread::Conditional(own) => (own.clone(), None),
        };
        let spreads = [Some(CovarianceMatrix::Diagonal(alike(&conditional))), covariance.clone()];
        let spreads = spreads.into_iter().flatten().chain([CovarianceMatrix::Diagonal(conditional.clone())]);
        let members = spreads.filter_map(|spread| family.with_moments(&self.mode, &spread).ok());
        let bound = |member: Vec<f64>| {
            let bound = family.entropy(&member) - 0.5 * self.cost(family, &member, &conditional);
            (bound.is_finite() && member.iter().all(|number| number.is_finite())).then_some((bound, member))
        };
        let (_, parameters) = members.filter_map(bound).max_by(|(one, _), (other, _)| one.total_cmp(other))?;
        let sds = family.deviations(&parameters);
        // A point mass moves in units of the curvature too.
        let sds = sds.iter().zip(&conditional).map(|(sd, own)| if *sd > 0.0 { *sd } else { *own });
        let by_component: Vec<f64> = sds.map(power_of_two).collect();
        let mut units = vec![0.0; parameters.len()];
        family.set_mean(&mut units, &by_component);
        units.iter_mut().filter(|unit| **unit == 0.0).for_each(|unit| *unit = 1.0);
        let factor = covariance.filter(|_| family.full_rank().is_some()).and_then(|spread| spread.cholesky().ok());
        let factor = factor.map(|factor| row_major(&factor));
        Some(Footing { mode: self.mode.clone(), parameters, units, factor })
    }

    /// The precision times the covariance of a member of a family, added up.
    fn cost(&self, family: &dyn Family, member: &[f64], conditional: &[f64]) -> f64 {
        match &self.spread {
            Spread::Full { precision, .. } => dot(precision, &family.covariance(member)),
            Spread::Conditional(_) => {
                family.deviations(member).iter().zip(conditional).map(|(sd, own)| (sd / own).powi(2)).sum()
            }
        }
    }
}

/// The one standard deviation whose precision is the mean of theirs, for each.
fn alike(deviations: &[f64]) -> Vec<f64> {
    let precision = deviations.iter().map(|sd| sd.powi(-2)).sum::<f64>() / real(deviations.len());
    vec![precision.sqrt().recip(); deviations.len()]
}

/// A climb that asks for one gradient at a time, so that it goes over any exchange. Nothing of it is random.
#[derive(Debug)]
pub(crate) enum Climb {
    /// To a mode, and all of the curvature.
    Few(Newton),
    /// Over a bounded length, and the curvature's diagonal.
    Many(Box<Limited>),
}

impl Climb {
    /// A climb from a point whose components have about these scales; `None` for none and for too many of them.
    pub(crate) fn new(point: Vec<f64>, scales: Vec<f64>) -> Option<Self> {
        match point.len() {
            1..=FEW => Some(Self::Few(Newton::new(point, &scales))),
            more if more > FEW && more <= MOST => Some(Self::Many(Box::new(Limited::new(point, scales)))),
            _ => None,
        }
    }

    /// The next point whose log density and gradient are wanted; `None` where the climb is over.
    pub(crate) fn ask(&self) -> Option<Vec<f64>> {
        match self {
            Self::Few(own) => own.ask(),
            Self::Many(own) => own.ask(),
        }
    }

    /// Takes the log density and its gradient at the point asked for; `None` where the model has none there.
    pub(crate) fn take(&mut self, found: Option<(f64, Vec<f64>)>) {
        match self {
            Self::Few(own) => own.take(found),
            Self::Many(own) => own.take(found),
        }
    }

    /// Where to start, if the climb is over and found a place for it.
    pub(crate) fn summit(self) -> Option<Summit> {
        match self {
            Self::Few(own) => own.summit(),
            Self::Many(own) => own.summit(),
        }
    }
}

/// The place at a point where log density and gradient are finite.
fn place(point: Vec<f64>, found: Option<(f64, Vec<f64>)>) -> Option<Place> {
    let finite = |(value, gradient): &(f64, Vec<f64>)| value.is_finite() && gradient.iter().all(|g| g.is_finite());
    found.filter(finite).map(|(value, gradient)| Place { point, value, gradient })
}
