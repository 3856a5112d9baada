//! Holds the readers of MNIST and Fashion-MNIST to the published counts, and the IDX format to a round trip.
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

use std::path::Path;

use partita_models::{DatasetError, ImageSet, Images, dataset, fashion_mnist, mnist};
use proptest::prelude::*;

/// The IDX file of bytes with axes of these lengths.
fn idx(sizes: &[u32], cells: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, u8::try_from(sizes.len()).unwrap()];
    bytes.extend(sizes.iter().flat_map(|size| size.to_be_bytes()));
    bytes.extend(cells);
    bytes
}

/// Two pictures of 1 x 3 pixels, of the classes 1 and 0.
fn two() -> (Vec<u8>, Vec<u8>) {
    (idx(&[2, 1, 3], &[0, 51, 255, 9, 8, 7]), idx(&[2], &[1, 0]))
}

fn refused(images: &[u8], labels: &[u8], words: &[&str]) {
    let error = Images::from_idx("made up", images, labels, 2).unwrap_err();
    assert!(matches!(error, DatasetError::Format { .. }), "{error:?}");
    let message = error.to_string();
    assert!(words.iter().all(|word| message.contains(word)), "{message}");
}

/// Whether the four files of a set lie in the folder of staged files.
fn is_staged(name: &str) -> bool {
    let staged = std::env::var_os("PARTITA_DATA");
    staged.is_some_and(|folder| {
        ["train_images", "train_labels", "test_images", "test_labels"]
            .iter()
            .all(|part| Path::new(&folder).join(dataset(&format!("{name}_{part}")).unwrap().staged).is_file())
    })
}

fn counts(images: &Images) -> [usize; 10] {
    let mut counts = [0; 10];
    images.labels().iter().for_each(|label| counts[usize::from(*label)] += 1);
    counts
}

fn assert_of_full_size(set: &ImageSet) {
    assert_eq!((set.train.len(), set.test.len()), (60_000, 10_000));
    assert_eq!((set.train.shape(), set.test.shape()), ([28, 28], [28, 28]));
    assert_eq!((set.train.classes(), set.train.pixels().len()), (10, 60_000 * 784));
}

proptest! {
    #[test]
    fn what_is_written_as_idx_is_read_back(
        shape in (1_u32..6, 1_u32..6),
        pictures in prop::collection::vec((prop::collection::vec(any::<u8>(), 25), 0_u8..7), 0..12),
    ) {
        let size = (shape.0 * shape.1) as usize;
        let pixels: Vec<u8> = pictures.iter().flat_map(|(pixels, _)| &pixels[..size]).copied().collect();
        let labels: Vec<u8> = pictures.iter().map(|(_, label)| *label).collect();
        let count = u32::try_from(labels.len()).unwrap();
        let images =
            Images::from_idx("made up", &idx(&[count, shape.0, shape.1], &pixels), &idx(&[count], &labels), 7).unwrap();
        let expected = Images::new(pixels, labels, [shape.0 as usize, shape.1 as usize], 7).unwrap();
        prop_assert_eq!(&images, &expected);
        for (index, (pixels, _)) in pictures.iter().enumerate() {
            prop_assert_eq!(images.image(index), &pixels[..size]);
        }
    }
}

#[test]
fn selected_pictures_keep_their_labels_and_order() {
    let (images, labels) = two();
    let images = Images::from_idx("made up", &images, &labels, 2).unwrap();
    let turned = images.select(&[1, 0, 1]).unwrap();
    assert_eq!((turned.labels(), turned.image(1)), ([0, 1, 0].as_slice(), [0, 51, 255].as_slice()));
    assert_eq!(images.scaled()[..3], [0.0, 0.2, 1.0]);
    assert!(images.select(&[]).unwrap().is_empty());
    let error = images.select(&[0, 2]).unwrap_err();
    assert!(matches!(error, DatasetError::Index { index: 2, count: 2, .. }), "{error}");
}

#[test]
fn a_wrong_magic_number_is_refused() {
    let (images, labels) = two();
    refused(&labels, &labels, &["2049", "2051", "images"]);
    refused(&images, &images, &["2051", "2049", "labels"]);
    refused(&[0x1f, 0x8b, 8, 0, 0], &labels, &["gzip", "uncompressed"]);
}

#[test]
fn files_that_are_cut_or_too_long_are_refused() {
    let (images, labels) = two();
    for length in 0..images.len() {
        refused(&images[..length], &labels, &["bytes"]);
    }
    refused(&images[..images.len() - 1], &labels, &["found 5 bytes", "expected 2 x 1 x 3 (number x rows x columns)"]);
    refused(&[images.as_slice(), &[0]].concat(), &labels, &["found 7 bytes"]);
    refused(&images, &labels[..5], &["5 bytes", "header of 8 bytes"]);
    // Lengths whose product is more than any computer can hold.
    refused(&idx(&[u32::MAX, u32::MAX, u32::MAX], &[]), &labels, &["found 0 bytes"]);
}

#[test]
fn numbers_of_pictures_that_disagree_are_refused() {
    let (images, _) = two();
    refused(&images, &idx(&[3], &[0, 1, 0]), &["2 images and 3 labels"]);
    refused(&idx(&[2, 0, 3], &[]), &idx(&[2], &[0, 1]), &["0 x 3", "at least one row and column"]);
}

#[test]
fn a_label_out_of_range_is_refused() {
    let (images, _) = two();
    refused(&images, &idx(&[2], &[0, 2]), &["label 2 of image 1", "below 2"]);
}

#[test]
fn mnist_has_the_published_counts() {
    if !is_staged("mnist") {
        eprintln!("skipped: PARTITA_DATA does not name a folder with the four files of mnist");
        return;
    }
    let set = mnist().unwrap();
    assert_of_full_size(&set);
    assert_eq!(counts(&set.train), [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]);
    assert_eq!(counts(&set.test), [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]);
    assert_eq!(set.train.labels()[..5], [5, 0, 4, 1, 9]);
    assert_eq!(set.test.labels()[..5], [7, 2, 1, 0, 4]);
    let sum: u64 = set.train.pixels().iter().map(|&pixel| u64::from(pixel)).sum();
    // The published mean pixel is 33.3184.
    assert_eq!(sum * 10_000 / set.train.pixels().len() as u64, 333_184);
}

#[test]
fn fashion_mnist_has_equal_classes() {
    if !is_staged("fashion_mnist") {
        eprintln!("skipped: PARTITA_DATA does not name a folder with the four files of fashion_mnist");
        return;
    }
    let set = fashion_mnist().unwrap();
    assert_of_full_size(&set);
    assert_eq!((counts(&set.train), counts(&set.test)), ([6_000; 10], [1_000; 10]));
}
