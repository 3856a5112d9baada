//! Maps the vector that a chain walks in to the unconstrained latents of a model, and gradients back.

use crate::fit::whitening::Whitening;

impl Whitening {
    /// The number of latents.
    pub(super) fn len(&self) -> usize {
        self.globals.len() + self.locals.len()
    }

    /// The latents at these coordinates.
    pub(super) fn latents(&self, coordinates: &[f64]) -> Vec<f64> {
        let mut latents = self.globals.draw(coordinates);
        let rest = self.locals.iter().zip(&coordinates[self.globals.len()..]);
        latents.extend(rest.map(|((mean, sd), own)| mean + sd * own));
        latents
    }

    /// The coordinates of these latents.
    pub(super) fn coordinates(&self, latents: &[f64]) -> Vec<f64> {
        let mut coordinates = self.globals.whiten(latents);
        let rest = self.locals.iter().zip(&latents[self.globals.len()..]);
        coordinates.extend(rest.map(|((mean, sd), own)| (own - mean) / sd));
        coordinates
    }

    /// The gradient by the coordinates from that by the latents, in its place.
    pub(super) fn pull(&self, gradient: &mut [f64]) {
        let (globals, rest) = gradient.split_at_mut(self.globals.len());
        let pulled = self.globals.pull(globals);
        globals.copy_from_slice(&pulled);
        rest.iter_mut().zip(&self.locals).for_each(|(slope, (_, sd))| *slope *= sd);
    }
}

#[cfg(test)]
mod tests {
    use faer::Mat;

    use super::*;
    use crate::engine::normal::Normal;

    #[test]
    fn coordinates_come_back_and_the_gradient_is_the_transpose() {
        let factor = Mat::from_fn(2, 2, |row, column| if column > row { 0.0 } else { [2.0, -0.5, 0.25][row + column] });
        let chart = Whitening { globals: Normal { mean: vec![5.0, -1.0], factor }, locals: vec![(1.0, 3.0)] };
        let coordinates = [0.3, -0.7, 1.5];
        let latents = chart.latents(&coordinates);
        assert_eq!(latents, [5.0 + 2.0 * 0.3, -1.0 - 0.5 * 0.3 - 0.25 * 0.7, 5.5]);
        let back = chart.coordinates(&latents);
        assert!(back.iter().zip(coordinates).all(|(own, expected)| (own - expected).abs() < 1e-14), "{back:?}");
        // Of a linear function of the latents: what it gains along a step is the same in both.
        let (slopes, step) = ([0.4, 1.1, -0.6], [0.2, 0.1, -0.3]);
        let further: Vec<f64> = coordinates.iter().zip(step).map(|(own, step)| own + step).collect();
        let moved = chart.latents(&further);
        let mut pulled = slopes.to_vec();
        chart.pull(&mut pulled);
        let outer: f64 =
            slopes.iter().zip(moved.iter().zip(&latents)).map(|(slope, (to, from))| slope * (to - from)).sum();
        let inner: f64 = pulled.iter().zip(step).map(|(slope, step)| slope * step).sum();
        assert!((outer - inner).abs() < 1e-14, "{outer} {inner}");
    }
}
