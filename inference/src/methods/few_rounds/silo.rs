//! Gives the silo's side of few rounds: its rows integrated out at every draw, and sums over them.

use partita_core::{AnyData, AnyModel, Device, LogDensity, Model, SiteTable, theta};

use super::alone::{Alone, fit_alone};
use super::coordinator::{check, prior_share, start};
use super::messages::{Answer, RoundRequest, Sizes, StartRequest};
use super::options::FewRoundsOptions;
use super::step::Share;
use crate::engine::algorithm::finite;
use crate::engine::checkpoint::NamedVectors;
use crate::engine::error::{Error, Result};
use crate::engine::integral::{AtDraws, Centres, Conditionals, Integrand, RowIntegral, Until, here_or_anew};
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

/// The most points an axis in a start, which may lie where rows are hard to integrate and need not be right.
const START_POINTS: usize = 31;

/// One party of few rounds: its data, and where its rules over rows stand at every draw.
///
/// Data, local latents and their rules stay here; what leaves is listed in [`crate::Algorithm::manifest`].
pub struct FewRoundsSilo {
    name: String,
    settings: Settings,
    options: FewRoundsOptions,
    rows: AtDraws,
    /// The posterior of the globals that the latest request brought.
    seen: Normal,
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
        let rows = outermost_rows(&table);
        if rows < options.least_rows {
            return Err(Error::Setting {
                setting: "least_rows",
                found: format!("{rows} rows in silo `{name}`, at least {} wanted", options.least_rows),
                expected: "silos with more rows, since a sum over few rows says much about each; or a smaller `least_rows`",
            });
        }
        let draws = Draws::new(settings.seed, table.global_len(), options.draws_for(table.global_len())?)?;
        let worker = Worker { model: model.clone(), data: data.clone() };
        let seen = start(settings, &table);
        Ok(Self {
            name: name.to_owned(),
            settings: settings.clone(),
            options: options.clone(),
            rows: AtDraws::new(worker, settings.silo_threads(), device, table, draws)?,
            seen,
            step: 0,
        })
    }

    /// The model's sites for this silo's data.
    #[must_use]
    pub fn table(&self) -> &SiteTable {
        &self.rows.table
    }

    /// The sum over the silo's rows at the draws of a distribution, with prior for a silo alone. Rules begin at
    /// `centres`; where they end comes with it.
    fn share(&mut self, at: &Normal, counted: Counted, centres: &[Centres]) -> Result<(Share, Vec<Centres>)> {
        let AtDraws { workers, integral, draws, device, table, .. } = &mut self.rows;
        let (integral, draws, device, table) = (&*integral, &*draws, &*device, &*table);
        let found = spread(workers, draws.len(), |Worker { model, data }: &Worker, index| {
            let globals = at.draw(draws.get(index));
            let integrand = Integrand { model, data, device, table };
            let evaluate = |own: &mut Centres| integral.gradient(&integrand, &globals, own);
            let (mut found, own) = here_or_anew(integral, &centres[index], evaluate)?;
            if let Counted::WithPrior { times } = counted {
                found.value *= times;
                found.globals.iter_mut().for_each(|slot| *slot *= times);
                let prior = LogDensity::new(model, device, table).global(&globals)?;
                found.value += prior.value;
                found.globals.iter_mut().zip(&prior.globals).for_each(|(slot, own)| *slot += own);
            }
            Ok((found.value, found.globals, own))
        })?;
        let (mut moved, mut sums) = (Vec::with_capacity(found.len()), Vec::with_capacity(found.len()));
        for (value, gradient, own) in found {
            moved.push(own);
            sums.push((value, gradient));
        }
        for (value, gradient) in &sums {
            finite(&self.name, self.step, |_| "the log marginal likelihood of its rows".into(), &[*value])?;
            finite(&self.name, self.step, |index| describe_global(&self.rows.table, index), gradient)?;
        }
        Ok((Share::of(at, &self.rows.draws, &sums), moved))
    }

    /// How far numbers of points are raised, at most so many an axis.
    fn until(&self, most: usize) -> Until {
        Until { tolerance: self.options.quadrature_tolerance, most, nodes: usize::MAX, noise: NOISE }
    }

    fn start(&mut self, request: &StartRequest) -> Result<Message> {
        let start = start(&self.settings, &self.rows.table);
        let (own, share) = match self.rows.integral.sample() {
            None => {
                self.rows.coarsen()?;
                let (own, _) = self.fit_alone(start, 1.0)?;
                self.rows.choose_points(&own, self.until(START_POINTS))?;
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
        Ok(self.answer(vec![share], Some(own.parameters())))
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
        let mut looks = Vec::new();
        for parameters in request.global.chunks_exact(Normal::parameters_of(self.rows.table.global_len())) {
            looks.push(self.posterior(parameters)?);
        }
        let (mut shares, mut seen, mut refused) = (Vec::with_capacity(looks.len()), None, None);
        for at in looks {
            match self.look(&at, seen.is_none()) {
                Ok(share) => {
                    shares.push(share);
                    seen.get_or_insert(at);
                }
                Err(error) if error.is_outside() => {
                    shares.push(Share { value: f64::NEG_INFINITY, ..Share::none(at.len()) });
                    refused.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        // Where no number is anywhere, the first posterior asked for says why.
        self.seen = seen.ok_or_else(|| refused.unwrap_or_else(|| self.of_another_model()))?;
        self.step = request.step + 1;
        Ok(self.answer(shares, None))
    }

    /// The share of a posterior that may come next. Numbers of points and places of rules are those of the first that is seen.
    fn look(&mut self, at: &Normal, is_first: bool) -> Result<Share> {
        if !is_first {
            let centres = self.rows.centres.clone();
            return Ok(self.share(at, Counted::Rows, &centres)?.0);
        }
        self.rows.choose_points(at, self.until(usize::MAX))?;
        self.own_share(at)
    }

    fn answer(&self, shares: Vec<Share>, own: Option<Vec<f64>>) -> Message {
        let points = self.rows.integral.points().into_iter().max().unwrap_or(0) as u64;
        let rows = own.is_some().then(|| outermost_rows(&self.rows.table) as u64);
        let evaluations = own.is_some().then(|| self.rows.integral.evaluations()).flatten();
        let (mut value, mut gradient, mut curvature) = (Vec::new(), Vec::new(), Vec::new());
        for share in shares {
            value.push(share.value);
            gradient.extend(share.gradient);
            curvature.extend(share.curvature);
        }
        Answer { own, value, gradient, curvature, points, rows, evaluations }.write()
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
        let found = Normal::of_parameters(parameters, self.rows.table.global_len());
        found.ok_or_else(|| self.of_another_model())
    }

    fn of_another_model(&self) -> Error {
        let expected = Normal::parameters_of(self.rows.table.global_len());
        Error::Message {
            kind: RoundRequest::KIND.into(),
            problem: format!("its posteriors have not {expected} parameters each, as this model's have"),
        }
    }
}

/// What a share is a sum of.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Counted {
    Rows,
    /// Every row so many times, and the prior of the globals.
    WithPrior {
        times: f64,
    },
}

const POINTS: &str = "rules.points";
const SEEN: &str = "seen.globals";

impl Program for FewRoundsSilo {
    fn standing(&self) -> Standing<'_> {
        Standing { name: &self.name, seed: self.settings.seed, step: self.step }
    }

    fn reply(&mut self, request: &Message) -> Result<Message> {
        match request.kind.as_str() {
            StartRequest::KIND => self.start(&StartRequest::read(request, &())?),
            RoundRequest::KIND => {
                let sizes = Sizes::of_looks(self.rows.table.global_len(), RoundRequest::looks(request)?);
                self.round(&RoundRequest::read(request, &sizes)?)
            }
            ValuesRequest::KIND => {
                self.values(&ValuesRequest::read(request, &ValuesSizes::of(self.rows.table.global_len(), 0))?)
            }
            other => {
                Err(Error::Message { kind: other.to_owned(), problem: "a silo of few rounds does not know it".into() })
            }
        }
    }

    fn save(&self) -> Result<NamedVectors> {
        #[expect(clippy::cast_precision_loss, reason = "points are few")]
        let points = self.rows.integral.points().into_iter().map(|each| each as f64).collect();
        let mut state = vec![(POINTS.to_owned(), points), (SEEN.to_owned(), self.seen.flat())];
        for (index, centres) in self.rows.centres.iter().enumerate() {
            state.push((format!("rules.{index}"), centres.flat()));
        }
        Ok(state)
    }

    fn load(&mut self, step: u64, state: &[(String, Vec<f64>)]) -> Result<bool> {
        let find = |name: &str| state.iter().find(|(known, _)| known == name).map(|(_, values)| values.as_slice());
        let (Some(points), Some(seen)) = (find(POINTS), find(SEEN)) else { return Ok(false) };
        let Some(seen) = Normal::of_flat(seen, self.rows.table.global_len()) else { return Ok(false) };
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
        (self.rows.integral, self.rows.centres, self.seen, self.step) = (integral, all, seen, step);
        Ok(true)
    }

    fn moments(&self) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        let integrand = self.rows.integrand();
        let mut sums: Vec<(Vec<f64>, Vec<f64>)> = self
            .rows
            .table
            .blocks()
            .iter()
            .map(|block| (vec![0.0; block.rows * block.width], vec![0.0; block.rows * block.width]))
            .collect();
        #[expect(clippy::cast_precision_loss, reason = "there are few draws")]
        let weight = 1.0 / self.rows.draws.len() as f64;
        for (index, centres) in self.rows.centres.iter().enumerate() {
            let globals = self.seen.draw(self.rows.draws.get(index));
            for found in self.rows.integral.conditionals(&integrand, &globals, &mut centres.clone())? {
                let Conditionals { block, rows, means, variances } = found;
                let width = self.rows.table.blocks()[block].width;
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
}
