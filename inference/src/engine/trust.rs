//! Says how far an answer can be trusted: the bound with its error, the round of trust, and rows that silos keep to judge by.

pub(crate) mod chains;
pub(crate) mod correction;
pub(crate) mod estimate;
pub(crate) mod evaluate;
mod further;
pub(crate) mod held_out;
pub(crate) mod judging;
pub(crate) mod known;
pub(crate) mod leave_out;
pub(crate) mod left_out;
pub(crate) mod left_out_rows;
pub(crate) mod objective;
pub(crate) mod predictive;
pub(crate) mod proposal;
pub(crate) mod resample;
pub(crate) mod round;
pub(crate) mod sample;
pub(crate) mod statistic;
pub(crate) mod still_moving;
pub(crate) mod still_widening;
pub(crate) mod values;
pub(crate) mod verdict;
