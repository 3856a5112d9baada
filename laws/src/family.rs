//! Checks the laws of variational families: density, score, pull-back, entropy and moments, at random parameters.

use partita_core::{Key, Noise, NoiseStream, Purpose};
use partita_inference::{CovarianceGradient, DiagonalGaussian, DrawGradient, Family, FamilyDraw, MomentGradient};

use crate::difference::within;
use crate::family_violation::FamilyLaw;
use crate::gaussian::Closed;
use crate::moments::{dot, mean_and_variance};
use crate::{Violation, derivative};

const SEED: u64 = 141_421;
/// Points of parameters and noise at which gradients are checked.
const POINTS: u64 = 4;
/// The scale of the initial parameters, and how far they are then moved: far from symmetry, still well conditioned.
pub(super) const START: f64 = 0.7;
pub(super) const MOVED: f64 = 0.3;
/// The first standard deviations may miss the scale asked for by this much, so that a family may start off a saddle.
const LEEWAY: f64 = 0.01;
/// Draws behind moments and entropy.
pub(super) const DRAWS: u32 = 20_000;
/// Standard errors allowed of a moment: a correct family fails one check with probability 6e-7.
pub(super) const STANDARD_ERRORS: f64 = 5.0;
/// Closed form against closed form: a few thousand last digits, for the condition of the covariance.
pub(super) const EXACT: f64 = 1e-12;
/// Fourth-order differences are good to about 1e-11 relative to the largest number in them.
pub(super) const DIFFERENCE: f64 = 1e-8;
/// What slots hold before something is added: not zero, so that an assignment in place of an addition is seen.
pub(super) const BEFORE: f64 = 1.0;

/// Checks all laws of a Gaussian `family` at random parameters.
///
/// Components whose variance is zero are point masses: by convention ([`partita_inference::Delta`]) they contribute 0
/// nats to log density and entropy and have score 0, and only their location is checked.
///
/// # Errors
/// The first [`FamilyLaw`] that does not hold.
///
/// # Example
/// ```
/// partita_laws::family(&partita_inference::FullRankGaussian::new(3))?;
/// # Ok::<(), partita_laws::Violation<partita_laws::FamilyLaw>>(())
/// ```
pub fn family(family: &dyn Family) -> Result<(), Violation<FamilyLaw>> {
    checked(family).map_err(|law| Violation { subject: format!("{family:?}"), law })
}

fn checked(family: &dyn Family) -> Result<(), FamilyLaw> {
    start(family)?;
    for number in 0..POINTS {
        let mut stream = Noise::new(SEED).stream(Key::new(Purpose::Check, number));
        let mut random = |length: usize| random(&mut stream, length);
        let mut parameters = family.initial(START);
        let moves = random(parameters.len());
        parameters.iter_mut().zip(moves).for_each(|(slot, move_by)| *slot += MOVED * move_by);
        let noise = random(family.noise_len());
        let place = Place { family, parameters, noise };
        place.deviations()?;
        place.density()?;
        place.other_memory()?;
        place.vjp(&random(family.len()))?;
        place.vjp_moments(random(family.len()), &random(family.len() * family.len()))?;
        place.entropy_gradient()?;
        place.whole_gradient(&random(family.len()))?;
        if number == 0 {
            place.draws()?;
        }
    }
    Ok(())
}

fn start(family: &dyn Family) -> Result<(), FamilyLaw> {
    let length = family.len();
    let parameters = family.initial(START);
    let FamilyDraw { latent, deviation, score, .. } = family.draw(&parameters, &vec![0.0; family.noise_len()]);
    let mean = family.mean(&parameters);
    let covariance = family.covariance(&parameters);
    let lengths = [
        ("the initial parameters", parameters.len(), family.parameter_len()),
        ("a draw", latent.len(), length),
        ("a deviation", deviation.len(), length),
        ("a score", score.len(), length),
        ("the mean", mean.len(), length),
        ("the covariance", covariance.len(), length * length),
    ];
    for (vector, found, expected) in lengths {
        if found != expected {
            return Err(FamilyLaw::Length { vector, found, expected });
        }
    }
    for index in 0..length {
        let sd = covariance[index * length + index].sqrt();
        let expected_sd = if sd > 0.0 { START } else { 0.0 };
        let moments = [("mean", mean[index], 0.0, EXACT), ("standard deviation", sd, expected_sd, LEEWAY * START)];
        for (moment, found, expected, bound) in moments {
            if !within(found, expected, bound) {
                return Err(FamilyLaw::Start { moment, index, found, expected });
            }
        }
    }
    Ok(())
}

/// A family at some parameters, with the noise of one draw.
struct Place<'a> {
    family: &'a dyn Family,
    parameters: Vec<f64>,
    noise: Vec<f64>,
}

impl Place<'_> {
    fn closed(&self) -> Result<Closed, FamilyLaw> {
        let family = self.family;
        Closed::new(family.mean(&self.parameters), &family.covariance(&self.parameters)).ok_or(FamilyLaw::Covariance)
    }

    fn deviations(&self) -> Result<(), FamilyLaw> {
        let (family, length) = (self.family, self.family.len());
        let (deviations, covariance) = (family.deviations(&self.parameters), family.covariance(&self.parameters));
        if deviations.len() != length {
            let (vector, found, expected) = ("the standard deviations", deviations.len(), length);
            return Err(FamilyLaw::Length { vector, found, expected });
        }
        for (index, found) in deviations.into_iter().enumerate() {
            let expected = covariance[index * length + index].sqrt();
            if !within(found, expected, EXACT * (1.0 + expected)) {
                return Err(FamilyLaw::Deviation { index, found, expected });
            }
        }
        Ok(())
    }

    fn density(&self) -> Result<(), FamilyLaw> {
        let draw = self.family.draw(&self.parameters, &self.noise);
        let mean = self.family.mean(&self.parameters);
        for (index, (found, (m, d))) in draw.latent.iter().copied().zip(mean.iter().zip(&draw.deviation)).enumerate() {
            let (law, expected) = ("mean + deviation", m + d);
            if !within(found, expected, EXACT * (1.0 + expected.abs())) {
                return Err(FamilyLaw::Draw { law, index, found, expected });
            }
        }
        let closed = self.closed()?;
        let (found, expected) = (draw.log_density, closed.log_density(&draw.latent));
        if !within(found, expected, EXACT * (1.0 + expected.abs())) {
            return Err(FamilyLaw::LogDensity { found, expected });
        }
        for (index, found) in draw.score.iter().copied().enumerate() {
            let is_free = closed.free().contains(&index);
            let slope = || derivative(|latent| closed.log_density(latent), &draw.latent, index);
            let expected = if is_free { slope() } else { 0.0 };
            if !within(found, expected, DIFFERENCE * (1.0 + expected.abs())) {
                return Err(FamilyLaw::Score { by: "latent", index, found, expected });
            }
        }
        Ok(())
    }

    /// Checks draws into the memory of another draw, with and without the score.
    fn other_memory(&self) -> Result<(), FamilyLaw> {
        let family = self.family;
        let expected = family.draw(&self.parameters, &self.noise);
        let other: Vec<f64> = self.noise.iter().map(|e| e + BEFORE).collect();
        let mut with_score = family.draw(&self.parameters, &other);
        let mut without = with_score.clone();
        family.draw_into(&self.parameters, &self.noise, &mut with_score);
        family.draw_without_score(&self.parameters, &self.noise, &mut without);
        if without.score.is_empty() {
            without.score.clone_from(&expected.score);
        }
        let same =
            self.diagonal()?.map(|diagonal| ("the diagonal family", diagonal.draw(&self.parameters, &self.noise)));
        let own = [("a draw into other memory", with_score), ("a draw without score", without)];
        for (law, found) in own.into_iter().chain(same) {
            let numbers = |draw: &FamilyDraw| {
                [draw.latent.as_slice(), &draw.deviation, &draw.score, &[draw.log_density]].concat()
            };
            let (found, expected) = (numbers(&found), numbers(&expected));
            let differs =
                |index: &usize| !within(found[*index], expected[*index], EXACT * (1.0 + expected[*index].abs()));
            let length = found.len().min(expected.len());
            if let Some(index) = (0..length).find(differs).or((found.len() != expected.len()).then_some(length)) {
                let at = |numbers: &[f64]| numbers.get(index).copied().unwrap_or(f64::NAN);
                let (found, expected) = (at(&found), at(&expected));
                return Err(FamilyLaw::Draw { law, index, found, expected });
            }
        }
        Ok(())
    }

    /// The diagonal family that it says it is.
    fn diagonal(&self) -> Result<Option<DiagonalGaussian>, FamilyLaw> {
        let Some(own) = self.family.diagonal() else { return Ok(None) };
        let (found, expected) = (own.parameter_len(), self.parameters.len());
        if found != expected {
            return Err(FamilyLaw::Length { vector: "the parameters of the same diagonal family", found, expected });
        }
        Ok(Some(own))
    }

    /// Checks the paths through the mean and through the offset apart.
    fn vjp(&self, gradient: &[f64]) -> Result<(), FamilyLaw> {
        let family = self.family;
        let zeros = vec![0.0; gradient.len()];
        let by_mean = |parameters: &[f64]| dot(gradient, &family.mean(parameters));
        let by_deviation = |parameters: &[f64]| dot(gradient, &family.draw(parameters, &self.noise).deviation);
        let mut out = vec![BEFORE; self.parameters.len()];
        family.vjp(&self.parameters, &self.noise, gradient, &zeros, &mut out);
        self.pulled_back("grad_mean", &out, by_mean)?;
        let mut out = vec![BEFORE; self.parameters.len()];
        family.vjp(&self.parameters, &self.noise, &zeros, gradient, &mut out);
        self.pulled_back("grad_offset", &out, by_deviation)
    }

    /// Checks the one pass for both gradients.
    fn whole_gradient(&self, gradient: &[f64]) -> Result<(), FamilyLaw> {
        let family = self.family;
        let factor = -0.5;
        let mut out = vec![BEFORE; self.parameters.len()];
        // Variances of their own are those of independent components alone.
        let by_variance = match family.vjp_variance(&self.parameters, gradient, &mut out.clone()) {
            Ok(()) => gradient,
            Err(_) => &[],
        };
        let kept = family.draw(&self.parameters, &self.noise).deviation;
        for (by_variance, deviation) in [(by_variance, &[][..]), (by_variance, &kept), (&[], &kept)] {
            let plain = DrawGradient::new(gradient, gradient);
            let whole = DrawGradient { factor, with_entropy: true, by_variance, deviation, ..plain };
            let scaled = |parameters: &[f64]| {
                let offset = family.draw(parameters, &self.noise).deviation;
                let variances = family.deviations(parameters).into_iter().map(|deviation| deviation * deviation);
                let by_variances: f64 = by_variance.iter().zip(variances).map(|(slope, own)| slope * own).sum();
                let by_draw = dot(gradient, &family.mean(parameters)) + dot(gradient, &offset);
                factor * (by_draw + by_variances + family.entropy(parameters))
            };
            out.fill(BEFORE);
            if family.add_gradient(&self.parameters, &self.noise, whole, &mut out).is_err() {
                out.fill(f64::NAN);
            }
            self.pulled_back("whole gradient with that of the entropy", &out, scaled)?;
        }
        Ok(())
    }

    /// Checks a gradient by all of the covariance, and one by variances alone.
    fn vjp_moments(&self, mean: Vec<f64>, random: &[f64]) -> Result<(), FamilyLaw> {
        let (family, length) = (self.family, mean.len());
        let cells = (0..length).flat_map(|i| (0..length).map(move |j| (i, j)));
        let matrix = cells.map(|(i, j)| random[i * length + j] + random[j * length + i]).collect();
        let diagonal = CovarianceGradient::Diagonal(random.iter().take(length).copied().collect());
        for covariance in [CovarianceGradient::Full(matrix), diagonal] {
            let gradient = MomentGradient { mean: mean.clone(), covariance };
            let objective = |parameters: &[f64]| {
                let covariance = family.covariance(parameters);
                let entry = |cell: usize| gradient.covariance.at(length, cell / length, cell % length);
                let by_covariance = (0..length * length).map(|cell| entry(cell) * covariance[cell]).sum::<f64>();
                dot(&gradient.mean, &family.mean(parameters)) + by_covariance
            };
            let mut out = vec![BEFORE; self.parameters.len()];
            family.vjp_moments(&self.parameters, &gradient, &mut out);
            self.pulled_back("moments", &out, objective)?;
        }
        Ok(())
    }

    fn entropy_gradient(&self) -> Result<(), FamilyLaw> {
        let family = self.family;
        let mut out = vec![BEFORE; self.parameters.len()];
        family.add_entropy_gradient(&self.parameters, &mut out);
        let violation = |index, found, expected| FamilyLaw::EntropyGradient { of: "entropy", index, found, expected };
        self.compare(&out, |parameters| family.entropy(parameters), violation)
    }

    /// Compares what was pulled back to `out` along a path with the derivatives of `objective` by the parameters.
    fn pulled_back(&self, path: &'static str, out: &[f64], objective: impl Fn(&[f64]) -> f64) -> Result<(), FamilyLaw> {
        let violation = |index, found, expected| FamilyLaw::Vjp { path, index, found, expected };
        self.compare(out, objective, violation)
    }

    /// Compares what was added to `out` with the derivatives of `objective` by the parameters.
    fn compare(
        &self,
        out: &[f64],
        objective: impl Fn(&[f64]) -> f64,
        violation: impl Fn(usize, f64, f64) -> FamilyLaw,
    ) -> Result<(), FamilyLaw> {
        let size = 1.0 + objective(&self.parameters).abs();
        for (index, slot) in out.iter().enumerate() {
            let found = slot - BEFORE;
            let expected = derivative(&objective, &self.parameters, index);
            if !within(found, expected, DIFFERENCE * (size + expected.abs())) {
                return Err(violation(index, found, expected));
            }
        }
        Ok(())
    }

    fn draws(&self) -> Result<(), FamilyLaw> {
        let family = self.family;
        let mut latents = Vec::new();
        let mut surprises = Vec::new();
        let mut noise = vec![0.0; family.noise_len()];
        for particle in 0..DRAWS {
            Noise::new(SEED).stream(Key::new(Purpose::Check, POINTS).particle(particle)).normal(&mut noise);
            let draw = family.draw(&self.parameters, &noise);
            latents.push(draw.latent);
            surprises.push(-draw.log_density);
        }
        entropy(family.entropy(&self.parameters), &surprises)?;
        self.moments(&latents)
    }

    fn moments(&self, latents: &[Vec<f64>]) -> Result<(), FamilyLaw> {
        let (family, length) = (self.family, self.family.len());
        let (mean, covariance) = (family.mean(&self.parameters), family.covariance(&self.parameters));
        let error = |variance: f64| STANDARD_ERRORS * (variance / f64::from(DRAWS)).sqrt() + EXACT;
        let refuse =
            |moment, index, found, expected, bound| Err(FamilyLaw::Moment { moment, index, found, expected, bound });
        for i in 0..length {
            let average = latents.iter().map(|latent| latent[i]).sum::<f64>() / f64::from(DRAWS);
            let bound = error(covariance[i * length + i]);
            if !within(average, mean[i], bound) {
                return refuse("mean", i, average, mean[i], bound);
            }
            for j in 0..length {
                let product = |latent: &Vec<f64>| (latent[i] - mean[i]) * (latent[j] - mean[j]);
                let found = latents.iter().map(product).sum::<f64>() / f64::from(DRAWS);
                let (expected, cell) = (covariance[i * length + j], i * length + j);
                // The variance of a product of two Gaussian deviations (Isserlis).
                let bound = error(covariance[i * length + i] * covariance[j * length + j] + expected * expected);
                if !within(found, expected, bound) {
                    return refuse("covariance", cell, found, expected, bound);
                }
            }
        }
        Ok(())
    }
}

/// Compares the entropy of a family with the mean of the negative log densities of [`DRAWS`] draws.
pub(super) fn entropy(found: f64, surprises: &[f64]) -> Result<(), FamilyLaw> {
    let (expected, variance) = mean_and_variance(surprises);
    let bound = STANDARD_ERRORS * (variance / f64::from(DRAWS)).sqrt();
    if within(found, expected, bound + EXACT) {
        return Ok(());
    }
    Err(FamilyLaw::Entropy { found, expected, bound })
}

pub(super) fn random(stream: &mut NoiseStream, length: usize) -> Vec<f64> {
    (0..length).map(|_| stream.standard_normal()).collect()
}
