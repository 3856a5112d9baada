//! Fits six cities by every method, by defaults and badly, beside the reference of long chains; and a point.

use partita::inference::{FedOptOptions, FewRoundsOptions, Verdict};
use partita::models::{MixedLogistic, RepeatedBinary, six_cities, six_cities_reference, six_cities_silos};
use partita::{
    AlgorithmChoice, Device, FamilyPlan, FitOptions, Gaussian, PviOptions, RoundOptions, Schedule, Settings, fit,
};

use super::data;
use super::judged::{Judged, Moments, Reference, Truth};
use super::larger::{self, Form, Larger};
use crate::harness::Result;

/// A method and what it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    FewRounds,
    Sfvi,
    PooledData,
    Averages,
    PartitionedInference,
    TooFewSteps,
    ARateTooHigh,
    ADiagonalFamily,
    APoint,
}

/// All of them, in the order of the page.
pub(super) const CASES: [Case; 9] = [
    Case::FewRounds,
    Case::Sfvi,
    Case::PooledData,
    Case::Averages,
    Case::PartitionedInference,
    Case::TooFewSteps,
    Case::ARateTooHigh,
    Case::ADiagonalFamily,
    Case::APoint,
];

impl Case {
    /// Whether nothing is asked for but the method.
    pub(super) const fn is_by_defaults(self) -> bool {
        !matches!(self, Self::TooFewSteps | Self::ARateTooHigh | Self::ADiagonalFamily | Self::APoint)
    }

    fn algorithm(self) -> AlgorithmChoice {
        match self {
            Self::FewRounds => AlgorithmChoice::FewRounds(FewRoundsOptions::default()),
            Self::Sfvi | Self::TooFewSteps | Self::ARateTooHigh | Self::ADiagonalFamily => AlgorithmChoice::Sfvi,
            Self::PooledData => AlgorithmChoice::Central,
            Self::Averages => AlgorithmChoice::SfviAvg(RoundOptions::paper(100)),
            Self::PartitionedInference => AlgorithmChoice::Pvi(PviOptions::new(10)),
            Self::APoint => AlgorithmChoice::FedOpt(FedOptOptions::fed_avg(10)),
        }
    }

    fn settings(self) -> Settings {
        let own = Settings::default();
        match self {
            Self::APoint => Settings { steps: 2_000, ..own },
            Self::TooFewSteps => Settings { steps: 60, schedule: Schedule::cosine(), ..own },
            Self::ARateTooHigh => Settings { steps: 600, schedule: Schedule::Constant { rate: 0.5 }, ..own },
            Self::ADiagonalFamily => Settings { family: FamilyPlan::new().global(Gaussian::diagonal()), ..own },
            _ => own,
        }
    }
}

pub(super) fn judge(case: Case, device: &Device, threads: usize) -> Result<Judged> {
    let options =
        FitOptions { algorithm: case.algorithm(), settings: case.settings(), threads, ..FitOptions::default() };
    let name = format!("{case:?}");
    if case == Case::APoint {
        // Of a model without local latents, which is what federated averaging takes.
        let (model, truth) = (Larger::new(larger::Case::Collinear, Form::Declared), Truth::none());
        let silos = data::given(larger::Case::Collinear, device);
        return Ok(Judged::of(&name, fit(&model, &silos, device, &options, None), &truth));
    }
    let pooled = [six_cities()];
    let parts = six_cities_silos();
    let parts: &[_] = if case == Case::PooledData { &pooled } else { &parts };
    let silo = |(part, name): (&Vec<_>, &str)| Ok((name.to_owned(), RepeatedBinary::six_cities(part, device)?));
    let silos = parts.iter().zip(["north", "south"]).map(silo).collect::<Result<Vec<_>>>()?;
    let reference = six_cities_reference()?;
    let pooled = reference.pooled();
    let moments = pooled.mean.iter().zip(&pooled.sd).map(|(mean, sd)| Moments { mean: *mean, sd: *sd }).collect();
    let truth = Truth { moments, reference: Reference::Chains(Verdict::Trust) };
    let found = fit(&MixedLogistic::new(4), &silos, device, &options, None);
    Ok(Judged::of(&name, found, &truth))
}
