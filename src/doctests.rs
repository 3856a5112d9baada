//! Runs the Rust blocks of the book as doctests, so that its pages agree with the code.

#[doc = include_str!("../docs/src/tutorial-six-cities.md")]
mod tutorial_six_cities {}

#[doc = include_str!("../docs/src/explanation-trust.md")]
mod explanation_trust {}

#[doc = include_str!("../docs/src/explanation-learning-rate.md")]
mod explanation_learning_rate {}

#[doc = include_str!("../docs/src/explanation-losses.md")]
mod explanation_losses {}

#[doc = include_str!("../docs/src/explanation-divergences.md")]
mod explanation_divergences {}

#[cfg(feature = "privacy")]
#[doc = include_str!("../docs/src/explanation-privacy.md")]
mod explanation_privacy {}

#[doc = include_str!("../docs/src/explanation-pvi.md")]
mod explanation_pvi {}

#[doc = include_str!("../docs/src/how-to-check-rows.md")]
mod how_to_check_rows {}

#[cfg(feature = "cli")]
#[doc = include_str!("../docs/src/how-to-commands.md")]
mod how_to_commands {}

#[doc = include_str!("../docs/src/how-to-calibrate.md")]
mod how_to_calibrate {}

#[doc = include_str!("../docs/src/how-to-starts.md")]
mod how_to_starts {}

#[doc = include_str!("../docs/src/how-to-bayesian-network.md")]
mod how_to_bayesian_network {}

#[doc = include_str!("../docs/src/explanation-vertical.md")]
mod explanation_vertical {}

#[doc = include_str!("../docs/src/explanation-nuts.md")]
mod explanation_nuts {}

#[doc = include_str!("../docs/src/reference-formula.md")]
mod reference_formula {}

#[doc = include_str!("../CONTRIBUTING.md")]
mod contributing {}
