//! Gives the silo's side of private SFVI: rows whose latents follow the globals, and the noised sum of their gradients.

use partita_core::{AnyData, AnyModel, Device, Model, Purpose, SiteTable};

use super::messages::{Sizes, StepAnswer, StepRequest};
use super::options::PrivateSfviOptions;
use crate::engine::checkpoint::{NamedVectors, named};
use crate::engine::clipped::{mark, whole};
use crate::engine::error::{Error, Result};
use crate::engine::family::FullRankGaussian;
use crate::engine::integral::{AtDraws, Integrand, RowsAlone};
use crate::engine::mechanism::{Mechanism, NOISED_ALONE, RowSum, without_rounding};
use crate::engine::normal::Normal;
use crate::engine::party::{Commit, Program, Standing};
use crate::engine::rows::one_outermost;
use crate::engine::terms::Silo;
use crate::engine::terms::particles::{Draws, Worker};
use crate::engine::trust::leave_out::check_rows;
use crate::engine::trust::values::UNTIL;
use crate::engine::whitened;
use crate::engine::wire::manifest::Manifest;
use crate::engine::wire::message::Message;

/// One party of private SFVI: its rows, integrated or with posteriors, and the mechanism between them and what leaves.
///
/// What a row contributes depends on that row, and on what was asked so far. Where a row has at most three latents, it is the
/// gradient of its log marginal likelihood at the draw, by the quadrature of few rounds: that of the bound with exact posteriors of
/// these latents. Elsewhere a row has a posterior, which moves by its own gradients alone. Every row has a tape of its own, so that a
/// sum costs as much as evaluating as many single rows.
pub struct PrivateSfviSilo {
    silo: Silo,
    index: u32,
    options: PrivateSfviOptions,
    draws: whitened::Draws,
    rows: usize,
    /// What integrates rows; `None` where they have posteriors, or nothing to integrate.
    alone: Option<RowsAlone>,
    /// What the latest request brought of the globals.
    seen: Option<Normal>,
    mechanism: Box<dyn Mechanism>,
}

/// The name of the saved globals where rows are integrated.
const SEEN: &str = "integrated.globals";

impl std::fmt::Debug for PrivateSfviSilo {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("PrivateSfviSilo").field("silo", &self.silo).finish_non_exhaustive()
    }
}

impl PrivateSfviSilo {
    /// Gives a silo, the `index`-th of the run, a mechanism that makes its sums private.
    ///
    /// # Errors
    /// [`Error::Setting`] for models and settings by which one row would decide on what another contributes, for more than
    /// one particle, and for fewer rows than the options ask for.
    pub fn new(
        mut silo: Silo,
        index: u32,
        options: &PrivateSfviOptions,
        mechanism: Box<dyn Mechanism>,
    ) -> Result<Self> {
        options.check()?;
        let rows = silo.rows_apart()?;
        let least = options.least_rows.max(1);
        let found = format_args!("{rows} rows in silo `{}`, at least {least} wanted", silo.name);
        Error::unless(rows >= least, "least_rows", found, "silos with more rows; or a smaller `least_rows`")?;
        let found = format_args!("{} in private SFVI", silo.settings.particles);
        let expected = "1: an exchange is a draw, and a round has enough of them";
        Error::unless(silo.settings.particles == 1, "particles", found, expected)?;
        let len = silo.table.global_len();
        silo.family = Box::new(FullRankGaussian::new(len));
        // Its rate is a function of the step.
        silo.locals.move_as_they_are();
        silo.work_by_rows();
        let draws = whitened::Draws::enough(silo.settings.seed, len)?;
        let Silo { workers, device, table, .. } = &silo;
        let Worker { model, data } = &workers[0];
        let alone = options.rules(&Integrand { model, data, device, table })?;
        Ok(Self { silo, index, options: options.clone(), draws, rows, alone, seen: None, mechanism })
    }

    /// The model's sites for this silo's data.
    #[must_use]
    pub fn table(&self) -> &SiteTable {
        &self.silo.table
    }

    /// How many rows it has, which everybody may know.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// What may leave it.
    #[must_use]
    pub fn manifest(&self) -> Manifest {
        Manifest { fields: StepAnswer::fields(&Sizes::of(self.silo.table.global_len())) }
    }

    /// Lets every row's posterior follow the globals, by its own gradients; one at which the model is not defined
    /// stays. Rows that are integrated have none.
    fn follow(&mut self, step: u64, globals: &[f64]) -> Result<()> {
        if self.alone.is_some() || !self.silo.table.has_local_latents() {
            return Ok(());
        }
        let steps = self.options.local_steps.unwrap_or(PrivateSfviOptions::LOCAL_STEPS);
        for local in step * steps..(step + 1) * steps {
            // Draws of the silo's own, which no sum is at.
            let draw = Draws { owner: self.index, ..Draws::shared(Purpose::Fit, local, 1) };
            let rows = self.silo.locals.whole();
            for own in self.silo.local_gradients(globals, draw)? {
                let descent = own.into_iter().map(|block| block.into_iter().map(|slope| -slope).collect());
                self.silo.locals.descend_rows(&rows, descent.collect(), self.silo.settings.rate(step));
            }
        }
        Ok(())
    }

    fn step(&mut self, message: &Message) -> Result<Message> {
        let len = self.silo.table.global_len();
        let request = StepRequest::read(message, &Sizes::of(len))?;
        let refuse = |problem: String| Err(Error::Message { kind: StepRequest::KIND.into(), problem });
        let StepRequest { step, clip, noise, rate, .. } = request;
        let releases = PrivateSfviOptions::releases(self.options.rounds, len);
        if step >= releases {
            return refuse(format!("exchange {step} of a run of {releases}: the budget is of so many"));
        }
        for (what, asked, own) in [("noise", noise, self.options.noise), ("rate", rate, self.options.rate)] {
            if asked.total_cmp(&own).is_ne() {
                return refuse(format!("it asks for a {what} of {asked}, this silo was set up with {own}"));
            }
        }
        if !(clip > 0.0 && clip.is_finite()) {
            return refuse(format!("its clip is {clip}, which has to be > 0"));
        }
        let Some(at) = Normal::of_parameters(&request.global, len) else {
            return refuse("its belief has another number of parameters than this model's".into());
        };
        self.follow(step, &request.global)?;
        #[expect(clippy::cast_possible_truncation, reason = "a remainder of a number of draws")]
        let place = (step % self.draws.len() as u64) as usize;
        let global = [self.silo.family.draw(&request.global, self.draws.get(place))];
        let (silo, alone, count) = (&mut self.silo, &self.alone, self.rows);
        let mut contributions = |chosen: &[usize]| {
            // Local noise of a purpose that no step of the rows' posteriors has.
            let draw = Draws::shared(Purpose::Report, step, 1);
            let vectors = match alone {
                Some(alone) => {
                    let Silo { workers, device, table, .. } = &mut *silo;
                    alone.gradients(workers, (&*device, &*table), chosen, &global[0].latent)?
                }
                None => silo.row_vectors(&request.global, chosen, draw, &global)?,
            };
            let marked = vectors.iter().map(|gradient| {
                let mut row = at.pull(gradient);
                mark(&mut row, clip);
                row
            });
            Ok(marked.collect())
        };
        let (length, clip, sums) = (len + 1, clip * whole(), releases);
        let sum = RowSum { length, clip, noise, count, rate, sums, rows: &mut contributions };
        let mut gradient = self.mechanism.released(&message.ordered().encode(), sum)?;
        let is_divided = self.options.shares > 1;
        gradient.iter_mut().for_each(|slot| match is_divided {
            true => *slot *= without_rounding(1.0 / rate),
            false => *slot /= rate,
        });
        let clipped = gradient.split_off(len).iter().sum();
        self.silo.step = step + 1;
        self.silo.see(&request.global);
        self.seen = self.alone.is_some().then_some(at);
        Ok(StepAnswer { gradient, clipped }.write())
    }
}

impl Program for PrivateSfviSilo {
    fn standing(&self) -> Standing<'_> {
        self.silo.standing()
    }

    fn reply(&mut self, request: &Message) -> Result<Message> {
        match request.kind.as_str() {
            StepRequest::KIND => self.step(request),
            other => Err(Error::malformed(other, NOISED_ALONE)),
        }
    }

    fn save(&self) -> Result<NamedVectors> {
        // What was spent is in the mechanism's ledger, which no saved state puts back.
        let mut state = Program::save(&self.silo)?;
        state.extend(self.seen.iter().map(|seen| (SEEN.to_owned(), seen.flat())));
        Ok(state)
    }

    fn load(&mut self, step: u64, state: &[(String, Vec<f64>)]) -> Result<bool> {
        self.seen = named(state, SEEN).and_then(|own| Normal::of_flat(own, self.silo.table.global_len()));
        self.silo.load(step, state)
    }

    fn commit(&self, _: &Message) -> Commit {
        Commit::AsItGoes
    }

    fn moments(&self) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        let (Some(_), Some(seen)) = (&self.alone, &self.seen) else { return self.silo.moments() };
        let Silo { workers, settings, device, table, .. } = &self.silo;
        let rows =
            AtDraws::new(workers[0].clone(), settings.silo_threads(), device, table.clone(), self.draws.clone())?;
        match rows.ready_around(seen, UNTIL).and_then(|rows| rows.moments(seen)) {
            // A row outside of the model does not decide whether there is a report.
            Err(error) if error.is_outside() => {
                let unknown = table.blocks().iter().map(|block| vec![f64::NAN; block.rows * block.width]);
                Ok(unknown.map(|own| (own.clone(), own)).collect())
            }
            found => found,
        }
    }
}

impl PrivateSfviOptions {
    /// What integrates the rows of a silo; `None` where few rounds does not, or not by products of points, or options ask for
    /// posteriors.
    fn rules(&self, integrand: &Integrand<'_>) -> Result<Option<RowsAlone>> {
        let Integrand { table, device, .. } = *integrand;
        if self.local_steps.is_some() || check_rows("privacy", table, device).is_err() {
            return Ok(None);
        }
        RowsAlone::of(integrand, one_outermost(table)?)
    }

    /// Whether latents of rows like these are integrated, and have no posteriors; `None` of rows without latents.
    ///
    /// # Errors
    /// What the model refuses.
    pub fn integrates_rows<M: Model>(&self, model: &M, data: &M::Data, device: &Device) -> Result<Option<bool>> {
        let table = SiteTable::of(model, device, data)?;
        let (model, data) = (AnyModel::new(model), AnyData::new(data));
        let rules = || self.rules(&Integrand { model: &model, data: &data, device, table: &table });
        table.has_local_latents().then(rules).transpose().map(|found| found.map(|rules| rules.is_some()))
    }
}
