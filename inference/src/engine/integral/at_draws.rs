//! Integrates the rows of a silo out at draws of the globals: numbers of points fit a posterior, and rules follow the draws.

use partita_core::{Device, SiteTable};

use super::{Centres, Conditionals, Integrand, Observation, RowIntegral, Slopes, Until};
use crate::engine::error::{Error, Result};
use crate::engine::normal::Normal;
use crate::engine::terms::particles::{Worker, spread};
use crate::engine::trust::proposal::ALONG;
use crate::engine::trust::values::UNTIL;
use crate::engine::whitened::Draws;

/// A silo's rows with their rules at each of some whitened draws.
pub(crate) struct AtDraws {
    /// Copies of model and data, one for each thread.
    pub(crate) workers: Vec<Worker>,
    pub(crate) device: Device,
    pub(crate) table: SiteTable,
    pub(crate) draws: Draws,
    pub(crate) integral: RowIntegral,
    /// Where rules stand at each of the draws.
    pub(crate) centres: Vec<Centres>,
    /// The points of every level that the first of the draws at which rules are compared needed; `None` before a choice.
    pub(super) first_points: Option<Vec<usize>>,
    /// What drawn rules, and products that are held back, add to differences between globals, in nats: a standard
    /// deviation.
    pub(crate) noise: f64,
}

/// How far numbers of points are raised where one global is far from the middle, as few draws with much weight are: what it
/// costs is bounded.
const FAR: Until = Until { tolerance: 0.05, nodes: 255, ..UNTIL };

/// Draws of the globals at which rules are compared with others, and as many twins.
const COMPARED: usize = 8;

impl AtDraws {
    /// Rules of the fewest points, before they have seen data.
    ///
    /// # Errors
    /// [`crate::Error::Setting`] for rows with more latents than are integrated; what the model refuses.
    pub(crate) fn new(worker: Worker, threads: usize, device: &Device, table: SiteTable, draws: Draws) -> Result<Self> {
        let integrand = Integrand { model: &worker.model, data: &worker.data, device, table: &table };
        let integral = RowIntegral::of(&integrand, &table.start())?;
        let centres = vec![integral.start(); draws.len()];
        let workers = vec![worker; threads.clamp(1, draws.len())];
        Ok(Self { workers, device: device.clone(), table, draws, integral, centres, first_points: None, noise: 0.0 })
    }

    /// Rules with as many points as `until` wants, also where single globals are far away, which stand where they settle around a
    /// posterior.
    ///
    /// # Errors
    /// What the model reports at a node.
    pub(crate) fn ready_around(mut self, posterior: &Normal, until: Until) -> Result<Self> {
        self.settle_at(&posterior.mean)?;
        self.choose_points(posterior, until)?;
        self.reach(posterior, posterior)?;
        self.settle(posterior)?;
        Ok(self)
    }

    /// What an integral reads.
    pub(crate) fn integrand(&self) -> Integrand<'_> {
        let Worker { model, data } = &self.workers[0];
        Integrand { model, data, device: &self.device, table: &self.table }
    }

    /// Gives rules as few points as agree with larger rules at a draw of `at` and its twin.
    ///
    /// # Errors
    /// What the model reports at a node.
    pub(crate) fn choose_points(&mut self, at: &Normal, until: Until) -> Result<()> {
        self.choose_points_by(at, until, |_, _, _| Ok(false))
    }

    /// The same; `raise` gives the rules of a draw their points, or is false where it cannot.
    pub(super) fn choose_points_by(
        &mut self,
        at: &Normal,
        until: Until,
        raise: impl Fn(&mut Self, usize, &[f64]) -> Result<bool>,
    ) -> Result<()> {
        if self.integral.is_empty() {
            return Ok(());
        }
        self.integral.reset(&self.table)?;
        self.refit();
        self.first_points = None;
        for index in [0, self.draws.len() / 2] {
            let globals = at.draw(self.draws.get(index));
            if !raise(self, index, &globals)? {
                let (raised, own) = here_or_anew(&self.integral, &self.centres[index], |own| {
                    let mut larger = self.integral.clone();
                    larger.raise(&self.integrand(), &globals, own, until)?;
                    Ok(larger)
                })?;
                (self.integral, self.centres[index]) = (raised, own);
            }
            self.refit();
            self.first_points.get_or_insert_with(|| self.integral.points());
        }
        loop {
            self.noise = self.noise(at)?;
            if self.noise <= until.noise || !self.integral.draw_more(&self.table)? {
                return Ok(());
            }
            self.refit();
        }
    }

    /// Gives products as many points as agree with larger ones where single globals of `posterior` are three standard deviations
    /// from the middle too: a rule that serves in the middle may be coarse where effects of rows are much wider. Rules begin where
    /// those at the draws of `around` lead to.
    ///
    /// # Errors
    /// What the model reports at a node, beside that a density is no number.
    pub(crate) fn reach(&mut self, around: &Normal, posterior: &Normal) -> Result<()> {
        if self.integral.is_empty() {
            return Ok(());
        }
        let places = posterior.along(ALONG);
        let place = |index: usize| places[index].clone();
        let needed = self.each(around, places.len(), place, |integral, integrand, globals, there| {
            let raised = here_or_anew(integral, there, |own| {
                let mut larger = integral.clone();
                larger.raise(integrand, globals, own, FAR)?;
                Ok(larger.points())
            });
            match raised {
                Err(error) if error.is_outside() => Ok(integral.points()),
                other => Ok(other?.0),
            }
        })?;
        let mut points = self.integral.points();
        for own in needed {
            points.iter_mut().zip(own).for_each(|(most, own)| *most = own.max(*most));
        }
        if points != self.integral.points() {
            self.integral.set_points(&points, &self.table)?;
            self.refit();
        }
        Ok(())
    }

    /// The standard deviation that other rules of the rows give differences between draws of `at`; zero where all are
    /// products of points enough.
    fn noise(&self, at: &Normal) -> Result<f64> {
        let Self { workers, device, table, draws, integral, centres, .. } = self;
        let Some(other) = integral.varied(table)? else { return Ok(0.0) };
        let compared = COMPARED.min(draws.len() / 2);
        let apart = spread(&mut workers.clone(), 2 * compared, |Worker { model, data }: &Worker, index| {
            let index = if index < compared { index } else { draws.len() / 2 + index - compared };
            let (integrand, globals) = (Integrand { model, data, device, table }, at.draw(draws.get(index)));
            let value = |integral: &RowIntegral| {
                let settle = |own: &mut Centres| integral.value(&integrand, &globals, own);
                Ok::<_, Error>(here_or_anew(integral, &integral.fit(centres[index].clone()), settle)?.0)
            };
            Ok(value(integral)? - value(&other)?)
        })?;
        #[expect(clippy::cast_precision_loss, reason = "there are few draws")]
        let count = apart.len() as f64;
        let mean = apart.iter().sum::<f64>() / count;
        let square: f64 = apart.iter().map(|own| (own - mean) * (own - mean)).sum();
        Ok((0.5 * square / (count - 1.0)).sqrt())
    }

    /// Gives rules so few points that they lead to where a posterior is, at little cost.
    ///
    /// # Errors
    /// What the layout of rows refuses.
    pub(crate) fn coarsen(&mut self) -> Result<()> {
        self.integral.set_coarse_points(&self.table)?;
        self.refit();
        Ok(())
    }

    /// What log marginal likelihoods at these globals may lack, in nats, where rules have no points; zero where the density is
    /// no number there.
    ///
    /// # Errors
    /// What the model reports beside that.
    pub(crate) fn missed(&self, globals: &[f64]) -> Result<f64> {
        let missed = |own: &mut Centres| self.integral.missed(&self.integrand(), globals, own);
        match here_or_anew(&self.integral, &self.centres[0], missed) {
            Err(error) if error.is_outside() => Ok(0.0),
            other => Ok(other?.0),
        }
    }

    /// Lays centres out for the rules as they are.
    fn refit(&mut self) {
        let integral = &self.integral;
        self.centres = std::mem::take(&mut self.centres).into_iter().map(|own| integral.fit(own)).collect();
    }

    /// Puts every rule where it settles at the mean of `at`.
    ///
    /// # Errors
    /// What the model reports at a node.
    pub(crate) fn settle_at(&mut self, globals: &[f64]) -> Result<()> {
        let mut centres = self.integral.start();
        self.integral.value(&self.integrand(), globals, &mut centres)?;
        self.centres = vec![centres; self.draws.len()];
        Ok(())
    }

    /// Lets every rule settle at its draw of `at`.
    ///
    /// # Errors
    /// What the model reports at a node.
    pub(crate) fn settle(&mut self, at: &Normal) -> Result<()> {
        let Self { workers, device, table, draws, integral, centres, .. } = self;
        let (device, table, draws, integral) = (&*device, &*table, &*draws, &*integral);
        let moved = spread(workers, draws.len(), |Worker { model, data }: &Worker, index| {
            let (integrand, globals) = (Integrand { model, data, device, table }, at.draw(draws.get(index)));
            let settle = |own: &mut Centres| integral.value(&integrand, &globals, own);
            Ok(here_or_anew(integral, &centres[index], settle)?.1)
        })?;
        self.centres = moved;
        Ok(())
    }

    /// The log marginal likelihood of all rows at so many places, `globals` of an index. Rules begin where those at the
    /// draws of `around` lead to; minus infinity where the log density is no number from anywhere.
    ///
    /// # Errors
    /// What the model reports beside that.
    pub(crate) fn values(
        &mut self,
        around: &Normal,
        count: usize,
        globals: impl Fn(usize) -> Vec<f64> + Sync,
    ) -> Result<Vec<f64>> {
        self.each(around, count, globals, |integral, integrand, globals, there| {
            match here_or_anew(integral, there, |own| integral.value(integrand, globals, own)) {
                Err(error) if error.is_outside() => Ok(f64::NEG_INFINITY),
                other => Ok(other?.0),
            }
        })
    }

    /// The same row by row of those that stand in no other, one vector a place; `None` where the log density is no number
    /// from anywhere.
    ///
    /// # Errors
    /// What the model reports beside that.
    pub(crate) fn by_row(
        &mut self,
        around: &Normal,
        count: usize,
        globals: impl Fn(usize) -> Vec<f64> + Sync,
    ) -> Result<Vec<Option<Vec<f64>>>> {
        self.each(around, count, globals, |integral, integrand, globals, there| {
            match here_or_anew(integral, there, |own| integral.rows(integrand, globals, own)) {
                Err(error) if error.is_outside() => Ok(None),
                other => Ok(Some(other?.0)),
            }
        })
    }

    /// Every observation given the others of its row, one vector a place; `None` where the log density is no number from
    /// anywhere.
    ///
    /// # Errors
    /// What the model reports beside that.
    pub(crate) fn by_observation(
        &mut self,
        around: &Normal,
        count: usize,
        globals: impl Fn(usize) -> Vec<f64> + Sync,
    ) -> Result<Vec<Option<Vec<Observation>>>> {
        if self.integral.fill(&self.table)? {
            self.refit();
            self.settle(around)?;
        }
        self.each(around, count, globals, |integral, integrand, globals, there| {
            match here_or_anew(integral, there, |own| integral.observations(integrand, globals, own)) {
                Err(error) if error.is_outside() => Ok(None),
                other => Ok(Some(other?.0)),
            }
        })
    }

    /// Means and standard deviations of the latents of every block over the draws of `at`, at which rules stand.
    ///
    /// # Errors
    /// What the model reports at a node.
    pub(crate) fn moments(&self, at: &Normal) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        let (integrand, blocks) = (self.integrand(), self.table.blocks());
        let zeros = blocks.iter().map(|block| vec![0.0; block.rows * block.width]);
        let mut sums: Vec<(Vec<f64>, Vec<f64>)> = zeros.map(|own| (own.clone(), own)).collect();
        #[expect(clippy::cast_precision_loss, reason = "there are few draws")]
        let weight = 1.0 / self.draws.len() as f64;
        for (index, centres) in self.centres.iter().enumerate() {
            let globals = at.draw(self.draws.get(index));
            for found in self.integral.conditionals(&integrand, &globals, &mut centres.clone())? {
                let Conditionals { block, rows, means, variances } = found;
                let width = blocks[block].width;
                let (sum, squares) = &mut sums[block];
                for (index, (mean, variance)) in means.iter().zip(&variances).enumerate() {
                    let row = rows.as_ref().map_or(index / width, |rows| rows[index / width]);
                    let place = row * width + index % width;
                    sum[place] += weight * mean;
                    squares[place] += weight * (variance + mean * mean);
                }
            }
        }
        for (means, squares) in &mut sums {
            squares.iter_mut().zip(means).for_each(|(slot, mean)| *slot = (*slot - *mean * *mean).max(0.0).sqrt());
        }
        Ok(sums)
    }

    /// What `evaluate` gives at so many places, from rules that begin where those at the draws of `around` lead to.
    fn each<T: Send>(
        &mut self,
        around: &Normal,
        count: usize,
        globals: impl Fn(usize) -> Vec<f64> + Sync,
        evaluate: impl Fn(&RowIntegral, &Integrand<'_>, &[f64], &Centres) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let Self { workers, device, table, draws, integral, centres, .. } = self;
        let (device, table, integral) = (&*device, &*table, &*integral);
        let slopes = Slopes::of(centres, |index| draws.get(index).to_vec());
        spread(workers, count, |Worker { model, data }: &Worker, index| {
            let (integrand, globals) = (Integrand { model, data, device, table }, globals(index));
            evaluate(integral, &integrand, &globals, &slopes.at(&around.whiten(&globals)))
        })
    }
}

/// Evaluates an integral whose rules begin at `centres`, or at zero where the log density is no number from there: rules
/// that stand where other globals led them may have nodes at which a density overflows. Where rules end comes with it.
pub(crate) fn here_or_anew<T>(
    integral: &RowIntegral,
    centres: &Centres,
    evaluate: impl Fn(&mut Centres) -> Result<T>,
) -> Result<(T, Centres)> {
    let mut own = centres.clone();
    match evaluate(&mut own) {
        Err(error) if error.is_outside() => {
            own = integral.start();
            let found = evaluate(&mut own)?;
            Ok((found, own))
        }
        other => Ok((other?, own)),
    }
}
