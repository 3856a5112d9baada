//! Gives the silo's side of private rounds: what each row contributes, and the noised sum that a mechanism makes of it.

use faer::Mat;
use partita_core::{AnyData, AnyModel, Device, Latents, LogDensity, Minibatch, Model, Role, SiteTable, theta};

use super::super::coordinator::{check, start};
use super::super::messages::Sizes;
use super::messages::{PrivateAnswer, PrivateRequest};
use super::options::PrivateRoundsOptions;
use super::quadratics::{Quadratics, scales};
use crate::engine::apart::in_halves;
use crate::engine::checkpoint::NamedVectors;
use crate::engine::clipped::{mark, whole};
use crate::engine::error::{Error, Result};
use crate::engine::integral::{Integrand, RowIntegral};
use crate::engine::mechanism::{Mechanism, NOISED_ALONE, RowSum, without_rounding};
use crate::engine::normal::Normal;
use crate::engine::party::{Commit, Program, Standing};
use crate::engine::rows::{one_outermost, outermost_rows};
use crate::engine::settings::Settings;
use crate::engine::terms::particles::{Worker, spread};
use crate::engine::trust::evaluate::by_row;
use crate::engine::trust::leave_out::check_rows;
use crate::engine::whitened::Draws;
use crate::engine::wire::manifest::Manifest;
use crate::engine::wire::message::Message;

/// The least clip, in units of the larger of one and what the curvature counts, at which numbers of which silos divide the noise are
/// multiples of 2⁻⁶⁴: a clip has 2²¹ units, and what they are multiplied by has fourteen bits.
const FINEST: f64 = 1.0 / (1_u64 << 27) as f64;

/// One party of private rounds: its rows, and the mechanism between them and what leaves.
///
/// What a row contributes depends on that row and the request alone: rules have a fixed number of points and moves, and a
/// quadratic is fitted to each row's own log marginal likelihoods at fixed draws.
pub struct PrivateRoundsSilo {
    name: String,
    settings: Settings,
    options: PrivateRoundsOptions,
    workers: Vec<Worker>,
    device: Device,
    table: SiteTable,
    /// The block whose rows are protected.
    outermost: usize,
    draws: Draws,
    quadratics: Quadratics,
    rows: Rows,
    mechanism: Box<dyn Mechanism>,
    step: u64,
}

/// How the log marginal likelihood of a row is found.
enum Rows {
    /// By integrals over its latents.
    Integrated(RowIntegral),
    /// It has none: the sum of its observations.
    Observed,
}

impl std::fmt::Debug for PrivateRoundsSilo {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("PrivateRoundsSilo");
        shown.field("name", &self.name).field("step", &self.step).finish_non_exhaustive()
    }
}

impl PrivateRoundsSilo {
    /// A silo called `name`, whose sums `mechanism` makes private.
    ///
    /// # Errors
    /// What the model refuses of the data; [`Error::Setting`] for a model that few rounds do not take, for outcomes that
    /// are in no row, and for fewer rows than the options ask for.
    pub fn new<M: Model>(
        name: &str,
        model: &M,
        data: &M::Data,
        device: &Device,
        settings: &Settings,
        options: &PrivateRoundsOptions,
        mechanism: Box<dyn Mechanism>,
    ) -> Result<Self> {
        let model = &AnyModel::new(model);
        let data = &AnyData::new(data);
        settings.check()?;
        options.check()?;
        let table = SiteTable::of(model, device, data).map_err(|error| Error::from(error).in_silo(name, 0))?;
        check(settings, &table, &theta(model)?)?;
        let outermost = one_outermost(&table)?;
        let count = outermost_rows(&table);
        let least = options.least_rows.max(1);
        let found = format_args!("{count} rows in silo `{name}`, at least {least} wanted");
        Error::unless(count >= least, "least_rows", found, "silos with more rows; or a smaller `least_rows`")?;
        let len = table.global_len();
        let draws = Draws::new(settings.seed, len, Quadratics::draws(len))?;
        let rows = rows_of(&table, device)?;
        let worker = Worker { model: model.clone(), data: data.clone() };
        Ok(Self {
            name: name.to_owned(),
            settings: settings.clone(),
            options: options.clone(),
            workers: vec![worker; settings.silo_threads().clamp(1, draws.len())],
            device: device.clone(),
            quadratics: Quadratics::of(&draws, len)?,
            table,
            outermost,
            draws,
            rows,
            mechanism,
            step: 0,
        })
    }

    /// The model's sites for this silo's data.
    #[must_use]
    pub fn table(&self) -> &SiteTable {
        &self.table
    }

    /// How many rows it has, which everybody may know.
    #[must_use]
    pub fn rows(&self) -> usize {
        outermost_rows(&self.table)
    }

    /// What may leave it.
    #[must_use]
    pub fn manifest(&self) -> Manifest {
        Manifest { fields: PrivateAnswer::fields(&Sizes::of(self.table.global_len(), 0)) }
    }

    fn round(&mut self, message: &Message) -> Result<Message> {
        let len = self.table.global_len();
        let request = PrivateRequest::read(message, &Sizes::of(len, 0))?;
        let refuse = |problem: String| Err(Error::Message { kind: PrivateRequest::KIND.into(), problem });
        let PrivateRequest { step, clip, curvature, noise, .. } = request;
        if step >= self.options.rounds {
            return refuse(format!("round {step} of a run of {}: the budget is of so many", self.options.rounds));
        }
        if noise.total_cmp(&self.options.noise).is_ne() {
            return refuse(format!("it asks for noise of {noise}, this silo was set up with {}", self.options.noise));
        }
        if !(clip > 0.0 && clip.is_finite() && curvature > 0.0 && curvature.is_finite()) {
            return refuse(format!("its clip is {clip} and its curvature counts {curvature}: both have to be > 0"));
        }
        let is_divided = self.options.shares > 1;
        if is_divided && clip < FINEST * curvature.max(1.0) {
            return refuse(format!(
                "its clip is {clip} and its curvature counts {curvature}: masks would round sums of which silos divide the noise"
            ));
        }
        let Some(at) = Normal::of_parameters(&request.global, len) else {
            return refuse("its belief has another number of parameters than this model's".into());
        };
        let scales = scales(len, curvature);
        let Self { workers, device, table, outermost, draws, quadratics, rows, mechanism, .. } = self;
        let (device, table, outermost, draws, rows) = (&*device, &*table, *outermost, &*draws, &*rows);
        let mut contributions = |chosen: &[usize]| {
            let found = spread(workers, draws.len(), |Worker { model, data }: &Worker, index| {
                values(&Integrand { model, data, device, table }, outermost, rows, &at.draw(draws.get(index)))
            })?;
            let mut each =
                quadratics.rows(&Mat::from_fn(draws.len(), chosen.len(), |draw, at| found[draw][chosen[at]]));
            for row in &mut each {
                row.iter_mut().zip(&scales).for_each(|(slot, scale)| *slot *= scale);
                mark(row, clip);
            }
            Ok(each)
        };
        let (length, count, rate) = (scales.len() + 1, outermost_rows(table), 1.0);
        let (clip, sums) = (clip * whole(), self.options.rounds);
        let sum = RowSum { length, clip, noise, count, rate, sums, rows: &mut contributions };
        let mut released = mechanism.released(&message.ordered().encode(), sum)?;
        released.iter_mut().zip(&scales).for_each(|(slot, scale)| match is_divided {
            true => *slot *= without_rounding(1.0 / scale),
            false => *slot /= scale,
        });
        let clipped = released.split_off(scales.len()).iter().sum();
        let curvature = released.split_off(len);
        self.step = step + 1;
        Ok(PrivateAnswer { gradient: released, curvature, clipped }.write())
    }
}

/// How the rows of a table are read: they have latents, all of them, or none has.
fn rows_of(table: &SiteTable, device: &Device) -> Result<Rows> {
    if table.has_local_latents() {
        check_rows("privacy", table, device)?;
        let mut integral = RowIntegral::new(table)?;
        integral.set_enough_points(table)?;
        return Ok(Rows::Integrated(integral));
    }
    let mut observed = table.sites().iter().filter(|site| site.role == Role::Observed);
    match observed.find(|site| site.plate.is_none() || table.outermost(site.block()) != site.block()) {
        None => Ok(Rows::Observed),
        Some(site) => Err(Error::Setting {
            setting: "privacy",
            found: format!("`{}`, which is in no row of an outermost plate", site.name),
            expected: "outcomes in rows, one of which is what is protected",
        }),
    }
}

/// The log marginal likelihood of each row at these globals; NaN for one that has none there, of which a sum has
/// nothing.
fn values(integrand: &Integrand<'_>, outermost: usize, rows: &Rows, globals: &[f64]) -> Result<Vec<f64>> {
    match rows {
        Rows::Integrated(integral) => integral.rows_alone(integrand, outermost, globals),
        Rows::Observed => observed(integrand, outermost, globals),
    }
}

/// The log likelihood of each row without latents.
fn observed(integrand: &Integrand<'_>, outermost: usize, globals: &[f64]) -> Result<Vec<f64>> {
    let Integrand { model, data, device, table } = *integrand;
    let (locals, block) = (vec![Vec::new(); table.blocks().len()], &table.blocks()[outermost]);
    let mut all = vec![f64::NAN; block.rows];
    in_halves(&(0..block.rows).collect::<Vec<_>>(), &mut |some| {
        let half = Minibatch::new(block.plate.as_deref().unwrap_or_default(), some.to_vec());
        let halves = if some.len() == block.rows { &[][..] } else { std::slice::from_ref(&half) };
        let density = LogDensity::new(model, device, table).minibatch(halves);
        let found = by_row(table, &density.pointwise(Latents { globals, locals: &locals }, data)?);
        some.iter().zip(found).for_each(|(row, log)| all[*row] = log);
        Ok(())
    })?;
    Ok(all)
}

impl Program for PrivateRoundsSilo {
    fn standing(&self) -> Standing<'_> {
        Standing { name: &self.name, seed: self.settings.seed, step: self.step }
    }

    fn reply(&mut self, request: &Message) -> Result<Message> {
        match request.kind.as_str() {
            PrivateRequest::KIND => self.round(request),
            other => Err(Error::malformed(other, NOISED_ALONE)),
        }
    }

    fn save(&self) -> Result<NamedVectors> {
        Ok(Vec::new())
    }

    fn load(&mut self, step: u64, _: &[(String, Vec<f64>)]) -> Result<bool> {
        // What was spent is in the mechanism's ledger, which no saved state puts back.
        self.step = step;
        Ok(true)
    }

    fn commit(&self, _: &Message) -> Commit {
        Commit::AtItsEnd
    }
}

/// Where a run of these settings begins.
pub(super) fn begin(settings: &Settings, table: &SiteTable) -> Vec<f64> {
    start(settings, table).mean
}
