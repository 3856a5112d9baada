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
    where [gradient.len(), first.len(), second.len()] == [parameters.len(); 3];
    vector, vector
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

dispatch! {
    /// The step of [`adam`] in single precision, with running means that are kept in it: of squares their `root`, whose range is
    /// that of the gradient. Parameters and gradient are in double precision.
    ///
    /// # Numerics
    /// How far a parameter moves errs by a few roundings of single precision, 6e-8 each, and where it arrives is rounded once, in
    /// double. A gradient beyond 1e38 counts as that. The bits are those of the loop for other machines.
    ///
    /// # Panics
    /// If the lengths disagree: callers have checked them.
    adam_single(parameters: &mut [f64], gradient: &[f64], first: &mut [f32], root: &mut [f32], update: &AdamUpdate) -> ()
    where [gradient.len(), first.len(), root.len()] == [parameters.len(); 3];
    single, single
}

/// The longest gradient, whose mean with others single precision holds.
const LONGEST: f64 = 1e38;

/// A power of two that brings what is small or large where single precision can square it.
const STEP: f32 = 9_223_372_036_854_775_808.0;

#[inline(always)]
fn single(parameters: &mut [f64], gradient: &[f64], first: &mut [f32], root: &mut [f32], update: &AdamUpdate) {
    let (of_mean, of_square) = (update.first[1] as f32, update.second[1] as f32);
    let epsilon = update.epsilon as f32;
    let rate = update.correction * update.rate;
    let means = first.iter_mut().zip(root);
    for ((parameter, g), (m, s)) in parameters.iter_mut().zip(gradient).zip(means) {
        let g = g.clamp(-LONGEST, LONGEST) as f32;
        let largest = s.max(g.abs());
        let (unit, back) = if largest < 1e-12 { (STEP, 1.0 / STEP) } else { (1.0, 1.0) };
        let (unit, back) = if largest > 1e12 { (1.0 / STEP, STEP) } else { (unit, back) };
        let (kept, new) = (*s * unit, g * unit);
        let square = kept * kept;
        *m += (g - *m) * of_mean;
        *s = (square + (new * new - square) * of_square).sqrt() * back;
        // Where single precision does not hold the constant, nothing is divided by zero; what is no number is none in the mean.
        let size = *s + epsilon;
        let size = if size > 0.0 { size } else { 1.0 };
        *parameter -= f64::from(*m / size) * rate;
    }
}
