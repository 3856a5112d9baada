//! Holds the readers of MNIST and Fashion-MNIST to the published counts, and the IDX format to a round trip.
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

#[path = "../../tests/fixtures/skip.rs"]
mod skip;

use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use partita_datasets::{DatasetError, ImageSet, Images, cifar_10_from, dataset, fashion_mnist, mnist};
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

/// Whether the four files of a set are in the folder of staged files.
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
        skip::skip("data", "PARTITA_DATA does not name a folder with the four files of mnist");
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
        skip::skip("fashion_mnist", "PARTITA_DATA does not name a folder with the four files of fashion_mnist");
        return;
    }
    let set = fashion_mnist().unwrap();
    assert_of_full_size(&set);
    assert_eq!((counts(&set.train), counts(&set.test)), ([6_000; 10], [1_000; 10]));
}

/// An npz archive of one array, as NumPy writes it: deflated, sizes before the content unset as for large files.
fn npz(array: &[u8], entry: &str) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(array).unwrap();
    let packed = encoder.finish().unwrap();
    let mut crc = flate2::Crc::new();
    crc.update(array);
    let size = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap().to_le_bytes();
    let name = u16::try_from(entry.len()).unwrap().to_le_bytes();
    let open = [0xff; 8];
    let extra = [0; 20];
    let mut bytes =
        [b"PK\x03\x04".as_slice(), &[45, 0, 0, 0, 8, 0, 0, 0, 33, 0], &[0; 4], &open, &name, &[20, 0]].concat();
    bytes.extend([entry.as_bytes(), &extra, &packed].concat());
    let start = size(&bytes);
    let sums = [crc.sum().to_le_bytes(), size(&packed), size(array)].concat();
    let mut end = [b"PK\x01\x02".as_slice(), &[45, 3, 45, 0, 0, 0, 8, 0, 0, 0, 33, 0], &sums, &name, &[0; 16]].concat();
    end.extend(entry.as_bytes());
    let length = size(&end);
    [bytes, end, [b"PK\x05\x06".as_slice(), &[0, 0, 0, 0, 1, 0, 1, 0], &length, &start, &[0; 2]].concat()].concat()
}

/// A NumPy array of unsigned bytes, version 1.0, its header padded to 64 bytes as NumPy pads it.
fn npy(shape: &str, description: &str, cells: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{description}', 'fortran_order': False, 'shape': {shape}, }}");
    let padded = format!("{header:<117}\n");
    [b"\x93NUMPY\x01\x00".as_slice(), &[118, 0], padded.as_bytes(), cells].concat()
}

#[test]
fn npz_archives_of_images_and_labels_are_read() {
    let images = npz(&npy("(2, 1, 3)", "|u1", &[0, 51, 255, 9, 8, 7]), "arr_0.npy");
    let labels = npz(&npy("(2,)", "|u1", &[1, 48]), "arr_0.npy");
    let found = Images::from_npz("made up", &images, &labels, 49).unwrap();
    assert_eq!(found, Images::new(vec![0, 51, 255, 9, 8, 7], vec![1, 48], [1, 3], 49).unwrap());
    let refused = |images: &[u8], labels: &[u8], words: &[&str]| {
        let message = Images::from_npz("made up", images, labels, 49).unwrap_err().to_string();
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    };
    refused(&images, &npz(&npy("(1,)", "|u1", &[1]), "arr_0.npy"), &["2 images and 1 labels"]);
    refused(&images, &npz(&npy("(2,)", "<i8", &[0; 16]), "arr_0.npy"), &["'<i8'", "unsigned bytes"]);
    refused(&images, &npz(&npy("(2, 1)", "|u1", &[1, 2]), "arr_0.npy"), &["a shape of 1 axes"]);
    refused(&images, &npz(&npy("(3,)", "|u1", &[1, 2]), "arr_0.npy"), &["2 bytes after the header", "[3]"]);
    refused(&images, &npz(&npy("(2,)", "|u1", &[1, 49]), "arr_0.npy"), &["label 49 of image 1", "below 49"]);
    refused(&images, &npz(b"\x93NUMPY\x01", "arr_0.npy"), &["7 bytes", "a whole array"]);
    refused(&images, &npz(&npy("(2,)", "|u1", &[1, 2]), "labels.npy"), &["the entries labels.npy", "arr_0.npy"]);
    let mut damaged = labels.clone();
    damaged[30 + 9 + 20 + 3] ^= 0x10;
    assert!(Images::from_npz("made up", &images, &damaged, 49).is_err());
    for length in 0..labels.len() {
        refused(&images, &labels[..length], &["whole zip archive"]);
    }
}

/// A tar archive of plain files, ended by two empty blocks.
fn tar(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, content) in files {
        let mut header = [0_u8; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[124..136].copy_from_slice(format!("{:011o}\0", content.len()).as_bytes());
        // The sum of the header's bytes, its own eight counted as spaces.
        let sum = header.iter().map(|byte| u32::from(*byte)).sum::<u32>() + 8 * u32::from(b' ');
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        bytes.extend(header);
        bytes.extend(content);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    }
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

/// A record of CIFAR-10: the label, then planes of one value each.
fn record(label: u8, planes: [u8; 3]) -> Vec<u8> {
    std::iter::once(label).chain(planes.into_iter().flat_map(|value| [value; 1024])).collect()
}

#[test]
fn a_cifar_archive_is_read_in_the_order_of_its_batches() {
    let folder = "cifar-10-batches-bin";
    let mut files = vec![(format!("{folder}/batches.meta.txt"), b"airplane\n".to_vec())];
    // The archive lists its files in any order.
    files.extend(
        [4, 1, 3, 2, 5].map(|batch| (format!("{folder}/data_batch_{batch}.bin"), record(batch, [batch, 0, 9]))),
    );
    files.push((format!("{folder}/test_batch.bin"), [record(0, [1, 2, 3]), record(9, [7, 8, 9])].concat()));
    let archive = |files: &[(String, Vec<u8>)]| {
        tar(&files.iter().map(|(name, content)| (name.as_str(), content.clone())).collect::<Vec<_>>())
    };
    let set = cifar_10_from("made up", &archive(&files)).unwrap();
    assert_eq!((set.train.labels(), set.test.labels()), ([1, 2, 3, 4, 5].as_slice(), [0, 9].as_slice()));
    assert_eq!((set.test.shape(), set.test.classes()), ([96, 32], 10));
    let last = set.test.image(1);
    assert_eq!([last[0], last[1023], last[1024], last[2047], last[2048], last[3071]], [7, 7, 8, 8, 9, 9]);
    let refused = |archive: &[u8], words: &[&str]| {
        let message = cifar_10_from("made up", archive).unwrap_err().to_string();
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    };
    refused(&archive(&files[1..4]), &["a file data_batch_2.bin"]);
    refused(&archive(&files)[..5_000], &["a file data_batch_1.bin", "batches.meta.txt"]);
    refused(&archive(&files)[..5_700], &["3073 bytes", "after its header"]);
    files[6].1.pop();
    refused(&archive(&files), &["6145 bytes", "records of a label and 3072 bytes"]);
    files[6].1 = record(10, [0; 3]);
    refused(&archive(&files), &["label 10 of image 0", "below 10"]);
    refused(b"", &["a file data_batch_1.bin"]);
}
