//! Holds the result of a reading: sums on the host and on the tape, kept values, and the leaves of the tape.

use std::sync::Arc;

use burn::tensor::Tensor;

use super::reading::Score;
use crate::array::Array;
use crate::handle::Handle;

/// The result of a reading.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) total: f64,
    pub(crate) tape: Option<Tensor<1>>,
    pub(crate) leaves: Vec<Leaf>,
    /// The gradient of densities evaluated off the tape by global latents of single precision; it ends with the last of them.
    pub(crate) by_single: Vec<f32>,
    pub(crate) values: Vec<(String, Array)>,
    pub(crate) observed: Vec<(String, Array)>,
    /// Log densities row by row, level by level, and the parts of them on the tape.
    pub(crate) levels: Vec<LevelRows>,
    pub(crate) row_tapes: Vec<RowTape>,
    /// Operations that compute on the host, with the site that is declared next; where a reading asks for them.
    pub(crate) on_host: Vec<(String, String)>,
}

/// Rows whose log densities are kept apart: those of a block, or the silo, in one pass over the local part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Level {
    pub(crate) pass: usize,
    /// The block of the table; `None` for what stands outside plates.
    pub(crate) block: Option<usize>,
}

/// Log densities of the rows of a level.
#[derive(Debug)]
pub(crate) struct LevelRows {
    pub(crate) level: Level,
    pub(crate) rows: Vec<f64>,
}

/// Where log densities of the rows of a plate are added: to the rows of a level at or around it.
#[derive(Debug, Clone, Default)]
pub(crate) struct RowPlace {
    pub(crate) level: Level,
    /// The number of rows evaluated of the level.
    pub(crate) len: usize,
    /// The number of rows evaluated of this plate.
    pub(crate) rows: usize,
    /// The place among the rows of the level of each of its rows; `None` for the level's own plate.
    pub(crate) of: Option<Arc<[usize]>>,
    /// For how many rows each of its rows counts; `None` where each does for itself.
    pub(crate) times: Option<Arc<[f64]>>,
}

/// Log densities of the rows of one plate, on the tape.
#[derive(Debug)]
pub(crate) struct RowTape {
    pub(crate) place: RowPlace,
    pub(crate) tape: Tensor<1>,
}

impl RowPlace {
    /// The place of the rows of a level itself.
    pub(crate) fn own(level: Level, rows: usize) -> Self {
        Self { level, len: rows, rows, of: None, times: None }
    }

    /// That of a plate inside this one, with the place among its rows of each row of the other.
    pub(crate) fn within(&self, places: &Arc<[usize]>) -> Self {
        let of = match &self.of {
            None => Arc::clone(places),
            Some(of) => places.iter().map(|place| of[*place]).collect(),
        };
        let times = self.times.as_ref().map(|times| places.iter().map(|place| times[*place]).collect());
        Self { level: self.level, len: self.len, rows: places.len(), of: Some(of), times }
    }

    /// The row of the level that a row is added to.
    pub(crate) fn level_row(&self, row: usize) -> usize {
        self.of.as_ref().map_or(row, |of| of[row])
    }

    /// Numbers of the rows of the level, for each of these rows as often as it counts.
    pub(crate) fn spread(&self, numbers: &[f64]) -> Vec<f64> {
        let mut spread = match &self.of {
            None => numbers.to_vec(),
            Some(of) => of.iter().map(|row| numbers[*row]).collect(),
        };
        self.count(&mut spread);
        spread
    }

    /// Multiplies numbers of its rows by how often each counts.
    fn count(&self, numbers: &mut [f64]) {
        if let Some(times) = &self.times {
            numbers.iter_mut().zip(times.iter()).for_each(|(number, times)| *number *= times);
        }
    }

    /// Whether both are the rows of one plate.
    fn is_same(&self, other: &Self) -> bool {
        self.level == other.level
            && match (&self.of, &other.of) {
                (None, None) => true,
                (Some(own), Some(other)) => Arc::ptr_eq(own, other),
                _ => false,
            }
    }
}

/// One latent site on the tape, with what its vector–Jacobian product to unconstrained numbers needs.
#[derive(Debug)]
pub(crate) struct Leaf {
    pub(crate) site: usize,
    pub(crate) quantity: Quantity,
    pub(crate) handle: Handle,
    /// Unconstrained and constrained values; empty where the bijector is the identity.
    pub(crate) unconstrained: Vec<f64>,
    pub(crate) constrained: Vec<f64>,
    /// Gradient of densities evaluated off the tape; empty for none.
    pub(crate) host_gradient: Vec<f64>,
    /// The weight of the log-determinant and, if evaluated row by row, of the host's gradient.
    pub(crate) score: Score,
    /// The rows it has, where it is evaluated row by row.
    pub(crate) place: RowPlace,
}

/// Which quantity of a site a leaf is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quantity {
    /// Its value.
    Value,
    /// Its mean, where a linear layer is evaluated with moments.
    Mean,
    /// Its variance there.
    Variance,
}

impl Outcome {
    /// Adds a log density: its number, and its node where gradients flow.
    pub(crate) fn add(&mut self, total: f64, tape: Option<Handle>) {
        self.total += total;
        add_node(&mut self.tape, tape.map(Handle::typed));
    }

    /// Adds a node whose value is added elsewhere.
    pub(crate) fn add_tape(&mut self, term: Tensor<1>) {
        add_node(&mut self.tape, Some(term));
    }

    /// Adds log densities of the rows of a plate; `numbers` holds as many numbers for each row as there are events in
    /// it.
    pub(crate) fn add_rows(&mut self, place: &RowPlace, numbers: &[f64], tape: Option<Handle>) {
        let known = self.levels.iter().position(|known| known.level == place.level);
        let index = known.unwrap_or_else(|| {
            self.levels.push(LevelRows { level: place.level, rows: vec![0.0; place.len] });
            self.levels.len() - 1
        });
        let sums = &mut self.levels[index].rows;
        let each = (numbers.len() / place.rows.max(1)).max(1);
        let mut joined: Vec<f64>;
        let rows = match (each, &place.times) {
            (1, None) => numbers,
            _ => {
                joined = numbers.chunks(each).map(|own| own.iter().sum()).collect();
                place.count(&mut joined);
                &joined
            }
        };
        match &place.of {
            None => sums.iter_mut().zip(rows).for_each(|(slot, own)| *slot += own),
            Some(of) => add_runs(sums, of, rows),
        }
        if let Some(tape) = tape {
            self.add_row_tape(place, tape.typed());
        }
    }

    /// Adds one number for each row of a plate, whose sums are made elsewhere.
    pub(crate) fn add_row_tape(&mut self, place: &RowPlace, tape: Tensor<1>) {
        match self.row_tapes.iter_mut().find(|known| known.place.is_same(place)) {
            Some(known) => known.tape = Handle::from(known.tape.clone()).plus(tape.into()).typed(),
            None => self.row_tapes.push(RowTape { place: place.clone(), tape }),
        }
    }
}

/// Adds numbers to the sums that `places` names. Those of one place mostly follow each other: their sum stays in a
/// register.
fn add_runs(sums: &mut [f64], places: &[usize], numbers: &[f64]) {
    let Some(mut place) = places.first().copied() else { return };
    let mut run = 0.0;
    for (next, number) in places.iter().zip(numbers) {
        if *next != place {
            sums[place] += run;
            (place, run) = (*next, 0.0);
        }
        run += number;
    }
    sums[place] += run;
}

fn add_node(sum: &mut Option<Tensor<1>>, term: Option<Tensor<1>>) {
    let Some(term) = term else { return };
    *sum = Some(match sum.take() {
        Some(sum) => Handle::from(sum).plus(term.into()).typed(),
        None => term,
    });
}
