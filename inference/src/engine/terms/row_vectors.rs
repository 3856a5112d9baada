//! Evaluates a silo's terms row by row, one tape a row: what each adds to a sum that is clipped and noised.

use partita_core::{Key, Role};

use crate::engine::algorithm::finite;
use crate::engine::apart::in_halves;
use crate::engine::error::{Error, Result};
use crate::engine::estimator::Estimator;
use crate::engine::family::FamilyDraw;
use crate::engine::optimiser::Adam;
use crate::engine::rows::one_outermost;
use crate::engine::terms::particles::{Context, Draws, LocalGradients, number, spread};
use crate::engine::terms::silo::Silo;

impl Silo {
    /// How many rows of the one outermost plate contribute to sums, once nothing is found by which one row would decide on
    /// what another contributes.
    ///
    /// # Errors
    /// [`Error::Setting`] for several outermost plates or none, outcomes outside rows, latents of the silo, trained
    /// parameters, minibatches, an estimator whose draws are weighed over all rows, and an optimiser of one's own.
    pub(crate) fn rows_apart(&self) -> Result<usize> {
        let refuse = |found: String, expected| Err(Error::Setting { setting: "privacy", found, expected });
        let (table, settings) = (&self.table, &self.settings);
        let block = one_outermost(table)?;
        let mut observed = table.sites().iter().filter(|site| site.role == Role::Observed);
        if let Some(site) = observed.find(|site| site.plate.is_none() || table.outermost(site.block()) != block) {
            let expected = "outcomes in rows, one of which is what is protected";
            return refuse(format!("`{}`, which is in no row of the outermost plate", site.name), expected);
        }
        let ties_rows = table.blocks().iter().any(|own| own.plate.is_none() && own.width > 0);
        let found = "latents of the silo, which tie its rows together";
        Error::unless(!ties_rows, "privacy", found, "latents in rows alone")?;
        let is_trained = self.theta_len + self.locals.private_theta().len() > 0 || self.locals.are_encoded();
        let expected = "a model without trained parameters and encoders, which all rows train";
        Error::unless(!is_trained, "privacy", "trained parameters", expected)?;
        if let Some(plate) = settings.minibatch.keys().next() {
            let expected = "no minibatch, whose rows the seed of the run tells; samples are drawn by the mechanism";
            return refuse(format!("a minibatch of `{plate}`"), expected);
        }
        let estimator = settings.estimator;
        let stay_apart = !estimator.weighs_draws() && estimator != Estimator::LocalReparameterisation;
        let expected = "StickingTheLanding or LocallyEnhanced, in which rows stay apart";
        Error::unless(stay_apart, "privacy", format_args!("{estimator:?}"), expected)?;
        let is_served = !table.has_local_latents() || settings.optimiser.get::<Adam>().is_some();
        let found = format_args!("{:?} for the latents of rows", settings.optimiser);
        let expected = "Adam, which moves every number of the local posterior by its own gradients";
        Error::unless(is_served, "privacy", found, expected)?;
        Ok(table.blocks()[block].rows)
    }

    /// What each of these rows adds to $`b_j`$, the gradient by the globals along which its latents follow them, at every
    /// draw of the globals: one vector a row, draw after draw.
    ///
    /// Every row has a tape of its own, so that rows cost what as many evaluations of single rows cost. A row at which
    /// the model is not defined has NaN, which a sum counts as zero: it does not decide whether there is a sum.
    pub(crate) fn row_vectors(
        &mut self,
        globals: &[f64],
        rows: &[usize],
        draw: Draws,
        at: &[FamilyDraw],
    ) -> Result<Vec<Vec<f64>>> {
        let block = one_outermost(&self.table)?;
        let (repeats, noise) = self.whole_noise(draw, at.len())?;
        let Self { device, settings, table, family, locals, workers, .. } = self;
        let (device, settings, table, family, locals) = (&*device, &*settings, &*table, &**family, &*locals);
        spread(workers, rows.len(), |worker, index| {
            let mut vector = Vec::with_capacity(at.len() * family.len());
            for (particle, (global, noise)) in at.iter().zip(&noise).enumerate() {
                let rows = &locals.some(block, &rows[index..=index], noise, repeats);
                let context = Context { device, settings, table, family, locals, globals, rows, draw, layers: None };
                match context.elbo_term(worker, global, number(particle)) {
                    Ok(own) => vector.extend(own.found.grad_offset.iter().map(|value| rows.share() * value)),
                    Err(error) if error.is_outside() => vector.extend(vec![f64::NAN; family.len()]),
                    Err(error) => return Err(error),
                }
            }
            Ok(vector)
        })
    }

    /// The gradients of the rows' own posteriors at the draws of a step over all rows, one vector a block, draw after
    /// draw.
    ///
    /// Rows are evaluated together. A row at which the model is not defined, or whose gradient is not finite, has
    /// zeros, and does not decide whether others move.
    pub(crate) fn local_gradients(&mut self, globals: &[f64], draw: Draws) -> Result<Vec<Vec<Vec<f64>>>> {
        let mut whole = self.locals.whole();
        let zeros = vec![self.locals.zeros(&whole); draw.count];
        if zeros.iter().flatten().all(Vec::is_empty) {
            return Ok(zeros);
        }
        let found = self.elbo_terms(globals, &mut whole, draw, LocalGradients::OfDraws);
        let found = found.map(|found| found.into_iter().map(|own| own.by_local).collect::<Vec<_>>());
        match found {
            Ok(found) if found.iter().flatten().flatten().all(|slope| slope.is_finite()) => return Ok(found),
            Err(error) if !error.is_outside() => return Err(error),
            _ => (),
        }
        let (block, mut all) = (one_outermost(&self.table)?, zeros);
        let (repeats, noise) = self.whole_noise(draw, draw.count)?;
        let Self { device, settings, table, family, locals, workers, .. } = self;
        let (device, settings, table, family, locals) = (&*device, &*settings, &*table, &**family, &*locals);
        let rows: Vec<usize> = (0..table.blocks()[block].rows).collect();
        for (particle, (noise, all)) in noise.iter().zip(&mut all).enumerate() {
            let particle = number(particle);
            let global = family.draw(globals, &draw.global_noise(family, settings, particle));
            in_halves(&rows, &mut |some| {
                let rows = &locals.some(block, some, noise, repeats);
                let context = Context { device, settings, table, family, locals, globals, rows, draw, layers: None };
                let own = context.elbo_term(&workers[0], &global, particle)?.by_local;
                let step = || "the gradient of a row's own posterior".to_owned();
                own.iter().try_for_each(|own| finite("a silo", draw.step, |_| step(), own))?;
                locals.put(rows, own, all);
                Ok(())
            })?;
        }
        Ok(all)
    }

    /// How often rows are repeated, and the noise of all of them at so many draws.
    fn whole_noise(&self, draw: Draws, draws: usize) -> Result<(usize, Vec<Vec<Vec<f64>>>)> {
        let repeats = match self.settings.estimator {
            Estimator::LocallyEnhanced { inner } => Some(inner),
            _ => None,
        };
        let noise = (0..draws).map(|particle| {
            let key = Key::new(draw.purpose, draw.step).particle(number(particle));
            self.locals.whole_noise(repeats, key)
        });
        Ok((repeats.unwrap_or(1), noise.collect::<Result<_>>()?))
    }

    /// As many copies of model and data as the silo has threads: rows are evaluated on all of them.
    pub(crate) fn work_by_rows(&mut self) {
        if let Some(first) = self.workers.first().cloned() {
            self.workers.resize(self.settings.silo_threads().max(self.workers.len()), first);
        }
    }
}

#[cfg(test)]
mod tests {
    use partita_core::{Device, Groups, Noise, Purpose};

    use super::*;
    use crate::engine::effects::Effects;
    use crate::engine::settings::Settings;

    fn silo(nested: bool, estimator: Estimator, threads: usize) -> Silo {
        let (device, rows) = (Device::flex(), 12);
        let y = (0..rows).map(|row| f64::from(u8::from(row % 3 == 0))).collect::<Vec<_>>();
        let groups = nested.then(|| Groups::new(vec![0, 0, 2, 1, 3, 3, 3, 4, 4, 5, 0, 5], 6).unwrap());
        let settings = Settings { estimator, threads: Some(threads), ..Settings::default() };
        let data = device.tensor(y, [rows]);
        let mut silo =
            Silo::new("north", 0, &Effects { latents: 1, nested: groups }, &data, &device, &settings).unwrap();
        let mut stream = Noise::new(3).stream(Key::new(Purpose::Check, 0));
        let scattered = silo.local_parameters().into_iter();
        let scattered = scattered.map(|own| own.iter().map(|value| value + 0.3 * stream.standard_normal()).collect());
        silo.set_local_parameters(scattered.collect()).unwrap();
        silo.work_by_rows();
        silo
    }

    #[test]
    fn gradients_of_groups_are_sums_over_draws_with_the_same_bits_for_any_number_of_threads() {
        let found = |threads, local| -> Vec<Vec<Vec<f64>>> {
            let mut silo = silo(true, Estimator::StickingTheLanding, threads);
            let globals = silo.settings.family.start(&*silo.family, &silo.table);
            let (mut rows, draw) = (silo.locals.whole(), Draws::shared(Purpose::Fit, 5, 10));
            let draws = silo.elbo_terms(&globals, &mut rows, draw, local).unwrap();
            draws.into_iter().map(|own| own.by_local).collect()
        };
        let mut expected = found(1, LocalGradients::OfDraws);
        // Ten draws are groups of three, three, two and two.
        for (first, others) in [(0, 1..3), (3, 4..6), (6, 7..8), (8, 9..10)] {
            for other in others {
                let own = std::mem::take(&mut expected[other]);
                let pairs = expected[first].iter_mut().flatten().zip(own.iter().flatten());
                pairs.for_each(|(sum, own)| *sum += own);
            }
        }
        assert!(expected[0].iter().flatten().any(|slope| *slope != 0.0));
        for threads in 1..=5 {
            assert_eq!(found(threads, LocalGradients::OfGroups), expected, "{threads} threads");
        }
    }

    #[test]
    fn rows_add_up_to_the_gradient_of_all_rows_whether_or_not_others_stand_in_them() {
        let enhanced = Estimator::LocallyEnhanced { inner: 3 };
        for (nested, estimator) in
            [(false, Estimator::StickingTheLanding), (true, Estimator::StickingTheLanding), (false, enhanced)]
        {
            let mut silo = silo(nested, estimator, 2);
            let globals = silo.settings.family.start(&*silo.family, &silo.table);
            let draw = Draws::shared(Purpose::Fit, 5, 1);
            let mut rows = silo.locals.whole();
            let whole = silo
                .elbo_terms(&globals, &mut rows, draw, LocalGradients::OfDraws)
                .unwrap()
                .remove(0)
                .found
                .grad_offset;
            let at = [silo.family.draw(&globals, &draw.global_noise(&*silo.family, &silo.settings, 0))];
            let count = silo.rows_apart().unwrap();
            let all: Vec<usize> = (0..count).collect();
            let each = silo.row_vectors(&globals, &all, draw, &at).unwrap();
            assert_eq!((count, each.len()), (if nested { 6 } else { 12 }, count));
            for (index, expected) in whole.iter().enumerate() {
                let found: f64 = each.iter().map(|row| row[index]).sum();
                assert!((found - expected).abs() < 1e-12 * expected.abs().max(1.0), "{nested} {estimator:?}: {found}");
            }
            // A row has the same vector in any sample, on any thread.
            assert_eq!(silo.row_vectors(&globals, &[4, 2], draw, &at).unwrap(), [each[4].clone(), each[2].clone()]);
            let mut one = super::tests::silo(nested, estimator, 1);
            assert_eq!(one.row_vectors(&globals, &all, draw, &at).unwrap(), each);
        }
    }

    #[test]
    fn a_row_outside_has_no_gradient_and_no_vector_and_the_others_have_theirs() {
        let enhanced = Estimator::LocallyEnhanced { inner: 3 };
        for (nested, estimator) in
            [(false, Estimator::StickingTheLanding), (true, Estimator::StickingTheLanding), (false, enhanced)]
        {
            let mut honest = silo(nested, estimator, 2);
            let globals = honest.settings.family.start(&*honest.family, &honest.table);
            let draw = Draws::shared(Purpose::Fit, 5, 2);
            let expected = honest.local_gradients(&globals, draw).unwrap();
            let mut outside = silo(nested, estimator, 2);
            let (block, mut parameters) = (one_outermost(&outside.table).unwrap(), outside.local_parameters());
            let rows = outside.table.blocks()[block].rows;
            // A scale without end, of the fifth outermost row.
            parameters[block][rows + 4] = 800.0;
            outside.set_local_parameters(parameters).unwrap();
            let found = outside.local_gradients(&globals, draw).unwrap();
            for (found, expected) in found.iter().zip(&expected) {
                assert!([4, rows + 4].iter().all(|place| found[block][*place] == 0.0), "{found:?}");
                for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
                    let is_same = (found - expected).abs() < 1e-12 * expected.abs().max(1.0);
                    assert!(is_same || *found == 0.0, "{nested} {estimator:?}: {found} {expected}");
                }
                let zeros = |of: &Vec<Vec<f64>>| of.iter().flatten().filter(|slope| **slope == 0.0).count();
                assert!(zeros(found) > zeros(expected), "{found:?}");
            }
            let at = [outside.family.draw(&globals, &draw.global_noise(&*outside.family, &outside.settings, 0))];
            let each = outside.row_vectors(&globals, &[3, 4, 5], draw, &at).unwrap();
            let finite: Vec<bool> = each.iter().map(|row| row.iter().all(|value| value.is_finite())).collect();
            assert_eq!(finite, [true, false, true]);
        }
    }
}
