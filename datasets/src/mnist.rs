//! Reads MNIST, Fashion-MNIST and Kuzushiji-49: small grey pictures, kept as bytes.

mod idx;
mod npy;
mod synthetic;

pub use synthetic::synthetic_digits;

use partita_core::SparseRows;

use crate::dataset::{DatasetError, dataset};

/// Grey pictures of one size with a class each, as bytes.
///
/// # Example
/// ```
/// use partita_datasets::Images;
/// let images = Images::new(vec![0, 255, 51, 0], vec![1, 0], [1, 2], 2)?;
/// assert_eq!(images.image(1), [51, 0]);
/// assert_eq!(images.select(&[1])?.scaled(), [0.2, 0.0]);
/// assert_eq!(images.sparse()?.row(1), (&[0][..], &[0.2][..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Images {
    pixels: Vec<u8>,
    labels: Vec<u8>,
    shape: [usize; 2],
    classes: usize,
}

/// Pictures for fitting and for testing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageSet {
    /// The pictures for fitting.
    pub train: Images,
    /// The pictures for testing.
    pub test: Images,
}

/// The 70,000 handwritten digits of MNIST, 60,000 of them for training.
///
/// # Errors
/// As [`Dataset::read`](crate::Dataset::read), and [`DatasetError::Format`].
///
/// # References
/// LeCun, Bottou, Bengio and Haffner (1998), Gradient-based learning applied to document recognition, Proceedings of
/// the IEEE 86, 2278-2324.
pub fn mnist() -> Result<ImageSet, DatasetError> {
    image_set("mnist", 10, Images::from_idx)
}

/// The 70,000 pieces of clothing of Fashion-MNIST, 60,000 of them for training.
///
/// The classes, from 0: T-shirt or top, trouser, pullover, dress, coat, sandal, shirt, sneaker, bag, ankle boot.
///
/// # Errors
/// As [`mnist`].
///
/// # References
/// Xiao, Rasul and Vollgraf (2017), Fashion-MNIST: a novel image dataset for benchmarking machine learning algorithms,
/// arXiv:1708.07747.
pub fn fashion_mnist() -> Result<ImageSet, DatasetError> {
    image_set("fashion_mnist", 10, Images::from_idx)
}

/// The 270,912 handwritten characters of Kuzushiji-49, 232,365 of them for training: 48 hiragana and an iteration mark.
///
/// The classes have very unequal frequencies. Tests check the format on files they make; the published files have not
/// been tested.
///
/// # Errors
/// As [`mnist`].
///
/// # References
/// Clanuwat, Bober-Irizar, Kitamoto, Lamb, Yamamoto and Ha (2018), Deep learning for classical Japanese literature,
/// arXiv:1812.01718.
pub fn kuzushiji_49() -> Result<ImageSet, DatasetError> {
    image_set("kuzushiji_49", 49, Images::from_npz)
}

/// A reader of pictures and labels in a format: the name, both files, and the number of classes.
type Reader = fn(&str, &[u8], &[u8], usize) -> Result<Images, DatasetError>;

fn image_set(name: &str, classes: usize, reader: Reader) -> Result<ImageSet, DatasetError> {
    let part = |part: &str| {
        let read = |kind: &str| dataset(&format!("{name}_{part}_{kind}"))?.read();
        reader(&format!("{name}, {part}"), &read("images")?, &read("labels")?, classes)
    };
    Ok(ImageSet { train: part("train")?, test: part("test")? })
}

impl Images {
    /// Pictures of `shape` `[rows, columns]` with labels below `classes`.
    ///
    /// # Shapes
    /// `pixels`: one row-major picture after the other. `labels`: one a picture.
    ///
    /// # Errors
    /// [`DatasetError::Format`] if pixels and labels disagree on the number of pictures, or for a label that is not
    /// below `classes`.
    pub fn new(pixels: Vec<u8>, labels: Vec<u8>, shape: [usize; 2], classes: usize) -> Result<Self, DatasetError> {
        Self::named("images", pixels, labels, shape, classes)
    }

    /// Reads pictures and their labels from two uncompressed files in the IDX format; `name` is their name in errors.
    ///
    /// # Errors
    /// [`DatasetError::Format`] for other magic numbers, for another number of bytes than announced, for numbers of
    /// pictures that disagree, and for a label that is not below `classes`.
    pub fn from_idx(name: &str, images: &[u8], labels: &[u8], classes: usize) -> Result<Self, DatasetError> {
        let (sizes, pixels) = idx::read(&format!("{name}, images"), images, "images", ["number", "rows", "columns"])?;
        let (_, labels) = idx::read(&format!("{name}, labels"), labels, "labels", ["number"])?;
        Self::counted(name, sizes, pixels.to_vec(), labels.to_vec(), classes)
    }

    /// Reads pictures and their labels from two npz archives of one array of unsigned bytes each; `name` is their name
    /// in errors.
    ///
    /// # Errors
    /// [`DatasetError::Format`] for archives that are damaged, for arrays of other types or axes, for numbers of
    /// pictures that disagree, and for a label that is not below `classes`.
    pub fn from_npz(name: &str, images: &[u8], labels: &[u8], classes: usize) -> Result<Self, DatasetError> {
        let (sizes, pixels) = npy::read_npz(&format!("{name}, images"), images)?;
        let ([_], labels) = npy::read_npz(&format!("{name}, labels"), labels)?;
        Self::counted(name, sizes, pixels, labels, classes)
    }

    fn counted(
        name: &str,
        [count, rows, columns]: [usize; 3],
        pixels: Vec<u8>,
        labels: Vec<u8>,
        classes: usize,
    ) -> Result<Self, DatasetError> {
        if count != labels.len() {
            return Err(DatasetError::format(
                name,
                format!("{count} images and {} labels", labels.len()),
                "one label for each image",
            ));
        }
        Self::named(name, pixels, labels, [rows, columns], classes)
    }

    pub(crate) fn named(
        name: &str,
        pixels: Vec<u8>,
        labels: Vec<u8>,
        shape: [usize; 2],
        classes: usize,
    ) -> Result<Self, DatasetError> {
        let wrong = |found, expected| Err(DatasetError::format(name, found, expected));
        let [rows, columns] = shape;
        let cells = rows.checked_mul(columns).and_then(|size| size.checked_mul(labels.len()));
        if rows == 0 || columns == 0 || cells != Some(pixels.len()) {
            return wrong(
                format!("{} pixels, {} labels and pictures of {rows} x {columns}", pixels.len(), labels.len()),
                "at least one row and column, and rows x columns pixels for each label".into(),
            );
        }
        if let Some(index) = labels.iter().position(|label| usize::from(*label) >= classes) {
            return wrong(format!("label {} of image {index}", labels[index]), format!("labels below {classes}"));
        }
        Ok(Self { pixels, labels, shape, classes })
    }

    /// The number of pictures.
    #[must_use]
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no pictures.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The rows and columns of a picture.
    #[must_use]
    pub fn shape(&self) -> [usize; 2] {
        self.shape
    }

    /// The number of classes that a picture may belong to.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// The pixels of all pictures, 0 to 255, one row-major picture after the other.
    #[must_use]
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// The pixels of one picture, row by row.
    ///
    /// # Panics
    /// If there is no such picture.
    #[must_use]
    pub fn image(&self, index: usize) -> &[u8] {
        let size = self.shape[0] * self.shape[1];
        &self.pixels[index * size..(index + 1) * size]
    }

    /// The class of each picture.
    #[must_use]
    pub fn labels(&self) -> &[u8] {
        &self.labels
    }

    /// These pictures, in this order.
    ///
    /// # Errors
    /// [`DatasetError::Index`] for an index out of range.
    pub fn select(&self, indices: &[usize]) -> Result<Self, DatasetError> {
        if let Some(&index) = indices.iter().find(|&&index| index >= self.len()) {
            return Err(DatasetError::Index { operation: "selecting images", index, count: self.len() });
        }
        Ok(Self {
            pixels: indices.iter().flat_map(|&index| self.image(index)).copied().collect(),
            labels: indices.iter().map(|&index| self.labels[index]).collect(),
            ..*self
        })
    }

    /// The pixels of all pictures over 255, so that black is 0 and white is 1.
    #[must_use]
    pub fn scaled(&self) -> Vec<f64> {
        self.pixels.iter().map(|&pixel| f64::from(pixel) / 255.0).collect()
    }

    /// As [`Images::scaled`], one row a picture, without the pixels that are zero.
    ///
    /// # Errors
    /// [`partita_core::Error`] of [`SparseRows::from_dense`], which cannot occur for valid pictures.
    pub fn sparse(&self) -> partita_core::Result<SparseRows> {
        SparseRows::from_dense(&self.scaled(), [self.len(), self.shape[0] * self.shape[1]])
    }
}
