//! Checks the laws of averages: of equal members it is that member, and equal weights know no order.

use partita_core::{Key, Noise, Purpose};
use partita_inference::{Averaging, DiagonalGaussian, Family, FullRankGaussian, IsotropicGaussian};

use crate::Violation;
use crate::difference::within;

const SEED: u64 = 141_421;
/// Components of the families whose members are averaged.
const LENGTH: usize = 3;
/// Averages found by iteration end at a relative change of 1e-12.
const SAME: f64 = 1e-10;

/// A law of [`Averaging`].
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AveragingLaw {
    /// The average ended with an error.
    #[error("{reason}")]
    Failed {
        /// The error.
        reason: String,
    },
    /// The average has another number of parameters than a member.
    #[error("{found} parameters, a member has {expected}")]
    Length {
        /// Its parameters.
        found: usize,
        /// Those of a member.
        expected: usize,
    },
    /// The average of equal members is another.
    #[error("parameter {index} of equal members is {expected}, of their average {found}")]
    Equal {
        /// The parameter.
        index: usize,
        /// That of the average.
        found: f64,
        /// That of each member.
        expected: f64,
    },
    /// In another order members with equal weights have another average.
    #[error("parameter {index} is {found} in another order of the members, {expected} before")]
    Order {
        /// The parameter.
        index: usize,
        /// That in the other order.
        found: f64,
        /// That in the first.
        expected: f64,
    },
    /// Members that are added up one by one have another average.
    #[error("parameter {index} of members one by one is {found}, of all at once {expected}")]
    Means {
        /// The parameter.
        index: usize,
        /// That of the mean of their numbers.
        found: f64,
        /// That of all of them.
        expected: f64,
    },
}

/// Checks an average over members of diagonal, isotropic and full-rank Gaussians: that of equal members is that member,
/// whatever the weights, that of members with equal weights does not depend on their order, and where it is a mean of numbers
/// ([`Averaging::means`]) that mean gives it, all to 1e-10.
///
/// # Errors
/// The first [`AveragingLaw`] that does not hold.
///
/// # Example
/// ```
/// partita_laws::averaging(&partita_inference::Barycentre)?;
/// # Ok::<(), partita_laws::Violation<partita_laws::AveragingLaw>>(())
/// ```
pub fn averaging(average: &dyn Averaging) -> Result<(), Violation<AveragingLaw>> {
    let families: [Box<dyn Family>; 3] = [
        Box::new(DiagonalGaussian::new(LENGTH)),
        Box::new(IsotropicGaussian::new(LENGTH)),
        Box::new(FullRankGaussian::new(LENGTH)),
    ];
    families.iter().try_for_each(|family| {
        over(average, &**family).map_err(|law| Violation { subject: format!("{average:?} over {family:?}"), law })
    })
}

fn over(average: &dyn Averaging, family: &dyn Family) -> Result<(), AveragingLaw> {
    let failed = |error: partita_inference::Error| AveragingLaw::Failed { reason: error.to_string() };
    let of = |members: &[Vec<f64>], weights: &[f64]| {
        let found = average.average(family, members, weights).map_err(failed)?;
        let (length, expected) = (found.len(), family.parameter_len());
        match length == expected {
            true => Ok(found),
            false => Err(AveragingLaw::Length { found: length, expected }),
        }
    };
    let different = |found: &[f64], expected: &[f64]| {
        found.iter().zip(expected).position(|(a, b)| !within(*a, *b, SAME * (1.0 + b.abs())))
    };
    let [a, b, c] = [0, 1, 2].map(|number| member(family, number));
    let equal = of(&[a.clone(), a.clone(), a.clone()], &[0.2, 0.5, 0.3])?;
    if let Some(index) = different(&equal, &a) {
        return Err(AveragingLaw::Equal { index, found: equal[index], expected: a[index] });
    }
    let weights = [1.0 / 3.0; 3];
    let (first, second) =
        (of(&[a.clone(), b.clone(), c.clone()], &weights)?, of(&[c.clone(), a.clone(), b.clone()], &weights)?);
    if let Some(index) = different(&second, &first) {
        return Err(AveragingLaw::Order { index, found: second[index], expected: first[index] });
    }
    let Some(means) = average.means(family, &a) else { return Ok(()) };
    let (members, weights) = ([a, b, c], [0.2, 0.5, 0.3]);
    let mut sum = Vec::new();
    for (member, weight) in members.iter().zip(weights) {
        let own = (means.of)(family, member).map_err(failed)?;
        sum.resize(own.len(), 0.0);
        sum.iter_mut().zip(own).for_each(|(sum, own)| *sum += weight * own);
    }
    let (found, expected) = ((means.back)(family, &sum).map_err(failed)?, of(&members, &weights)?);
    match different(&found, &expected) {
        None => Ok(()),
        Some(index) => Err(AveragingLaw::Means { index, found: found[index], expected: expected[index] }),
    }
}

/// A member of a family, not far from its start.
fn member(family: &dyn Family, number: u64) -> Vec<f64> {
    let mut parameters = family.initial(0.7);
    let mut noise = vec![0.0; parameters.len()];
    Noise::new(SEED).stream(Key::new(Purpose::Check, number)).normal(&mut noise);
    parameters.iter_mut().zip(noise).for_each(|(parameter, noise)| *parameter += 0.3 * noise);
    parameters
}
