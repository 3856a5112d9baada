//! Declares what coordinator and silos say to each other in few rounds.

use super::plates::MOST_BYTES;
use crate::engine::natural::triangle::pairs;
use crate::engine::wire::message::LARGEST_COUNT;
use crate::engine::wire::typed::message;

/// What the lengths of the fields follow from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// Parameters of the posterior.
    pub(super) parameters: u64,
    /// The globals.
    pub(super) globals: u64,
    /// The entries of a triangle over them.
    pub(super) triangle: u64,
    /// The globals times the pairs of draws.
    pub(super) even: u64,
}

impl Sizes {
    /// For so many globals, and so many pairs of draws.
    pub(super) fn of(globals: usize, pairs_of_draws: usize) -> Self {
        let (even, triangle) = ((globals * pairs_of_draws) as u64, pairs(globals) as u64);
        let globals = globals as u64;
        Self { parameters: globals + triangle, globals, triangle, even }
    }
}

message! {
    /// Asks a silo for a start: a normal distribution near its own posterior.
    struct StartRequest = "few.start", sizes: &() {
        /// the round
        step: u64 = Request <= LARGEST_COUNT,
        /// the seed of the run
        seed: u64 = Request <= u64::MAX,
    }
}

message! {
    /// Asks a silo for its share of a round.
    struct RoundRequest = "few.round", sizes: &Sizes {
        /// the round
        step: u64 = Request <= LARGEST_COUNT,
        /// the seed of the run
        seed: u64 = Request <= u64::MAX,
        /// the parameters of the global posterior
        global: Vec<f64> = Request <= sizes.parameters,
        /// gradient and curvature there of the sum of what silos said, while they may say it again
        said: Option<Vec<f64>> = Request <= sizes.parameters,
    }
}

message! {
    /// A silo's share of a posterior, sums over its rows: of its own in a start, of the one it was sent in a round.
    struct Answer = "few.answer", sizes: &Sizes {
        /// parameters of a normal distribution that the silo says its rows around: near the posterior of this silo alone in a start, beside what others said in a round
        own: Option<Vec<f64>> = Data <= sizes.parameters,
        /// in a round, gradient and curvature there of the log likelihood of its rows
        again: Option<Vec<f64>> = Data <= sizes.parameters,
        /// mean over draws of the log marginal likelihood of its rows
        value: f64 = Data <= 1,
        /// mean over draws of the gradient of that log likelihood by the globals
        gradient: Vec<f64> = Data <= sizes.globals,
        /// mean over draws of its curvature by the globals
        curvature: Vec<f64> = Data <= sizes.triangle,
        /// in a round without `own`, of at most 24 globals, mean of the gradients at each draw and its negative
        even: Option<Vec<f64>> = Data <= sizes.even,
        /// for each plate, latents a row, points of the rules that integrate them, its name and that of the plate around
        plates: String = Data <= MOST_BYTES,
        /// in a start, how many rows the silo has
        rows: Option<u64> = Data <= LARGEST_COUNT,
        /// in a start of levels in levels, rows times the combinations of points at which each is evaluated
        evaluations: Option<u64> = Data <= LARGEST_COUNT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_what_leaves_a_silo_has_a_row_for_every_field() {
        let page = include_str!("../../../../docs/src/explanation-what-leaves-a-silo.md");
        let (_, section) = page.split_once("**Few rounds**").unwrap();
        let rows = section.lines().skip_while(|line| !line.starts_with('|')).skip(2);
        let cells = rows.take_while(|line| line.starts_with('|')).filter_map(|line| line.split('|').nth(2));
        let told: Vec<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
        let sizes = Sizes::of(5, 8);
        let sent = RoundRequest::fields(&sizes).into_iter().chain(Answer::fields(&sizes));
        assert_eq!(told, sent.map(|field| field.name).collect::<Vec<_>>());
        assert!(StartRequest::fields(&()).iter().all(|field| told.contains(&field.name)));
    }
}
