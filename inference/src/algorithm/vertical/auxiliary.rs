//! Holds the family of a party's auxiliary variables: parameters row by row, or one network for all rows.

use partita_core::vertical::Augmentation;
use partita_core::{Device, Noise};

use super::amortised::{Activations, AmortisedNetwork};
use super::terms::Reached;
use super::{AuxiliaryFamily, VerticalOptions};
use crate::checkpoint::NamedVectors;
use crate::optimiser::{RowPlaces, UpdateRule};
use crate::settings::Settings;

/// The family of a party's auxiliary variables with its parameters.
pub(super) enum Auxiliary {
    /// $`z = g`$.
    None,
    /// Means, then log scales, of all rows; rows move by themselves.
    MeanField { parameters: Vec<f64>, rule: Box<dyn UpdateRule>, rows: usize, outputs: usize },
    /// One network; its parameters move with the rest of the party's.
    Amortised { network: AmortisedNetwork, parameters: Vec<f64> },
}

impl std::fmt::Debug for Auxiliary {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::None => "None",
            Self::MeanField { .. } => "MeanField",
            Self::Amortised { .. } => "Amortised",
        })
    }
}

/// Where the auxiliary variables of some rows lie.
#[derive(Debug, Default)]
pub(super) struct Moments {
    pub(super) mean: Vec<f64>,
    pub(super) log_scale: Vec<f64>,
    pub(super) scale: Vec<f64>,
    activations: Activations,
}

impl Moments {
    fn new(mean: Vec<f64>, log_scale: Vec<f64>, activations: Activations) -> Self {
        let mut scale = log_scale.clone();
        partita_core::kernel::exponential(&mut scale);
        Self { mean, log_scale, scale, activations }
    }
}

impl Auxiliary {
    pub(super) fn new(
        options: &VerticalOptions,
        [rows, outputs]: [usize; 2],
        (settings, device, noise): (&Settings, &Device, &Noise),
        party: u32,
    ) -> Self {
        let rho = options.augmentation.rho();
        match (options.augmentation, options.auxiliary) {
            (Augmentation::None, _) => Self::None,
            (_, AuxiliaryFamily::MeanField) => {
                let size = rows * outputs;
                let parameters = [vec![0.0; size], vec![rho.ln(); size]].concat();
                Self::MeanField { parameters, rule: settings.optimiser.start(device), rows, outputs }
            }
            (_, AuxiliaryFamily::Amortised { hidden, .. }) => {
                let inputs = if options.shares_labels() { 2 * outputs } else { outputs };
                let network = AmortisedNetwork { outputs, inputs, hidden, log_rho: rho.ln() };
                Self::Amortised { parameters: network.initial(noise, party), network }
            }
        }
    }

    pub(super) fn parameters(&self) -> &[f64] {
        match self {
            Self::None => &[],
            Self::MeanField { parameters, .. } | Self::Amortised { parameters, .. } => parameters,
        }
    }

    /// Replaces all parameters; false for another number of them.
    pub(super) fn set_parameters(&mut self, values: &[f64]) -> bool {
        let own: &mut [f64] = match self {
            Self::None => &mut [],
            Self::MeanField { parameters, .. } | Self::Amortised { parameters, .. } => parameters,
        };
        let fits = own.len() == values.len();
        if fits {
            own.copy_from_slice(values);
        }
        fits
    }

    /// The parameters that move with the rest of the party's.
    pub(super) fn shared_parameters(&self) -> &[f64] {
        if let Self::Amortised { parameters, .. } = self { parameters } else { &[] }
    }

    pub(super) fn set_shared_parameters(&mut self, values: &[f64]) {
        if let Self::Amortised { parameters, .. } = self {
            parameters.copy_from_slice(values);
        }
    }

    /// Means and log scales of `rows` (all for `None`) with these contributions and features of labels.
    pub(super) fn moments(&self, rows: Option<&[usize]>, contributions: &[f64], features: &[f64]) -> Moments {
        match self {
            Self::None => Moments::default(),
            Self::MeanField { parameters, outputs, .. } => {
                let (mean, log_scale) = parameters.split_at(parameters.len() / 2);
                Moments::new(gather(mean, rows, *outputs), gather(log_scale, rows, *outputs), Activations::default())
            }
            Self::Amortised { network, parameters } => {
                let (mean, log_scale, activations) = network.moments(parameters, contributions, features);
                Moments::new(mean, log_scale, activations)
            }
        }
    }

    /// Adds the path of `reached` through the family to the gradient by the contributions, and to that by the parameters
    /// that move with the rest of the party's.
    pub(super) fn pull_back(
        &self,
        moments: &Moments,
        reached: &Reached,
        by_contribution: &mut [f64],
        shared: &mut [f64],
    ) {
        if let Self::Amortised { network, parameters } = self {
            let upstream = [reached.mean.as_slice(), &reached.log_scale];
            network.pull_back(parameters, &moments.activations, upstream, by_contribution, shared);
        }
    }

    /// Moves the parameters of `rows` up the gradient, where every row has its own.
    pub(super) fn ascend(&mut self, rate: f64, rows: Option<&[usize]>, reached: &Reached) {
        let Self::MeanField { parameters, rule, rows: total, outputs } = self else { return };
        let mut gradient = [reached.mean.as_slice(), &reached.log_scale].concat();
        gradient.iter_mut().for_each(|g| *g = -*g);
        match rows {
            None => rule.step(rate, parameters, &gradient),
            Some(rows) => {
                let arrays = vec![[0, 0, *outputs], [*total * *outputs, rows.len() * *outputs, *outputs]];
                rule.step_rows(rate, parameters, &gradient, &RowPlaces { rows, total: *total, arrays });
            }
        }
    }

    pub(super) fn save(&self) -> NamedVectors {
        match self {
            Self::None => Vec::new(),
            Self::Amortised { parameters, .. } => vec![("auxiliary".into(), parameters.clone())],
            Self::MeanField { parameters, rule, .. } => {
                let own = rule.save().into_iter().map(|(name, values)| (format!("rows.rule.{name}"), values));
                std::iter::once(("auxiliary".to_owned(), parameters.clone())).chain(own).collect()
            }
        }
    }

    /// Restores what [`Auxiliary::save`] gave; false if it does not fit.
    pub(super) fn load(&mut self, state: &[(String, Vec<f64>)]) -> bool {
        let found = state.iter().find(|(name, _)| name == "auxiliary").map(|(_, values)| values);
        match (self, found) {
            (Self::None, None) => true,
            (Self::Amortised { parameters, .. }, Some(values)) if values.len() == parameters.len() => {
                parameters.clone_from(values);
                true
            }
            (Self::MeanField { parameters, rule, .. }, Some(values)) if values.len() == parameters.len() => {
                parameters.clone_from(values);
                let own = state.iter().filter_map(|(name, values)| Some((name.strip_prefix("rows.rule.")?, values)));
                rule.load(own.map(|(name, values)| (name.to_owned(), values.clone())).collect())
            }
            _ => false,
        }
    }
}

/// The numbers of some rows of a row-major table.
pub(super) fn gather(values: &[f64], rows: Option<&[usize]>, width: usize) -> Vec<f64> {
    match rows {
        None => values.to_vec(),
        Some(rows) => rows.iter().flat_map(|row| &values[row * width..(row + 1) * width]).copied().collect(),
    }
}
