//! Moves parameters by one step of Adam in one pass over parameters, gradient and both running means.

/// The constants of one step of Adam: what does not depend on the parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamUpdate {
    /// The learning rate.
    pub rate: f64,
    /// What the mean of the gradient keeps, and what the new gradient weighs: $\beta_1$ and $1 - \beta_1$.
    pub first: [f64; 2],
    /// What the mean of the squared gradient keeps, and what the new square weighs: $\beta_2$ and $1 - \beta_2$.
    pub second: [f64; 2],
    /// Both bias corrections, $\sqrt{1 - \beta_2^t}\thinspace /\thinspace (1 - \beta_1^t)$.
    pub correction: f64,
    /// $\epsilon\sqrt{1 - \beta_2^t}$, which is added to the root of the mean square.
    pub epsilon: f64,
}

impl AdamUpdate {
    /// The constants of step number `time`, counted from 1, with $\beta$ = `decay` and $\epsilon$ = `epsilon`.
    #[must_use]
    pub fn at(time: u64, rate: f64, decay: [f64; 2], epsilon: f64) -> Self {
        let left = decay.map(|decay| 1.0 - decay.powf(time as f64));
        Self {
            rate,
            first: [decay[0], 1.0 - decay[0]],
            second: [decay[1], 1.0 - decay[1]],
            correction: left[1].sqrt() / left[0],
            epsilon: epsilon * left[1].sqrt(),
        }
    }
}

dispatch! {
    /// One step of Adam down `gradient`, in place.
    ///
    /// $$ m \leftarrow \beta_1 m + (1-\beta_1) g, \quad v \leftarrow \beta_2 v + (1-\beta_2) g^2, \quad
    /// \theta \leftarrow \theta - \mathrm{rate}\thinspace \frac{m/(1-\beta_1^t)}{\sqrt{v/(1-\beta_2^t)} + \epsilon} $$
    /// with $\theta$ = `parameters`, $g$ = `gradient`, $m$ = `first`, $v$ = `second`; $m$ and $v$ are zero before the
    /// first step.
    ///
    /// # Numerics
    /// The operations and their order are those of `burn::optim::Adam` on f64 tensors, and the bits those of the loop
    /// for other machines. Burn rounds $\beta$, $\epsilon$ and the bias corrections to single precision;
    /// [`AdamUpdate::at`] does not, so that $1-\beta_2$ differs by 5e-5 of itself.
    ///
    /// # Panics
    /// If the lengths disagree: callers have checked them.
    ///
    /// # References
    /// Kingma and Ba (2015), arXiv:1412.6980, Algorithm 1 with the order of section 2 ($\epsilon$ outside the root).
    adam(parameters: &mut [f64], gradient: &[f64], first: &mut [f64], second: &mut [f64], update: &AdamUpdate) -> ()
    where [gradient.len(), first.len(), second.len()] == [parameters.len(); 3]
}

#[inline(always)]
fn vector(parameters: &mut [f64], gradient: &[f64], first: &mut [f64], second: &mut [f64], update: &AdamUpdate) {
    let means = first.iter_mut().zip(second);
    for ((parameter, g), (m, v)) in parameters.iter_mut().zip(gradient).zip(means) {
        *m = *m * update.first[0] + g * update.first[1];
        *v = *v * update.second[0] + (g * g) * update.second[1];
        *parameter -= (*m * update.correction) / (v.sqrt() + update.epsilon) * update.rate;
    }
}

fn scalar(parameters: &mut [f64], gradient: &[f64], first: &mut [f64], second: &mut [f64], update: &AdamUpdate) {
    vector(parameters, gradient, first, second, update);
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "flex")]
    use burn::optim::{AdamConfig, Optimizer};

    use super::*;
    #[cfg(feature = "flex")]
    use crate::device::{Device, Precision, data_to_array};
    use crate::math::kernel::testing::{LENGTHS, bits, scattered, worst};

    #[test]
    fn a_step_is_that_of_the_paper() {
        for length in LENGTHS {
            let mut state = [scattered(length, -1.0, 1.0), vec![0.0; length], vec![0.0; length]];
            let mut expected = state.clone();
            for time in 1..=20_u64 {
                let gradient = scattered(length, -3.0, time as f64);
                let [parameters, first, second] = &mut state;
                adam(parameters, &gradient, first, second, &AdamUpdate::at(time, 0.01, [0.9, 0.999], 1e-8));
                for (index, g) in gradient.iter().enumerate() {
                    expected[1][index] = 0.9 * expected[1][index] + (1.0 - 0.9) * g;
                    expected[2][index] = 0.999 * expected[2][index] + (1.0 - 0.999) * g * g;
                    let m = expected[1][index] / (1.0 - 0.9_f64.powf(time as f64));
                    let v = expected[2][index] / (1.0 - 0.999_f64.powf(time as f64));
                    expected[0][index] -= 0.01 * m / (v.sqrt() + 1e-8);
                }
            }
            // Twenty steps of a few roundings each.
            assert!(worst(&state[0], &expected[0], 1e-2) < 1e-13, "{length}");
        }
    }

    #[test]
    fn every_instruction_set_gives_the_same_bits() {
        let length = 2141;
        let (mut wide, mut narrow) = (scattered(length, -1.0, 1.0), scattered(length, -1.0, 1.0));
        let gradient = scattered(length, -3.0, 5.0);
        let update = AdamUpdate::at(3, 0.01, [0.9, 0.999], 1e-8);
        let means = || (scattered(length, -0.1, 0.1), scattered(length, 0.0, 0.1));
        let ((mut m, mut v), (mut n, mut w)) = (means(), means());
        adam(&mut wide, &gradient, &mut m, &mut v, &update);
        scalar(&mut narrow, &gradient, &mut n, &mut w, &update);
        assert_eq!([bits(&wide), bits(&m), bits(&v)], [bits(&narrow), bits(&n), bits(&w)]);
    }

    #[test]
    fn a_gradient_of_zero_moves_nothing() {
        let (mut parameters, mut first, mut second) = (vec![1.5; 18], vec![0.0; 18], vec![0.0; 18]);
        adam(&mut parameters, &[0.0; 18], &mut first, &mut second, &AdamUpdate::at(1, 0.1, [0.9, 0.999], 1e-8));
        assert_eq!(bits(&parameters), bits(&[1.5; 18]));
    }

    #[test]
    fn a_nan_is_not_hidden() {
        let (mut parameters, mut first, mut second) = (vec![1.5; 18], vec![0.0; 18], vec![0.0; 18]);
        let mut gradient = vec![1.0; 18];
        gradient[17] = f64::NAN;
        adam(&mut parameters, &gradient, &mut first, &mut second, &AdamUpdate::at(1, 0.1, [0.9, 0.999], 1e-8));
        assert!(parameters[17].is_nan() && parameters[16].is_finite());
    }

    #[cfg(feature = "flex")]
    #[test]
    fn adam_agrees_with_that_of_burn() {
        let device = Device::flex().with_precision(Precision::Double);
        let burns = AdamConfig::new().with_epsilon(1e-8).build();
        let mut parameters = scattered(67, -1.0, 1.0);
        let (mut first, mut second) = (vec![0.0; 67], vec![0.0; 67]);
        let (mut tensor, mut state) = (device.tensor(parameters.clone(), [67]), None);
        for time in 1..=30 {
            let gradient = scattered(67, -3.0, f64::from(time));
            (tensor, state) = burns.step(0.01, tensor, device.tensor(gradient.clone(), [67]), state);
            adam(&mut parameters, &gradient, &mut first, &mut second, &in_single_precision(time));
        }
        let expected = data_to_array(tensor.into_data()).values;
        assert_eq!(bits(&parameters), bits(&expected));
    }

    #[cfg(feature = "flex")]
    /// The constants as Burn computes them: in f32.
    fn in_single_precision(time: i32) -> AdamUpdate {
        let (decay, epsilon) = ([0.9_f32, 0.999], 1e-8_f32);
        let left = decay.map(|decay| 1.0 - decay.powi(time));
        AdamUpdate {
            rate: 0.01,
            first: [decay[0].into(), (1.0 - decay[0]).into()],
            second: [decay[1].into(), (1.0 - decay[1]).into()],
            correction: (left[1].sqrt() / left[0]).into(),
            epsilon: (epsilon * left[1].sqrt()).into(),
        }
    }
}
