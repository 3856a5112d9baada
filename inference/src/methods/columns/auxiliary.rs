//! Holds the family of a party's auxiliary variables: parameters row by row, or one network for all rows.

use std::ops::Range;

use partita_core::kernel::add_scaled;
use partita_core::vertical::Augmentation;
use partita_core::{Device, Noise};

use crate::engine::checkpoint::NamedVectors;
use crate::engine::optimiser::{RowPlaces, UpdateRule};
use crate::engine::settings::Settings;
use crate::engine::trainer::with_prefix;
use crate::methods::columns::amortised::AmortisedNetwork;
use crate::methods::columns::terms::{Around, Reached, Terms};
use crate::methods::columns::{AuxiliaryFamily, VerticalOptions};

/// The family of a party's auxiliary variables, with the parameters that move row by row.
#[derive(Debug)]
pub(super) enum Auxiliary {
    /// $`z = g`$.
    None,
    /// Means, then log scales, of all rows; rows move by themselves.
    MeanField { parameters: Vec<f64>, rule: Box<dyn UpdateRule>, rows: usize, outputs: usize },
    /// One network, whose parameters the party's trainer has.
    Amortised { network: AmortisedNetwork },
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

/// What a gradient by auxiliary variables is taken back through.
#[derive(Debug, Clone, Copy)]
pub(super) struct Upstream<'a> {
    pub(super) sample: &'a Sample,
    pub(super) given: &'a Given<'a>,
    pub(super) terms: &'a Terms,
    /// The gradient by the values of the sample, without their own terms.
    pub(super) by_value: &'a [f64],
}

/// The gradient of a party's parameters.
#[derive(Debug, Default)]
pub(super) struct Ascent {
    /// By what the trainer moves.
    pub(super) shared: Vec<f64>,
    /// By the means, then the log scales, of variables with parameters of their own; empty for every other family.
    pub(super) by_row: Vec<f64>,
}

impl Auxiliary {
    pub(super) fn new(
        options: &VerticalOptions,
        [rows, outputs]: [usize; 2],
        settings: &Settings,
        device: &Device,
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
                let (means, start, log_rho) = (true, 1.0, rho.ln());
                Self::Amortised { network: AmortisedNetwork { outputs, inputs, hidden, means, start, log_rho } }
            }
            (_, AuxiliaryFamily::AmortisedScale { hidden, start }) => {
                let (inputs, means, log_rho) = (outputs, false, rho.ln());
                Self::Amortised { network: AmortisedNetwork { outputs, inputs, hidden, means, start, log_rho } }
            }
        }
    }

    /// The parameters at the start that the party's trainer moves.
    pub(super) fn initial(&self, noise: &Noise, party: u32) -> Vec<f64> {
        if let Self::Amortised { network } = self { network.initial(noise, party) } else { Vec::new() }
    }

    /// The parameters that move row by row.
    pub(super) fn own_parameters(&mut self) -> Option<&mut [f64]> {
        if let Self::MeanField { parameters, .. } = self { Some(parameters) } else { None }
    }

    /// A draw for `rows` (all for `None`), with `shared` what the trainer has of it.
    pub(super) fn sample(&self, shared: &[f64], rows: Option<&[usize]>, given: &Given<'_>, terms: &Terms) -> Sample {
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
            Self::Amortised { network } => network.sample(shared, given, terms),
        }
    }

    /// The means of `rows` (all for `None`) where every row has its own; nothing for other families.
    pub(super) fn means(&self, rows: Option<&[usize]>) -> Vec<f64> {
        match self {
            Self::MeanField { parameters, outputs, .. } => gather(&parameters[..parameters.len() / 2], rows, *outputs),
            _ => Vec::new(),
        }
    }

    /// The gradient by the contributions along every path; those by `shared`, the end of what the trainer moves, and by
    /// parameters of single rows are added to `out`.
    pub(super) fn vjp(&self, shared: &[f64], upstream: &Upstream<'_>, out: &mut Ascent) -> Vec<f64> {
        let Upstream { sample, given, terms, by_value } = *upstream;
        let size = by_value.len();
        match self {
            Self::None => by_value.to_vec(),
            Self::MeanField { .. } => {
                let (mut by_contribution, mut by_row) = (vec![0.0; size], vec![0.0; 2 * size]);
                let (mean, log_scale) = by_row.split_at_mut(size);
                let mut reached = Reached { mean, log_scale, contribution: &mut by_contribution };
                terms.reach(&sample.around(given, 0..size), by_value, &mut reached);
                out.by_row.resize(2 * size, 0.0);
                add_scaled(&mut out.by_row, 1.0, &by_row);
                by_contribution
            }
            Self::Amortised { network } => {
                let start = out.shared.len() - shared.len();
                network.vjp(shared, upstream, &mut out.shared[start..])
            }
        }
    }

    /// Moves the parameters of `rows` up the gradient, where every row has its own.
    pub(super) fn ascend(&mut self, rate: f64, rows: Option<&[usize]>, mut gradient: Vec<f64>) {
        let Self::MeanField { parameters, rule, rows: total, outputs } = self else { return };
        gradient.iter_mut().for_each(|g| *g = -*g);
        match rows {
            None => rule.step(rate, parameters, &gradient),
            Some(rows) => rule.step_rows(rate, parameters, &gradient, &places(rows, *total, *outputs)),
        }
    }

    /// What moves row by row, as named vectors.
    pub(super) fn save(&self) -> NamedVectors {
        let Self::MeanField { parameters, rule, .. } = self else { return Vec::new() };
        named(WHOLE, parameters.clone(), rule.save())
    }

    /// The same of all that a step on these rows can change; `None` where that is not the rows alone.
    pub(super) fn save_rows(&self, rows: &[usize]) -> Option<NamedVectors> {
        let Self::MeanField { parameters, rule, rows: total, outputs } = self else { return None };
        let places = places(rows, *total, *outputs);
        Some(named(SOME, places.gather(parameters), rule.save_rows(&places)?))
    }

    /// Restores what [`Auxiliary::save`] gave, or [`Auxiliary::save_rows`] of these rows; false if it does not fit.
    pub(super) fn load(&mut self, state: &[(String, Vec<f64>)], rows: Option<&[usize]>) -> bool {
        let find = |wanted: &str| state.iter().find(|(name, _)| name == wanted).map(|(_, values)| values);
        let Self::MeanField { parameters, rule, rows: total, outputs } = self else { return find(WHOLE).is_none() };
        let of_rule = with_prefix(state, RULE);
        match (find(WHOLE), find(SOME), rows) {
            (Some(values), ..) if values.len() == parameters.len() => {
                parameters.clone_from(values);
                rule.load(of_rule)
            }
            (None, Some(values), Some(rows)) if values.len() == 2 * rows.len() * *outputs => {
                let places = places(rows, *total, *outputs);
                places.put(values, parameters);
                rule.load_rows(&places, of_rule)
            }
            _ => false,
        }
    }
}

/// The names of saved parameters: of all rows, of some; and what those of their rule begin with.
const WHOLE: &str = "auxiliary";
const SOME: &str = "auxiliary.rows";
const RULE: &str = "rows.rule.";

/// Parameters with the state of their rule.
fn named(name: &str, parameters: Vec<f64>, rule: NamedVectors) -> NamedVectors {
    let rule = rule.into_iter().map(|(name, values)| (format!("{RULE}{name}"), values));
    std::iter::once((name.to_owned(), parameters)).chain(rule).collect()
}

/// Where the means and the log scales of some rows stand among those of all.
fn places(rows: &[usize], total: usize, outputs: usize) -> RowPlaces<'_> {
    RowPlaces { rows, total, arrays: vec![[0, 0, outputs], [total * outputs, rows.len() * outputs, outputs]] }
}

/// The numbers of some rows of a row-major table.
pub(super) fn gather(values: &[f64], rows: Option<&[usize]>, width: usize) -> Vec<f64> {
    match rows {
        None => values.to_vec(),
        Some(rows) => rows.iter().flat_map(|row| &values[row * width..(row + 1) * width]).copied().collect(),
    }
}
