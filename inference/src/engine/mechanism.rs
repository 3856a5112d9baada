//! States how a silo makes sums over its rows private, whichever mechanism its owner has.

use std::fmt::Debug;

use crate::engine::error::Result;

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
    /// The probability with which each row is in the sum, drawn by the mechanism from bits that nobody repeats; 1 for all.
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

/// What stands between the rows of a silo and a sum over them that leaves it.
///
/// # Laws
/// Each row is in the sum with the probability that is asked for, independently of the others, and clipped to the norm that
/// is asked for; Gaussian noise of the scale that is asked for, or a share of it behind masks, is added to every number. An identical
/// request gets an identical answer. `tests/few_rounds/private.rs` holds that of the facade, which is made of the crate
/// `partita-privacy`.
pub trait Mechanism: Send + Debug {
    /// The noised sum, as the answer to the request whose bytes these are.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] beyond the budget of the silo's owner; [`crate::Error::Declined`] where no noise can be drawn; what `rows`
    /// reports.
    fn release(&mut self, request: &[u8], sum: RowSum<'_>) -> Result<Vec<f64>>;
}
