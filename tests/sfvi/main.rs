//! Claims the properties of structured variational inference over silos, and of rounds of local steps.
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

mod amortised;
mod averaging;
mod baselines;
mod checks;
mod evaluation;
mod held_out;
mod many_effects;
mod private;
mod private_rounds;
mod resume;
mod run_loop;
mod secrecy;
mod six_cities_posterior;
mod starts;
