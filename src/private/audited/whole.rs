//! Audits a private method as a whole: rows are in a run by coins, and told apart by everything that the run releases.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clap::ValueEnum;
use partita_core::burn::{self, module::Module, tensor::Tensor};
use partita_core::{Bernoulli, Design, Device, Key, Model, Normal, Purpose, Scope};
use partita_inference::{
    Error, FamilyPlan, FitOptions, Gaussian, Mechanism, PviOptions, Result, RowSum, Schedule, Settings, SiloSchedule,
    StartFrom,
};
use partita_privacy::Entropy;

use super::told::Told;
use super::{Audited, Guess, Noise, on_grid, refuted};
use crate::private::silo::silo_by;
use crate::private::{NoisedSums, PrivateMethod, PrivateOptions, Shares, Sums, declined, fit_by};

/// The silos of a run that is audited.
const SILOS: usize = 4;
/// The canaries of each: it has no other row.
const CANARIES: usize = 150;
/// The globals of the model.
const COLUMNS: usize = 14;
/// The norm of a canary's covariates: its contributions are about as long as clips are.
const LENGTH: f64 = 4.0;
/// The deviation that stands for noise where there is none, in clips: sums are exact to the unit of a grid.
const HARDLY_ANY: f64 = 1e-5;
/// The seed of canaries and runs, which everybody knows.
const SEED: u64 = 1;

/// A method that is audited as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuditedMethod {
    /// Eight few rounds.
    FewRounds,
    /// Three visits of partitioned variational inference, of eight local steps each.
    Pvi,
    /// Two rounds of SFVI, of 32 sums each.
    Sfvi,
}

impl AuditedMethod {
    /// The options of a run that is audited.
    pub(crate) fn promise(self, epsilon: f64, delta: f64) -> PrivateOptions {
        let (method, rounds, clip) = match self {
            Self::FewRounds => (PrivateMethod::FewRounds, 8, None),
            Self::Pvi => {
                let options = PviOptions { schedule: SiloSchedule::Synchronous, ..PviOptions::new(8) };
                (PrivateMethod::Pvi { options, rate: 1.0, clip: 2.0 }, 3, None)
            }
            // A canary that is always clipped adds the same to every sum of a round: of these it may be a little shorter.
            Self::Sfvi => (PrivateMethod::Sfvi { rate: 1.0 }, 2, Some(30.0)),
        };
        PrivateOptions { method, rounds, clip, ..PrivateOptions::new(epsilon, delta) }
    }

    /// The sums of each silo in such a run.
    ///
    /// # Errors
    /// [`Error::Declined`] for an epsilon or a delta outside its range.
    pub(crate) fn sums(self, epsilon: f64, delta: f64) -> Result<Sums> {
        let (algorithm, _) = self.promise(epsilon, delta).algorithm(COLUMNS, SILOS)?;
        Sums::of(&algorithm, COLUMNS, Shares::WHOLE)
            .ok_or_else(|| Error::Declined { problem: format!("{self:?} has no noised sums to audit") })
    }

    fn settings(self) -> Settings {
        let settings = Settings { seed: SEED, ..Settings::default() };
        match self {
            Self::FewRounds | Self::Sfvi => settings,
            Self::Pvi => Settings {
                family: FamilyPlan::new().global(Gaussian::diagonal()).initial_scale(1.0),
                schedule: Schedule::Constant { rate: 0.05 },
                start: StartFrom::Declared,
                particles: 2,
                ..settings
            },
        }
    }

    /// How many canaries there are in all.
    pub(crate) const CANARIES: usize = SILOS * CANARIES;

    /// One run of the whole method over canaries, each of which is in it by a fair coin: coordinator, silos and the exchange
    /// between them as in a private fit.
    ///
    /// Whoever guesses knows all canaries and sees every request and every sum that leaves the mechanism of a silo; what silos
    /// answer follows from these. The run is repeated with what it has released and with all canaries in it, so that
    /// what each of them adds to each sum is known exactly, and the coins are estimated from all sums at once.
    ///
    /// `bits` are those of the coins, and then of each silo.
    ///
    /// # Errors
    /// Those of a private fit, and [`Error::Declined`] if the run cannot be repeated with what it has released.
    pub(crate) fn audited(
        self,
        promise: &PrivateOptions,
        noise: Noise,
        bits: &mut dyn FnMut() -> Box<dyn Entropy + Send>,
    ) -> Result<Audited> {
        let mut coins = vec![0; Self::CANARIES];
        bits().fill(&mut coins).map_err(declined)?;
        let is_in: Vec<bool> = coins.iter().map(|coin| coin % 2 == 1).collect();
        let seen: Vec<Shared<Vec<Sum>>> = (0..SILOS).map(|_| Shared::default()).collect();
        self.run(promise, &is_in, |place| {
            let sums = (noise == Noise::On).then(|| NoisedSums::new(None, bits()));
            Box::new(Overheard { sums, seen: seen[place].clone() })
        })?;
        let told: Vec<Shared<Told>> = (0..SILOS).map(|_| Arc::new(Mutex::new(Told::new(CANARIES)))).collect();
        self.run(promise, &[true; Self::CANARIES], |place| {
            let seen = std::mem::take(&mut *held(&seen[place])).into_iter();
            Box::new(Repeated { seen, noise, told: told[place].clone() })
        })?;
        let coins = told.iter().flat_map(|silo| held(silo).coins());
        let guesses = coins.zip(is_in).map(|(seems_in, was_in)| Guess { seems_in, was_in }).collect();
        refuted(guesses, noise, promise.delta)
    }

    /// A run over the canaries that are in it, with these mechanisms of silos.
    fn run(
        self,
        promise: &PrivateOptions,
        is_in: &[bool],
        mut mechanism: impl FnMut(usize) -> Box<dyn Mechanism>,
    ) -> Result<()> {
        let device = Device::flex();
        let silos: Vec<(String, Canaries)> = (0..SILOS)
            .map(|place| -> Result<(String, Canaries)> {
                let own = CANARIES * place..CANARIES * (place + 1);
                Ok((format!("silo-{place}"), Canaries::new(own.start, &is_in[own], &device)?))
            })
            .collect::<Result<_>>()?;
        let options = FitOptions { settings: self.settings(), threads: 2, ..FitOptions::default() };
        fit_by(&Coefficients {}, &silos, &device, &options, promise, |seated, data, options| {
            let sums = mechanism(seated.index as usize);
            silo_by(seated, (&Coefficients {}, data), &device, options, sums)
        })
        .map(drop)
    }
}

/// Logistic regression without an intercept: a row of zeros says nothing of the coefficients, as one that counts as zero.
#[derive(Module, Debug)]
struct Coefficients {}

/// The canaries of a silo, where those that are out are rows of zeros.
#[derive(Debug, Clone)]
struct Canaries {
    design: Design<2>,
    outcomes: Tensor<1>,
}

impl Canaries {
    /// Those from this number on, each of which is in or out.
    fn new(first: usize, is_in: &[bool], device: &Device) -> partita_core::Result<Self> {
        let (mut covariates, mut outcomes) = (Vec::new(), Vec::new());
        for (number, is_in) in (first as u64..).zip(is_in) {
            let mut stream = partita_core::Noise::new(SEED).stream(Key::new(Purpose::Check, number));
            let row: Vec<f64> = (0..COLUMNS).map(|_| stream.standard_normal()).collect();
            let outcome = f64::from(u8::from(stream.uniform() < 0.5));
            let norm = row.iter().map(|own| own * own).sum::<f64>().sqrt();
            let share = if *is_in { LENGTH / norm } else { 0.0 };
            covariates.extend(row.iter().map(|own| own * share));
            outcomes.push(if *is_in { outcome } else { 0.0 });
        }
        let rows = is_in.len();
        Ok(Self { design: Design::new(covariates, [rows, COLUMNS])?, outcomes: device.tensor(outcomes, [rows]) })
    }
}

impl Model for Coefficients {
    type Globals = Tensor<1>;
    type Data = Canaries;

    fn global(&self, scope: &mut Scope<'_>) -> partita_core::Result<Tensor<1>> {
        scope.sample("beta", Normal::new(0.0, 1.0).iid([COLUMNS]))
    }

    fn local(&self, scope: &mut Scope<'_>, beta: &Tensor<1>, data: &Canaries) -> partita_core::Result<()> {
        scope.plate("row", data.outcomes.dims()[0], |scope, rows| {
            let logits = data.design.take(rows)?.predictor(beta.clone(), None)?;
            scope.observe("y", Bernoulli::logits(logits), rows.take(&data.outcomes)?)
        })
    }
}

/// What the mechanism of a silo and whoever guesses both have.
type Shared<T> = Arc<Mutex<T>>;

fn held<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A sum that has left a silo.
#[derive(Debug, Clone)]
struct Sum {
    /// What it was asked with.
    request: Vec<u8>,
    released: Vec<f64>,
}

/// The mechanism of a silo, of which someone sees all that it releases.
#[derive(Debug)]
struct Overheard {
    /// `None` for sums without noise.
    sums: Option<NoisedSums>,
    seen: Shared<Vec<Sum>>,
}

impl Mechanism for Overheard {
    fn release(&mut self, request: &[u8], sum: RowSum<'_>) -> Result<Vec<f64>> {
        let released = match &mut self.sums {
            Some(own) => own.release(request, sum)?,
            None => on_grid(sum.length, sum.clip, (sum.rows)(&(0..sum.count).collect::<Vec<_>>())?)?,
        };
        held(&self.seen).push(Sum { request: request.to_vec(), released: released.clone() });
        Ok(released)
    }
}

/// Gives what a run has released once more, and tells what each canary adds to it if it is in.
#[derive(Debug)]
struct Repeated {
    seen: std::vec::IntoIter<Sum>,
    noise: Noise,
    told: Shared<Told>,
}

impl Mechanism for Repeated {
    fn release(&mut self, request: &[u8], sum: RowSum<'_>) -> Result<Vec<f64>> {
        let Some(Sum { released, .. }) = self.seen.next().filter(|seen| seen.request == request) else {
            let problem =
                "the run asks for another sum than it did: what it asks for follows from more than what was released";
            return Err(Error::Declined { problem: problem.into() });
        };
        let RowSum { length, clip, noise, count, rows, .. } = sum;
        let each = rows(&(0..count).collect::<Vec<_>>())?;
        let each = each.into_iter().map(|row| on_grid(length, clip, vec![row])).collect::<Result<Vec<_>>>()?;
        let noise = if self.noise == Noise::On { noise } else { HARDLY_ANY };
        held(&self.told).hear(&each, &released, noise * clip);
        Ok(released)
    }
}

#[cfg(test)]
mod tests {
    use partita_privacy::{Accountant, Conversion, SeededBits};

    use super::*;

    const DELTA: f64 = 1e-5;

    /// A run with this epsilon promised, whose coins and noise follow from a seed.
    fn audited(method: AuditedMethod, epsilon: f64, noise: Noise, seed: u64) -> Audited {
        let mut next = 100 * seed;
        let mut bits = || {
            next += 1;
            Box::new(SeededBits::new(next)) as Box<dyn Entropy + Send>
        };
        method.audited(&method.promise(epsilon, DELTA), noise, &mut bits).unwrap()
    }

    /// Without noise more than five is refuted, in five of five runs with noise no more than is promised, and what hardly any
    /// noise hides is found out.
    fn holds(method: AuditedMethod) {
        let open = audited(method, 3.0, Noise::Off, 1);
        assert!(open.guesses == 600 && open.epsilon > 5.0, "{method:?}: {open:?}");
        for seed in [2, 3, 4, 5, 6] {
            let found = audited(method, 3.0, Noise::On, seed);
            assert!(found.guesses == 100 && found.epsilon <= 3.0, "{method:?}, seed {seed}: {found:?}");
        }
        let little = audited(method, 1e6, Noise::On, 7);
        assert!(little.epsilon > 2.5, "{method:?}: {little:?}");
    }

    #[test]
    fn few_rounds_hide_canaries_as_well_as_they_promise() {
        holds(AuditedMethod::FewRounds);
    }

    #[test]
    fn visits_of_pvi_hide_canaries_as_well_as_they_promise() {
        holds(AuditedMethod::Pvi);
    }

    #[test]
    fn rounds_of_sfvi_hide_canaries_as_well_as_they_promise() {
        holds(AuditedMethod::Sfvi);
    }

    #[test]
    fn the_sums_of_audited_runs_cost_what_is_promised() {
        for (method, count) in [(AuditedMethod::FewRounds, 8), (AuditedMethod::Pvi, 24), (AuditedMethod::Sfvi, 64)] {
            let sums = method.sums(3.0, DELTA).unwrap();
            assert!(sums.count == count && sums.rate >= 1.0, "{method:?}: {sums:?}");
            let spent = Accountant::of([sums.cost().unwrap()]).epsilon(DELTA, Conversion::Improved).unwrap();
            assert!(spent <= 3.0 && spent > 2.999, "{method:?}: {spent}");
        }
    }
}
