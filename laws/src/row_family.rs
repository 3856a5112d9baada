//! Checks the laws of the row-wise family: as for families, with the paths through globals and through outer rows.

use partita_core::{Key, Noise, NoiseStream, Purpose};
use partita_inference::{
    CovarianceMatrix, MarginalOver, OuterMarginals, RowDraw, RowGaussian, RowGradient, RowInputs, RowMarginals,
    RowOptions, RowReach,
};

use crate::difference::within;
use crate::family::{BEFORE, DIFFERENCE, DRAWS, EXACT, MOVED, STANDARD_ERRORS, START, entropy, random};
use crate::family_violation::FamilyLaw;
use crate::gaussian::Closed;
use crate::moments::{dot, mean_and_variance};
use crate::{Violation, derivative};

const SEED: u64 = 173_205;
/// Points of parameters, globals and noise at which gradients are checked.
const POINTS: u64 = 3;
/// N/B of a minibatch, as an estimator hands it to the gradient of the entropy.
const WEIGHT: f64 = 1.7;

/// A row-wise family as the laws use it: [`RowGaussian`] itself, or one with a part replaced.
///
/// # Laws
/// Parts that are not replaced are those of [`RowFamily::whole`]; [`row_family`] finds the others where they do not fit.
pub trait RowFamily {
    /// The family whose parts are not replaced.
    fn whole(&self) -> &RowGaussian;

    /// [`RowGaussian::draw`].
    fn draw(&self, inputs: RowInputs<'_>) -> RowDraw {
        self.whole().draw(inputs)
    }

    /// [`RowGaussian::vjp`].
    fn vjp(&self, inputs: RowInputs<'_>, draw: &RowDraw, gradient: RowGradient<'_>, out: &mut [f64]) -> RowReach {
        self.whole().vjp(inputs, draw, gradient, out)
    }

    /// [`RowGaussian::marginals`].
    fn marginals(&self, parameters: &[f64], over: MarginalOver<'_>) -> RowMarginals {
        self.whole().marginals(parameters, over)
    }
}

impl RowFamily for RowGaussian {
    fn whole(&self) -> &RowGaussian {
        self
    }
}

/// Checks all laws of a row-wise family at random parameters.
///
/// The Gaussian of the rows given the globals is found from draws at unit noise, in which a draw is affine; its log
/// density, as a function of the latents, of the globals and of what outer rows deviate, is what `score`,
/// `global_score` and `outer_score` are the gradients of.
/// Parameters that the options leave unused stay zero and must receive no gradient; columns of point masses have no
/// density.
///
/// # Errors
/// The first [`FamilyLaw`] that does not hold.
///
/// # Example
/// ```
/// use partita_inference::{RowGaussian, RowOptions};
/// use partita_laws as laws;
/// let yes = || vec![true; 2];
/// let options = RowOptions { dense: yes(), given_globals: yes(), scale_given_globals: yes(), delta: vec![false; 2], given_outer: vec![false; 2] };
/// laws::row_family(&RowGaussian::new(2, 2, 3, options))?;
/// # Ok::<(), laws::Violation<laws::FamilyLaw>>(())
/// ```
pub fn row_family(family: &impl RowFamily) -> Result<(), Violation<FamilyLaw>> {
    checked(family).map_err(|law| Violation { subject: format!("{:?}", family.whole()), law })
}

fn checked(family: &impl RowFamily) -> Result<(), FamilyLaw> {
    let whole = family.whole();
    let used = used(whole);
    let lengths = [("the parameters", whole.parameter_len()), ("the initial parameters", whole.initial(START).len())];
    for (vector, found) in lengths {
        if found != used.len() {
            return Err(FamilyLaw::Length { vector, found, expected: used.len() });
        }
    }
    let cells = whole.rows() * whole.width();
    for number in 0..POINTS {
        let mut stream = Noise::new(SEED).stream(Key::new(Purpose::Check, number));
        let mut parameters = whole.initial(START);
        for (slot, used) in parameters.iter_mut().zip(&used) {
            *slot += if *used { MOVED * stream.standard_normal() } else { 0.0 };
        }
        let globals = random(&mut stream, whole.globals());
        let noise = random(&mut stream, cells);
        let outer = random(&mut stream, whole.rows() * whole.outer());
        let place = Place { rows: family, family: whole, used: &used, parameters, globals, outer, noise };
        let gradients = [random(&mut stream, cells), random(&mut stream, cells)];
        place.density()?;
        place.subset()?;
        place.vjp(&gradients)?;
        place.entropy_gradient()?;
        if number == 0 {
            place.entropy()?;
            place.moments()?;
        }
    }
    Ok(())
}

/// Which parameters the options use, in the documented order $[\mu, \rho, L, C, S, D]$, each an array over all rows.
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
    if options.given_outer.contains(&true) {
        used.extend(rows(options.given_outer.clone()).repeat(family.outer()));
    }
    used
}

/// A row-wise family at some parameters, globals and outer rows, with the noise of one draw.
struct Place<'a, F> {
    rows: &'a F,
    family: &'a RowGaussian,
    used: &'a [bool],
    parameters: Vec<f64>,
    globals: Vec<f64>,
    outer: Vec<f64>,
    noise: Vec<f64>,
}

impl<F: RowFamily> Place<'_, F> {
    fn inputs(&self) -> RowInputs<'_> {
        let Self { parameters, globals, outer, noise, .. } = self;
        RowInputs { parameters, deviation: globals, outer, noise }
    }

    /// The Gaussian of all rows at these globals and outer rows.
    fn closed(&self, globals: &[f64], outer: &[f64]) -> Result<Closed, FamilyLaw> {
        let length = self.noise.len();
        let latent =
            |noise: &[f64]| self.rows.draw(RowInputs { deviation: globals, outer, noise, ..self.inputs() }).latent;
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
        Closed::new(mean, &covariance).ok_or(FamilyLaw::Covariance)
    }

    fn density(&self) -> Result<(), FamilyLaw> {
        let draw = self.rows.draw(self.inputs());
        let at = |noise: &[f64]| self.rows.draw(RowInputs { noise, ..self.inputs() }).latent;
        let far = at(&self.noise.iter().map(|noise| 2.0 * noise).collect::<Vec<f64>>());
        let center = at(&vec![0.0; self.noise.len()]);
        for (index, found) in draw.latent.iter().copied().enumerate() {
            let expected = 0.5 * (center[index] + far[index]);
            if !within(found, expected, EXACT * (1.0 + expected.abs())) {
                let law = "half of twice the noise";
                return Err(FamilyLaw::Draw { law, index, found, expected });
            }
        }
        let closed = self.closed(&self.globals, &self.outer)?;
        let (found, expected) = (draw.log_density, closed.log_density(&draw.latent));
        if !within(found, expected, EXACT * (1.0 + expected.abs())) {
            return Err(FamilyLaw::LogDensity { found, expected });
        }
        self.scores(&draw, &closed)
    }

    /// Checks the scores of a draw against differences of the log density of its Gaussian.
    fn scores(&self, draw: &RowDraw, closed: &Closed) -> Result<(), FamilyLaw> {
        let by_latent = |latent: &[f64]| closed.log_density(latent);
        for (index, found) in draw.score.iter().copied().enumerate() {
            let is_free = closed.free().contains(&index);
            let expected = if is_free { derivative(by_latent, &draw.latent, index) } else { 0.0 };
            self.score("latent", index, found, expected)?;
        }
        // Globals and outer rows that give no Gaussian give NaN, which is a violation.
        let density = |globals: &[f64], outer: &[f64]| {
            self.closed(globals, outer).map_or(f64::NAN, |closed| closed.log_density(&draw.latent))
        };
        for (index, found) in draw.global_score.iter().copied().enumerate() {
            let by_global = |globals: &[f64]| density(globals, &self.outer);
            self.score("global", index, found, derivative(by_global, &self.globals, index))?;
        }
        let by_outer = |outer: &[f64]| density(&self.globals, outer);
        for index in 0..self.outer.len() {
            let expected = derivative(by_outer, &self.outer, index);
            // A family that does not depend on outer rows has no score by them.
            let found = draw.outer_score.get(index).copied().unwrap_or_default();
            self.score("outer row", index, found, expected)?;
        }
        Ok(())
    }

    /// Checks that some of the rows, in another order, are the same rows on their own.
    fn subset(&self) -> Result<(), FamilyLaw> {
        let (family, width) = (self.family, self.family.width());
        let rows: Vec<usize> = (0..family.rows()).rev().step_by(2).collect();
        let pick = |all: &[f64]| rows.iter().flat_map(|row| all[row * width..(row + 1) * width].to_vec()).collect();
        let (noise, parameters): (Vec<f64>, _) = (pick(&self.noise), family.gather(&self.parameters, &rows));
        let columns = self.outer.chunks_exact(family.rows().max(1));
        let outer: Vec<f64> = columns.flat_map(|column| rows.iter().map(|row| column[*row])).collect();
        let inputs = RowInputs { parameters: &parameters, deviation: &self.globals, outer: &outer, noise: &noise };
        let part = self.rows.draw(inputs).latent;
        let whole: Vec<f64> = pick(&self.rows.draw(self.inputs()).latent);
        let again = family.gather(&family.scatter(&parameters, &rows), &rows);
        for (law, found, expected) in
            [("the whole draw", part, whole), ("gathering what was scattered", again, parameters)]
        {
            for (index, (found, expected)) in found.into_iter().zip(expected).enumerate() {
                if !within(found, expected, EXACT * (1.0 + expected.abs())) {
                    return Err(FamilyLaw::Draw { law, index, found, expected });
                }
            }
        }
        Ok(())
    }

    fn score(&self, by: &'static str, index: usize, found: f64, expected: f64) -> Result<(), FamilyLaw> {
        if within(found, expected, DIFFERENCE * (1.0 + expected.abs())) {
            return Ok(());
        }
        Err(FamilyLaw::Score { by, index, found, expected })
    }

    /// Checks the pull-back of two gradients, by the means and by what draws deviate from them.
    fn vjp(&self, [grad_mean, grad_offset]: &[Vec<f64>; 2]) -> Result<(), FamilyLaw> {
        let draw = self.rows.draw(self.inputs());
        let mut out = vec![BEFORE; self.parameters.len()];
        let gradient = RowGradient { grad_mean, grad_offset };
        let returned = self.rows.vjp(self.inputs(), &draw, gradient, &mut out);
        let along = |inputs: RowInputs<'_>| {
            let draw = self.rows.draw(inputs);
            let mean = &inputs.parameters[..draw.latent.len()];
            let offset: Vec<f64> = draw.latent.iter().zip(mean).map(|(latent, mean)| latent - mean).collect();
            dot(grad_mean, mean) + dot(grad_offset, &offset)
        };
        let violation = |path, index, found, expected| FamilyLaw::Vjp { path, index, found, expected };
        self.compare(&out, &returned, along, violation)
    }

    /// Checks both gradients: of the sampled entropy along the draw, and of the expected one.
    fn entropy_gradient(&self) -> Result<(), FamilyLaw> {
        self.compare_entropy(false, |inputs: RowInputs<'_>| -WEIGHT * self.rows.draw(inputs).log_density)?;
        self.compare_entropy(true, |inputs: RowInputs<'_>| WEIGHT * self.family.entropy(inputs.parameters))
    }

    fn compare_entropy(&self, is_expected: bool, objective: impl Fn(RowInputs<'_>) -> f64) -> Result<(), FamilyLaw> {
        let mut out = vec![BEFORE; self.parameters.len()];
        let globals = self.family.add_entropy_gradient(self.inputs(), WEIGHT, is_expected, &mut out);
        let returned = RowReach { globals, outer: Vec::new() };
        let violation = |of, index, found, expected| FamilyLaw::EntropyGradient { of, index, found, expected };
        self.compare(&out, &returned, objective, violation)
    }

    /// Compares what was added to `out`, and what was returned, with the derivatives by parameters, globals and outer
    /// rows.
    fn compare(
        &self,
        out: &[f64],
        returned: &RowReach,
        objective: impl Fn(RowInputs<'_>) -> f64,
        violation: impl Fn(&'static str, usize, f64, f64) -> FamilyLaw,
    ) -> Result<(), FamilyLaw> {
        let size = 1.0 + objective(self.inputs()).abs();
        let differ = |found: f64, expected: f64| !within(found, expected, DIFFERENCE * (size + expected.abs()));
        let by_parameters = |parameters: &[f64]| objective(RowInputs { parameters, ..self.inputs() });
        for (index, (slot, used)) in out.iter().zip(self.used).enumerate() {
            let found = slot - BEFORE;
            let expected = if *used { derivative(by_parameters, &self.parameters, index) } else { 0.0 };
            if differ(found, expected) {
                return Err(violation("gradient by parameter", index, found, expected));
            }
        }
        let by_globals = |deviation: &[f64]| objective(RowInputs { deviation, ..self.inputs() });
        for (index, found) in returned.globals.iter().copied().enumerate() {
            let expected = derivative(by_globals, &self.globals, index);
            if differ(found, expected) {
                return Err(violation("gradient by global latent", index, found, expected));
            }
        }
        let by_outer = |outer: &[f64]| objective(RowInputs { outer, ..self.inputs() });
        for index in 0..self.outer.len() {
            let found = returned.outer.get(index).copied().unwrap_or_default();
            let expected = derivative(by_outer, &self.outer, index);
            if differ(found, expected) {
                return Err(violation("gradient by outer row", index, found, expected));
            }
        }
        Ok(())
    }

    /// Checks the expected entropy against draws of globals around their mean and of rows given them.
    fn entropy(&self) -> Result<(), FamilyLaw> {
        let surprises: Vec<f64> = (0..DRAWS)
            .map(|particle| {
                let mut stream = Noise::new(SEED).stream(Key::new(Purpose::Check, POINTS).particle(particle));
                let globals = random(&mut stream, self.globals.len());
                let noise = random(&mut stream, self.noise.len());
                -self.rows.draw(RowInputs { deviation: &globals, noise: &noise, ..self.inputs() }).log_density
            })
            .collect();
        entropy(self.family.entropy(&self.parameters), &surprises)
    }

    /// Checks the stated marginals against draws of globals, of outer rows given them, and of rows given both.
    fn moments(&self) -> Result<(), FamilyLaw> {
        let around = Around::of(self.family);
        let stated =
            around.family.marginals(&around.parameters, MarginalOver { globals: Some(&around.spread), outer: None });
        let outer = OuterMarginals { marginals: &stated, rows: &around.rows };
        let over = MarginalOver { globals: Some(&around.spread), outer: Some(outer) };
        let RowMarginals { means, deviations: sds, .. } = self.rows.marginals(&self.parameters, over);
        let draws: Vec<Vec<f64>> = (0..DRAWS)
            .map(|particle| {
                let mut stream = Noise::new(SEED).stream(Key::new(Purpose::Check, POINTS + 1).particle(particle));
                let (globals, outer) = around.draw(&mut stream);
                let noise = random(&mut stream, self.noise.len());
                let inputs = RowInputs { deviation: &globals, outer: &outer, noise: &noise, ..self.inputs() };
                self.rows.draw(inputs).latent
            })
            .collect();
        let refuse =
            |moment, index, found, expected, bound| Err(FamilyLaw::Moment { moment, index, found, expected, bound });
        for (index, (mean, sd)) in means.iter().zip(&sds).enumerate() {
            let column: Vec<f64> = draws.iter().map(|draw| draw[index]).collect();
            let (found, variance) = mean_and_variance(&column);
            let bound = STANDARD_ERRORS * sd / f64::from(DRAWS).sqrt() + EXACT;
            if !within(found, *mean, bound) {
                return refuse("mean", index, found, *mean, bound);
            }
            // The standard error of a variance, from the fourth moment: scales that vary give heavy tails.
            let squares: Vec<f64> = column.iter().map(|latent| (latent - mean) * (latent - mean)).collect();
            let bound = STANDARD_ERRORS * (mean_and_variance(&squares).1 / f64::from(DRAWS)).sqrt() / (2.0 * sd);
            let is_same =
                if *sd == 0.0 { within(variance, 0.0, EXACT) } else { within(variance.sqrt(), *sd, bound + EXACT) };
            if !is_same {
                return refuse("standard deviation", index, variance.sqrt(), *sd, bound);
            }
        }
        Ok(())
    }
}

/// Globals, and rows around those of a family: what its marginals are taken over.
struct Around {
    family: RowGaussian,
    parameters: Vec<f64>,
    /// The outer row of each row.
    rows: Vec<usize>,
    /// Standard deviations of the globals.
    sds: Vec<f64>,
    spread: CovarianceMatrix,
}

impl Around {
    /// Two outer rows with every option.
    fn of(family: &RowGaussian) -> Self {
        let mut stream = Noise::new(SEED).stream(Key::new(Purpose::Check, POINTS + 2));
        let yes = || vec![true; family.outer()];
        let options = RowOptions {
            dense: yes(),
            given_globals: yes(),
            scale_given_globals: yes(),
            ..RowOptions::independent(family.outer())
        };
        let around = RowGaussian::new(2, family.outer(), family.globals(), options);
        let moved = random(&mut stream, around.parameter_len());
        let parameters = around.initial(START).iter().zip(moved).map(|(start, away)| start + MOVED * away).collect();
        let sds: Vec<f64> = random(&mut stream, family.globals()).iter().map(|z| (MOVED * z).exp()).collect();
        let rows = (0..family.rows()).map(|row| row % 2).collect();
        Self { family: around, parameters, rows, spread: CovarianceMatrix::Diagonal(sds.clone()), sds }
    }

    /// A draw of the globals' deviation, and of what the outer row of each row deviates.
    fn draw(&self, stream: &mut NoiseStream) -> (Vec<f64>, Vec<f64>) {
        let globals: Vec<f64> = random(stream, self.sds.len()).iter().zip(&self.sds).map(|(z, sd)| z * sd).collect();
        let noise = random(stream, 2 * self.family.width());
        let inputs = RowInputs { parameters: &self.parameters, deviation: &globals, outer: &[], noise: &noise };
        let offset = self.family.offset(&self.parameters, &self.family.draw(inputs));
        let column = |column: usize| self.rows.iter().map(move |row| row * self.family.width() + column);
        let outer = (0..self.family.width()).flat_map(column).map(|cell| offset[cell]).collect();
        (globals, outer)
    }
}
