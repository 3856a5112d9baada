//! Checks the laws of optimisers: a saved state goes on with the same bits, and the fused Adam is Burn's.

use burn::optim::{AdamConfig, Optimizer};
use burn::tensor::Tensor;
use partita_core::{
    Device, Key, Noise, Purpose,
    kernel::{AdamUpdate, adam as kernel},
};
use partita_inference::{Adam, Optimiser, UpdateRule};

use crate::Violation;
use crate::difference::within;

const SEED: u64 = 223_606;
/// Parameters of a checked rule: no multiple of a vector register.
const LENGTH: usize = 13;
/// Steps before a state is saved, and after.
const STEPS: u64 = 20;
const RATE: f64 = 0.03;
/// Steps over which the fused Adam is compared with Burn's.
const ADAM_STEPS: u64 = 100;
const DECAY: [f32; 2] = [0.9, 0.999];
const EPSILON: f32 = 1e-8;
/// The same operations in the same order: a few last digits a step at most.
const SAME: f64 = 1e-12;
/// Burn keeps the decays in single precision: 1 − 0.999 is then 1.000047e-3, and a step 2.3e-5 relative larger.
const SINGLE: f64 = 1e-4;

/// A law of [`UpdateRule`].
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum UpdateRuleLaw {
    /// A rule refused a state of its own kind.
    #[error("it refused the state it had saved")]
    Refused,
    /// A rule took a state of another kind.
    #[error("it took a state that is none of its own")]
    Accepted,
    /// After `load(save())` a step gives other bits.
    #[error("parameter {index} is {found} at step {step} after a restore, {expected} without")]
    Resumed {
        /// The step.
        step: u64,
        /// The parameter.
        index: usize,
        /// That of the restored rule.
        found: f64,
        /// That of the rule that went on.
        expected: f64,
    },
    /// A parameter is not where Burn's Adam puts it.
    #[error("parameter {index} is {found} at step {step}, Burn's Adam gives {expected}")]
    Burn {
        /// The step.
        step: u64,
        /// The parameter.
        index: usize,
        /// What the rule gave.
        found: f64,
        /// What Burn gave.
        expected: f64,
    },
}

/// Checks that rules of one kind go on after `load(save())` with the same bits, and refuse what is no state of theirs.
///
/// # Errors
/// The first [`UpdateRuleLaw`] that does not hold.
///
/// # Example
/// ```
/// use partita_inference::{Adam, Optimiser};
/// use partita_laws as laws;
/// let device = partita_core::Device::flex();
/// laws::update_rule("Adam", || Adam::default().start(&device))?;
/// # Ok::<(), laws::Violation<laws::UpdateRuleLaw>>(())
/// ```
pub fn update_rule(name: &str, start: impl Fn() -> Box<dyn UpdateRule>) -> Result<(), Violation<UpdateRuleLaw>> {
    if start().load(vec![("no such state".into(), vec![1.0])]) {
        return Violation::of(name, UpdateRuleLaw::Accepted);
    }
    // Saved before the first step, and in mid-run.
    for saved_at in [0, STEPS] {
        let (mut going_on, mut parameters) = (start(), random(0));
        for step in 0..saved_at {
            going_on.step(RATE, &mut parameters, &random(1 + step));
        }
        let (mut restored, mut own) = (start(), parameters.clone());
        if !restored.load(going_on.save()) {
            return Violation::of(name, UpdateRuleLaw::Refused);
        }
        for step in saved_at..saved_at + STEPS {
            let gradient = random(1 + step);
            going_on.step(RATE, &mut parameters, &gradient);
            restored.step(RATE, &mut own, &gradient);
            for (index, (found, expected)) in own.iter().copied().zip(parameters.iter().copied()).enumerate() {
                if found.to_bits() != expected.to_bits() {
                    return Violation::of(name, UpdateRuleLaw::Resumed { step, index, found, expected });
                }
            }
        }
    }
    Ok(())
}

/// Checks the fused Adam against `burn::optim::Adam` on double-precision tensors, over 100 steps.
///
/// Burn keeps decays and bias corrections in single precision whatever the tensors' precision; Partita computes them in
/// double. So there are two claims: with Burn's own constants the kernel agrees to 1e-12 relative at every step, and
/// [`Adam`], whose constants are exact, stays within 1e-4 of the way that Burn's has gone.
///
/// # Errors
/// The first [`UpdateRuleLaw`] that does not hold.
///
/// # Example
/// ```
/// partita_laws::adam(&partita_core::Device::flex())?;
/// # Ok::<(), partita_laws::Violation<partita_laws::UpdateRuleLaw>>(())
/// ```
pub fn adam(device: &Device) -> Result<(), Violation<UpdateRuleLaw>> {
    let burn = AdamConfig::new().with_beta_1(DECAY[0]).with_beta_2(DECAY[1]).with_epsilon(EPSILON).build();
    let tensor = |values: &[f64]| -> Tensor<1> { device.tensor(values.to_vec(), [values.len()]) };
    let start = random(0);
    let (mut theirs, mut state) = (tensor(&start), None);
    let (mut same, mut first, mut second) = (start.clone(), vec![0.0; LENGTH], vec![0.0; LENGTH]);
    let (mut ours, mut rule) = (start.clone(), Adam::default().start(device));
    let mut travelled = 0.0;
    for step in 1..=ADAM_STEPS {
        let gradient = random(step);
        (theirs, state) = burn.step(RATE, theirs, tensor(&gradient), state);
        kernel(&mut same, &gradient, &mut first, &mut second, &burn_constants(step));
        rule.step(RATE, &mut ours, &gradient);
        travelled += RATE;
        let theirs: Vec<f64> = theirs.clone().into_data().iter::<f64>().collect();
        for (index, expected) in theirs.into_iter().enumerate() {
            let claims = [
                ("the kernel with Burn's constants", same[index], SAME * (1.0 + expected.abs())),
                ("Adam::default", ours[index], SINGLE * travelled),
            ];
            for (rule, found, bound) in claims {
                if !within(found, expected, bound) {
                    return Violation::of(rule, UpdateRuleLaw::Burn { step, index, found, expected });
                }
            }
        }
    }
    Ok(())
}

/// The constants of a step as Burn computes them: in single precision.
fn burn_constants(step: u64) -> AdamUpdate {
    let left = DECAY.map(|decay| 1.0 - decay.powi(i32::try_from(step).unwrap_or(i32::MAX)));
    AdamUpdate {
        rate: RATE,
        first: [f64::from(DECAY[0]), f64::from(1.0 - DECAY[0])],
        second: [f64::from(DECAY[1]), f64::from(1.0 - DECAY[1])],
        correction: f64::from(left[1].sqrt() / left[0]),
        epsilon: f64::from(EPSILON * left[1].sqrt()),
    }
}

/// Start (`number` 0) or gradient of one step.
fn random(number: u64) -> Vec<f64> {
    let mut values = vec![0.0; LENGTH];
    Noise::new(SEED).stream(Key::new(Purpose::Check, number)).normal(&mut values);
    values
}
