//! Claims the properties of structured variational inference over silos, and of rounds of local steps.

mod amortised;
mod averaging;
mod baselines;
mod checks;
mod evaluation;
mod held_out;
mod private;
mod private_rounds;
mod resume;
mod run_loop;
mod secrecy;
mod six_cities_posterior;
mod starts;
