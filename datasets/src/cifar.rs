//! Reads CIFAR-10: small colour pictures of ten classes, their three colour planes one below the other.

use crate::dataset::{DatasetError, dataset, tar};
use crate::mnist::{ImageSet, Images};

/// Rows of the red, green and blue planes together, and columns.
const SHAPE: [usize; 2] = [96, 32];

/// The 60,000 colour pictures of CIFAR-10, 50,000 of them for training.
///
/// The classes, from 0: aeroplane, car, bird, cat, deer, dog, frog, horse, ship, lorry. A picture of 32 x 32 pixels is
/// kept in the layout of the file: the red plane, below it the green and the blue one, so that [`Images::shape`] is
/// `[96, 32]`. Tests check the format on files they make; the published archive has not been tested.
///
/// # Errors
/// As [`Dataset::read`](crate::Dataset::read), and [`DatasetError::Format`].
///
/// # References
/// Krizhevsky (2009), Learning multiple layers of features from tiny images.
pub fn cifar_10() -> Result<ImageSet, DatasetError> {
    cifar_10_from("cifar_10", &dataset("cifar_10")?.read()?)
}

/// As [`cifar_10`], from an uncompressed tar archive of the binary version; `name` is its name in errors.
///
/// # Errors
/// [`DatasetError::Format`] for an archive without the six files, for files that are not whole records of a label and
/// 3,072 bytes, and for a label above 9.
pub fn cifar_10_from(name: &str, archive: &[u8]) -> Result<ImageSet, DatasetError> {
    let part = |files: &[&str]| {
        let (mut pixels, mut labels) = (Vec::new(), Vec::new());
        for file in files {
            let bytes = tar::file(name, archive, file)?;
            let records = bytes.chunks_exact(1 + SHAPE[0] * SHAPE[1]);
            if !records.remainder().is_empty() {
                return Err(DatasetError::format(
                    format!("{name}, {file}"),
                    format!("{} bytes", bytes.len()),
                    "records of a label and 3072 bytes",
                ));
            }
            for record in records {
                labels.push(record[0]);
                pixels.extend_from_slice(&record[1..]);
            }
        }
        Images::named(name, pixels, labels, SHAPE, 10)
    };
    let train = ["data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"];
    Ok(ImageSet { train: part(&train)?, test: part(&["test_batch.bin"])? })
}
