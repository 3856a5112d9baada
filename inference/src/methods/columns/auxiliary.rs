//! Holds the family of a party's auxiliary variables: parameters row by row, or one network for all rows.

use std::ops::Range;

use partita_core::vertical::Augmentation;
use partita_core::{Device, Noise};

use crate::engine::checkpoint::NamedVectors;
use crate::engine::optimiser::{RowPlaces, UpdateRule};
use crate::engine::settings::Settings;
use crate::methods::columns::amortised::AmortisedNetwork;
use crate::methods::columns::terms::{Around, Reached, Terms};
use crate::methods::columns::{AuxiliaryFamily, VerticalOptions};

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

/// What a draw of auxiliary variables is made from, `[rows, outputs]` each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Given<'a> {
    pub(super) contribution: &'a [f64],
    /// What the family knows of the labels; empty for nothing.
    pub(super) feature: &'a [f64],
    pub(super) noise: &'a [f64],
}

/// A draw of the auxiliary variables of some rows.
#[derive(Debug, Default)]
pub(super) struct Sample {
    /// Empty where the contributions are the means.
    pub(super) mean: Vec<f64>,
    pub(super) scale: Vec<f64>,
    /// $`z`$, or the contribution itself where there are no auxiliary variables.
    pub(super) value: Vec<f64>,
    /// What the variables add to the bound.
    pub(super) bound: f64,
}

impl Sample {
    fn means<'a>(&'a self, given: &Given<'a>) -> &'a [f64] {
        if self.mean.is_empty() { given.contribution } else { &self.mean }
    }

    /// Appends the values of the variables from `start` on, whose means and scales are there.
    pub(super) fn draw(&mut self, contribution: &[f64], noise: &[f64], start: usize) {
        let mean = self.mean.get(start..).filter(|means| !means.is_empty()).unwrap_or(contribution);
        let parts = mean.iter().zip(&self.scale[start..]).zip(noise);
        self.value.extend(parts.map(|((mean, scale), tau)| mean + scale * tau));
    }

    pub(super) fn around<'a>(&'a self, given: &Given<'a>, part: Range<usize>) -> Around<'a> {
        Around {
            contribution: &given.contribution[part.clone()],
            mean: &self.means(given)[part.clone()],
            scale: &self.scale[part.clone()],
            noise: &given.noise[part.clone()],
            value: &self.value[part],
        }
    }
}

/// Gradients by the means and log scales of variables with parameters of their own; empty for every other family.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct ByRow {
    pub(super) mean: Vec<f64>,
    pub(super) log_scale: Vec<f64>,
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
                let network = AmortisedNetwork { outputs, inputs, hidden, means: true, log_rho: rho.ln() };
                Self::Amortised { parameters: network.initial(noise, party, 1.0), network }
            }
            (_, AuxiliaryFamily::AmortisedScale { hidden, start }) => {
                let network = AmortisedNetwork { outputs, inputs: outputs, hidden, means: false, log_rho: rho.ln() };
                Self::Amortised { parameters: network.initial(noise, party, start), network }
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

    /// A draw for `rows` (all for `None`).
    pub(super) fn sample(&self, rows: Option<&[usize]>, given: &Given<'_>, terms: &Terms) -> Sample {
        match self {
            Self::None => Sample { value: given.contribution.to_vec(), ..Sample::default() },
            Self::MeanField { parameters, outputs, .. } => {
                let log_scale = gather(&parameters[parameters.len() / 2..], rows, *outputs);
                let mut scale = log_scale.clone();
                partita_core::kernel::exponential(&mut scale);
                let mut sample = Sample { mean: self.means(rows), scale, ..Sample::default() };
                sample.draw(given.contribution, given.noise, 0);
                sample.bound = terms.bound(&sample.around(given, 0..log_scale.len()), &log_scale);
                sample
            }
            Self::Amortised { network, parameters } => network.sample(parameters, given, terms),
        }
    }

    /// The means of `rows` (all for `None`) where every row has its own; nothing for other families.
    pub(super) fn means(&self, rows: Option<&[usize]>) -> Vec<f64> {
        match self {
            Self::MeanField { parameters, outputs, .. } => gather(&parameters[..parameters.len() / 2], rows, *outputs),
            _ => Vec::new(),
        }
    }

    /// The gradient by the contributions along every path, and that by the variables' own parameters, from the gradient
    /// by their values; that by parameters which move with the rest of the party's is added to `shared`.
    pub(super) fn vjp(
        &self,
        (sample, given): (&Sample, &Given<'_>),
        (terms, by_value): (&Terms, &[f64]),
        shared: &mut [f64],
    ) -> (Vec<f64>, ByRow) {
        let size = by_value.len();
        match self {
            Self::None => (by_value.to_vec(), ByRow::default()),
            Self::MeanField { .. } => {
                let mut by_contribution = vec![0.0; size];
                let mut by_row = ByRow { mean: vec![0.0; size], log_scale: vec![0.0; size] };
                let ByRow { mean, log_scale } = &mut by_row;
                let mut reached = Reached { mean, log_scale, contribution: &mut by_contribution };
                terms.reach(&sample.around(given, 0..size), by_value, &mut reached);
                (by_contribution, by_row)
            }
            Self::Amortised { network, parameters } => {
                let by_contribution = network.vjp(parameters, (sample, given), (terms, by_value), shared);
                (by_contribution, ByRow::default())
            }
        }
    }

    /// Moves the parameters of `rows` up the gradient, where every row has its own.
    pub(super) fn ascend(&mut self, rate: f64, rows: Option<&[usize]>, by_row: &ByRow) {
        let Self::MeanField { parameters, rule, rows: total, outputs } = self else { return };
        let mut gradient = [by_row.mean.as_slice(), &by_row.log_scale].concat();
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
