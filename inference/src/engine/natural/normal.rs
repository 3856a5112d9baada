//! Gives the normal densities as an exponential family: independent components, any covariance, or parts of either.

mod gradient;
mod independent;
mod piece;

pub(crate) use gradient::PartFactor;
pub use piece::CovarianceForm;

use std::iter::repeat_n;

use faer::Mat;
use faer::linalg::solvers::{DenseSolveCore, Llt};
use partita_core::NoiseStream;

use super::triangle::{each, pack, unpack};
use super::{ExponentialFamily, Impropriety, dot, kl_by_means};
use crate::engine::error::{Error, Result};
use crate::engine::family::{CovarianceMatrix, Family, real, shared_variance};
use piece::{Part, Piece};

/// Normal densities $`N(\mu, \Lambda^{-1})`$ over one vector whose components come in independent parts, each diagonal,
/// isotropic or with any covariance.
///
/// # Shapes
/// Natural parameters: $`\Lambda\mu`$ `(n)`, then part by part, for a diagonal one $`-\tfrac12\Lambda_{ii}`$ of each
/// component, for an isotropic one, with $`\Lambda = \lambda I`$, the one number $`-\tfrac12\lambda`$, for a full one
/// the pairs $`i \ge j`$ row by row, $`-\tfrac12\Lambda_{ii}`$ and $`-\Lambda_{ij}`$. The statistics are $`\theta`$ and
/// the products $`\theta_i\theta_j`$ of the same pairs, for an isotropic part $`\sum_i\theta_i^2`$. Standard
/// parameters: $`\mu`$ `(n)`, then the standard deviations of a diagonal part, the one of an isotropic part, the packed
/// covariance of a full part.
///
/// # Example
/// ```
/// use partita_inference::{ExponentialFamily, NormalFamily};
/// let family = NormalFamily::full(2);
/// let natural = family.natural_of_standard(&[1.0, 2.0, 2.0, 0.5, 1.0])?;
/// let back = family.standard(&natural);
/// assert!((back[3] - 0.5).abs() < 1e-15);
/// assert!((family.entropy(&natural) - (1.0 + (2.0 * std::f64::consts::PI).ln() + 0.5 * 1.75_f64.ln())).abs() < 1e-14);
/// # Ok::<(), partita_inference::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NormalFamily {
    parts: Vec<Part>,
    len: usize,
}

impl NormalFamily {
    /// Independent components.
    #[must_use]
    pub fn diagonal(len: usize) -> Self {
        Self::whole(len, CovarianceForm::Diagonal)
    }

    /// Independent components of one variance, $`N(\mu, \lambda^{-1}I)`$: one uncertainty for all.
    ///
    /// ```math
    /// \eta = \bigl(h, -\tfrac12\lambda\bigr), \qquad T = \bigl(\theta, |\theta|^2\bigr), \qquad
    /// A(\eta) = \frac{|h|^2}{2\lambda} - \frac n2\log\lambda + \frac n2\log 2\pi, \qquad
    /// m = \Bigl(\mu, |\mu|^2 + \frac n\lambda\Bigr)
    /// ```
    /// with $`h = \lambda\mu`$ and $`n`$ = `len`. It is closed under products, quotients and powers as the others are,
    /// with $`n + 1`$ numbers to send. Of components on different scales it says what is true of their mean alone.
    ///
    /// # Shapes
    /// Natural and mean parameters `(n + 1)`; standard parameters: $`\mu`$ `(n)`, then one standard deviation.
    ///
    /// # Numerics
    /// The optimum of a quadratic problem has the mean of its precisions as $`\lambda`$. Along a direction of precision
    /// $`w`$ natural-gradient steps of rate $`\rho`$ move the mean by $`\rho w/\lambda`$ of the way there, so that they
    /// need $`\rho < 2\lambda/w`$.
    ///
    /// # Example
    /// ```
    /// use partita_inference::{ExponentialFamily, NormalFamily};
    /// let family = NormalFamily::isotropic(2);
    /// let natural = family.natural_of_standard(&[1.0, 2.0, 0.5])?;
    /// assert_eq!(natural, [4.0, 8.0, -2.0]);
    /// // |μ|² + n/λ = 5 + 2/4.
    /// assert_eq!(family.mean_parameters(&natural), [1.0, 2.0, 5.5]);
    /// # Ok::<(), partita_inference::Error>(())
    /// ```
    #[must_use]
    pub fn isotropic(len: usize) -> Self {
        Self::whole(len, CovarianceForm::Isotropic)
    }

    /// Any covariance.
    #[must_use]
    pub fn full(len: usize) -> Self {
        Self::whole(len, CovarianceForm::Full)
    }

    /// One part with all components.
    fn whole(len: usize, form: CovarianceForm) -> Self {
        Self { parts: vec![Part { components: (0..len).collect(), form }], len }
    }

    /// Independent parts: their components, and the form of the covariance of each.
    ///
    /// # Errors
    /// [`Error::Setting`] unless the parts together have every component from 0 on once.
    pub fn of_parts(parts: Vec<(Vec<usize>, CovarianceForm)>) -> Result<Self> {
        let len = parts.iter().map(|(components, _)| components.len()).sum();
        let mut seen = vec![false; len];
        for &component in parts.iter().flat_map(|(components, _)| components) {
            let problem = match seen.get_mut(component).map(|seen| std::mem::replace(seen, true)) {
                Some(false) => continue,
                Some(true) => "twice",
                None => "which leaves out one before it",
            };
            let found = format!("component {component} of {len}, {problem}");
            let expected = "every component from 0 on once: the parts are disjoint and leave none out";
            return Err(Error::Setting { setting: "parts of a normal family", found, expected });
        }
        Ok(Self { parts: parts.into_iter().map(|(components, form)| Part { components, form }).collect(), len })
    }

    /// Whether all components are independent.
    #[must_use]
    pub fn is_diagonal(&self) -> bool {
        self.parts.iter().all(|part| part.group().is_some() || part.components.len() <= 1)
    }

    /// Whether there is one diagonal part, with components in order: natural parameters are $`h`$, then
    /// $`-\tfrac12\lambda`$.
    pub(crate) fn is_plain(&self) -> bool {
        let [Part { components, form: CovarianceForm::Diagonal }] = self.parts.as_slice() else { return false };
        components.iter().copied().eq(0..self.len)
    }

    /// Each part with its share of what stands behind the first `n` parameters.
    fn blocks<'a>(&'a self, behind: &'a [f64]) -> impl Iterator<Item = (&'a Part, &'a [f64])> {
        let mut rest = behind;
        self.parts.iter().map(move |part| {
            let (own, others) = rest.split_at(part.second_len());
            rest = others;
            (part, own)
        })
    }

    fn pieces<'a>(&'a self, natural: &'a [f64]) -> impl Iterator<Item = Piece<'a>> {
        let (first, behind) = natural.split_at(self.len);
        self.blocks(behind).map(move |(part, second)| {
            let first = part.components.iter().map(|&component| first[component]).collect();
            Piece { part, first, second }
        })
    }

    /// Components of each part with their mean, and covariance or standard deviations, of a proper member.
    pub(crate) fn moments_by_part<'a>(
        &'a self,
        natural: &'a [f64],
    ) -> impl Iterator<Item = (&'a [usize], Vec<f64>, CovarianceMatrix)> {
        self.pieces(natural).map(|piece| {
            let (mean, spread) = piece.moments();
            (piece.part.components.as_slice(), mean, spread)
        })
    }

    /// Mean, and covariance or standard deviations, of a proper member.
    #[must_use]
    pub fn moments(&self, natural: &[f64]) -> (Vec<f64>, CovarianceMatrix) {
        let mut mean = vec![0.0; self.len];
        let mut spreads = Vec::new();
        for (components, own, spread) in self.moments_by_part(natural) {
            components.iter().zip(own).for_each(|(&component, own)| mean[component] = own);
            spreads.push((components.to_vec(), spread));
        }
        (mean, CovarianceMatrix::join(spreads, self.len))
    }

    /// Natural parameters of the member with this mean and covariance; of a diagonal part, with these variances, of an
    /// isotropic one, with their mean. Of all members $`q`$ it has the least $`\mathrm{KL}(p \,\|\, q)`$ from a density
    /// $`p`$ of these moments.
    ///
    /// # Errors
    /// [`Error::Improper`] for a covariance that is not positive definite.
    pub fn natural_of_moments(&self, mean: &[f64], spread: &CovarianceMatrix) -> Result<Vec<f64>> {
        let mut natural = vec![0.0; self.len];
        for part in &self.parts {
            let (second, precision) = Self::second_of(part, &spread.part(&part.components))?;
            let own: Vec<f64> = part.components.iter().map(|&component| mean[component]).collect();
            for (i, &component) in part.components.iter().enumerate() {
                natural[component] = match &precision {
                    Precision::Diagonal(precision) => precision[i] * own[i],
                    Precision::Full(precision) => (0..own.len()).map(|j| precision[(i, j)] * own[j]).sum(),
                };
            }
            natural.extend(second);
        }
        self.check("natural parameters from moments", &natural)?;
        Ok(natural)
    }

    /// The second block of a part's natural parameters from its covariance, with its precision.
    fn second_of(part: &Part, spread: &CovarianceMatrix) -> Result<(Vec<f64>, Precision)> {
        if let Some(group) = part.group() {
            let (mut second, mut precisions) = (Vec::new(), Vec::new());
            for own in spread.deviations().chunks(group) {
                let precision = shared_variance(own).recip();
                second.push(-0.5 * precision);
                precisions.extend(repeat_n(precision, own.len()));
            }
            return Ok((second, Precision::Diagonal(precisions)));
        }
        let decomposed = Llt::new(spread.matrix().as_ref(), faer::Side::Lower).map_err(|_| Error::Improper {
            operation: "natural parameters from a covariance".into(),
            component: format!(
                "components {:?}: the covariance is not positive definite; its determinant",
                part.components
            ),
            found: spread.matrix().determinant(),
        })?;
        let precision = decomposed.inverse();
        Ok((pack(&precision, -0.5, -1.0), Precision::Full(precision)))
    }

    /// Natural parameters of the factor whose logarithm has the gradient `linear` at zero, and minus the second
    /// derivatives `curvature`, column by column, or their diagonal alone; those between independent components are
    /// left out, and components of one variance all have the mean of theirs.
    ///
    /// # Shapes
    /// `linear` as many numbers as the family has components $`d`$; `curvature` $`d`$ columns of $`d`$, or one of
    /// $`d`$.
    ///
    /// # Examples
    /// ```
    /// // exp(2x − 3x²/2): precision 3, mean 2/3.
    /// let natural = partita_inference::NormalFamily::diagonal(1).natural_of_curvature(&[2.0], &[vec![3.0]]);
    /// assert_eq!(natural, [2.0, -1.5]);
    /// ```
    pub fn natural_of_curvature(&self, linear: &[f64], curvature: &[Vec<f64>]) -> Vec<f64> {
        let at = |i: usize, j: usize| match curvature {
            [diagonal] => {
                if i == j {
                    diagonal[i]
                } else {
                    0.0
                }
            }
            columns => 0.5 * (columns[j][i] + columns[i][j]),
        };
        let mut natural = linear.to_vec();
        for part in &self.parts {
            if let Some(group) = part.group() {
                let mean = |own: &[usize]| own.iter().map(|&i| at(i, i)).sum::<f64>() / real(own.len());
                natural.extend(part.components.chunks(group).map(|own| -0.5 * mean(own)));
                continue;
            }
            let own = |place: usize| part.components[place];
            let weight = |i, j| if i == j { -0.5 } else { -1.0 };
            natural.extend(each(part.components.len()).map(|(i, j)| weight(i, j) * at(own(i), own(j))));
        }
        natural
    }

    /// The same factor in the natural parameters of [`NormalFamily::full`].
    pub(crate) fn as_full(&self, natural: &[f64]) -> Vec<f64> {
        let mut precision = Mat::zeros(self.len, self.len);
        for piece in self.pieces(natural) {
            let own = piece.precision();
            for (i, &row) in piece.part.components.iter().enumerate() {
                for (j, &column) in piece.part.components.iter().enumerate() {
                    precision[(row, column)] = own[(i, j)];
                }
            }
        }
        [natural[..self.len].to_vec(), pack(&precision, -0.5, -1.0)].concat()
    }

    /// The member $`q`$ with the mean of a density $`p`$ = `full` of [`NormalFamily::full`], and with its precision
    /// $`\Lambda`$ within each part, in an isotropic one $`\lambda = \mathrm{tr}\,\Lambda/n`$: the one with the least
    /// $`\mathrm{KL}(q \,\|\, p)`$, which for $`\lambda`$ is $`\tfrac12(\mathrm{tr}\,\Lambda/\lambda + n\log\lambda)`$
    /// up to a constant.
    pub(crate) fn with_precision_of(&self, mean: &[f64], full: &[f64]) -> Vec<f64> {
        let precision = unpack(self.len, &full[self.len..], -2.0, -1.0);
        let columns: Vec<Vec<f64>> =
            (0..self.len).map(|j| (0..self.len).map(|i| precision[(i, j)]).collect()).collect();
        let centred = self.natural_of_curvature(&vec![0.0; self.len], &columns);
        // Of a factor without linear part the score at the mean is minus what the linear part has to be.
        let linear = self.score(&centred, mean).into_iter().map(|score| -score).collect::<Vec<f64>>();
        [&linear, &centred[self.len..]].concat()
    }

    /// Natural parameters of a member of a variational family.
    ///
    /// # Errors
    /// [`Error::Improper`] where a scale has run to zero or infinity.
    pub fn natural_of_member(&self, family: &dyn Family, parameters: &[f64]) -> Result<Vec<f64>> {
        self.natural_of_moments(&family.mean(parameters), &family.covariance_matrix(parameters))
    }

    /// The parameters of the member of a variational family with these proper natural parameters.
    ///
    /// # Errors
    /// As for [`Family::with_moments`].
    pub fn member(&self, family: &dyn Family, natural: &[f64]) -> Result<Vec<f64>> {
        let (mean, spread) = self.moments(natural);
        family.with_moments(&mean, &spread)
    }
}

enum Precision {
    Diagonal(Vec<f64>),
    Full(Mat<f64>),
}

impl NormalFamily {
    /// Takes out of a change of a factor the components to which it would give a negative precision, those of one
    /// variance together; how many there were.
    pub(crate) fn hold_improper(&self, factor: &[f64], change: &mut [f64]) -> u64 {
        let (first, second) = change.split_at_mut(self.len);
        let own = &factor[self.len..];
        let groups = self.parts.iter().flat_map(|part| part.components.chunks(part.group().unwrap_or(1)));
        let mut held = 0;
        for ((components, own), second) in groups.zip(own).zip(second) {
            // The second natural parameter is minus half the precision.
            if own + *second > 0.0 {
                components.iter().for_each(|&component| first[component] = 0.0);
                *second = 0.0;
                held += components.len() as u64;
            }
        }
        held
    }
}

impl ExponentialFamily for NormalFamily {
    fn len(&self) -> usize {
        self.len
    }

    fn natural_len(&self) -> usize {
        self.len + self.parts.iter().map(Part::second_len).sum::<usize>()
    }

    fn statistics(&self, point: &[f64]) -> Vec<f64> {
        let mut all = point.to_vec();
        for part in &self.parts {
            if let Some(group) = part.group() {
                let square = |own: &[usize]| own.iter().map(|&i| point[i] * point[i]).sum::<f64>();
                all.extend(part.components.chunks(group).map(square));
                continue;
            }
            let own = |place: usize| point[part.components[place]];
            all.extend(each(part.components.len()).map(|(i, j)| own(i) * own(j)));
        }
        all
    }

    fn impropriety(&self, natural: &[f64]) -> Option<Impropriety> {
        if self.is_plain() && independent::is_proper(natural) {
            return None;
        }
        self.pieces(natural).find_map(|piece| piece.impropriety())
    }

    fn log_partition(&self, natural: &[f64]) -> f64 {
        self.pieces(natural).map(|piece| piece.log_partition()).sum()
    }

    fn kl_divergence(&self, q: &[f64], p: &[f64]) -> f64 {
        if self.is_plain() { independent::kl_divergence(q, p) } else { kl_by_means(self, q, p) }
    }

    fn mean_parameters(&self, natural: &[f64]) -> Vec<f64> {
        let mut means = vec![0.0; self.len];
        for piece in self.pieces(natural) {
            let (mean, spread) = piece.moments();
            piece.part.components.iter().zip(&mean).for_each(|(&component, own)| means[component] = *own);
            match spread {
                CovarianceMatrix::Diagonal(sds) => {
                    let group = piece.part.group().unwrap_or(1);
                    let groups = sds.chunks(group).zip(mean.chunks(group));
                    means.extend(groups.map(|(sds, mean)| dot(sds, sds) + dot(mean, mean)));
                }
                CovarianceMatrix::Full(covariance) => {
                    let size = mean.len();
                    means.extend(each(size).map(|(i, j)| covariance[i * size + j] + mean[i] * mean[j]));
                }
            }
        }
        means
    }

    fn natural_of_mean(&self, mean_parameters: &[f64]) -> Result<Vec<f64>> {
        let (mean, behind) = mean_parameters.split_at(self.len);
        let mut spreads = Vec::new();
        for (part, second) in self.blocks(behind) {
            let own: Vec<f64> = part.components.iter().map(|&component| mean[component]).collect();
            let spread = match part.group() {
                Some(group) => {
                    let groups = own.chunks(group).zip(second);
                    CovarianceMatrix::Diagonal(
                        groups.flat_map(|(mean, square)| shared_deviation(mean, *square)).collect(),
                    )
                }
                None => {
                    let products = each(own.len()).zip(second);
                    let covariance = products.map(|((i, j), product)| product - own[i] * own[j]).collect::<Vec<_>>();
                    CovarianceMatrix::from_matrix(&unpack(own.len(), &covariance, 1.0, 1.0))
                }
            };
            spreads.push((part.components.clone(), spread));
        }
        self.natural_of_moments(mean, &CovarianceMatrix::join(spreads, self.len))
    }

    fn standard(&self, natural: &[f64]) -> Vec<f64> {
        let (mut all, spread) = self.moments(natural);
        for part in &self.parts {
            let own = spread.part(&part.components);
            match part.group() {
                Some(group) => all.extend(own.deviations().into_iter().step_by(group)),
                None => all.extend(pack(&own.matrix(), 1.0, 1.0)),
            }
        }
        all
    }

    fn natural_of_standard(&self, standard: &[f64]) -> Result<Vec<f64>> {
        let (mean, behind) = standard.split_at(self.len);
        let mut spreads = Vec::new();
        for (part, second) in self.blocks(behind) {
            let group = part.group();
            if let Some(found) = second.iter().find(|own| group.is_some() && **own <= 0.0) {
                let component = "a standard deviation".to_owned();
                return Err(Error::Improper { operation: "a normal density".into(), component, found: *found });
            }
            let spread = match group {
                Some(group) => CovarianceMatrix::Diagonal(second.iter().flat_map(|sd| repeat_n(*sd, group)).collect()),
                None => CovarianceMatrix::from_matrix(&unpack(part.components.len(), second, 1.0, 1.0)),
            };
            spreads.push((part.components.clone(), spread));
        }
        self.natural_of_moments(mean, &CovarianceMatrix::join(spreads, self.len))
    }

    fn score(&self, natural: &[f64], point: &[f64]) -> Vec<f64> {
        let mut score = natural[..self.len].to_vec();
        for piece in self.pieces(natural) {
            let components = &piece.part.components;
            if let Some(group) = piece.part.group() {
                for (own, second) in components.chunks(group).zip(piece.second) {
                    own.iter().for_each(|&component| score[component] += 2.0 * second * point[component]);
                }
                continue;
            }
            for ((i, j), second) in each(components.len()).zip(piece.second) {
                score[components[i]] += second * point[components[j]];
                score[components[j]] += second * point[components[i]];
            }
        }
        score
    }

    fn draw(&self, natural: &[f64], noise: &mut NoiseStream) -> Vec<f64> {
        let mut point = vec![0.0; self.len];
        for piece in self.pieces(natural) {
            let own = piece.draw(noise);
            piece.part.components.iter().zip(own).for_each(|(&component, own)| point[component] = own);
        }
        point
    }
}

/// The standard deviations of some components of one variance with these means, from the mean of the sum of their
/// squares.
fn shared_deviation(mean: &[f64], square: f64) -> impl Iterator<Item = f64> {
    let variance = (square - dot(mean, mean)) / real(mean.len());
    repeat_n(variance.sqrt(), mean.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_of_one_variance_are_held_together_and_others_by_themselves() {
        let parts = vec![(vec![0, 2], CovarianceForm::Isotropic), (vec![1], CovarianceForm::Diagonal)];
        let family = NormalFamily::of_parts(parts).unwrap();
        let factor = [0.1, 0.2, 0.3, -0.5, -0.5];
        let mut change = vec![1.0, 2.0, 3.0, 0.6, 0.4];
        assert_eq!(family.hold_improper(&factor, &mut change), 2);
        assert_eq!(change, [0.0, 2.0, 0.0, 0.0, 0.4]);
        let mut change = vec![1.0, 2.0, 3.0, 0.4, 0.6];
        assert_eq!(family.hold_improper(&factor, &mut change), 1);
        assert_eq!(change, [1.0, 0.0, 3.0, 0.4, 0.0]);
    }
}
