//! States models of the world, and finds the public data they are shown on.

mod dataset;
mod download;
mod six_cities;

pub use dataset::{Dataset, DatasetError, dataset, datasets};
pub use six_cities::{
    AGES, Child, ReferencePosterior, ReferenceQuantile, SixCitiesReference, six_cities, six_cities_reference,
    six_cities_silo_a, six_cities_silos,
};
