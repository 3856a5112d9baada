//! Claims what structured variational inference over silos promises, and rounds of local steps.

mod amortised;
mod averaging;
mod baselines;
mod evaluation;
mod resume;
mod run_loop;
mod secrecy;
mod six_cities_posterior;
