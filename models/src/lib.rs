//! States models of the world, and finds the public data they are shown on.

mod bayesian_network;
mod cifar;
mod coefficients;
mod conjugate_gaussian;
mod corpus;
mod dataset;
mod deep_latent_gaussian;
mod download;
mod eight_schools;
mod gaussian_mean;
mod heart_failure;
mod labelled_table;
mod linear_regression;
mod logistic_regression;
mod mixed_logistic;
mod mnist;
mod multinomial_regression;
mod rugged;
mod six_cities;
mod topic_model;
mod uci;
pub mod vertical;

pub use bayesian_network::{Activation, BayesianNetwork, Head, LabelledRows, Mlp, Network, NetworkGlobals};
pub use cifar::{cifar_10, cifar_10_from};
pub use coefficients::Coefficients;
pub use conjugate_gaussian::{ConjugateGaussian, ConjugatePosterior, ConjugateSettings};
pub use corpus::{Corpus, Part, newsgroups, octis};
pub use dataset::{Checksum, Dataset, DatasetError, Source, dataset, datasets};
pub use deep_latent_gaussian::{BinaryPictures, DeepLatentGaussian, PictureEncoder};
pub use eight_schools::{EIGHT_SCHOOLS, EightSchools, EightSchoolsGlobals, Schools};
pub use gaussian_mean::{GaussianMean, MeanPosterior};
pub use heart_failure::{HEART_FAILURE_PARTIES, heart_failure, heart_failure_from};
pub use labelled_table::{Column, CovariateRows, LabelledTable, Standardisation};
pub use linear_regression::{LinearPosterior, LinearRegression, MeasuredRows};
pub use logistic_regression::{BinaryRows, LogisticRegression, PROBIT_CONSTANT};
pub use mixed_logistic::{MixedLogistic, MixedLogisticGlobals, RepeatedBinary};
pub use mnist::{ImageSet, Images, fashion_mnist, kuzushiji_49, mnist, synthetic_digits};
pub use multinomial_regression::{ClassifiedRows, MultinomialRegression, MultinomialRegressionGlobals};
pub use rugged::{RuggedCountry, rugged};
pub use six_cities::{
    AGES, Child, ReferencePosterior, ReferenceQuantile, SixCitiesReference, six_cities, six_cities_reference,
    six_cities_silo_a, six_cities_silos,
};
pub use topic_model::{KnownTopics, TopicEncoder, TopicLink, TopicModel};
pub use uci::{adult, bank, credit};
