//! Claims the properties of few rounds: exact integrals over rows, exact Gaussian cases, and answers in a handful of rounds.

mod six_cities;
