//! Finds public data by name, downloads what is missing, checks it, and reads it into tables, pictures and texts.

mod cifar;
mod corpus;
mod dataset;
mod download;
mod heart_failure;
mod labelled_table;
mod mnist;
mod rugged;
mod uci;

pub use cifar::{cifar_10, cifar_10_from};
pub use corpus::{Corpus, Part, newsgroups, octis};
pub use dataset::{Checksum, Dataset, DatasetError, Source, dataset, datasets};
pub use heart_failure::{HEART_FAILURE_PARTIES, heart_failure, heart_failure_from};
pub use labelled_table::{Column, CovariateRows, LabelledTable, Standardisation};
pub use mnist::{ImageSet, Images, fashion_mnist, kuzushiji_49, mnist, synthetic_digits};
pub use rugged::{RuggedColumns, RuggedCountry, rugged};
pub use uci::{adult, bank, credit};
