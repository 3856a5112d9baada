//! Gives the silo's side of few rounds: its rows integrated out at every draw, and sums over them.

use partita_core::kernel::add_scaled;
use partita_core::{AnyData, AnyModel, Device, LogDensity, Model, SiteTable, ValueAndGradient, theta};

use super::alone::{Alone, fit_alone};
use super::coordinator::{check, prior_share, start};
use super::messages::{Answer, RoundRequest, Sizes, StartRequest};
use super::options::FewRoundsOptions;
use super::plates::Plates;
use super::quadratic::Quadratic;
use super::step::Share;
use crate::engine::algorithm::finite;
use crate::engine::checkpoint::NamedVectors;
use crate::engine::error::{Error, Result};
use crate::engine::integral::{AtDraws, Centres, Integrand, RowIntegral, RowsAtDraw, Until, here_or_anew};
use crate::engine::normal::Normal;
use crate::engine::party::{Program, Standing};
use crate::engine::rows::outermost_rows;
use crate::engine::settings::Settings;
use crate::engine::terms::particles::{Worker, spread};
use crate::engine::terms::silo::describe_global;
use crate::engine::trust::values::{NOISE, Sizes as ValuesSizes, Values, ValuesRequest};
use crate::engine::whitened::Draws;
use crate::engine::wire::message::Message;

/// The gain in nats at which a silo's own start is good enough: it is merged with others, and then improved.
const START_TOLERANCE: f64 = 0.01;

/// How far the gradient of rows may be, in nats, from what a silo said of them, before it says it again.
const HOLDS: f64 = 3.0;

/// The most points an axis in a start, which may lie where rows are hard to integrate and need not be right.
const START_POINTS: usize = 31;

/// One party of few rounds: its data, and where its rules over rows stand at every draw.
///
/// Data, local latents and their rules stay here; what leaves is listed in [`crate::Algorithm::manifest`].
pub struct FewRoundsSilo {
    name: String,
    settings: Settings,
    pub(super) options: FewRoundsOptions,
    pub(super) rows: AtDraws,
    /// The posterior of the globals that the latest request brought.
    seen: Normal,
    /// What was last said of all rows; `None` before a start.
    said: Option<Quadratic>,
    step: u64,
}

impl std::fmt::Debug for FewRoundsSilo {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("FewRoundsSilo")
            .field("name", &self.name)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}

impl FewRoundsSilo {
    /// A silo called `name`.
    ///
    /// # Errors
    /// What the model refuses of the data; [`Error::Setting`] for a model that few rounds do not take, and for fewer
    /// rows than the options ask for.
    pub fn new<M: Model>(
        name: &str,
        model: &M,
        data: &M::Data,
        device: &Device,
        settings: &Settings,
        options: &FewRoundsOptions,
    ) -> Result<Self> {
        let model = &AnyModel::new(model);
        let data = &AnyData::new(data);
        settings.check()?;
        let table = SiteTable::of(model, device, data).map_err(|error| Error::from(error).in_silo(name, 0))?;
        check(settings, &table, &theta(model)?)?;
        if options.on_device {
            RowIntegral::check_on_device(&table)?;
        }
        let rows = outermost_rows(&table);
        let found = format_args!("{rows} rows in silo `{name}`, at least {} wanted", options.least_rows);
        let expected =
            "silos with more rows, since a sum over few rows says much about each; or a smaller `least_rows`";
        Error::unless(rows >= options.least_rows, "least_rows", found, expected)?;
        let draws = Draws::new(settings.seed, table.global_len(), options.draws_for(table.global_len())?)?;
        let worker = Worker { model: model.clone(), data: data.clone() };
        let seen = start(settings, &table);
        let rows = AtDraws::new(worker, settings.silo_threads(), device, table, draws)?;
        if options.on_device {
            rows.check_rows_on_device()?;
        }
        Ok(Self {
            name: name.to_owned(),
            settings: settings.clone(),
            options: options.clone(),
            rows,
            seen,
            said: None,
            step: 0,
        })
    }

    /// The model's sites for this silo's data.
    #[must_use]
    pub fn table(&self) -> &SiteTable {
        &self.rows.table
    }

    fn sizes(&self) -> Sizes {
        Sizes::of(self.rows.table.global_len(), self.rows.draws.pairs())
    }

    /// The sum over the silo's rows at the draws of a distribution, with what is `counted` beside. Rules begin at
    /// `centres`; where they end comes with it.
    fn share(&mut self, at: &Normal, counted: Counted<'_>, centres: &[Centres]) -> Result<(Share, Vec<Centres>)> {
        let sums = match self.options.on_device {
            true => self.sums_on_device(at, counted, centres)?,
            false => self.sums(at, counted, centres)?,
        };
        self.shared(at, sums)
    }

    /// The share of sums that are numbers.
    pub(super) fn shared(&self, at: &Normal, (sums, moved): Sums) -> Result<(Share, Vec<Centres>)> {
        for (value, gradient) in &sums {
            finite(&self.name, self.step, |_| "the log marginal likelihood of its rows".into(), &[*value])?;
            finite(&self.name, self.step, |index| describe_global(&self.rows.table, index), gradient)?;
        }
        Ok((Share::of(at, &self.rows.draws, &sums), moved))
    }

    /// The sums at each draw, with rows integrated out, and where rules end.
    pub(super) fn sums(&mut self, at: &Normal, counted: Counted<'_>, centres: &[Centres]) -> Result<Sums> {
        let all: Vec<usize> = (0..self.rows.draws.len()).collect();
        let found = self.integrals(at, counted, centres, &all)?;
        Ok(found.into_iter().map(|(found, own)| ((found.value, found.globals), own)).unzip())
    }

    /// The same of some draws.
    pub(super) fn integrals(
        &mut self,
        at: &Normal,
        counted: Counted<'_>,
        centres: &[Centres],
        some: &[usize],
    ) -> Result<Vec<RowsAtDraw>> {
        let AtDraws { workers, integral, draws, device, table, .. } = &mut self.rows;
        let (integral, draws, device, table) = (&*integral, &*draws, &*device, &*table);
        spread(workers, some.len(), |Worker { model, data }: &Worker, index| {
            let globals = at.draw(draws.get(some[index]));
            let integrand = Integrand { model, data, device, table };
            let evaluate = |own: &mut Centres| integral.gradient(&integrand, &globals, own);
            let (mut found, own) = here_or_anew(integral, &centres[some[index]], evaluate)?;
            counted.complete(&LogDensity::new(model, device, table), &globals, &mut found)?;
            Ok((found, own))
        })
    }

    /// How far numbers of points are raised, at most so many an axis.
    fn until(&self, most: usize) -> Until {
        Until { tolerance: self.options.quadrature_tolerance, most, nodes: usize::MAX, noise: NOISE }
    }

    /// Gives rules as few points as agree with larger ones around `at`.
    fn choose_points(&mut self, at: &Normal, until: Until) -> Result<()> {
        match self.options.on_device {
            true => self.rows.choose_points_on_device(at, until),
            false => self.rows.choose_points(at, until),
        }
    }

    fn start(&mut self, request: &StartRequest) -> Result<Message> {
        let start = start(&self.settings, &self.rows.table);
        let (own, share) = match self.rows.integral.sample() {
            None => {
                self.rows.coarsen()?;
                let (own, _) = self.fit_alone(start, 1.0)?;
                self.choose_points(&own, self.until(START_POINTS))?;
                let (own, both) = self.fit_alone(own, 1.0)?;
                let prior = self.prior(&own)?;
                (own, both.minus(&prior))
            }
            Some(sample) => {
                let own = self.fit_sample(start, sample)?;
                let share = self.own_share(&own)?;
                (own, share)
            }
        };
        self.step = request.step + 1;
        let said = self.said.insert(Quadratic::new(own, &share)?);
        let own = Some(said.around.parameters());
        Ok(Answer {
            own,
            rows: Some(outermost_rows(&self.rows.table) as u64),
            evaluations: self.rows.integral.evaluations(),
            ..self.answer(share)
        }
        .write())
    }

    /// The posterior of this silo alone, as a part of its rows shows it: a start, which need not be right.
    fn fit_sample(&mut self, start: Normal, (sample, parts): (RowIntegral, usize)) -> Result<Normal> {
        self.rows.centres = vec![sample.start(); self.rows.draws.len()];
        let whole = std::mem::replace(&mut self.rows.integral, sample);
        #[expect(clippy::cast_precision_loss, reason = "parts are few")]
        let own = self.fit_alone(start, parts as f64);
        self.rows.integral = whole;
        let (own, _) = own?;
        // Rules of all rows settle once, at the mean, and start there at every draw.
        self.rows.settle_at(&own.mean)?;
        Ok(own)
    }

    /// The posterior of this silo alone, from `start`, with every row counted `times`; and what rows and prior say of it.
    fn fit_alone(&mut self, start: Normal, times: f64) -> Result<(Normal, Share)> {
        let centres = self.rows.centres.clone();
        let target = |at: &Normal, centres: &Vec<Centres>| self.share(at, Counted::WithPrior { times }, centres);
        let Alone { at, share, state } = fit_alone(start, &centres, START_TOLERANCE, target)?;
        self.rows.centres = state;
        Ok((at, share))
    }

    /// What rows say around their posterior beside what the others said, if this silo's own words do not hold at `at`:
    /// `share` is what its rows say there, and `all` the sum of what every silo said.
    fn say_again(&mut self, at: &Normal, share: &Share, all: &Quadratic) -> Result<Option<Share>> {
        let Some(said) = self.said.as_ref().map(|said| said.seen_from(at)) else { return Ok(None) };
        let off: f64 =
            said.gradient.iter().zip(&share.gradient).map(|(said, found)| 0.5 * (found - said).powi(2)).sum();
        // A posterior of many rows is narrow, and their quadratic holds in it.
        if off <= HOLDS || self.rows.integral.sample().is_some() {
            self.said = Some(Quadratic::new(at.clone(), share)?);
            return Ok(None);
        }
        let others = all.clone().plus(-1.0, &said);
        let centres = self.rows.centres.clone();
        let target = |at: &Normal, centres: &Vec<Centres>| self.share(at, Counted::Beside(&others), centres);
        let Alone { at: own, share, state } = fit_alone(at.clone(), &centres, START_TOLERANCE, target)?;
        let draws = &self.rows.draws;
        let beside: Vec<_> = (0..draws.len()).map(|index| others.at(&own.draw(draws.get(index)))).collect();
        let beside = Share::of(&own, draws, &beside);
        let rows = share.minus(&self.prior(&own)?).minus(&beside);
        self.said = Some(Quadratic::new(own.clone(), &rows)?);
        (self.rows.centres, self.seen) = (state, own);
        Ok(Some(rows))
    }

    fn prior(&self, at: &Normal) -> Result<Share> {
        let Worker { model, .. } = &self.rows.workers[0];
        prior_share(&LogDensity::new(model, &self.rows.device, &self.rows.table), &self.rows.draws, at)
    }

    /// The share of this silo's rows, without the prior.
    fn own_share(&mut self, at: &Normal) -> Result<Share> {
        let before = std::mem::take(&mut self.rows.centres);
        let found = self.share(at, Counted::Rows, &before);
        // After a failure rules stand where they did.
        self.rows.centres = before;
        let (share, moved) = found?;
        self.rows.centres = moved;
        Ok(share)
    }

    fn round(&mut self, request: &RoundRequest) -> Result<Message> {
        let at = self.posterior(&request.global)?;
        let until = self.until(usize::MAX);
        let share = match self.round_on_device(&at, until)? {
            Some(share) => share,
            None => {
                self.choose_points(&at, until)?;
                self.own_share(&at)?
            }
        };
        self.seen = at.clone();
        let mut again = None;
        if let Some(all) = &request.said {
            let all = Quadratic::of_numbers(at.clone(), all).ok_or_else(|| self.of_another_model())?;
            again = self.say_again(&at, &share, &all)?;
        }
        self.step = request.step + 1;
        let own = again.is_some().then(|| self.seen.parameters());
        let even = share.even.clone().filter(|_| own.is_none());
        let again = again.map(|share| [share.gradient, share.curvature].concat());
        Ok(Answer { own, again, even, ..self.answer(share) }.write())
    }

    fn answer(&self, share: Share) -> Answer {
        let Share { value, gradient, curvature, .. } = share;
        let plates = Plates::of(&self.rows.table, &self.rows.integral).text();
        Answer { own: None, again: None, value, gradient, curvature, even: None, plates, rows: None, evaluations: None }
    }

    /// Log marginal likelihoods at draws of a posterior; rules begin where those of the rounds' draws lead to.
    fn values(&mut self, request: &ValuesRequest) -> Result<Message> {
        let proposal = request.proposal(self.rows.table.global_len())?;
        self.rows.reach(&self.seen, &proposal.around)?;
        let values = Values::at(&mut self.rows, &self.seen, &proposal, request.count())?;
        self.seen = proposal.around;
        Ok(values.write())
    }

    fn posterior(&self, parameters: &[f64]) -> Result<Normal> {
        Normal::of_parameters(parameters, self.rows.table.global_len()).ok_or_else(|| self.of_another_model())
    }

    fn of_another_model(&self) -> Error {
        Error::malformed(RoundRequest::KIND, "its posterior has another number of parameters than this model's")
    }
}

/// Values and gradients at each draw, with where rules end.
pub(super) type Sums = (Vec<(f64, Vec<f64>)>, Vec<Centres>);

/// What a share is a sum of.
#[derive(Debug, Clone, Copy)]
pub(super) enum Counted<'a> {
    Rows,
    /// Every row so many times, and the prior of the globals.
    WithPrior {
        times: f64,
    },
    /// Every row, the prior of the globals, and what the other silos said.
    Beside(&'a Quadratic),
}

impl Counted<'_> {
    /// How often every row counts.
    pub(super) fn times(self) -> f64 {
        if let Self::WithPrior { times } = self { times } else { 1.0 }
    }

    pub(super) fn has_prior(self) -> bool {
        !matches!(self, Self::Rows)
    }

    /// Makes what rows give what is counted.
    pub(super) fn complete(
        self,
        density: &LogDensity<'_, AnyModel>,
        globals: &[f64],
        found: &mut ValueAndGradient,
    ) -> Result<()> {
        found.value *= self.times();
        found.globals.iter_mut().for_each(|slot| *slot *= self.times());
        if self.has_prior() {
            let prior = density.global(globals)?;
            found.value += prior.value;
            add_scaled(&mut found.globals, 1.0, &prior.globals);
        }
        self.add_others(globals, &mut found.value, &mut found.globals);
        Ok(())
    }

    /// Adds what the other silos said, where that counts.
    pub(super) fn add_others(self, globals: &[f64], value: &mut f64, gradient: &mut [f64]) {
        if let Self::Beside(others) = self {
            let (own, by_globals) = others.at(globals);
            *value += own;
            add_scaled(gradient, 1.0, &by_globals);
        }
    }
}

const POINTS: &str = "rules.points";
const RULE_NOISE: &str = "rules.noise";
const SEEN: &str = "seen.globals";
const SAID: &str = "said";

impl Program for FewRoundsSilo {
    fn standing(&self) -> Standing<'_> {
        Standing { name: &self.name, seed: self.settings.seed, step: self.step }
    }

    fn reply(&mut self, request: &Message) -> Result<Message> {
        match request.kind.as_str() {
            StartRequest::KIND => self.start(&StartRequest::read(request, &())?),
            RoundRequest::KIND => self.round(&RoundRequest::read(request, &self.sizes())?),
            ValuesRequest::KIND => {
                self.values(&ValuesRequest::read(request, &ValuesSizes::of(self.rows.table.global_len(), 0))?)
            }
            other => Err(Error::malformed(other, "a silo of few rounds does not know it")),
        }
    }

    fn save(&self) -> Result<NamedVectors> {
        #[expect(clippy::cast_precision_loss, reason = "points are few")]
        let points = self.rows.integral.points().into_iter().map(|each| each as f64).collect();
        let mut state = vec![(POINTS.to_owned(), points), (SEEN.to_owned(), self.seen.flat())];
        state.push((RULE_NOISE.to_owned(), vec![self.rows.noise]));
        state.extend(self.said.iter().map(|said| (SAID.to_owned(), said.flat())));
        for (index, centres) in self.rows.centres.iter().enumerate() {
            state.push((format!("rules.{index}"), centres.flat()));
        }
        Ok(state)
    }

    fn load(&mut self, step: u64, state: &[(String, Vec<f64>)]) -> Result<bool> {
        let find = |name: &str| state.iter().find(|(known, _)| known == name).map(|(_, values)| values.as_slice());
        let (Some(points), Some(seen)) = (find(POINTS), find(SEEN)) else { return Ok(false) };
        let Some(&[noise]) = find(RULE_NOISE) else { return Ok(false) };
        let Some(seen) = Normal::of_flat(seen, self.rows.table.global_len()) else { return Ok(false) };
        let said = find(SAID).map(|values| Quadratic::of_flat(values, self.rows.table.global_len()));
        if said.as_ref().is_some_and(Option::is_none) {
            return Ok(false);
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "points are few")]
        let points: Vec<usize> = points.iter().map(|each| *each as usize).collect();
        let mut integral = self.rows.integral.clone();
        if !integral.set_points(&points, &self.rows.table)? {
            return Ok(false);
        }
        let mut all = Vec::with_capacity(self.rows.centres.len());
        for index in 0..self.rows.centres.len() {
            let own = find(&format!("rules.{index}")).and_then(|values| integral.start().of_flat(values));
            let Some(own) = own else { return Ok(false) };
            all.push(own);
        }
        (self.rows.integral, self.rows.centres, self.rows.noise) = (integral, all, noise);
        (self.seen, self.step) = (seen, step);
        self.said = said.flatten();
        Ok(true)
    }

    fn moments(&self) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        self.rows.moments(&self.seen)
    }
}
