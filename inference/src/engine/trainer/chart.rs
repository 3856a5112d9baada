//! Gives coordinates in which parameters move after a start at a mode: units of their own, or whitened axes.

use faer::Mat;

use super::units;
use crate::engine::checkpoint::{NamedVectors, named};
use crate::engine::climb::Footing;
use crate::engine::family::{Family, FullRankGaussian, row_major};

/// The coordinates of a family's parameters for the update rule.
///
/// The posterior and its draws are what they would be without: only the way that steps take differs.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Chart {
    /// Each parameter in a unit of its own: a power of two, by which multiplication does not round.
    Units(Vec<f64>),
    /// A full-rank Gaussian $`Z = m + C(\mu' + \sigma' \odot L'\varepsilon)`$ by its parameters inside the brackets.
    Whitened(Whitened),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Whitened {
    /// $m$.
    mean: Vec<f64>,
    /// $C$, lower triangular, row-major.
    factor: Vec<f64>,
    /// $`[\mu', \log\sigma', L']`$.
    at: Vec<f64>,
}

/// The names of saved charts.
const UNITS: &str = "chart.units";
const WHITENED: [&str; 3] = ["chart.mean", "chart.factor", "chart.at"];

impl Chart {
    /// The coordinates of a start at a mode.
    pub(super) fn of(footing: &Footing) -> Self {
        match &footing.factor {
            None => Self::Units(footing.units.clone()),
            Some(factor) => {
                let at = vec![0.0; footing.parameters.len()];
                Self::Whitened(Whitened { mean: footing.mode.clone(), factor: factor.clone(), at })
            }
        }
    }

    /// Those of the covariance of a full-rank Gaussian at these parameters.
    pub(super) fn whitened(family: FullRankGaussian, parameters: &[f64]) -> Self {
        let (mean, factor) = (family.mean(parameters), row_major(&family.factor(parameters)));
        Self::Whitened(Whitened { mean, factor, at: vec![0.0; parameters.len()] })
    }

    /// Replaces parameters and a gradient by them by coordinates and the gradient by these.
    pub(super) fn enter(&self, values: &mut [f64], gradient: &mut [f64]) {
        match self {
            Self::Units(own) => units::enter(own, values, gradient),
            Self::Whitened(own) => {
                let (parameters, slopes) = (&mut values[..own.at.len()], &mut gradient[..own.at.len()]);
                let pulled = own.pull(parameters, slopes);
                slopes.copy_from_slice(&pulled);
                parameters.copy_from_slice(&own.at);
            }
        }
    }

    /// Replaces coordinates by the parameters that they stand for.
    pub(super) fn leave(&mut self, values: &mut [f64]) {
        match self {
            Self::Units(own) => units::leave(own, values),
            Self::Whitened(own) => {
                let count = own.at.len();
                own.at.copy_from_slice(&values[..count]);
                values[..count].copy_from_slice(&own.parameters());
            }
        }
    }

    /// The coordinates of parameters, where they are not the parameters themselves but for a unit.
    pub(super) fn inner(&self) -> Option<&[f64]> {
        match self {
            Self::Units(_) => None,
            Self::Whitened(own) => Some(&own.at),
        }
    }

    /// Everything as named vectors.
    pub(super) fn save(&self) -> NamedVectors {
        match self {
            Self::Units(units) => vec![(UNITS.to_owned(), units.clone())],
            Self::Whitened(Whitened { mean, factor, at }) => {
                let vectors = [mean, factor, at].map(Clone::clone);
                WHITENED.map(str::to_owned).into_iter().zip(vectors).collect()
            }
        }
    }

    /// The chart of a saved state over so many parameters, if it has one.
    pub(super) fn load(state: &[(String, Vec<f64>)], parameters: usize) -> Option<Self> {
        let find = |name: &str| named(state, name).map(<[f64]>::to_vec);
        if let Some(units) = find(UNITS).filter(|units| units.len() == parameters) {
            return Some(Self::Units(units));
        }
        let [mean, factor, at] = WHITENED.map(find);
        let (mean, factor, at) = (mean?, factor?, at?);
        let fits = factor.len() == mean.len() * mean.len() && at.len() == parameters;
        fits.then_some(Self::Whitened(Whitened { mean, factor, at }))
    }
}

impl Whitened {
    fn size(&self) -> usize {
        self.mean.len()
    }

    fn family(&self) -> FullRankGaussian {
        FullRankGaussian::new(self.size())
    }

    /// $`[\mu, \log\sigma, L]`$ of $`\mu = m + C\mu'`$ and $`\mathrm{diag}(\sigma)L = C\,\mathrm{diag}(\sigma')L'`$.
    fn parameters(&self) -> Vec<f64> {
        let (size, inner) = (self.size(), self.family().factor(&self.at));
        let row = |i: usize| &self.factor[i * size..i * size + i + 1];
        let mean: Vec<f64> =
            (0..size).map(|i| self.mean[i] + row(i).iter().zip(&self.at).map(|(c, at)| c * at).sum::<f64>()).collect();
        // Below the diagonal; above it the sum is empty.
        let entry = |i: usize, j: usize| (j..=i).map(|k| row(i)[k] * inner[(k, j)]).sum::<f64>();
        FullRankGaussian::of_factor(&mean, &Mat::from_fn(size, size, entry))
    }

    /// $`[\mu', \log\sigma', L']`$ of a member with the parameters $`[\mu, \log\sigma, L]`$.
    pub(super) fn inside(&self, parameters: &[f64]) -> Vec<f64> {
        let (size, family) = (self.size(), self.family());
        let (mean, outer) = (family.mean(parameters), family.factor(parameters));
        let row = |i: usize| &self.factor[i * size..i * size + i + 1];
        let mut own = Vec::with_capacity(size);
        for (i, (mean, from)) in mean.iter().zip(&self.mean).enumerate() {
            let known: f64 = row(i).iter().zip(&own).map(|(c, own)| c * own).sum();
            own.push((mean - from - known) / row(i)[i]);
        }
        let mut inner = Mat::<f64>::zeros(size, size);
        for j in 0..size {
            for i in j..size {
                let known: f64 = (j..i).map(|k| row(i)[k] * inner[(k, j)]).sum();
                inner[(i, j)] = (outer[(i, j)] - known) / row(i)[i];
            }
        }
        FullRankGaussian::of_factor(&own, &inner)
    }

    /// The parameters of the member that stands here with $`[\mu', \log\sigma', L']`$.
    pub(super) fn outside(&self, inner: Vec<f64>) -> Vec<f64> {
        Self { at: inner, ..self.clone() }.parameters()
    }

    /// The gradient by $`[\mu', \log\sigma', L']`$ from that by $`[\mu, \log\sigma, L]`$ at these parameters.
    fn pull(&self, parameters: &[f64], gradient: &[f64]) -> Vec<f64> {
        let (size, family) = (self.size(), self.family());
        let (outer, inner) = (family.factor(parameters), family.factor(&self.at));
        // By S = diag(σ)L: L_ij = S_ij / S_ii and log σ_i = log S_ii.
        let (mut by_outer, mut entry) = (vec![0.0; size * size], 2 * size);
        for i in 0..size {
            let scale = outer[(i, i)];
            by_outer[i * size + i] = gradient[size + i] / scale;
            for j in 0..i {
                by_outer[i * size + j] = gradient[entry] / scale;
                by_outer[i * size + i] -= gradient[entry] * outer[(i, j)] / (scale * scale);
                entry += 1;
            }
        }
        // S = CS', so that by S' it is the lower triangle of Cᵀ times that.
        let column = |of: &dyn Fn(usize) -> f64, j: usize| (j..size).map(|i| self.factor[i * size + j] * of(i)).sum();
        let mut pulled: Vec<f64> = (0..size).map(|j| column(&|i| gradient[i], j)).collect();
        let by_inner = |i: usize, j: usize| -> f64 { column(&|k| by_outer[k * size + j], i) };
        let (mut scales, mut lower) = (vec![0.0; size], Vec::with_capacity(size * size / 2));
        for i in 0..size {
            for j in 0..=i {
                let slope = by_inner(i, j);
                scales[i] += slope * inner[(i, j)];
                if j < i {
                    lower.push(slope * inner[(i, i)]);
                }
            }
        }
        pulled.extend(scales);
        pulled.extend(lower);
        pulled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::family::CovarianceMatrix;

    #[test]
    fn a_whitened_chart_is_the_affine_image_and_its_gradient_the_transpose() {
        let (family, at) = (FullRankGaussian::new(3), [0.3, -0.2, 0.5, 0.1, -0.3, 0.2, 0.4, -0.6, 0.7]);
        let (mean, factor) = (vec![1.0, -2.0, 0.5], vec![0.5, 0.0, 0.0, -1.0, 2.0, 0.0, 3.0, 0.2, 0.1]);
        let own = Whitened { mean: mean.clone(), factor: factor.clone(), at: at.to_vec() };
        let (parameters, noise) = (own.parameters(), [0.7, -1.1, 0.4]);
        let image = |inner: &[f64]| -> Vec<f64> {
            (0..3).map(|i| mean[i] + (0..3).map(|j| factor[3 * i + j] * inner[j]).sum::<f64>()).collect()
        };
        let expected = image(&family.draw(&at, &noise).latent);
        let found = family.draw(&parameters, &noise).latent;
        assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?} {expected:?}");
        // A member goes in and out.
        assert!(own.inside(&parameters).iter().zip(&at).all(|(a, b)| (a - b).abs() < 1e-12));
        assert_eq!(own.outside(at.to_vec()), parameters);
        // What reaches the draw comes to the inner parameters along both ways alike.
        let (reaching, mut outer, mut inner) = ([0.9, -0.4, 1.3], vec![0.0; 9], vec![0.0; 9]);
        family.vjp(&parameters, &noise, &reaching, &reaching, &mut outer);
        let pulled: Vec<f64> = (0..3).map(|j| (0..3).map(|i| factor[3 * i + j] * reaching[i]).sum()).collect();
        family.vjp(&at, &noise, &pulled, &pulled, &mut inner);
        let found = own.pull(&parameters, &outer);
        assert!(found.iter().zip(&inner).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?} {inner:?}");
        let spread = CovarianceMatrix::Full(family.covariance(&parameters));
        assert!(family.with_moments(&family.mean(&parameters), &spread).is_ok());
    }
}
