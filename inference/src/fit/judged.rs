//! Asks silos, after a fit, what its options want to know of the rows that were fitted.

use std::time::Duration;

use super::FitOptions;
use crate::engine::algorithm::replies;
use crate::engine::error::{Error, Result};
use crate::engine::exchange::{Exchange, Request};
use crate::engine::report::{Severity, Warning};
use crate::engine::run::{Counters, counted};
use crate::engine::trust::left_out_rows::{LeaveOneOutOfSilos, LeftOutRequest, LeftOutRows};
use crate::engine::trust::predictive::{CheckRequest, Checked, PredictiveChecks, SiloChecks};
use crate::engine::wire::manifest::{Field, Manifest};
use crate::engine::wire::message::Message;

/// What silos said, and why not where they did not.
#[derive(Debug, Default)]
pub(super) struct Judged {
    pub(super) leave_one_out: Option<LeaveOneOutOfSilos>,
    pub(super) checks: Option<PredictiveChecks>,
    pub(super) warnings: Vec<Warning>,
}

/// The posterior that silos are asked about.
#[derive(Debug)]
pub(super) struct OfPosterior {
    pub(super) seed: u64,
    pub(super) global: Vec<f64>,
    pub(super) theta: Vec<f64>,
}

impl Judged {
    /// Nothing, with a word for each thing that was asked for.
    pub(super) fn impossible(options: &FitOptions, reason: &str) -> Self {
        let mut judged = Self::default();
        if options.leave_one_out_draws > 0 {
            judged.missing("leave-one-out", reason);
        }
        if !options.checks.is_empty() {
            judged.missing("posterior predictive checks", reason);
        }
        judged
    }

    /// Asks for what `options` want. What silos refuse is a warning: the fit is kept.
    pub(super) fn ask(
        options: &FitOptions,
        asked: OfPosterior,
        exchange: &mut dyn Exchange,
        counters: &mut Counters,
    ) -> Result<Self> {
        let mut judged = Self::default();
        let OfPosterior { seed, global, theta } = asked;
        if options.leave_one_out_draws > 0 {
            let draws = options.leave_one_out_draws;
            let message = LeftOutRequest { draws, seed, global: global.clone(), theta: theta.clone() }.write();
            let found = Asking { exchange, counters, deadline: options.deadline, fields: LeftOutRows::fields(&()) };
            match found.answers(&message, read_left_out) {
                Ok(answers) => judged.left_out(LeaveOneOutOfSilos::of(&answers, draws)),
                Err(error) => judged.missing("leave-one-out", &error.to_string()),
            }
        }
        if !options.checks.is_empty() {
            let (checks, count) = (options.checks.clone(), options.checks.len() as u64);
            let draws =
                options.check_draws.unwrap_or_else(|| PredictiveChecks::enough(checks.len(), exchange.silos().len()));
            let message = CheckRequest { draws, seed, global, theta, checks: CheckRequest::text(&checks) }.write();
            let found = Asking { exchange, counters, deadline: options.deadline, fields: Checked::fields(&count) };
            match found.answers(&message, |silo, reply| read_checks(silo, reply, count)) {
                Ok(silos) => {
                    let silos = silos.into_iter().map(|(_, own)| own).collect();
                    judged.checked(PredictiveChecks { checks, silos, draws });
                }
                Err(error) => judged.missing("posterior predictive checks", &error.to_string()),
            }
        }
        Ok(judged)
    }

    fn left_out(&mut self, found: LeaveOneOutOfSilos) {
        self.warnings.extend(found.warnings());
        self.leave_one_out = Some(found);
    }

    fn checked(&mut self, found: PredictiveChecks) {
        self.warnings.extend(found.warnings());
        self.checks = Some(found);
    }

    fn missing(&mut self, what: &str, reason: &str) {
        let reason = reason.trim_end_matches('.');
        let problem = format!("there is no answer to what was asked for, {what}: {reason}");
        let remedy = "Ask for it where all silos can answer, or not at all; the fit itself is not touched by it.";
        self.warnings.push(Warning::new(Severity::Note, problem, remedy));
    }
}

/// How all silos are asked one thing.
struct Asking<'a> {
    exchange: &'a mut dyn Exchange,
    counters: &'a mut Counters,
    deadline: Option<Duration>,
    fields: Vec<Field>,
}

impl Asking<'_> {
    /// What each silo answers, with its name.
    fn answers<T>(self, message: &Message, read: impl Fn(&str, &Message) -> Result<T>) -> Result<Vec<(String, T)>> {
        let Self { exchange, counters, deadline, fields } = self;
        let (names, step) = (exchange.silos().to_vec(), counters.gradient_steps);
        let requests = Request::to_all(names.len(), message);
        let outcomes = counted(exchange, requests, &Manifest { fields }, deadline, counters)?;
        let replies = replies(outcomes, &names, step)?;
        let each = replies.iter().zip(names).map(|(reply, name)| match read(&name, reply) {
            Ok(found) => Ok((name, found)),
            Err(error) => Err(error.in_silo(&name, step)),
        });
        each.collect()
    }
}

/// Sums over rows, which have to be possible ones.
fn read_left_out(silo: &str, reply: &Message) -> Result<LeftOutRows> {
    let found = LeftOutRows::read(reply, &())?;
    found.check(silo)?;
    Ok(found)
}

/// P-values, from 0 to 1.
fn read_checks(silo: &str, reply: &Message, count: u64) -> Result<SiloChecks> {
    let Checked { p_values } = Checked::read(reply, &count)?;
    if let Some(wrong) = p_values.iter().find(|own| !(0.0..=1.0).contains(*own)) {
        return Err(Error::malformed(&reply.kind, format_args!("a p-value is {wrong}, expected 0 to 1")));
    }
    Ok(SiloChecks { silo: silo.to_owned(), p_values })
}
