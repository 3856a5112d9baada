//! Gives the normal densities as an exponential family: independent components, any covariance, or parts of either.

mod gradient;

use faer::Mat;
use faer::linalg::solvers::{DenseSolveCore, Llt};
use partita_core::NoiseStream;

use super::triangle::{each, pack, pairs, unpack};
use super::{ExponentialFamily, Impropriety};
use crate::error::{Error, Result};
use crate::family::{Family, HALF_LOG_TWO_PI, Spread};

/// Normal densities $`N(\mu, \Lambda^{-1})`$ over one vector whose components come in independent parts, each diagonal or
/// with any covariance.
///
/// # Shapes
/// Natural parameters: $`\Lambda\mu`$ `(n)`, then part by part, for a diagonal one $`-\tfrac12\Lambda_{ii}`$ of each
/// component, for a full one the pairs $`i \ge j`$ row by row, $`-\tfrac12\Lambda_{ii}`$ and $`-\Lambda_{ij}`$. The
/// statistics are $`\theta`$ and the products $`\theta_i\theta_j`$ of the same pairs. Standard parameters: $`\mu`$ `(n)`,
/// then standard deviations of diagonal and packed covariances of full parts.
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

#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    components: Vec<usize>,
    is_full: bool,
}

impl Part {
    /// The numbers of its second block of natural parameters.
    fn second_len(&self) -> usize {
        if self.is_full { pairs(self.components.len()) } else { self.components.len() }
    }
}

/// One part with its share of the natural parameters.
struct Piece<'a> {
    part: &'a Part,
    first: Vec<f64>,
    second: &'a [f64],
}

impl Piece<'_> {
    fn len(&self) -> usize {
        self.part.components.len()
    }

    /// $`\Lambda`$ of a full part.
    fn precision(&self) -> Mat<f64> {
        unpack(self.len(), self.second, -2.0, -1.0)
    }

    fn cholesky(&self) -> Option<Llt<f64>> {
        Llt::new(self.precision().as_ref(), faer::Side::Lower).ok()
    }

    /// Mean, and covariance or standard deviations; not numbers where the piece is improper.
    fn moments(&self) -> (Vec<f64>, Spread) {
        if !self.part.is_full {
            let precisions = || self.second.iter().map(|second| -2.0 * second);
            let mean = self.first.iter().zip(precisions()).map(|(first, precision)| first / precision).collect();
            return (mean, Spread::Diagonal(precisions().map(|precision| precision.sqrt().recip()).collect()));
        }
        let size = self.len();
        let Some(cholesky) = self.cholesky() else {
            return (vec![f64::NAN; size], Spread::Full(vec![f64::NAN; size * size]));
        };
        let covariance = cholesky.inverse();
        let mean = (0..size).map(|i| (0..size).map(|j| covariance[(i, j)] * self.first[j]).sum()).collect();
        (mean, Spread::from_matrix(&covariance))
    }

    fn log_partition(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "dimensions are far below 2^52")]
        let constant = self.len() as f64 * HALF_LOG_TWO_PI;
        let (mean, _) = self.moments();
        let half_square = 0.5 * super::dot(&mean, &self.first);
        if !self.part.is_full {
            let half_log: f64 = self.second.iter().map(|second| 0.5 * (-2.0 * second).ln()).sum();
            return half_square - half_log + constant;
        }
        let half_log = self.cholesky().map_or(f64::NAN, |cholesky| {
            let factor = cholesky.L();
            (0..self.len()).map(|i| factor[(i, i)].ln()).sum()
        });
        half_square - half_log + constant
    }

    /// $`\mu + L^{-\top}\varepsilon`$ with $`\Lambda = LL^\top`$; not numbers where the piece is improper.
    fn draw(&self, noise: &mut NoiseStream) -> Vec<f64> {
        let (mut point, spread) = self.moments();
        let mut standard = vec![0.0; point.len()];
        noise.normal(&mut standard);
        match (spread, self.part.is_full.then(|| self.cholesky()).flatten()) {
            (Spread::Full(_), Some(cholesky)) => {
                let factor = cholesky.L();
                for row in (0..point.len()).rev() {
                    standard[row] /= factor[(row, row)];
                    let solved = standard[row];
                    (0..row).for_each(|column| standard[column] -= factor[(row, column)] * solved);
                }
            }
            (spread, _) => standard.iter_mut().zip(spread.deviations()).for_each(|(slot, sd)| *slot *= sd),
        }
        point.iter_mut().zip(standard).for_each(|(slot, standard)| *slot += standard);
        point
    }

    fn impropriety(&self) -> Option<Impropriety> {
        let is_proper = |precision: f64| (precision > 0.0) & precision.is_finite();
        let component = |place: usize| self.part.components[place];
        // Many weights are looked at in one pass without a branch; only where one is improper is it looked for.
        let is_finite = self.first.iter().fold(true, |all, first| all & first.is_finite());
        let all_proper = || self.second.iter().fold(true, |all, second| all & is_proper(-2.0 * second));
        if is_finite && !self.part.is_full && all_proper() {
            return None;
        }
        if let Some(place) = self.first.iter().position(|first| !first.is_finite()) {
            return Some(Impropriety { component: component(place), found: self.first[place] });
        }
        if !self.part.is_full {
            let place = self.second.iter().position(|second| !is_proper(-2.0 * second))?;
            return Some(Impropriety { component: component(place), found: -2.0 * self.second[place] });
        }
        if let Some(place) = self.second.iter().position(|second| !second.is_finite()) {
            let row = each(self.len()).nth(place).map_or(0, |(row, _)| row);
            return Some(Impropriety { component: component(row), found: self.second[place] });
        }
        if self.cholesky().is_some() {
            return None;
        }
        // The direction of the smallest eigenvalue says where the precision is missing.
        let precision = self.precision();
        let Ok(eigen) = precision.self_adjoint_eigen(faer::Side::Lower) else {
            return Some(Impropriety { component: component(0), found: f64::NAN });
        };
        let (values, vectors) = (eigen.S(), eigen.U());
        let smallest = (0..self.len()).min_by(|&a, &b| values[a].total_cmp(&values[b])).unwrap_or(0);
        let largest = |a: &usize, b: &usize| vectors[(*a, smallest)].abs().total_cmp(&vectors[(*b, smallest)].abs());
        let place = (0..self.len()).max_by(|a, b| largest(a, b)).unwrap_or(0);
        Some(Impropriety { component: component(place), found: values[smallest] })
    }
}

impl NormalFamily {
    /// Independent components.
    #[must_use]
    pub fn diagonal(len: usize) -> Self {
        Self { parts: vec![Part { components: (0..len).collect(), is_full: false }], len }
    }

    /// Any covariance.
    #[must_use]
    pub fn full(len: usize) -> Self {
        Self { parts: vec![Part { components: (0..len).collect(), is_full: true }], len }
    }

    /// Independent parts: their components, and whether each has any covariance.
    ///
    /// # Errors
    /// [`Error::Setting`] unless the parts together have every component from 0 on once.
    pub fn of_parts(parts: Vec<(Vec<usize>, bool)>) -> Result<Self> {
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
        Ok(Self { parts: parts.into_iter().map(|(components, is_full)| Part { components, is_full }).collect(), len })
    }

    /// Whether all components are independent.
    #[must_use]
    pub fn is_diagonal(&self) -> bool {
        self.parts.iter().all(|part| !part.is_full || part.components.len() <= 1)
    }

    /// Whether there is one diagonal part, with components in order: natural parameters are $`h`$, then $`-\tfrac12\lambda`$.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.parts.as_slice(), [part] if !part.is_full && part.components.iter().copied().eq(0..self.len))
    }

    fn pieces<'a>(&'a self, natural: &'a [f64]) -> impl Iterator<Item = Piece<'a>> {
        let (first, mut rest) = natural.split_at(self.len);
        self.parts.iter().map(move |part| {
            let (second, others) = rest.split_at(part.second_len());
            rest = others;
            Piece { part, first: part.components.iter().map(|&component| first[component]).collect(), second }
        })
    }

    /// Components of each part with their mean, and covariance or standard deviations, of a proper member.
    pub(crate) fn moments_by_part<'a>(
        &'a self,
        natural: &'a [f64],
    ) -> impl Iterator<Item = (&'a [usize], Vec<f64>, Spread)> {
        self.pieces(natural).map(|piece| {
            let (mean, spread) = piece.moments();
            (piece.part.components.as_slice(), mean, spread)
        })
    }

    /// Mean, and covariance or standard deviations, of a proper member.
    #[must_use]
    pub fn moments(&self, natural: &[f64]) -> (Vec<f64>, Spread) {
        let mut mean = vec![0.0; self.len];
        let mut spreads = Vec::new();
        for (components, own, spread) in self.moments_by_part(natural) {
            components.iter().zip(own).for_each(|(&component, own)| mean[component] = own);
            spreads.push((components.to_vec(), spread));
        }
        (mean, Spread::join(spreads, self.len))
    }

    /// Natural parameters of the member with this mean and covariance; of a diagonal part, with these variances.
    ///
    /// # Errors
    /// [`Error::Improper`] for a covariance that is not positive definite.
    pub fn natural_of_moments(&self, mean: &[f64], spread: &Spread) -> Result<Vec<f64>> {
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
    fn second_of(part: &Part, spread: &Spread) -> Result<(Vec<f64>, Precision)> {
        if !part.is_full {
            let precision: Vec<f64> = spread.deviations().iter().map(|deviation| deviation.powi(-2)).collect();
            return Ok((precision.iter().map(|precision| -0.5 * precision).collect(), Precision::Diagonal(precision)));
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

    /// Natural parameters of the factor whose logarithm has this gradient at zero, and minus these second derivatives, column
    /// by column, or their diagonal alone; those between independent components are left out.
    pub(crate) fn natural_of_curvature(&self, linear: &[f64], curvature: &[Vec<f64>]) -> Vec<f64> {
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
            let own = |place: usize| part.components[place];
            if part.is_full {
                let weight = |i, j| if i == j { -0.5 } else { -1.0 };
                natural.extend(each(part.components.len()).map(|(i, j)| weight(i, j) * at(own(i), own(j))));
            } else {
                natural.extend(part.components.iter().map(|&i| -0.5 * at(i, i)));
            }
        }
        natural
    }

    /// The same factor in the natural parameters of [`NormalFamily::full`].
    pub(crate) fn as_full(&self, natural: &[f64]) -> Vec<f64> {
        let mut precision = Mat::zeros(self.len, self.len);
        for piece in self.pieces(natural) {
            let own = if piece.part.is_full {
                piece.precision()
            } else {
                Mat::from_fn(piece.len(), piece.len(), |i, j| if i == j { -2.0 * piece.second[i] } else { 0.0 })
            };
            for (i, &row) in piece.part.components.iter().enumerate() {
                for (j, &column) in piece.part.components.iter().enumerate() {
                    precision[(row, column)] = own[(i, j)];
                }
            }
        }
        [natural[..self.len].to_vec(), pack(&precision, -0.5, -1.0)].concat()
    }

    /// The member with this mean and with the precision of `full`, a member of [`NormalFamily::full`], within each part: the
    /// one that `full` has the least divergence from.
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
        self.natural_of_moments(&family.mean(parameters), &family.spread(parameters))
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
    /// Takes out of a change of a factor the components to which it would give a negative precision; how many there were.
    pub(crate) fn hold_improper(&self, factor: &[f64], change: &mut [f64]) -> u64 {
        let (first, second) = change.split_at_mut(self.len);
        let own = &factor[self.len..];
        let components = self.parts.iter().flat_map(|part| &part.components);
        let mut held = 0;
        for ((&component, own), second) in components.zip(own).zip(second) {
            // The second natural parameter is minus half the precision.
            if own + *second > 0.0 {
                (first[component], *second) = (0.0, 0.0);
                held += 1;
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
            let own = |place: usize| point[part.components[place]];
            if part.is_full {
                all.extend(each(part.components.len()).map(|(i, j)| own(i) * own(j)));
            } else {
                all.extend((0..part.components.len()).map(|i| own(i) * own(i)));
            }
        }
        all
    }

    fn impropriety(&self, natural: &[f64]) -> Option<Impropriety> {
        self.pieces(natural).find_map(|piece| piece.impropriety())
    }

    fn log_partition(&self, natural: &[f64]) -> f64 {
        self.pieces(natural).map(|piece| piece.log_partition()).sum()
    }

    fn mean_parameters(&self, natural: &[f64]) -> Vec<f64> {
        let mut means = vec![0.0; self.len];
        for piece in self.pieces(natural) {
            let (mean, spread) = piece.moments();
            piece.part.components.iter().zip(&mean).for_each(|(&component, own)| means[component] = *own);
            match spread {
                Spread::Diagonal(sds) => means.extend(sds.iter().zip(&mean).map(|(sd, mean)| sd * sd + mean * mean)),
                Spread::Full(covariance) => {
                    let size = mean.len();
                    means.extend(each(size).map(|(i, j)| covariance[i * size + j] + mean[i] * mean[j]));
                }
            }
        }
        means
    }

    fn natural_of_mean(&self, mean_parameters: &[f64]) -> Result<Vec<f64>> {
        let (mean, mut rest) = mean_parameters.split_at(self.len);
        let mut spreads = Vec::new();
        for part in &self.parts {
            let (second, others) = rest.split_at(part.second_len());
            rest = others;
            let own: Vec<f64> = part.components.iter().map(|&component| mean[component]).collect();
            let spread = if part.is_full {
                let covariance =
                    each(own.len()).zip(second).map(|((i, j), product)| product - own[i] * own[j]).collect::<Vec<_>>();
                Spread::from_matrix(&unpack(own.len(), &covariance, 1.0, 1.0))
            } else {
                Spread::Diagonal(own.iter().zip(second).map(|(mean, square)| (square - mean * mean).sqrt()).collect())
            };
            spreads.push((part.components.clone(), spread));
        }
        self.natural_of_moments(mean, &Spread::join(spreads, self.len))
    }

    fn standard(&self, natural: &[f64]) -> Vec<f64> {
        let (mut all, spread) = self.moments(natural);
        for part in &self.parts {
            match spread.part(&part.components) {
                own if !part.is_full => all.extend(own.deviations()),
                own => all.extend(pack(&own.matrix(), 1.0, 1.0)),
            }
        }
        all
    }

    fn natural_of_standard(&self, standard: &[f64]) -> Result<Vec<f64>> {
        let (mean, mut rest) = standard.split_at(self.len);
        let mut spreads = Vec::new();
        for part in &self.parts {
            let (second, others) = rest.split_at(part.second_len());
            rest = others;
            if let Some(found) = second.iter().find(|own| !part.is_full && **own <= 0.0) {
                let component = "a standard deviation".to_owned();
                return Err(Error::Improper { operation: "a normal density".into(), component, found: *found });
            }
            let spread = if part.is_full {
                Spread::from_matrix(&unpack(part.components.len(), second, 1.0, 1.0))
            } else {
                Spread::Diagonal(second.to_vec())
            };
            spreads.push((part.components.clone(), spread));
        }
        self.natural_of_moments(mean, &Spread::join(spreads, self.len))
    }

    fn score(&self, natural: &[f64], point: &[f64]) -> Vec<f64> {
        let mut score = natural[..self.len].to_vec();
        for piece in self.pieces(natural) {
            let components = &piece.part.components;
            if !piece.part.is_full {
                for (&component, second) in components.iter().zip(piece.second) {
                    score[component] += 2.0 * second * point[component];
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
