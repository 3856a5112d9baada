//! Fits models whose data stay in silos: families, estimators, algorithms, exchange, run and report.

mod algorithm;
mod assess;
mod average;
mod check;
mod checkpoint;
mod divergence;
mod error;
mod estimator;
mod evaluate;
mod exchange;
mod exponential_family;
mod family;
mod fit;
mod held_out;
#[cfg(feature = "laws")]
pub mod laws;
mod locals;
mod manifest;
mod message;
pub mod metrics;
mod nuts;
mod optimiser;
mod panic;
mod report;
mod resident;
mod run;
mod server;
mod settings;
mod solver;
pub mod vertical;

pub use algorithm::{
    Absence, Algorithm, Assessed, AugmentedVariable, AuxiliaryFamily, AveragingSilo, Central, CentralSilo, Delays,
    Factors, FedOpt, Order, PointRounds, Posterior, PowerLikelihood, PriorShare, Pvi, PviOptions, PviSilo, Reassessing,
    ResidentSilo, Rounds, Sfvi, SfviAvg, Silo, Soul, SoulCoordinator, SoulParty, StepInfo, Tally, VerticalOptions,
    VerticalParty, VisitSchedule,
};
pub use assess::{ElboEstimate, assess, assess_within};
pub use average::{Averaging, Barycentre, LogPool, ParameterMean};
pub use check::{CheckReport, check};
pub use checkpoint::{latest as latest_checkpoint, write_atomically};
pub use divergence::{
    BetaDivergence, Diverged, Divergence, DivergenceChoice, FDivergence, GammaDivergence, Generator, JensenShannon,
    KullbackLeibler, NoDivergence, Renyi, ReverseKullbackLeibler,
};
pub use error::{Error, Result};
pub use estimator::{BlockDraw, Estimator, ImportanceGradient, Share};
pub use evaluate::{EvaluatingSilo, Evaluation, SiloEvaluation, evaluate};
pub use exchange::{ByArrival, Exchange, InProcess, Outcome, Request, Resumable, SiloProgram, Threads};
pub use exponential_family::{CovarianceForm, ExponentialFamily, Factor, GammaFamily, Impropriety, NormalFamily};
pub use family::{
    Choice, CovarianceGradient, Delta, DiagonalGaussian, Family, FamilyDraw, FamilyPlan, FullRankGaussian, Gaussian,
    IsotropicGaussian, LowRankGaussian, MomentGradient, NamedFamily, RowDraw, RowGaussian, RowOptions, Spread,
};
pub use fit::{
    AlgorithmChoice, AverageChoice, FedOptOptions, Fit, FitOptions, Fitted, RoundOptions, coordinator,
    coordinator_by_arrival, fit, fit_by_arrival, fit_parties, parties, silo_program,
};
pub use held_out::{EncodedRows, encoded_posterior, held_out_bound};
pub use manifest::{Field, Manifest};
pub use message::{DataType, LARGEST_COUNT, MESSAGE_VERSION, Message, Record};
pub use nuts::{ChainStep, ChainSummary, Complaint, Convergence, Nuts, NutsDiagnostics, NutsFit};
pub use optimiser::{Clip, Optimiser, RowPlaces, Schedule, UpdateRule};
pub use report::{LocalLatents, Panel, Report, SiteSummary, Warning, plot};
pub use run::{
    Asynchronous, Counters, Ending, Metrics, Progress, RunOptions, RunRecord, Silent, StillRule, StopRule, run,
    run_by_arrival,
};
pub use server::{
    Adaptive, FedAdagrad, FedAdam, FedYogi, Mask, Masked, SecondMoment, ServerChoice, ServerMean, ServerRule,
};
pub use settings::Settings;
pub use solver::{
    Conjugate, EarlyStop, Expectation, GradientDescent, Lbfgs, LocalProblem, LocalSolver, Monitor, NaturalGradient,
    PowerExpectation, Sampled, Solved, SolverChoice, Start, Visit,
};
