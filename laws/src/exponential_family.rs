//! Checks the laws of exponential families: means, divergence and entropy against differences, quadrature and draws.

mod integral;

use faer::Mat;
use faer::linalg::solvers::Llt;
use integral::integral;
use partita_core::{Key, Noise, Purpose};
use partita_inference::ExponentialFamily;

use crate::difference::within;
use crate::moments::{dot, mean_and_variance};
use crate::{Violation, derivative};

const SEED: u64 = 264_575;
/// Differences of fourth order lose about 1e-11 of the largest number in them.
const DIFFERENCE: f64 = 1e-8;
/// A map and its inverse lose a few thousand last digits, for the condition of a covariance.
const EXACT: f64 = 1e-12;
/// The quadrature's own error for members of moderate scale is far below this.
const QUADRATURE: f64 = 1e-9;
/// Quadrature is for vectors this short.
const LONGEST: usize = 2;
const DRAWS: u32 = 20_000;
/// Standard errors allowed of a mean over draws: a correct family fails one comparison with probability 6e-7.
const STANDARD_ERRORS: f64 = 5.0;

/// A law of [`ExponentialFamily`].
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ExponentialFamilyLaw {
    /// A vector has another length than the family states.
    #[error("{vector} has {found} numbers, expected {expected}")]
    Length {
        /// The vector.
        vector: &'static str,
        /// Its length.
        found: usize,
        /// The length the family states.
        expected: usize,
    },
    /// A closed form is not the derivative it claims to be.
    #[error("{of} {index} is {found}, differences give {expected}")]
    Derivative {
        /// The closed form.
        of: &'static str,
        /// The entry.
        index: usize,
        /// What the family says.
        found: f64,
        /// What the differences give.
        expected: f64,
    },
    /// The covariance of the statistics is not positive definite: one is a linear function of the others.
    #[error("the derivatives of its mean parameters are no positive definite matrix")]
    Minimal,
    /// A map is not the inverse of the other.
    #[error("natural parameter {index} comes back from {through} as {found}, it was {expected}")]
    Inverse {
        /// The parameters it went through.
        through: &'static str,
        /// The entry.
        index: usize,
        /// What came back.
        found: f64,
        /// What it was.
        expected: f64,
    },
    /// A number differs from its integral.
    #[error("{of} is {found}, quadrature gives {expected}")]
    Integral {
        /// The number.
        of: &'static str,
        /// What the family says.
        found: f64,
        /// What quadrature gives.
        expected: f64,
    },
    /// A mean differs from that over draws.
    #[error("{of} is {found}, draws give {expected} ± {bound}")]
    Draws {
        /// The mean.
        of: String,
        /// What the family says.
        found: f64,
        /// The mean over draws.
        expected: f64,
        /// The largest difference allowed.
        bound: f64,
    },
    /// Parameters of a density were refused.
    #[error("{what} of a density were refused: {reason}")]
    Refused {
        /// The parameters.
        what: &'static str,
        /// What the family said.
        reason: String,
    },
    /// Parameters of no density were taken.
    #[error("{what}, parameters of no density, were taken")]
    Accepted {
        /// The parameters.
        what: &'static str,
    },
}

use ExponentialFamilyLaw as Law;

/// Checks all laws of an exponential family at `members`, given by standard parameters of moderate size.
///
/// Vectors of one or two components are integrated numerically, over numbers of both signs, or over positive ones where
/// the statistics exist only there; longer ones are drawn.
///
/// # Errors
/// The first [`ExponentialFamilyLaw`] that does not hold.
///
/// # Example
/// ```
/// use partita_inference::NormalFamily;
/// use partita_laws::exponential_family;
/// exponential_family(&NormalFamily::diagonal(1), &[vec![0.3, 0.8], vec![-0.4, 1.4]])?;
/// # Ok::<(), partita_laws::Violation<partita_laws::ExponentialFamilyLaw>>(())
/// ```
pub fn exponential_family(
    family: &dyn ExponentialFamily,
    members: &[Vec<f64>],
) -> Result<(), Violation<ExponentialFamilyLaw>> {
    let name = format!("{family:?}");
    let mut naturals = Vec::new();
    for standard in members {
        let refused = |error: partita_inference::Error| refused(&name, "standard parameters", &error);
        naturals.push(family.natural_of_standard(standard).map_err(refused)?);
    }
    for (number, (natural, standard)) in naturals.iter().zip(members).enumerate() {
        let other = &naturals[(number + 1) % naturals.len()];
        let member = Member { family, name: name.clone(), natural, other };
        member.lengths(standard)?;
        member.is_proper()?;
        member.impropriety(standard)?;
        member.derivatives()?;
        member.inverses(standard)?;
        if family.len() <= LONGEST {
            member.integrals()?;
        }
        member.draws(number as u64)?;
    }
    Ok(())
}

type Checked = Result<(), Violation<ExponentialFamilyLaw>>;

fn refused(family: &str, what: &'static str, error: &partita_inference::Error) -> Violation<ExponentialFamilyLaw> {
    Violation { subject: family.to_owned(), law: Law::Refused { what, reason: error.to_string() } }
}

/// A member of a family, and another one to compare it with.
struct Member<'a> {
    family: &'a dyn ExponentialFamily,
    name: String,
    natural: &'a [f64],
    other: &'a [f64],
}

impl Member<'_> {
    fn broken(&self, law: Law) -> Checked {
        Violation::of(&self.name, law)
    }

    /// A point of the support: its mean parameters begin or end with the vector's means, so a draw is asked.
    fn point(&self) -> Vec<f64> {
        self.family.draw(self.natural, &mut Noise::new(SEED).stream(Key::new(Purpose::Check, 0)))
    }

    fn lengths(&self, standard: &[f64]) -> Checked {
        let (family, natural, point) = (self.family, self.natural, self.point());
        let lengths = [
            ("natural parameters", natural.len(), family.natural_len()),
            ("the statistics", family.statistics(&point).len(), family.natural_len()),
            ("mean parameters", family.mean_parameters(natural).len(), family.natural_len()),
            ("standard parameters", family.standard(natural).len(), standard.len()),
            ("a draw", point.len(), family.len()),
            ("a score", family.score(natural, &point).len(), family.len()),
        ];
        match lengths.into_iter().find(|(_, found, expected)| found != expected) {
            None => Ok(()),
            Some((vector, found, expected)) => self.broken(Law::Length { vector, found, expected }),
        }
    }

    fn is_proper(&self) -> Checked {
        let checked = self.family.check("checking the laws", self.natural);
        checked.map_err(|error| refused(&self.name, "natural parameters", &error))
    }

    /// No $`\eta`$ and $`-\eta`$ are both densities on an unbounded support, nor is 0, nor what is not finite; the
    /// statistics at one point are the means of no member.
    fn impropriety(&self, standard: &[f64]) -> Checked {
        let accepted = |what| self.broken(Law::Accepted { what });
        let negative = |values: &[f64]| values.iter().map(|value| -value).collect::<Vec<f64>>();
        let zero = vec![0.0; self.natural.len()];
        let refuses = |natural: &[f64]| self.family.check("checking the laws", natural).is_err();
        if !refuses(&negative(self.natural)) {
            return accepted("negated natural parameters");
        }
        if !refuses(&zero) {
            return accepted("natural parameters of zero");
        }
        for index in 0..self.natural.len() {
            for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                let mut natural = self.natural.to_vec();
                natural[index] = value;
                if !refuses(&natural) {
                    return accepted("natural parameters that are not finite");
                }
            }
        }
        if self.family.natural_of_mean(&self.family.statistics(&self.point())).is_ok() {
            return accepted("the statistics at one point as mean parameters");
        }
        if self.family.natural_of_standard(&negative(standard)).is_ok() {
            return accepted("negated standard parameters");
        }
        Ok(())
    }

    fn compare(&self, of: &'static str, found: &[f64], expected: impl Fn(usize) -> f64) -> Checked {
        let size = found.iter().fold(1.0_f64, |size, value| size.max(value.abs()));
        for (index, &found) in found.iter().enumerate() {
            let expected = expected(index);
            if !within(found, expected, DIFFERENCE * size) {
                return self.broken(Law::Derivative { of, index, found, expected });
            }
        }
        Ok(())
    }

    fn derivatives(&self) -> Checked {
        let (family, natural) = (self.family, self.natural);
        let means = family.mean_parameters(natural);
        self.compare("mean parameter", &means, |index| derivative(|eta| family.log_partition(eta), natural, index))?;
        let point = self.point();
        // A factor has a score whether it is a density or not.
        for sign in [1.0, -1.0] {
            let factor: Vec<f64> = natural.iter().map(|eta| sign * eta).collect();
            let log_factor = |point: &[f64]| dot(&factor, &family.statistics(point));
            let score = family.score(&factor, &point);
            self.compare("score", &score, |index| derivative(log_factor, &point, index))?;
        }
        let length = natural.len();
        let slope = |i: usize, j: usize| derivative(|eta| family.mean_parameters(eta)[i], natural, j);
        let covariance = Mat::from_fn(length, length, slope);
        match Llt::new(covariance.as_ref(), faer::Side::Lower) {
            Ok(_) => Ok(()),
            Err(_) => self.broken(Law::Minimal),
        }
    }

    fn inverses(&self, standard: &[f64]) -> Checked {
        let (family, natural) = (self.family, self.natural);
        let size = natural.iter().fold(1.0_f64, |size, value| size.max(value.abs()));
        let back = |through, found: partita_inference::Result<Vec<f64>>| {
            let found = found.map_err(|error| refused(&self.name, through, &error))?;
            let mut pairs = found.iter().zip(natural).enumerate();
            match pairs.find(|(_, (found, expected))| !within(**found, **expected, EXACT * size)) {
                None => Ok(()),
                Some((index, (&found, &expected))) => self.broken(Law::Inverse { through, index, found, expected }),
            }
        };
        back("mean parameters", family.natural_of_mean(&family.mean_parameters(natural)))?;
        back("standard parameters", family.natural_of_standard(&family.standard(natural)))?;
        let mut pairs = family.standard(natural).into_iter().zip(standard).enumerate();
        match pairs.find(|(_, (found, expected))| !within(*found, **expected, EXACT * size)) {
            None => Ok(()),
            Some((index, (found, &expected))) => {
                let through = "natural parameters, as a standard parameter,";
                self.broken(Law::Inverse { through, index, found, expected })
            }
        }
    }

    /// $`\log q`$ and $`\log p`$ of this member and the other, from statistics.
    fn log_densities(&self) -> impl Fn(&[f64]) -> [f64; 2] {
        let members = [self.natural, self.other].map(|natural| (natural, self.family.log_partition(natural)));
        move |statistics| members.map(|(natural, constant)| dot(natural, statistics) - constant)
    }

    fn integrals(&self) -> Checked {
        let (family, q, p) = (self.family, self.natural, self.other);
        let found = [1.0, family.entropy(q), family.kl_divergence(q, p)];
        let log_densities = self.log_densities();
        let expected = integral(family.len(), |point| {
            let statistics = family.statistics(point);
            if statistics.iter().any(|value| !value.is_finite()) {
                return [0.0; 3];
            }
            let [own, other] = log_densities(&statistics);
            let density = own.exp();
            if density == 0.0 { [0.0; 3] } else { [density, -density * own, density * (own - other)] }
        });
        let names = ["the density's integral", "the entropy", "the Kullback-Leibler divergence"];
        for ((of, found), expected) in names.into_iter().zip(found).zip(expected) {
            if !within(found, expected, QUADRATURE * (1.0 + expected.abs())) {
                return self.broken(Law::Integral { of, found, expected });
            }
        }
        Ok(())
    }

    fn draws(&self, number: u64) -> Checked {
        let (family, q, p) = (self.family, self.natural, self.other);
        let mut stream = Noise::new(SEED).stream(Key::new(Purpose::Check, number + 1));
        let mut columns = vec![Vec::new(); family.natural_len() + 2];
        let log_densities = self.log_densities();
        for _ in 0..DRAWS {
            let statistics = family.statistics(&family.draw(q, &mut stream));
            let [own, other] = log_densities(&statistics);
            let seen = statistics.into_iter().chain([-own, own - other]);
            columns.iter_mut().zip(seen).for_each(|(column, value)| column.push(value));
        }
        let mut found = family.mean_parameters(q);
        found.extend([family.entropy(q), family.kl_divergence(q, p)]);
        for (index, (column, found)) in columns.iter().zip(found).enumerate() {
            let (expected, variance) = mean_and_variance(column);
            let bound = STANDARD_ERRORS * (variance / f64::from(DRAWS)).sqrt() + EXACT * (1.0 + expected.abs());
            if !within(found, expected, bound) {
                let of = match index.checked_sub(family.natural_len()) {
                    None => format!("mean parameter {index}"),
                    Some(0) => "the entropy".to_owned(),
                    Some(_) => "the Kullback-Leibler divergence".to_owned(),
                };
                return self.broken(Law::Draws { of, found, expected, bound });
            }
        }
        Ok(())
    }
}
