//! Lets a silo take the local steps of a round on its device, of which nothing is read before the round's end.

use partita_core::{AnyData, AnyModel};

use super::messages::{Round, RoundAnswer, Sizes};
use super::silo::{round_pace, round_units};
use crate::engine::checkpoint::NamedVectors;
use crate::engine::error::{Error, Result};
use crate::engine::explosion::{real, whole};
use crate::engine::on_device::{DeviceFit, Interval, Owner, Weights};
use crate::engine::party::{Commit, Program, Standing};
use crate::engine::terms::Silo;
use crate::engine::terms::particles::Worker;
use crate::engine::trainer::with_prefix;
use crate::engine::wire::message::{LARGEST_COUNT, Message};

/// One party of SFVI-Avg whose local steps stay on its device: one read a round.
///
/// Its steps are those of [`crate::AveragingSilo`] to rounding, but for units where that has coordinates of a covariance,
/// after a start at a mode ([`crate::StartFrom::Mode`]). Whatever else is asked of it, such as bounds, is computed
/// on the host: the local posterior is read for that once after a round.
#[derive(Debug)]
pub struct DeviceAveragingSilo {
    silo: Silo,
    fit: DeviceFit,
    most_steps: u64,
    /// Whether rows have moved on the device since they were read.
    is_ahead: bool,
    /// The step before which the rule of the globals has seen nothing.
    since: u64,
}

/// What the names of the device's state begin with.
const DEVICE: &str = "device.";
/// Whether rows have moved since they were read.
const AHEAD: &str = "ahead";
/// The step before which the rule of the globals has seen nothing.
const SINCE: &str = "since";

impl DeviceAveragingSilo {
    /// Lets a silo, the `index`-th of the run, take local steps on its device.
    ///
    /// # Errors
    /// [`Error::Setting`] for what has no device form: estimators with inner draws, optimisers other than Adam, clipping,
    /// low-rank globals, rows with correlated columns, private θ.
    pub fn new(silo: Silo, index: u32) -> Result<Self> {
        let Worker { model, data }: &Worker = &silo.workers[0];
        let (model, data): (AnyModel, AnyData) = (model.clone(), data.clone());
        let owner = Owner { globals: index, silo: index, seed: silo.locals.seed() };
        let fit = DeviceFit::new(&silo.name, owner, (&model, &data), &silo.device, &silo.settings)?;
        Ok(Self { silo, fit, most_steps: LARGEST_COUNT, is_ahead: false, since: 0 })
    }

    /// The same silo, which refuses rounds of more local steps than this.
    #[must_use]
    pub fn at_most(self, local_steps: u64) -> Self {
        Self { most_steps: local_steps, ..self }
    }

    /// The local steps of a round; where it fails, the party stands where it stood before.
    fn round(&mut self, request: &Round) -> Result<Message> {
        let (before, since) = (self.fit.standing(), self.since);
        let answer = self.steps(request);
        if answer.is_err() {
            self.fit.go_back(before);
            self.since = since;
        }
        answer
    }

    fn steps(&mut self, request: &Round) -> Result<Message> {
        let Round { round, step: first, local_steps: count, ref global, ref theta, .. } = *request;
        if (request.prior - 1.0).abs() > 0.0 || request.proximal > 0.0 {
            return Err(Error::Setting {
                setting: "algorithm",
                found: "a power of the prior or a proximal term in a round on a device".into(),
                expected: "rounds of SfviAvg on a device, or FedOpt on the host",
            });
        }
        if !request.keep_optimiser || request.undone.is_some() {
            self.fit.restart();
            self.since = first;
        }
        if request.undone.is_some() {
            self.fit.restart_rows();
        }
        self.fit.set(global, theta);
        let pace = round_pace(request)?;
        let units = pace.as_ref().map(|_| self.fit.units(&round_units(&self.silo, request).units()));
        let settings = &self.silo.settings;
        let rate = |step: u64| match &pace {
            Some(pace) => pace.rate(step - first, count),
            None => settings.rate(step),
        };
        let read = self.fit.interval(&Interval {
            first,
            count,
            heard: count.div_ceil(10),
            weights: Weights { density: request.weight, entropy: request.entropy },
            rate: &rate,
            units: units.as_ref(),
            since: self.since,
        })?;
        self.is_ahead = true;
        self.silo.step = first + count;
        self.silo.see(global);
        Ok(RoundAnswer {
            round,
            global: read.global,
            elbo: Some(read.bound),
            clipped_rows: None,
            clipped: 0,
            theta: read.theta,
        }
        .write())
    }

    /// Reads the local posterior to the host, where it has moved.
    fn read_rows(&mut self) -> Result<()> {
        if self.is_ahead {
            let mut parameters = self.silo.local_parameters();
            self.fit.read_rows(&mut parameters)?;
            self.silo.set_local_parameters(parameters)?;
            self.is_ahead = false;
        }
        Ok(())
    }
}

impl Program for DeviceAveragingSilo {
    fn standing(&self) -> Standing<'_> {
        self.silo.standing()
    }

    fn reply(&mut self, request: &Message) -> Result<Message> {
        if request.kind == Round::KIND {
            let sizes = Sizes::of_silo(&self.silo, self.most_steps);
            return self.round(&Round::read(request, &sizes)?);
        }
        self.read_rows()?;
        self.silo.reply(request)
    }

    fn save(&self) -> Result<NamedVectors> {
        let mut state = self.silo.state();
        state.extend(self.fit.state()?.into_iter().map(|(name, values)| (format!("{DEVICE}{name}"), values)));
        state.push((format!("{DEVICE}{AHEAD}"), vec![f64::from(u8::from(self.is_ahead))]));
        state.push((format!("{DEVICE}{SINCE}"), vec![real(self.since)]));
        Ok(state)
    }

    fn load(&mut self, step: u64, state: &[(String, Vec<f64>)]) -> Result<bool> {
        let (device, own): (Vec<_>, Vec<_>) = state.iter().cloned().partition(|(name, _)| name.starts_with(DEVICE));
        let device = with_prefix(&device, DEVICE);
        let find = |own: &str| device.iter().find(|(name, _)| name == own).and_then(|(_, values)| values.first());
        let ahead = find(AHEAD);
        self.is_ahead = ahead.is_some_and(|ahead| *ahead > 0.5);
        self.since = find(SINCE).map_or(0, |since| whole(*since));
        Ok(ahead.is_some() && self.silo.load(step, &own)? && self.fit.load(&device))
    }

    /// A round is taken back without a read: tensors that did not move are shared.
    fn commit(&self, request: &Message) -> Commit {
        if request.kind == Round::KIND { Commit::AtItsEnd } else { self.silo.commit(request) }
    }

    fn moments(&self) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        if !self.is_ahead {
            return self.silo.moments();
        }
        self.fit.moments(self.silo.seen_covariance().as_ref())
    }
}
