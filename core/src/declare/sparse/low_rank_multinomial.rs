//! Gives the log likelihood of sparse counts under the softmax of a low-rank product, as a topic model needs it.

use burn::tensor::Tensor;

use super::SparseRows;
use crate::array::Array;
use crate::error::{Error, Result};
use crate::handle::Handle;
use crate::math::kernel::{BLOCK, ROWS, exponential, low_rank_factors, low_rank_loadings, low_rank_logits};
use crate::math::operation::{apply, computes_on_host};

/// The log likelihood of each row of counts under the softmax of a low-rank product, in nats: one node of the tape.
///
/// ```math
/// \ell_d = \sum_v c_{dv}\thinspace\eta_{dv} - n_d \log\sum_v e^{\eta_{dv}}, \qquad
/// \eta_{dv} = \sum_k w_{dk}\thinspace t_{kv}, \qquad n_d = \sum_v c_{dv}
/// ```
/// with $`c`$ = `counts`, $`w`$ = `factors`, $`t`$ = `loadings`. It is the log probability of the words of a document
/// in their order; the multinomial coefficient, which depends on the counts alone, is omitted.
///
/// # Shapes
/// `counts` `[rows, columns]`, `factors` `[rows, k]`, `loadings` `[k, columns]` → `[rows]`.
///
/// # Numerics
/// In f64, eight rows at a time: neither pass forms a matrix of all rows by all columns. The largest logit of a row is
/// subtracted first. If counts stay on the device, the logits of the rows evaluated form one matrix there.
///
/// # Errors
/// [`Error::Shape`] if the shapes disagree; [`Error::Support`] for a negative count.
///
/// # Example
/// ```
/// use partita_core::{Device, SparseRows, low_rank_multinomial};
/// let device = Device::flex();
/// let counts = SparseRows::new(&[vec![(0, 2.0), (1, 1.0)]], 2)?;
/// let loadings = device.tensor(vec![0.0, 3.0_f64.ln()], [1, 2]);
/// let value = low_rank_multinomial(&counts, device.tensor(vec![1.0], [1, 1]), loadings)?;
/// // Probabilities 1/4 and 3/4.
/// assert!((value.into_scalar::<f64>() - (0.25 * 0.25 * 0.75_f64).ln()).abs() < 1e-14);
/// # Ok::<(), partita_core::Error>(())
/// ```
///
/// # References
/// Srivastava and Sutton (2017), Autoencoding variational inference for topic models.
pub fn low_rank_multinomial(counts: &SparseRows, factors: Tensor<2>, loadings: Tensor<2>) -> Result<Tensor<1>> {
    check(counts, factors.dims(), loadings.dims())?;
    if counts.stays_on_device() {
        return Ok(counts.low_rank_multinomial_on_device(factors, loadings));
    }
    computes_on_host("low_rank_multinomial");
    let (rows, columns) = (counts.rows(), counts.columns());
    let (factors, loadings) = (Handle::from(factors), Handle::from(loadings));
    let tracked = factors.is_tracked() || loadings.is_tracked();
    let counts = counts.clone();
    let output = apply(
        vec![factors, loadings],
        Box::new(move |arrays| {
            let mut arrays = arrays.into_iter().map(|array| array.values);
            let factors = arrays.next().unwrap_or_default();
            let problem = Problem { counts, factors, loadings: padded(arrays.next().unwrap_or_default(), columns) };
            let mut evaluation = problem.evaluate(if tracked { Weights::Same(1.0) } else { Weights::None });
            let value = Array { values: std::mem::take(&mut evaluation.value), shape: vec![rows] };
            (value, Box::new(move |gradient| problem.vjp(evaluation, gradient)))
        }),
    );
    Ok(output.typed())
}

/// Refuses factors and loadings of shapes that disagree with the counts, and negative counts.
fn check(counts: &SparseRows, factors: [usize; 2], loadings: [usize; 2]) -> Result<()> {
    let (rank, remedy) = (factors[1], "Give one row of factors for each row of counts.");
    Error::same_shape("factors of a low-rank multinomial", &factors, &[counts.rows(), rank], remedy)?;
    let remedy = "Give one loading for each factor and each column of the counts.";
    Error::same_shape("loadings of a low-rank multinomial", &loadings, &[rank, counts.columns()], remedy)?;
    for row in 0..counts.rows() {
        if let Some(found) = counts.row(row).1.iter().find(|count| **count < 0.0) {
            return Err(Error::Support {
                operation: "low-rank multinomial".into(),
                distribution: "Multinomial".into(),
                found: *found,
                index: row,
                support: "counts that are not negative (the index is that of the row)".into(),
            });
        }
    }
    Ok(())
}

/// Rows of `columns` numbers, each filled up with zeros to whole blocks.
fn padded(values: Vec<f64>, columns: usize) -> Vec<f64> {
    let width = columns.next_multiple_of(BLOCK);
    if width == columns {
        return values;
    }
    let mut out = Vec::with_capacity(values.len().div_ceil(columns.max(1)) * width);
    for row in values.chunks_exact(columns.max(1)) {
        out.extend_from_slice(row);
        out.resize(out.len() + width - columns, 0.0);
    }
    out
}

/// The factor on the gradient of each row.
#[derive(Debug, Clone, Copy)]
enum Weights<'a> {
    /// No gradient is wanted.
    None,
    Same(f64),
    Each(&'a [f64]),
}

struct Problem {
    counts: SparseRows,
    factors: Vec<f64>,
    /// `[rank, width]`, the columns padded.
    loadings: Vec<f64>,
}

#[derive(Default)]
struct Evaluation {
    value: Vec<f64>,
    by_factors: Vec<f64>,
    by_loadings: Vec<f64>,
}

impl Problem {
    /// The gradients by factors and loadings, from the gradient by the rows and the forward pass.
    fn vjp(&self, forward: Evaluation, gradient: &[f64]) -> Vec<Vec<f64>> {
        // Usually every row has the same weight: the forward pass then has the gradient up to this factor.
        let same = gradient.first().copied().filter(|first| gradient.iter().all(|g| g.to_bits() == first.to_bits()));
        let Evaluation { mut by_factors, mut by_loadings, .. } = match same {
            Some(_) => forward,
            None => self.evaluate(Weights::Each(gradient)),
        };
        if let Some(weight) = same {
            [&mut by_factors, &mut by_loadings].into_iter().flatten().for_each(|slot| *slot *= weight);
        }
        let columns = self.counts.columns();
        let width = columns.next_multiple_of(BLOCK).max(1);
        if width != columns {
            by_loadings = by_loadings.chunks_exact(width).flat_map(|row| &row[..columns]).copied().collect();
        }
        vec![by_factors, by_loadings]
    }

    fn evaluate(&self, weights: Weights<'_>) -> Evaluation {
        let (rows, columns) = (self.counts.rows(), self.counts.columns());
        let (width, rank) = (columns.next_multiple_of(BLOCK), self.factors.len() / rows.max(1));
        let wanted = !matches!(weights, Weights::None);
        let mut out = Evaluation { value: Vec::with_capacity(rows), ..Evaluation::default() };
        if wanted {
            out.by_factors.reserve(rows * rank);
            out.by_loadings.resize(rank * width, 0.0);
        }
        let (mut logits, mut factors) = (vec![0.0; ROWS * width], vec![0.0; ROWS * rank]);
        let mut by_factors = factors.clone();
        for start in (0..rows).step_by(ROWS) {
            let block = ROWS.min(rows - start);
            factors.fill(0.0);
            factors[..block * rank].copy_from_slice(&self.factors[start * rank..(start + block) * rank]);
            low_rank_logits(&factors, &self.loadings, width, &mut logits);
            for (index, logits) in logits.chunks_exact_mut(width.max(1)).take(block).enumerate() {
                let weight = match weights {
                    Weights::None => 0.0,
                    Weights::Same(weight) => weight,
                    Weights::Each(each) => each[start + index],
                };
                out.value.push(self.row(start + index, &mut logits[..columns], weight));
                // Logits of the padding are zero; the residual overwrote the others.
            }
            if wanted {
                logits[block * width..].fill(0.0);
                low_rank_factors(&logits, &self.loadings, width, &mut by_factors);
                out.by_factors.extend_from_slice(&by_factors[..block * rank]);
                low_rank_loadings(&factors, &logits, width, &mut out.by_loadings);
            }
        }
        out
    }

    /// The log likelihood of a row; its logits become `weight` times the derivatives by them.
    fn row(&self, row: usize, logits: &mut [f64], weight: f64) -> f64 {
        let (words, counts) = self.counts.row(row);
        let length: f64 = counts.iter().sum();
        let linear: f64 = words.iter().zip(counts).map(|(word, count)| count * logits[*word as usize]).sum();
        // `max` would ignore a NaN, but the exponentials do not.
        let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        logits.iter_mut().for_each(|logit| *logit -= largest);
        exponential(logits);
        let sum = sum(logits);
        let scale = -weight * length / sum;
        logits.iter_mut().for_each(|logit| *logit *= scale);
        for (word, count) in words.iter().zip(counts) {
            logits[*word as usize] += weight * count;
        }
        if length > 0.0 { linear - length * (largest + sum.ln()) } else { 0.0 * sum }
    }
}

/// The sum in eight running parts, which the compiler may keep in one register.
fn sum(numbers: &[f64]) -> f64 {
    let (blocks, rest) = numbers.as_chunks::<8>();
    let mut parts = [0.0; 8];
    for block in blocks {
        parts.iter_mut().zip(block).for_each(|(part, number)| *part += number);
    }
    parts.iter().sum::<f64>() + rest.iter().sum::<f64>()
}
