//! Gives the divergence of Jensen and Shannon, bounded and symmetric, as an f-divergence.

use partita_core::special::{sigmoid, softplus};

use super::Generator;

/// $`\tfrac12\mathrm{KL}(q \,\|\, m) + \tfrac12\mathrm{KL}(p \,\|\, m)`$ with $`m = \tfrac12(q + p)`$, at most $`\log
/// 2`$ nats.
///
/// # References
/// Lin (1991), Divergence measures based on the Shannon entropy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JensenShannon;

impl Generator for JensenShannon {
    fn value(&self, log_ratio: f64) -> f64 {
        // 2f(u) = u log(2u/(1 + u)) + log(2/(1 + u)), and u/(1 + u) = σ(-x).
        let of_p = sigmoid(-log_ratio) * (std::f64::consts::LN_2 - softplus(log_ratio));
        let of_q = sigmoid(log_ratio) * (std::f64::consts::LN_2 - softplus(-log_ratio));
        0.5 * (of_p + of_q)
    }

    fn curvature(&self, log_ratio: f64) -> f64 {
        // 2u² f'' = u/(1 + u).
        0.5 * sigmoid(-log_ratio) * sigmoid(log_ratio)
    }
}
