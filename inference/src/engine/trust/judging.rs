//! Answers for any method's silo what a report asks of the rows that were fitted: how probable, how well expected, and like what.

use partita_core::{Device, Loss, Precision, SiteTable, theta, with_theta};

use super::leave_out::LeftOutUnit;
use super::left_out_rows::{LeftOutRequest, left_out_answer};
use super::predictive::{CheckRequest, Checked, Replicated, Replicates};
use super::values::ValuesRequest;
use crate::engine::algorithm::{Posterior, finite};
use crate::engine::checkpoint;
use crate::engine::error::Result;
use crate::engine::exchange::SiloProgram;
use crate::engine::family::Family;
use crate::engine::panic::caught;
use crate::engine::party::{RESTORE, SAVE};
use crate::engine::report::OwnChecks;
use crate::engine::settings::Settings;
use crate::engine::terms::particles::Worker;
use crate::engine::wire::message::Message;

/// What the lengths of a request with a posterior follow from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// Parameters of the global family.
    pub(crate) parameters: u64,
    /// Numbers of θ that parties share.
    pub(crate) theta: u64,
}

/// A model at its trained parameters with the rows that it was fitted to.
pub(crate) struct Fitted<'a> {
    pub(crate) worker: Worker,
    pub(crate) device: &'a Device,
    pub(crate) table: &'a SiteTable,
    pub(crate) loss: Loss,
    pub(crate) seed: u64,
    pub(crate) threads: usize,
}

/// Whether a silo gives log marginal likelihoods by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Integrates {
    /// Its program does.
    Itself,
    /// What stands around the program does.
    Here,
}

/// A silo of any method that also answers what a report asks of its rows.
pub(crate) struct JudgingSilo {
    pub(super) program: Box<dyn SiloProgram>,
    pub(super) worker: Worker,
    pub(super) device: Device,
    pub(super) settings: Settings,
    index: u32,
    integrates: Integrates,
    /// What the latest request for checks found.
    checked: Option<OwnChecks>,
}

impl JudgingSilo {
    /// Gives the `index`-th silo of a run the rows that it was made of.
    pub(crate) fn new(
        program: Box<dyn SiloProgram>,
        index: u32,
        worker: Worker,
        device: &Device,
        settings: &Settings,
        integrates: Integrates,
    ) -> Self {
        Self { program, worker, device: device.clone(), settings: settings.clone(), index, integrates, checked: None }
    }

    /// How many numbers of θ the silo shares with others.
    pub(super) fn shared(&self) -> Result<usize> {
        Ok(theta(&self.worker.model)?.len().saturating_sub(self.program.private_theta().len()))
    }

    /// Model and rows at trained parameters of which `shared` came with a request.
    pub(super) fn at(&self, shared: &[f64]) -> Result<Worker> {
        let all = [shared, &self.program.private_theta()].concat();
        Ok(Worker { model: with_theta(&self.worker.model, &all, &self.device)?, data: self.worker.data.clone() })
    }

    fn table(&self) -> Result<SiteTable> {
        Ok(SiteTable::of(&self.worker.model, &self.device, &self.worker.data)?)
    }

    fn sizes(&self, family: &dyn Family) -> Result<Sizes> {
        Ok(Sizes { parameters: family.parameter_len() as u64, theta: self.shared()? as u64 })
    }

    fn fitted<'a>(&'a self, table: &'a SiteTable, shared: &[f64]) -> Result<Fitted<'a>> {
        let Settings { loss, seed, .. } = self.settings;
        let threads = self.settings.silo_threads();
        Ok(Fitted { worker: self.at(shared)?, device: &self.device, table, loss, seed, threads })
    }

    fn leave_out(&self, request: &Message) -> Result<Message> {
        let table = self.table()?;
        let family = self.settings.family.global_family(&table)?;
        let request = LeftOutRequest::read(request, &self.sizes(&*family)?)?;
        let posterior = Posterior { family: &*family, parameters: &request.global, theta: &[] };
        let draws = usize::try_from(request.draws).unwrap_or(usize::MAX);
        let fitted = self.fitted(&table, &request.theta)?;
        let of = |unit| fitted.leave_one_out(&posterior, request.seed, draws, unit);
        let rows = of(LeftOutUnit::Row)?;
        // Where rows have no latents, they are their observations.
        let found = match table.has_local_latents() {
            true => [rows, of(LeftOutUnit::Observation)?],
            false => [rows.clone(), rows],
        };
        left_out_answer(self.program.name(), found.each_ref(), draws)
    }

    fn check(&self, request: &Message) -> Result<(Message, OwnChecks)> {
        let table = self.table()?;
        let family = self.settings.family.global_family(&table)?;
        let request = CheckRequest::read(request, &self.sizes(&*family)?)?;
        let posterior = Posterior { family: &*family, parameters: &request.global, theta: &[] };
        let replicates = Replicates { draws: request.draws, seed: request.seed, silo: self.index };
        let fitted = self.fitted(&table, &request.theta)?;
        let found = fitted.replicate(&|noise, draw| posterior.draw(noise, draw), &request.checks()?, replicates)?;
        let p_values: Vec<f64> = found.iter().map(Replicated::p_value).collect();
        finite(self.program.name(), 0, |_| "a posterior predictive p-value".into(), &p_values)?;
        let own = OwnChecks { silo: self.program.name().to_owned(), checks: found };
        Ok((Checked { p_values }.write(), own))
    }
}

impl SiloProgram for JudgingSilo {
    fn name(&self) -> &str {
        self.program.name()
    }

    fn within(&self) -> Option<&dyn SiloProgram> {
        Some(&*self.program)
    }

    fn compute_in(&mut self, precision: Precision) -> Result<bool> {
        self.program.compute_in(precision)
    }

    fn own_checks(&self) -> Option<OwnChecks> {
        self.checked.clone().or_else(|| self.program.own_checks())
    }

    fn answer(&mut self, request: &Message) -> Result<Message> {
        let integrates = self.integrates == Integrates::Here;
        let name = self.program.name();
        match request.kind.as_str() {
            ValuesRequest::KIND if integrates => caught(name, || self.values(request)),
            LeftOutRequest::KIND => caught(name, || self.leave_out(request)),
            CheckRequest::KIND => {
                let (answer, own) = caught(name, || self.check(request))?;
                self.checked = Some(own);
                Ok(answer)
            }
            SAVE => {
                let saved = self.program.answer(request)?;
                if let Some(own) = &self.checked {
                    checkpoint::save_checks(request.get_setting("folder")?.as_ref(), own)?;
                }
                Ok(saved)
            }
            RESTORE => {
                self.checked = checkpoint::load_checks(request.get_setting("folder")?.as_ref(), name)?;
                self.program.answer(request)
            }
            _ => self.program.answer(request),
        }
    }
}
