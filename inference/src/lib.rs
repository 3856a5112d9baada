//! Fits models whose data stay in silos: families, estimators, algorithms, exchange, run and report.

mod engine;
mod fit;
mod methods;

pub use engine::algorithm::{
    Algorithm, Asynchronous, ElboFollowUp, ElboSamples, Ending, MethodCount, MethodCounts, Posterior, StepInfo, Tally,
};
#[cfg(feature = "arviz")]
pub use engine::arviz::options::{ArvizOptions, ArvizRows, AxisLabels, ExistingFile};
pub use engine::checkpoint::{NamedVectors, latest as latest_checkpoint, write_atomically};
pub use engine::divergence::{
    BetaDivergence, Diverged, Divergence, FDivergence, GammaDivergence, Generator, JensenShannon, KullbackLeibler,
    NoDivergence, Renyi, ReverseKullbackLeibler,
};
pub use engine::error::{Error, Refusal, Result};
pub use engine::estimator::{BlockDraw, ElboTerm, Estimator, ImportanceGradient, OuterRows};
pub use engine::exchange::{Arrival, Exchange, InProcess, Outcome, Request, Resumable, SiloProgram, Threads};
pub use engine::family::{
    CovarianceGradient, CovarianceMatrix, Delta, DiagonalGaussian, DrawGradient, Family, FamilyDraw, FamilyPlan,
    FullRankGaussian, Gaussian, IsotropicGaussian, LowRankGaussian, MarginalOver, MomentGradient, NamedFamily,
    OuterMarginals, PointMass, RowDraw, RowGaussian, RowGradient, RowInputs, RowMarginals, RowOptions, RowReach,
    SiteFamily,
};
pub use engine::listed_party::ListedParty;
pub use engine::mechanism::{Mechanism, RowSum};
pub use engine::metrics;
pub use engine::natural::{CovarianceForm, ExponentialFamily, Impropriety, NormalFamily};
pub use engine::optimiser::{Adam, AdamW, Clip, Optimiser, RmsProp, RowPlaces, Schedule, Sgd, UpdateRule};
pub use engine::panic::caught;
pub use engine::party::{Commit, Program, Standing};
pub use engine::plug::Plug;
pub use engine::private_party::PrivateParty;
pub use engine::private_steps::PrivateSteps;
pub use engine::report::{
    ClippedShare, Effect, ExpectedClipping, HtmlOptions, OwnChecks, PageContent, PriorLine, PriorSource, Privacy,
    Report, Scale, Severity, ShownContrast, SiteSummary, StartBound, Warning, in_places,
};
#[cfg(feature = "plots")]
pub use engine::report::{Panel, plot};
pub use engine::run::{
    Counters, Judging, Metrics, Progress, RunOptions, RunRecord, Silent, Tolerance, run, run_asynchronous, step,
};
pub use engine::settings::{Settings, StartFrom};
pub use engine::terms::Silo;
pub use engine::trust::chains::{ChainDiagnostics, ChainSummary, Convergence};
pub use engine::trust::correction::{CorrectedSite, Correction};
pub use engine::trust::estimate::{ElboEstimate, estimate_elbo};
pub use engine::trust::evaluate::{EvaluatingSilo, Evaluation, SiloEvaluation, evaluate};
pub use engine::trust::held_out::{EncodedRows, encoded_posterior, held_out_bound};
pub use engine::trust::leave_out::LeftOutUnit;
pub use engine::trust::left_out::{LeftOut, WithoutIt};
pub use engine::trust::left_out_rows::{LeaveOneOutOfSilos, SiloLeaveOneOut};
pub use engine::trust::objective::Objective;
pub use engine::trust::predictive::{PredictiveChecks, Replicated, SiloChecks};
pub use engine::trust::statistic::{PredictiveCheck, Statistic};
pub use engine::trust::still_moving::StillMoving;
pub use engine::trust::still_widening::StillWidening;
pub use engine::trust::verdict::{Trust, Verdict};
pub use engine::wire::manifest::{Field, Manifest, Release};
pub use engine::wire::message::{DataType, MESSAGE_VERSION, Message, Record};
pub use fit::calibrate::{
    Calibration, CalibrationOptions, FailedFit, Finding, NumberCalibration, PosteriorCalibration, calibrate,
};
pub use fit::check::{CheckReport, check, check_pooled};
pub use fit::columns as vertical;
pub use fit::local_report::{LocalNumber, LocalReport, LocalScale};
pub use fit::{
    AlgorithmChoice, AnswerDraws, Fit, FitOptions, Fitted, LocalLatents, Run, coordinator, evaluating_silo, fit,
    fit_asynchronous, fit_parties, parties, silo_program, start,
};
pub use methods::columns::{AuxiliaryFamily, VerticalCoordinator, VerticalOptions, VerticalParty};
pub use methods::few_rounds::{
    FewRounds, FewRoundsOptions, FewRoundsSilo, PrivateRounds, PrivateRoundsOptions, PrivateRoundsSilo,
};
#[cfg(feature = "sampler")]
pub use methods::nuts::{ChainStep, Coordinates, Nuts, NutsFit};
pub use methods::pvi::solver::{
    Conjugate, EarlyStop, Expectation, GradientDescent, Lbfgs, LocalProblem, LocalSolver, LocalUpdate, Monitor,
    NaturalGradient, PowerExpectation, Sampled, Solved, SolverState, Start,
};
pub use methods::pvi::{Delays, Factors, MissingSilo, Order, PriorShare, Pvi, PviOptions, PviSilo, SiloSchedule};
pub use methods::rounds::average::{Averaging, Barycentre, LogPool, Means, ParameterMean};
pub use methods::rounds::server::{
    FedAdagrad, FedAdam, FedYogi, Mask, Masked, ServerMean, ServerOptimiser, ServerRule,
};
pub use methods::rounds::{AveragingSilo, DeviceAveragingSilo, FedOpt, FedOptOptions, RoundOptions, SfviAvg};
pub use methods::sfvi::{Central, CentralSilo, OnDeviceSilo, PrivateSfvi, PrivateSfviOptions, PrivateSfviSilo, Sfvi};
