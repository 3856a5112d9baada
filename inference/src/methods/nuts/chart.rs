//! Maps the vector that a chain walks in to the unconstrained latents of a model, and gradients back.

use faer::Mat;

use crate::fit::whitening::Whitening;

/// Whitened coordinates $u$ of all latents: $`z_G = m + C u`$ for the globals, $`z = m + s u`$ number by number for the rest.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Chart {
    mean: Vec<f64>,
    factor: Mat<f64>,
    /// $s$ of the numbers after the globals.
    scales: Vec<f64>,
}

impl Chart {
    /// The coordinates in which the posterior of few rounds is standard normal.
    pub(super) fn of(whitening: Whitening) -> Self {
        let Whitening { mut mean, factor, locals } = whitening;
        let mut scales = Vec::new();
        for (means, sds) in locals {
            mean.extend(means);
            scales.extend(sds);
        }
        Self { mean, factor, scales }
    }

    /// The number of latents.
    pub(super) fn len(&self) -> usize {
        self.mean.len()
    }

    /// The latents at these coordinates.
    pub(super) fn latents(&self, coordinates: &[f64], latents: &mut [f64]) {
        let globals = self.factor.nrows();
        for (row, latent) in latents[..globals].iter_mut().enumerate() {
            *latent =
                self.mean[row] + (0..=row).map(|column| self.factor[(row, column)] * coordinates[column]).sum::<f64>();
        }
        let rest = self.mean[globals..].iter().zip(&self.scales).zip(&coordinates[globals..]);
        latents[globals..].iter_mut().zip(rest).for_each(|(latent, ((mean, sd), own))| *latent = mean + sd * own);
    }

    /// The coordinates of these latents, in their place.
    pub(super) fn coordinates(&self, latents: &mut [f64]) {
        latents.iter_mut().zip(&self.mean).for_each(|(latent, mean)| *latent -= mean);
        let globals = self.factor.nrows();
        for row in 0..globals {
            let known: f64 = (0..row).map(|column| self.factor[(row, column)] * latents[column]).sum();
            latents[row] = (latents[row] - known) / self.factor[(row, row)];
        }
        latents[globals..].iter_mut().zip(&self.scales).for_each(|(latent, sd)| *latent /= sd);
    }

    /// The gradient by the coordinates from that by the latents, in its place.
    pub(super) fn pull(&self, gradient: &mut [f64]) {
        let globals = self.factor.nrows();
        for column in 0..globals {
            gradient[column] = (column..globals).map(|row| self.factor[(row, column)] * gradient[row]).sum();
        }
        gradient[globals..].iter_mut().zip(&self.scales).for_each(|(slope, sd)| *slope *= sd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_come_back_and_the_gradient_is_the_transpose() {
        let factor = Mat::from_fn(2, 2, |row, column| if column > row { 0.0 } else { [2.0, -0.5, 0.25][row + column] });
        let locals = vec![(vec![1.0], vec![3.0])];
        let chart = Chart::of(Whitening { mean: vec![5.0, -1.0], factor, locals });
        let (coordinates, mut latents) = ([0.3, -0.7, 1.5], vec![0.0; chart.len()]);
        chart.latents(&coordinates, &mut latents);
        assert_eq!(latents, [5.0 + 2.0 * 0.3, -1.0 - 0.5 * 0.3 - 0.25 * 0.7, 5.5]);
        let mut back = latents.clone();
        chart.coordinates(&mut back);
        assert!(back.iter().zip(coordinates).all(|(own, expected)| (own - expected).abs() < 1e-14), "{back:?}");
        // Of a linear function of the latents: what it gains along a step is the same in both.
        let (slopes, step, mut moved) = ([0.4, 1.1, -0.6], [0.2, 0.1, -0.3], vec![0.0; 3]);
        let further: Vec<f64> = coordinates.iter().zip(step).map(|(own, step)| own + step).collect();
        chart.latents(&further, &mut moved);
        let mut pulled = slopes.to_vec();
        chart.pull(&mut pulled);
        let outer: f64 =
            slopes.iter().zip(moved.iter().zip(&latents)).map(|(slope, (to, from))| slope * (to - from)).sum();
        let inner: f64 = pulled.iter().zip(step).map(|(slope, step)| slope * step).sum();
        assert!((outer - inner).abs() < 1e-14, "{outer} {inner}");
    }
}
