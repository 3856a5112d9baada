//! Holds ready-made models, some with exact posteriors, priors made of several sites, and the six-cities data.

mod bayesian_network;
mod coefficients;
mod deep_latent_gaussian;
mod eight_schools;
mod gaussian_mean;
mod linear_regression;
mod logistic_regression;
mod mixed_logistic;
mod multinomial_regression;
pub mod priors;
pub mod regression;
mod sigmoid;
mod six_cities;
mod topic_model;
pub mod vertical;

pub use bayesian_network::{Activation, BayesianNetwork, Head, LabelledRows, Mlp, Network, NetworkGlobals};
pub use coefficients::Coefficients;
pub use deep_latent_gaussian::{BinaryPictures, DeepLatentGaussian, PictureEncoder};
pub use eight_schools::{EIGHT_SCHOOLS, EightSchools, EightSchoolsGlobals, School, Schools};
pub use gaussian_mean::{GaussianMean, MeanPosterior};
pub use linear_regression::{LinearPosterior, LinearRegression, MeasuredRows};
pub use logistic_regression::{BinaryRows, LogisticRegression, PROBIT_CONSTANT};
pub use mixed_logistic::{MixedLogistic, MixedLogisticGlobals, RepeatedBinary};
pub use multinomial_regression::{ClassifiedRows, MultinomialRegression, MultinomialRegressionGlobals};
pub use six_cities::{
    AGES, Child, ReferencePosterior, ReferenceQuantile, SixCitiesReference, six_cities, six_cities_reference,
    six_cities_silos,
};
pub use topic_model::{KnownTopics, TopicEncoder, TopicLink, TopicModel};
