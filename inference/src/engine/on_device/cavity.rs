//! Gives a factor in place of the prior of the globals, on the device: its score at draws, and gradients of its expectation.

use burn::tensor::Tensor;
use partita_core::Device;

use crate::engine::natural::{NormalFamily, PartFactor};

/// A factor, such as a cavity, in the parts of the global posterior.
#[derive(Debug, Clone)]
pub(crate) struct Cavity {
    pub(super) parts: Vec<CavityPart>,
}

/// $h^\top z - \tfrac12 z^\top\Lambda z$ of one part, which need be no density.
///
/// # Shapes
/// `linear` `[1, n]`; `precision` `[1, n]` where components are independent, else `[n, n]`.
#[derive(Debug, Clone)]
pub(crate) struct CavityPart {
    linear: Tensor<2>,
    precision: Tensor<2>,
}

impl Cavity {
    /// The factor with these natural parameters.
    pub(crate) fn new(family: &NormalFamily, natural: &[f64], device: &Device) -> Self {
        let part = |PartFactor { linear, precision }: PartFactor| {
            let len = linear.len();
            let rows = precision.len() / len;
            CavityPart { linear: device.tensor(linear, [1, len]), precision: device.tensor(precision, [rows, len]) }
        };
        Self { parts: family.part_factors(natural).into_iter().map(part).collect() }
    }
}

impl CavityPart {
    /// $h - \Lambda z$ of draws, which are rows.
    pub(super) fn score(&self, draws: Tensor<2>) -> Tensor<2> {
        let product = match self.precision.dims() {
            [1, _] => draws * self.precision.clone(),
            _ => draws.matmul(self.precision.clone()),
        };
        self.linear.clone() - product
    }

    /// The gradients of its expectation by mean, log-scale and triangle of a Gaussian $\mu + \sigma \odot L\varepsilon$; `factor` is
    /// $L$ where components are not independent.
    ///
    /// With $C = \mathrm{diag}(\sigma)L$ the part of the expectation that is not of the mean is $-\tfrac12\mathrm{tr}(\Lambda CC^\top)$.
    pub(super) fn expected(
        &self,
        mean: Tensor<2>,
        scale: &Tensor<2>,
        factor: Option<Tensor<2>>,
    ) -> [Option<Tensor<2>>; 3] {
        let by_mean = self.score(mean);
        let Some(factor) = factor else {
            let by_log_scale = self.precision.clone() * scale.clone() * scale.clone() * -1.0;
            return [Some(by_mean), Some(by_log_scale), None];
        };
        let rows = scale.clone().transpose();
        let root = factor * rows.clone();
        let by_root = self.precision.clone().matmul(root.clone()) * -1.0;
        let by_log_scale = (by_root.clone() * root).sum_dim(1).transpose();
        [Some(by_mean), Some(by_log_scale), Some(by_root * rows)]
    }
}

#[cfg(test)]
mod tests {
    use partita_core::Handle;

    use super::*;
    use crate::engine::divergence::{Divergence, KullbackLeibler};
    use crate::engine::family::{Family, FullRankGaussian};
    use crate::engine::natural::ExponentialFamily;

    fn read(tensor: Tensor<2>) -> Vec<f64> {
        Handle::from(tensor).read().unwrap().values
    }

    fn near(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        let far = found.iter().zip(expected).fold(0.0_f64, |far, (a, b)| far.max((a - b).abs()));
        assert!(far < 1e-12, "{found:?} {expected:?}");
    }

    #[test]
    fn the_score_is_that_of_the_host_for_precisions_of_any_sign() {
        let device = Device::flex();
        let draws = [0.3, -1.2, 0.8];
        for (family, natural) in [
            (NormalFamily::diagonal(3), vec![0.5, -0.2, 0.1, -0.4, 0.3, -2.0]),
            (NormalFamily::full(3), vec![0.5, -0.2, 0.1, -0.4, 0.3, 0.2, -0.1, 0.7, -1.5]),
        ] {
            let cavity = Cavity::new(&family, &natural, &device);
            let found = read(cavity.parts[0].score(device.tensor(draws.to_vec(), [1, 3])));
            near(&found, &family.score(&natural, &draws));
        }
    }

    #[test]
    fn gradients_of_the_expectation_are_those_of_the_divergence_and_the_entropy() {
        let device = Device::flex();
        let (posterior, family) = (FullRankGaussian::new(3), NormalFamily::full(3));
        let parameters = [0.4, -0.7, 1.1, -0.3, 0.2, -0.9, 0.5, -0.4, 0.6];
        let natural = [0.5, -0.2, 0.1, -0.8, 0.3, -0.6, -0.1, 0.2, -1.5];
        let (mean, spread) = (posterior.mean(&parameters), posterior.covariance_matrix(&parameters));
        let diverged = KullbackLeibler.evaluate_at(&family, &mean, &spread, &natural).unwrap();
        let mut expected = vec![0.0; 9];
        posterior.vjp_moments(&parameters, &diverged.gradient, &mut expected);
        // The divergence is minus the entropy, which has a slope of one by every log-scale, and minus the expectation.
        let expected: Vec<f64> = expected.iter().map(|own| -own).collect();
        let scale: Vec<f64> = parameters[3..6].iter().map(|own| own.exp()).collect();
        let factor = vec![1.0, 0.0, 0.0, 0.5, 1.0, 0.0, -0.4, 0.6, 1.0];
        let [by_mean, by_log_scale, by_factor] = Cavity::new(&family, &natural, &device).parts[0].expected(
            device.tensor(mean, [1, 3]),
            &device.tensor(scale, [1, 3]),
            Some(device.tensor(factor, [3, 3])),
        );
        near(&read(by_mean.unwrap()), &expected[..3]);
        let by_log_scale: Vec<f64> = read(by_log_scale.unwrap()).iter().map(|own| own + 1.0).collect();
        near(&by_log_scale, &expected[3..6]);
        let by_factor = read(by_factor.unwrap());
        near(&[by_factor[3], by_factor[6], by_factor[7]], &expected[6..]);
    }
}
