//! Sums how well rows and observations that are left out were expected: sums and how many are unknown leave a silo.

use serde::{Deserialize, Serialize};

use super::judging::Sizes;
use super::predictive::MOST_DRAWS;
use crate::engine::algorithm::finite;
use crate::engine::error::{Error, Result};
use crate::engine::explosion::real;
use crate::engine::metrics::{LeaveOneOut, pareto_k_threshold};
use crate::engine::report::{Severity, Warning, number};
use crate::engine::wire::message::{LARGEST_COUNT, Message};
use crate::engine::wire::typed::message;

message! {
    /// Asks a silo to leave its rows out one at a time.
    struct LeftOutRequest = "leave_one_out.rows", sizes: &Sizes {
        /// how many draws
        draws: u64 = Request <= MOST_DRAWS,
        /// the seed of the run
        seed: u64 = Request <= u64::MAX,
        /// the parameters of the global posterior
        global: Vec<f64> = Request <= sizes.parameters,
        /// the shared part of θ
        theta: Vec<f64> = Request <= sizes.theta,
    }
}

message! {
    /// What it says of them.
    struct LeftOutRows = "leave_one_out.answer", sizes: &() {
        /// the sum over rows of the log predictive density of each, had it been left out
        sum: f64 = Data <= 1,
        /// the standard error of that sum over rows
        standard_error: f64 = Data <= 1,
        /// what the posterior gained by seeing the rows
        effective_parameters: f64 = Data <= 1,
        /// the number of rows
        rows: u64 = Data <= LARGEST_COUNT,
        /// how many of them are not known, by their Pareto k
        unknown: u64 = Data <= LARGEST_COUNT,
        /// the same sum over single observations, each given the others of its row
        observation_sum: f64 = Data <= 1,
        /// the standard error of that sum over observations
        observation_standard_error: f64 = Data <= 1,
        /// what the posterior gained by seeing each observation
        observation_effective_parameters: f64 = Data <= 1,
        /// the number of observations
        observations: u64 = Data <= LARGEST_COUNT,
        /// how many of them are not known
        unknown_observations: u64 = Data <= LARGEST_COUNT,
    }
}

/// What a silo answers of its rows, and of its observations.
///
/// # Errors
/// [`Error::NotFinite`] for rows whose densities are not finite.
pub(super) fn left_out_answer(silo: &str, found: [&LeaveOneOut; 2], draws: usize) -> Result<Message> {
    let (threshold, [rows, observations]) = (pareto_k_threshold(draws), found);
    let answer = LeftOutRows {
        sum: rows.sum(),
        standard_error: rows.standard_error(),
        effective_parameters: rows.effective_parameters(),
        rows: rows.log_densities.len() as u64,
        unknown: rows.above(threshold) as u64,
        observation_sum: observations.sum(),
        observation_standard_error: observations.standard_error(),
        observation_effective_parameters: observations.effective_parameters(),
        observations: observations.log_densities.len() as u64,
        unknown_observations: observations.above(threshold) as u64,
    };
    answer.of_silo(silo).iter().try_for_each(SiloLeaveOneOut::check)?;
    Ok(answer.write())
}

impl LeftOutRows {
    /// What a silo says of its rows and of its observations, which have to be possible.
    ///
    /// # Errors
    /// [`Error::NotFinite`], [`Error::Message`].
    pub(crate) fn check(&self, silo: &str) -> Result<()> {
        for own in self.of_silo(silo) {
            own.check()?;
            if own.standard_error < 0.0 || own.unknown > own.rows || own.rows == 0 {
                let problem = format!(
                    "it is of {} rows, {} of them unknown, with a standard error of {}",
                    own.rows, own.unknown, own.standard_error
                );
                return Err(Error::Message { kind: Self::KIND.into(), problem });
            }
        }
        Ok(())
    }

    /// The same by rows and by observations.
    fn of_silo(&self, silo: &str) -> [SiloLeaveOneOut; 2] {
        let silo = || silo.to_owned();
        [
            SiloLeaveOneOut {
                silo: silo(),
                sum: self.sum,
                standard_error: self.standard_error,
                effective_parameters: self.effective_parameters,
                rows: self.rows,
                unknown: self.unknown,
            },
            SiloLeaveOneOut {
                silo: silo(),
                sum: self.observation_sum,
                standard_error: self.observation_standard_error,
                effective_parameters: self.observation_effective_parameters,
                rows: self.observations,
                unknown: self.unknown_observations,
            },
        ]
    }
}

/// How well the posterior expects the rows of one silo, had each been left out ([`LeaveOneOut`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SiloLeaveOneOut {
    /// The silo.
    pub silo: String,
    /// The sum over its rows, in nats.
    #[serde(with = "number")]
    pub sum: f64,
    /// The standard error of that sum, in nats.
    #[serde(with = "number")]
    pub standard_error: f64,
    /// The effective number of parameters that its rows inform, in nats.
    #[serde(with = "number")]
    pub effective_parameters: f64,
    /// Its rows.
    pub rows: u64,
    /// How many of them have a Pareto k above the threshold, so that theirs is not known.
    pub unknown: u64,
}

impl SiloLeaveOneOut {
    /// Refuses numbers that are none.
    fn check(&self) -> Result<()> {
        let quantity = |_: usize| "a sum over rows that are left out".into();
        finite(&self.silo, 0, quantity, &[self.sum, self.standard_error, self.effective_parameters])
    }
}

/// Leave-one-out over the rows of all silos, of which sums are known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeaveOneOutOfSilos {
    /// What each silo says, in their order.
    pub silos: Vec<SiloLeaveOneOut>,
    /// Draws from the posterior.
    pub draws: u64,
    /// What each silo says of single observations; empty where every row is one observation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observations: Vec<SiloLeaveOneOut>,
}

impl LeaveOneOutOfSilos {
    /// The same for single observations in place of rows, each given the others of its row: "rows" are observations then.
    /// `None` where every row is one observation.
    #[must_use]
    pub fn by_observation(&self) -> Option<Self> {
        let own = || Self { silos: self.observations.clone(), draws: self.draws, observations: Vec::new() };
        (!self.observations.is_empty()).then(own)
    }

    /// The sum over the rows of all silos, `elpd_loo`, in nats.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.silos.iter().map(|own| own.sum).sum()
    }

    /// The standard error of the sum over all rows, in nats, as if they were in one place:
    ///
    /// ```math
    /// \sqrt{\sum_j \big(s_j^2 + n_j (\bar x_j - \bar x)^2\big)}
    /// ```
    /// with the standard error $`s_j`$ of silo $`j`$, its rows $`n_j`$, its mean of a row $`\bar x_j`$ and that of all
    /// $`\bar x`$.
    #[must_use]
    pub fn standard_error(&self) -> f64 {
        let mean = self.sum() / real(self.rows());
        let of = |own: &SiloLeaveOneOut| {
            let rows = real(own.rows);
            let apart = if own.rows == 0 { 0.0 } else { own.sum / rows - mean };
            own.standard_error.powi(2) + rows * apart.powi(2)
        };
        self.silos.iter().map(of).sum::<f64>().sqrt()
    }

    /// The effective number of parameters, `p_loo`, in nats.
    #[must_use]
    pub fn effective_parameters(&self) -> f64 {
        self.silos.iter().map(|own| own.effective_parameters).sum()
    }

    /// The rows of all silos.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.silos.iter().map(|own| own.rows).sum()
    }

    /// How many rows are not known.
    #[must_use]
    pub fn unknown(&self) -> u64 {
        self.silos.iter().map(|own| own.unknown).sum()
    }

    /// What silos answered to a request for so many draws.
    pub(crate) fn of(answers: &[(String, LeftOutRows)], draws: u64) -> Self {
        let each = |which: usize| answers.iter().map(|(silo, own)| own.of_silo(silo)[which].clone()).collect();
        let differ = answers.iter().any(|(_, own)| own.observations != own.rows);
        Self { silos: each(0), draws, observations: if differ { each(1) } else { Vec::new() } }
    }

    /// That the sum is not known where rows are not.
    pub(crate) fn warnings(&self) -> Vec<Warning> {
        let warn = |own: &Self, what: &str| {
            let (unknown, rows) = (own.unknown(), own.rows());
            let problem = format!(
                "of {unknown} of {rows} {what} it is not known how well they were expected, had they been left out: the leave-one-out sum may be too high"
            );
            let remedy =
                "Judge by `evaluate` on held-out rows; look at these rows in their silos, which may not fit the model.";
            (unknown > 0).then(|| Warning::new(Severity::Note, problem, remedy))
        };
        let of_observations = self.by_observation().and_then(|own| warn(&own, "observations"));
        warn(self, "rows").into_iter().chain(of_observations).collect()
    }
}
