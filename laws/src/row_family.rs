//! Checks the laws of the row-wise family of local latents: as for families, and with the path through the globals.

use partita_core::{Key, Noise, Purpose};
use partita_inference::RowGaussian;

use crate::derivative;
use crate::difference::within;
use crate::family::{BEFORE, DIFFERENCE, DRAWS, EXACT, MOVED, STANDARD_ERRORS, START, random};
use crate::family_violation::FamilyViolation;
use crate::gaussian::Closed;
use crate::moments::{dot, mean_and_variance};

const SEED: u64 = 173_205;
/// Points of parameters, globals and noise at which gradients are checked.
const POINTS: u64 = 3;
/// N/B of a minibatch, as an estimator hands it to the gradient of the entropy.
const WEIGHT: f64 = 1.7;

/// Checks all laws of a row-wise family at random parameters.
///
/// The Gaussian of the rows given the globals is found from draws at unit noise, in which a draw is affine; its log
/// density, as a function of the latents and of the globals, is what `score` and `global_score` are the gradients of.
/// Parameters that the options leave unused stay zero and must receive no gradient; columns of point masses have no
/// density.
///
/// # Errors
/// The first [`FamilyViolation`] found.
///
/// # Example
/// ```
/// use partita_inference::{RowGaussian, RowOptions};
/// use partita_laws as laws;
/// let yes = || vec![true; 2];
/// let options = RowOptions { dense: yes(), given_globals: yes(), scale_given_globals: yes(), delta: vec![false; 2] };
/// laws::row_family(&RowGaussian::new(2, 2, 3, options))?;
/// # Ok::<(), laws::FamilyViolation>(())
/// ```
pub fn row_family(family: &RowGaussian) -> Result<(), FamilyViolation> {
    let used = used(family);
    let lengths = [("the parameters", family.parameter_len()), ("the initial parameters", family.initial(START).len())];
    for (vector, found) in lengths {
        if found != used.len() {
            return Err(FamilyViolation::Length { family: name(family), vector, found, expected: used.len() });
        }
    }
    for number in 0..POINTS {
        let mut stream = Noise::new(SEED).stream(Key::new(Purpose::Check, number));
        let mut parameters = family.initial(START);
        for (slot, used) in parameters.iter_mut().zip(&used) {
            *slot += if *used { MOVED * stream.standard_normal() } else { 0.0 };
        }
        let globals = random(&mut stream, family.globals());
        let noise = random(&mut stream, family.rows() * family.width());
        let place = Place { family, used: &used, parameters, globals, noise };
        let gradient = random(&mut stream, family.rows() * family.width());
        place.density()?;
        place.subset()?;
        place.vjp(&gradient)?;
        place.entropy_gradient()?;
        if number == 0 {
            place.entropy()?;
            place.moments()?;
        }
    }
    Ok(())
}

fn name(family: &RowGaussian) -> String {
    format!("{family:?}")
}

/// Which parameters the options use, in the documented order $[\mu, \rho, L, C, S]$, each an array over all rows.
fn used(family: &RowGaussian) -> Vec<bool> {
    let options = family.options();
    let width = family.width();
    let random = |column: usize| !options.delta[column];
    let dense = |column: usize| options.dense[column] && random(column);
    let rows = |row: Vec<bool>| row.repeat(family.rows());
    let mut used = rows(vec![true; width]);
    used.extend(rows((0..width).map(random).collect()));
    if (0..width).filter(|&column| dense(column)).count() > 1 {
        let lower = (0..width).flat_map(|column| (0..column).map(move |other| dense(column) && dense(other)));
        used.extend(rows(lower.collect()));
    }
    for columns in [&options.given_globals, &options.scale_given_globals] {
        if columns.contains(&true) {
            used.extend(rows(columns.clone()).repeat(family.globals()));
        }
    }
    used
}

/// A row-wise family at some parameters and globals, with the noise of one draw.
struct Place<'a> {
    family: &'a RowGaussian,
    used: &'a [bool],
    parameters: Vec<f64>,
    globals: Vec<f64>,
    noise: Vec<f64>,
}

impl Place<'_> {
    /// The Gaussian of all rows at these globals.
    fn closed(&self, globals: &[f64]) -> Result<Closed, FamilyViolation> {
        let length = self.noise.len();
        let latent = |noise: &[f64]| self.family.draw(&self.parameters, globals, noise).latent;
        let mean = latent(&vec![0.0; length]);
        let mut covariance = vec![0.0; length * length];
        for source in 0..length {
            let mut unit = vec![0.0; length];
            unit[source] = 1.0;
            let column: Vec<f64> = latent(&unit).iter().zip(&mean).map(|(z, m)| z - m).collect();
            for (i, a) in column.iter().enumerate() {
                for (j, b) in column.iter().enumerate() {
                    covariance[i * length + j] += a * b;
                }
            }
        }
        Closed::new(mean, &covariance).ok_or_else(|| FamilyViolation::Covariance { family: name(self.family) })
    }

    fn density(&self) -> Result<(), FamilyViolation> {
        let draw = self.family.draw(&self.parameters, &self.globals, &self.noise);
        let doubled: Vec<f64> = self.noise.iter().map(|noise| 2.0 * noise).collect();
        let far = self.family.draw(&self.parameters, &self.globals, &doubled).latent;
        let center = self.family.draw(&self.parameters, &self.globals, &vec![0.0; self.noise.len()]).latent;
        for (index, found) in draw.latent.iter().copied().enumerate() {
            let expected = 0.5 * (center[index] + far[index]);
            if !within(found, expected, EXACT * (1.0 + expected.abs())) {
                let law = "half of twice the noise";
                return Err(FamilyViolation::Draw { family: name(self.family), law, index, found, expected });
            }
        }
        let closed = self.closed(&self.globals)?;
        let (found, expected) = (draw.log_density, closed.log_density(&draw.latent));
        if !within(found, expected, EXACT * (1.0 + expected.abs())) {
            return Err(FamilyViolation::LogDensity { family: name(self.family), found, expected });
        }
        let by_latent = |latent: &[f64]| closed.log_density(latent);
        for (index, found) in draw.score.iter().copied().enumerate() {
            let is_free = closed.free().contains(&index);
            let expected = if is_free { derivative(by_latent, &draw.latent, index) } else { 0.0 };
            self.score("latent", index, found, expected)?;
        }
        // Globals that give no Gaussian give NaN, which is a violation.
        let by_global =
            |globals: &[f64]| self.closed(globals).map_or(f64::NAN, |closed| closed.log_density(&draw.latent));
        for (index, found) in draw.global_score.iter().copied().enumerate() {
            self.score("global", index, found, derivative(by_global, &self.globals, index))?;
        }
        Ok(())
    }

    /// Checks that some of the rows, in another order, are the same rows on their own.
    fn subset(&self) -> Result<(), FamilyViolation> {
        let (family, width) = (self.family, self.family.width());
        let rows: Vec<usize> = (0..family.rows()).rev().step_by(2).collect();
        let pick = |all: &[f64]| rows.iter().flat_map(|row| all[row * width..(row + 1) * width].to_vec()).collect();
        let (noise, parameters): (Vec<f64>, _) = (pick(&self.noise), family.gather(&self.parameters, &rows));
        let part = family.draw(&parameters, &self.globals, &noise).latent;
        let whole: Vec<f64> = pick(&family.draw(&self.parameters, &self.globals, &self.noise).latent);
        let again = family.gather(&family.scatter(&parameters, &rows), &rows);
        for (law, found, expected) in
            [("the whole draw", part, whole), ("gathering what was scattered", again, parameters)]
        {
            for (index, (found, expected)) in found.into_iter().zip(expected).enumerate() {
                if !within(found, expected, EXACT * (1.0 + expected.abs())) {
                    return Err(FamilyViolation::Draw { family: name(family), law, index, found, expected });
                }
            }
        }
        Ok(())
    }

    fn score(&self, by: &'static str, index: usize, found: f64, expected: f64) -> Result<(), FamilyViolation> {
        if within(found, expected, DIFFERENCE * (1.0 + expected.abs())) {
            return Ok(());
        }
        Err(FamilyViolation::Score { family: name(self.family), by, index, found, expected })
    }

    fn vjp(&self, gradient: &[f64]) -> Result<(), FamilyViolation> {
        let draw = self.family.draw(&self.parameters, &self.globals, &self.noise);
        let mut out = vec![BEFORE; self.parameters.len()];
        let returned = self.family.vjp(&self.parameters, &self.globals, &self.noise, &draw, gradient, &mut out);
        let along = |parameters: &[f64], globals: &[f64]| {
            dot(gradient, &self.family.draw(parameters, globals, &self.noise).latent)
        };
        self.compare(&out, &returned, along, |path, index, found, expected| FamilyViolation::Vjp {
            family: name(self.family),
            path,
            index,
            found,
            expected,
        })
    }

    /// Checks both gradients: of the sampled entropy along the draw, and of the expected one.
    fn entropy_gradient(&self) -> Result<(), FamilyViolation> {
        let along = |parameters: &[f64], globals: &[f64]| {
            -WEIGHT * self.family.draw(parameters, globals, &self.noise).log_density
        };
        let expected = |parameters: &[f64], _: &[f64]| WEIGHT * self.family.entropy(parameters);
        self.compare_entropy(false, along)?;
        self.compare_entropy(true, expected)
    }

    fn compare_entropy(
        &self,
        is_expected: bool,
        objective: impl Fn(&[f64], &[f64]) -> f64,
    ) -> Result<(), FamilyViolation> {
        let mut out = vec![BEFORE; self.parameters.len()];
        let returned = self.family.add_entropy_gradient(&self.parameters, &self.globals, WEIGHT, is_expected, &mut out);
        self.compare(&out, &returned, objective, |of, index, found, expected| FamilyViolation::EntropyGradient {
            family: name(self.family),
            of,
            index,
            found,
            expected,
        })
    }

    /// Compares what was added to `out`, and what was returned, with the derivatives by parameters and globals.
    fn compare(
        &self,
        out: &[f64],
        returned: &[f64],
        objective: impl Fn(&[f64], &[f64]) -> f64,
        violation: impl Fn(&'static str, usize, f64, f64) -> FamilyViolation,
    ) -> Result<(), FamilyViolation> {
        let size = 1.0 + objective(&self.parameters, &self.globals).abs();
        let by_parameters = |parameters: &[f64]| objective(parameters, &self.globals);
        for (index, (slot, used)) in out.iter().zip(self.used).enumerate() {
            let found = slot - BEFORE;
            let expected = if *used { derivative(by_parameters, &self.parameters, index) } else { 0.0 };
            if !within(found, expected, DIFFERENCE * (size + expected.abs())) {
                return Err(violation("gradient by parameter", index, found, expected));
            }
        }
        let by_globals = |globals: &[f64]| objective(&self.parameters, globals);
        for (index, found) in returned.iter().copied().enumerate() {
            let expected = derivative(by_globals, &self.globals, index);
            if !within(found, expected, DIFFERENCE * (size + expected.abs())) {
                return Err(violation("gradient by global latent", index, found, expected));
            }
        }
        Ok(())
    }

    /// Checks the expected entropy against draws of globals around their mean and of rows given them.
    fn entropy(&self) -> Result<(), FamilyViolation> {
        let surprises: Vec<f64> = (0..DRAWS)
            .map(|particle| {
                let mut stream = Noise::new(SEED).stream(Key::new(Purpose::Check, POINTS).particle(particle));
                let globals = random(&mut stream, self.globals.len());
                let noise = random(&mut stream, self.noise.len());
                -self.family.draw(&self.parameters, &globals, &noise).log_density
            })
            .collect();
        let (expected, variance) = mean_and_variance(&surprises);
        let (found, bound) =
            (self.family.entropy(&self.parameters), STANDARD_ERRORS * (variance / f64::from(DRAWS)).sqrt());
        if within(found, expected, bound + EXACT) {
            return Ok(());
        }
        Err(FamilyViolation::Entropy { family: name(self.family), found, expected, bound })
    }

    /// Checks the stated moments against draws at the globals' mean.
    fn moments(&self) -> Result<(), FamilyViolation> {
        let (means, sds) = self.family.moments(&self.parameters);
        let center = vec![0.0; self.globals.len()];
        let draws: Vec<Vec<f64>> = (0..DRAWS)
            .map(|particle| {
                let mut stream = Noise::new(SEED).stream(Key::new(Purpose::Check, POINTS + 1).particle(particle));
                let noise = random(&mut stream, self.noise.len());
                self.family.draw(&self.parameters, &center, &noise).latent
            })
            .collect();
        let refuse = |moment, index, found, expected, bound| {
            Err(FamilyViolation::Moment { family: name(self.family), moment, index, found, expected, bound })
        };
        for (index, (mean, sd)) in means.iter().zip(&sds).enumerate() {
            let column: Vec<f64> = draws.iter().map(|draw| draw[index]).collect();
            let (found, variance) = mean_and_variance(&column);
            let bound = STANDARD_ERRORS * sd / f64::from(DRAWS).sqrt() + EXACT;
            if !within(found, *mean, bound) {
                return refuse("mean", index, found, *mean, bound);
            }
            // The standard error of a Gaussian's standard deviation is σ/√(2n).
            let bound = STANDARD_ERRORS * sd / (2.0 * f64::from(DRAWS)).sqrt() + EXACT;
            if !within(variance.sqrt(), *sd, bound) {
                return refuse("standard deviation", index, variance.sqrt(), *sd, bound);
            }
        }
        Ok(())
    }
}
