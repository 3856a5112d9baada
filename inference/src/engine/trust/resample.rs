//! Draws of equal weight from weighted ones, for those who know no weights.

use partita_core::NoiseStream;

use crate::engine::family::real;
use crate::engine::metrics::SmoothedWeights;

impl SmoothedWeights {
    /// Places of as many draws as the weighted ones are worth, each as often as its weight says, in a random order.
    ///
    /// The sum of weights is cut into as many equal parts, and a draw is taken at one uniform place of each (systematic
    /// resampling): a draw of weight $`w`$ is there $`\lfloor n w \rfloor`$ or $`\lceil n w \rceil`$ times.
    ///
    /// # References
    /// Kitagawa (1996), Monte Carlo filter and smoother for non-Gaussian nonlinear state space models, Journal of
    /// Computational and Graphical Statistics 5(1).
    pub(crate) fn resampled(&self, stream: &mut NoiseStream) -> Vec<usize> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most the number of draws")]
        let count = (self.effective_sample_size() as usize).max(1);
        let (step, start) = (1.0 / real(count), stream.uniform());
        let (mut places, mut below) = (Vec::with_capacity(count), 0.0);
        for (place, weight) in self.weights().into_iter().enumerate() {
            below += weight;
            while places.len() < count && (real(places.len()) + start) * step < below {
                places.push(place);
            }
        }
        stream.shuffle(&mut places);
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use partita_core::{Key, Noise, Purpose};

    #[test]
    fn every_draw_is_there_as_often_as_its_weight_says() {
        let weights = [0.1, 0.4, 0.0, 0.3, 0.2];
        let log_weights = weights.iter().map(|weight: &f64| weight.ln()).collect();
        let own = SmoothedWeights { log_weights, pareto_k: 0.0, log_sum: 0.0 };
        let count = 3.0; // 1 / 0.30
        for seed in 0..50 {
            let places = own.resampled(&mut Noise::new(seed).stream(Key::new(Purpose::Report, 0)));
            assert_eq!(places.len(), 3);
            for (place, weight) in weights.iter().enumerate() {
                let times = real(places.iter().filter(|own| **own == place).count());
                assert!(times >= (count * weight).floor() && times <= (count * weight).ceil(), "{place}: {times}");
            }
        }
    }
}
