//! Lets a silo take the local steps of a round on its device, of which nothing is read before the round's end.

use super::messages::{POINT_ROUND, Round, RoundAnswer, Sizes};
use super::silo::{check_points, round_pace, round_units};
use crate::engine::checkpoint::NamedVectors;
use crate::engine::error::Result;
use crate::engine::on_device::{Begin, DeviceSteps, Interval, Weights};
use crate::engine::party::{Commit, Program, Standing};
use crate::engine::terms::Silo;
use crate::engine::wire::message::{LARGEST_COUNT, Message};

/// One party of SFVI-Avg, or of federated averaging of points, whose local steps stay on its device: one read a round.
///
/// Its steps are those of [`crate::AveragingSilo`] to rounding, but for units where that has coordinates of a covariance,
/// after a start at a mode ([`crate::StartFrom::Mode`]). Whatever else is asked of it, such as bounds, is computed
/// on the host: the local posterior is read for that once after a round.
#[derive(Debug)]
pub struct DeviceAveragingSilo {
    silo: Silo,
    steps: DeviceSteps,
    most_steps: u64,
}

impl DeviceAveragingSilo {
    /// Lets a silo, the `index`-th of the run, take local steps on its device.
    ///
    /// # Errors
    /// [`crate::Error::Setting`] for what has no device form: estimators with inner draws, optimisers other than Adam (and
    /// Sgd, where rows have no latents), clipping, low-rank globals, rows with correlated columns, private θ.
    pub fn new(silo: Silo, index: u32) -> Result<Self> {
        let steps = DeviceSteps::new(&silo, index)?;
        Ok(Self { silo, steps, most_steps: LARGEST_COUNT })
    }

    /// Lets a silo take local steps of point estimation on its device.
    ///
    /// # Errors
    /// As for [`DeviceAveragingSilo::new`] and [`crate::AveragingSilo::of_points`].
    pub fn of_points(silo: Silo, index: u32) -> Result<Self> {
        check_points(&silo)?;
        Self::new(silo, index)
    }

    /// The same silo, which refuses rounds of more local steps than this.
    #[must_use]
    pub fn at_most(self, local_steps: u64) -> Self {
        Self { most_steps: local_steps, ..self }
    }

    /// The local steps of a round; where it fails, the party stands where it stood before.
    fn round(&mut self, request: &Round) -> Result<Message> {
        let before = self.steps.before();
        let answer = self.local_steps(request);
        if answer.is_err() {
            self.steps.go_back(before);
        }
        answer
    }

    fn local_steps(&mut self, request: &Round) -> Result<Message> {
        let Round { round, step: first, local_steps: count, ref global, ref theta, .. } = *request;
        let Round { weight: density, entropy, prior, proximal, .. } = *request;
        if request.undone.is_some() {
            self.steps.restart_rows();
        }
        let pace = round_pace(request)?;
        let units = pace.as_ref().map(|_| self.steps.units(&round_units(&self.silo, request).units()));
        let settings = &self.silo.settings;
        let rate = |step: u64| match &pace {
            Some(pace) => pace.rate(step - first, count),
            None => settings.rate(step),
        };
        let begin = Begin { global, theta, keep_optimiser: request.keep_optimiser && request.undone.is_none() };
        let read = self.steps.take(
            &begin,
            &Interval {
                first,
                count,
                heard: count.div_ceil(10),
                weights: Weights { density, entropy, prior },
                cavity: None,
                proximal,
                rate: &rate,
                units: units.as_ref(),
            },
        )?;
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
}

impl Program for DeviceAveragingSilo {
    fn standing(&self) -> Standing<'_> {
        self.silo.standing()
    }

    fn reply(&mut self, request: &Message) -> Result<Message> {
        if let kind @ (Round::KIND | POINT_ROUND) = request.kind.as_str() {
            let sizes = Sizes::of_silo(&self.silo, self.most_steps);
            return self.round(&Round::read_as(kind, request, &sizes)?);
        }
        self.steps.read_rows(&mut self.silo)?;
        self.silo.reply(request)
    }

    fn save(&self) -> Result<NamedVectors> {
        Ok([self.silo.state(), self.steps.save()?].concat())
    }

    fn load(&mut self, step: u64, state: &[(String, Vec<f64>)]) -> Result<bool> {
        Ok(self.silo.load(step, state)? && self.steps.load(state))
    }

    /// A round is taken back without a read: tensors that did not move are shared.
    fn commit(&self, request: &Message) -> Commit {
        match request.kind.as_str() {
            Round::KIND | POINT_ROUND => Commit::AtItsEnd,
            _ => self.silo.commit(request),
        }
    }

    fn moments(&self) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        self.steps.moments(&self.silo)
    }
}
