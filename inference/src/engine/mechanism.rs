//! States how a silo makes sums over its rows private, whichever mechanism its owner has.

use std::fmt::Debug;

use crate::engine::error::{Error, Result};

/// What each of some rows contributes to a sum, one vector a row.
type Contributions<'a> = dyn FnMut(&[usize]) -> Result<Vec<Vec<f64>>> + 'a;

/// A sum over a silo's rows that is asked for.
pub struct RowSum<'a> {
    /// The numbers of each row, and of the sum.
    pub length: usize,
    /// The Euclidean norm to which a row's numbers are clipped.
    pub clip: f64,
    /// The scale of the noise on each number, in units of the clip; of several silos together, where a mechanism was told that
    /// masks hide the sum of each.
    pub noise: f64,
    /// The rows of the silo.
    pub count: usize,
    /// The probability with which each row is in the sum, drawn by the mechanism from bits that are not repeated; 1 for all.
    pub rate: f64,
    /// The sums of the whole run: a mechanism gives no more, whatever it is asked, and none where all do not fit.
    pub sums: u64,
    /// What each of these rows contributes, computed where it is needed: each depends on its own row and on what
    /// everybody may know alone.
    pub rows: &'a mut Contributions<'a>,
}

impl Debug for RowSum<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { length, clip, noise, count, rate, sums, .. } = self;
        let mut shown = formatter.debug_struct("RowSum");
        shown.field("length", length).field("clip", clip).field("noise", noise).field("count", count);
        shown.field("rate", rate).field("sums", sums);
        shown.finish_non_exhaustive()
    }
}

/// What a silo says of requests that no noised sum answers.
pub(crate) const NOISED_ALONE: &str =
    "a private silo answers with noised sums alone: bounds, weights and checks are not";

/// What a noised sum is multiplied by where silos divide its noise: the first fourteen bits of `factor`, so that it is less by one
/// part in eight thousand at most.
///
/// A share of the noise has less of it than is promised, and what leaves a silo may tell no more than the sum over all does. Released
/// are whole multiples of a power of two, which this factor multiplies without rounding, up to 2³⁹ of them: the parts then
/// add up to what their sum is multiplied to. What was rounded first would add up to something that tells of each part.
pub(crate) fn without_rounding(factor: f64) -> f64 {
    f64::from_bits(factor.to_bits() & !((1_u64 << 39) - 1))
}

/// What stands between the rows of a silo and a sum over them that leaves it.
///
/// # Laws
/// Each row is in the sum with the probability that is asked for, independently of the others, and clipped to the norm that
/// is asked for; Gaussian noise of the scale that is asked for, or a share of it behind masks, is added to every number. With
/// a share every number is a whole multiple of one power of two. An identical request gets an identical answer.
/// `tests/few_rounds/private.rs` holds that of the facade, which is made of the crate `partita-privacy`.
pub trait Mechanism: Send + Debug {
    /// The noised sum, as the answer to the request whose bytes these are.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] beyond the budget of the silo's owner; [`crate::Error::Declined`] where no noise can be drawn; what `rows`
    /// reports.
    fn release(&mut self, request: &[u8], sum: RowSum<'_>) -> Result<Vec<f64>>;
}

impl dyn Mechanism {
    /// What [`Mechanism::release`] gives, which has to have as many numbers as the sum: one more could be anything of the rows.
    ///
    /// # Errors
    /// As for [`Mechanism::release`]; [`Error::Declined`] for another number of numbers.
    pub(crate) fn released(&mut self, request: &[u8], sum: RowSum<'_>) -> Result<Vec<f64>> {
        let length = sum.length;
        let released = self.release(request, sum)?;
        if released.len() != length {
            let problem = format!("a mechanism released {} numbers of {length}", released.len());
            return Err(Error::Declined { problem });
        }
        Ok(released)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Releases so many numbers, whatever is asked.
    #[derive(Debug)]
    struct Fixed(usize);

    impl Mechanism for Fixed {
        fn release(&mut self, _: &[u8], _: RowSum<'_>) -> Result<Vec<f64>> {
            Ok(vec![0.5; self.0])
        }
    }

    #[test]
    fn a_mechanism_that_releases_other_numbers_than_the_sum_has_is_refused() {
        let released = |numbers: usize| {
            let mut rows = |chosen: &[usize]| Ok(chosen.iter().map(|_| vec![0.0; 3]).collect());
            let sum = RowSum { length: 3, clip: 1.0, noise: 1.0, count: 2, rate: 1.0, sums: 1, rows: &mut rows };
            let mut mechanism: Box<dyn Mechanism> = Box::new(Fixed(numbers));
            mechanism.released(b"request", sum)
        };
        assert_eq!(released(3).unwrap().len(), 3);
        for numbers in [0, 2, 4] {
            let found = released(numbers).unwrap_err().to_string();
            assert_eq!(found, format!("a mechanism released {numbers} numbers of 3"));
        }
    }

    #[test]
    fn parts_that_are_multiplied_add_up_to_the_multiplied_sum() {
        let unit = 2.0_f64.powi(-21);
        for factor in [1.0 / 0.3, 1.0 / (0.37 * 2.0_f64.sqrt()), 1.0, 1e-3] {
            let short = without_rounding(factor);
            assert!(short <= factor && short > factor * (1.0 - 1.0 / 8_192.0), "{short} of {factor}");
            for parts in [[12_345_678.0, -87_654_321.0], [549_755_813_887.0, 3.0], [-1.0, 274_877_906_943.0]] {
                let each = parts.map(|own: f64| own * unit * short);
                assert_eq!((each[0] + each[1]).to_bits(), ((parts[0] + parts[1]) * unit * short).to_bits());
            }
        }
        assert_eq!(without_rounding(2.0).to_bits(), 2.0_f64.to_bits());
    }
}
