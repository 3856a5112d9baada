//! Assigns rows to small and large silos with given imbalances of size and of positive labels.

use super::{argument, cut, equal_sizes, sort};
use crate::data::error::DataError;
use crate::noise::{Key, Noise, Purpose};

/// How small and large silos differ, in size and in their share of positive labels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SmallLarge {
    /// $`\beta`$ in $`[0, 1)`$: a small silo has $`1 - \beta`$ times the rows of an equal share, a large one
    /// $`1 + \beta`$.
    pub size_imbalance: f64,
    /// $`\kappa \le 1`$: the share of positive labels in small silos is $`1 - \kappa`$ times that of all rows.
    pub label_imbalance: f64,
}

const OPERATION: &str = "splitting rows into small and large silos";

/// Assigns rows to `silos` silos, the first half of them small and the second half large.
///
/// With $`N`$ rows, $`M`$ = `silos` and a share $`\eta`$ of `positive` rows, in this order:
///
/// 1. a small silo gets $`n_s = \lfloor (1 - \beta) N / M \rfloor`$ rows. Of these
///    $`\lfloor n_s (1 - \eta(1 - \kappa)) \rfloor`$ are negative and the rest positive, drawn without replacement;
/// 2. all other rows are shuffled and dealt to the large silos in runs of $`n_l = \lfloor (1 + \beta) N / M \rfloor`$
///    rows. The rows that rounding leaves over, fewer than $`M`$, are not dropped: the large silos share them, the
///    first ones having one more.
///
/// The paper prints $`\eta + (1 - \eta)\kappa`$ for the share of positive labels in small silos, which is the rule for
/// the share of negative ones; with $`\eta(1 - \kappa)`$ its Table 2 is reproduced.
///
/// # Laws
/// Every row is in exactly one silo; no silo is empty; equal seeds give equal assignments.
///
/// # Errors
/// [`DataError::Argument`] if `silos` is not an even number above zero, or an imbalance is out of its domain, which for
/// $`\kappa`$ is $`[-(1 - \eta)/\eta, 1]`$; [`DataError::EmptySilo`] if a small silo would get no row;
/// [`DataError::Shortage`] if the small silos ask for more positive or negative rows than there are.
///
/// # Example
/// ```
/// use partita_core::{Noise, SmallLarge, partition_small_large};
/// let positive: Vec<bool> = (0..1000).map(|row| row % 5 == 0).collect();
/// let split = SmallLarge { size_imbalance: 0.5, label_imbalance: -2.0 };
/// let silos = partition_small_large(&positive, 4, split, &Noise::new(1))?;
/// assert_eq!(silos.iter().map(Vec::len).collect::<Vec<_>>(), [125, 125, 375, 375]);
/// assert_eq!(silos[0].iter().filter(|row| positive[**row]).count(), 75); // 0.2 * (1 + 2) of 125
/// # Ok::<(), partita_core::DataError>(())
/// ```
///
/// # References
/// Ashman et al. (2022), Partitioned variational inference, arXiv:2202.12275, appendix E.1; the procedure is that of
/// Sharma et al. (2019), Differentially private federated variational inference, arXiv:1911.10563.
pub fn partition_small_large(
    positive: &[bool],
    silos: usize,
    split: SmallLarge,
    noise: &Noise,
) -> Result<Vec<Vec<usize>>, DataError> {
    if silos == 0 || !silos.is_multiple_of(2) {
        return Err(argument(OPERATION, "number of silos", real(silos), "an even number above zero"));
    }
    let mut stream = noise.stream(Key::new(Purpose::Partition, 0));
    let mut pools: [Vec<usize>; 2] = (0..positive.len()).partition(|row| positive[*row]).into();
    pools.iter_mut().for_each(|rows| stream.shuffle(rows));
    let ([positives, negatives], half) = (sizes(positive.len(), pools[0].len(), silos, split)?, silos / 2);
    for ((needed, pool), what) in
        [positives, negatives].into_iter().zip(&pools).zip(["rows with a positive label", "rows with a negative label"])
    {
        if needed * half > pool.len() {
            let remedy = "Bring the label imbalance nearer to zero, or raise the size imbalance.";
            let (found, expected) = (pool.len(), needed * half);
            return Err(DataError::Shortage { operation: OPERATION, what, found, expected, remedy });
        }
    }
    let mut result: Vec<Vec<usize>> = Vec::with_capacity(silos);
    for _ in 0..half {
        let mut rows: Vec<usize> = pools[0].drain(..positives).collect();
        rows.extend(pools[1].drain(..negatives));
        result.push(rows);
    }
    let mut rest = pools.concat();
    stream.shuffle(&mut rest);
    result.extend(cut(&rest, equal_sizes(rest.len(), half)));
    sort(&mut result);
    Ok(result)
}

/// How many positive and how many negative rows a small silo gets.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to lie between zero and `rows`")]
fn sizes(rows: usize, positives: usize, silos: usize, split: SmallLarge) -> Result<[usize; 2], DataError> {
    let SmallLarge { size_imbalance, label_imbalance } = split;
    if !(0.0..1.0).contains(&size_imbalance) {
        return Err(argument(OPERATION, "size imbalance", size_imbalance, "a number of [0, 1)"));
    }
    // Of 1,000 rows a fifth is 200, not 199.999...: round numbers give round numbers.
    let small =
        ((real(rows) - real(rows) * size_imbalance) / real(silos) * (1.0 + 4.0 * f64::EPSILON)).floor() as usize;
    if small == 0 {
        let remedy = "Lower the size imbalance or ask for fewer silos.";
        return Err(DataError::EmptySilo { operation: OPERATION, silo: 0, silos, rows, remedy });
    }
    // Products before quotients, so that round numbers give round numbers.
    let share = real(positives) * (1.0 - label_imbalance);
    if !(0.0..=real(rows)).contains(&share) {
        let expected = "a number for which the share of positive labels in small silos, that of all rows times (1 - \
                        label imbalance), is of [0, 1]";
        return Err(argument(OPERATION, "label imbalance", label_imbalance, expected));
    }
    let negatives = (real(small) * (real(rows) - share) / real(rows)).floor() as usize;
    Ok([small - negatives, negatives])
}

fn real(count: usize) -> f64 {
    count as f64
}
