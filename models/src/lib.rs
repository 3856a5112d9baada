//! States models of the world, and finds the public data they are shown on.

mod bayesian_network;
mod conjugate_gaussian;
mod dataset;
mod download;
mod eight_schools;
mod mixed_logistic;
mod six_cities;

pub use bayesian_network::{Activation, BayesianNetwork, Head, LabelledRows, Mlp, Network, NetworkGlobals};
pub use conjugate_gaussian::{ConjugateGaussian, ConjugatePosterior, ConjugateSettings};
pub use dataset::{Dataset, DatasetError, dataset, datasets};
pub use eight_schools::{EIGHT_SCHOOLS, EightSchools, EightSchoolsGlobals, Schools};
pub use mixed_logistic::{MixedLogistic, MixedLogisticGlobals, RepeatedBinary};
pub use six_cities::{
    AGES, Child, ReferencePosterior, ReferenceQuantile, SixCitiesReference, six_cities, six_cities_reference,
    six_cities_silo_a, six_cities_silos,
};
