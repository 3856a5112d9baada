//! Draws the unknowns of a party or of the head, and takes gradients back with the noise of the draw.

use partita_core::kernel::add_scaled;
use partita_core::{Key, Noise, Purpose, ValueAndGradient};

use crate::engine::estimator::Estimator;
use crate::engine::family::FamilyDraw;
use crate::engine::trainer::Trainer;

/// Which draws of all unknowns a message is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Draws {
    pub(super) purpose: Purpose,
    /// The step, or the first draw of a report.
    pub(super) step: u64,
    pub(super) count: usize,
}

impl Draws {
    pub(super) fn of_step(step: u64, count: usize) -> Self {
        Self { purpose: Purpose::Fit, step, count }
    }

    pub(super) fn of_report(step: u64, count: usize) -> Self {
        Self { purpose: Purpose::Report, step, count }
    }

    /// The key of each draw.
    pub(super) fn keys(self) -> impl Iterator<Item = Key> {
        (0..self.count).zip(0_u32..).map(move |(_, particle)| Key::new(self.purpose, self.step).particle(particle))
    }
}

/// One draw of the unknowns that a family stands for, with the noise that made it.
#[derive(Debug)]
pub(super) struct Unknowns {
    noise: Vec<f64>,
    pub(super) draw: FamilyDraw,
}

impl Unknowns {
    pub(super) fn draw(trainer: &Trainer, noise: &Noise, key: Key) -> Self {
        let mut numbers = vec![0.0; trainer.family.noise_len()];
        noise.normal(key, &mut numbers);
        Self { draw: trainer.family.draw(trainer.parameters(), &numbers), noise: numbers }
    }

    /// What a log density at the draw and the family add to the bound.
    pub(super) fn term(&self, trainer: &Trainer, estimator: Estimator, log_density: f64) -> f64 {
        match estimator.closes_entropy() {
            true => log_density + trainer.family.entropy(trainer.parameters()),
            false => log_density - self.draw.log_density,
        }
    }

    /// What `density` at the draw and the family add to the bound; the gradient by the parameters of the family, then
    /// by point parameters, is added to `out`.
    pub(super) fn vjp(
        &self,
        trainer: &Trainer,
        estimator: Estimator,
        density: ValueAndGradient,
        out: &mut [f64],
    ) -> f64 {
        let parameters = trainer.parameters();
        let (elbo, location, theta) = estimator.global_terms(density, &*trainer.family, parameters, &self.draw);
        let (family, rest) = out.split_at_mut(parameters.len());
        trainer.family.vjp(parameters, &self.noise, &location, &location, family);
        if estimator.adds_entropy_gradient() {
            trainer.family.add_entropy_gradient(parameters, family);
        }
        add_scaled(&mut rest[..theta.len()], 1.0, &theta);
        elbo
    }
}
