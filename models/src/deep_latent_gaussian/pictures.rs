//! Holds binary pictures at one bit a pixel and unpacks the rows that are evaluated.

use std::sync::Arc;

use burn::tensor::Tensor;
use partita_core::{Device, Error, Result, Rows};

/// Pictures of black and white pixels, eight pixels a byte.
///
/// # Example
/// ```
/// use partita_core::Device;
/// use partita_models::BinaryPictures;
/// let pictures = BinaryPictures::new(&[0, 255, 127, 128], 2, 128, &Device::flex())?;
/// assert_eq!((pictures.len(), pictures.pixels(), pictures.picture(1)), (2, 2, vec![0.0, 1.0]));
/// # Ok::<(), partita_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct BinaryPictures {
    bits: Arc<Vec<u8>>,
    count: usize,
    pixels: usize,
    device: Device,
}

impl BinaryPictures {
    /// Grey pictures of `pixels` pixels each, one after another; a pixel is white if its grey is at least `threshold`.
    ///
    /// # Errors
    /// [`Error::Length`] if the pixels do not make whole pictures.
    pub fn new(grey: &[u8], pixels: usize, threshold: u8, device: &Device) -> Result<Self> {
        if pixels == 0 || !grey.len().is_multiple_of(pixels) {
            return Err(Error::Length {
                operation: "binary pictures".into(),
                found: grey.len(),
                expected: pixels,
                remedy: "Give whole pictures, each with the same number of pixels, at least one.".into(),
            });
        }
        let byte = |eight: &[u8]| eight.iter().rev().fold(0_u8, |byte, grey| byte << 1 | u8::from(*grey >= threshold));
        let bits = grey.chunks_exact(pixels).flat_map(|picture| picture.chunks(8).map(byte)).collect();
        Ok(Self { bits: Arc::new(bits), count: grey.len() / pixels, pixels, device: device.clone() })
    }

    /// The number of pictures.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no pictures.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The number of pixels of a picture.
    #[must_use]
    pub fn pixels(&self) -> usize {
        self.pixels
    }

    /// One picture: zeros and ones.
    ///
    /// # Panics
    /// If there is no such picture.
    #[must_use]
    pub fn picture(&self, index: usize) -> Vec<f64> {
        let mut values = Vec::with_capacity(self.pixels);
        self.unpack(index, &mut values);
        values
    }

    /// These pictures, in this order.
    ///
    /// # Errors
    /// [`Error::Argument`] for an index out of range.
    pub fn select(&self, pictures: &[usize]) -> Result<Self> {
        if let Some(index) = pictures.iter().find(|index| **index >= self.count) {
            let expected = "indices below the number of pictures";
            return Err(Error::argument("selecting binary pictures", "picture", index, expected));
        }
        let stride = self.pixels.div_ceil(8);
        let bits =
            pictures.iter().flat_map(|index| &self.bits[index * stride..(index + 1) * stride]).copied().collect();
        Ok(Self { bits: Arc::new(bits), count: pictures.len(), ..self.clone() })
    }

    /// The rows of a plate's evaluation.
    ///
    /// # Shapes
    /// Returns `[rows, pixels]`.
    ///
    /// # Errors
    /// [`Error::Shape`] if the plate's total is not the number of pictures.
    pub fn take(&self, rows: &Rows<'_>) -> Result<Tensor<2>> {
        let (found, expected) = ([self.count, self.pixels], [rows.total(), self.pixels]);
        let remedy = "Give the plate as many rows as there are pictures.";
        Error::same_shape("rows of binary pictures", &found, &expected, remedy)?;
        let mut values = Vec::with_capacity(rows.len() * self.pixels);
        match rows.indices() {
            Some(chosen) => chosen.iter().for_each(|&row| self.unpack(row, &mut values)),
            None => (0..self.count).for_each(|row| self.unpack(row, &mut values)),
        }
        Ok(self.device.tensor(values, [rows.len(), self.pixels]))
    }

    fn unpack(&self, picture: usize, values: &mut Vec<f64>) {
        let stride = self.pixels.div_ceil(8);
        let end = values.len() + self.pixels;
        for byte in &self.bits[picture * stride..(picture + 1) * stride] {
            values.extend_from_slice(&PIXELS[usize::from(*byte)]);
        }
        values.truncate(end);
    }
}

/// The eight pixels of each byte, the lowest bit first.
static PIXELS: [[f64; 8]; 256] = {
    let mut table = [[0.0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut bit = 0;
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                table[byte][bit] = 1.0;
            }
            bit += 1;
        }
        byte += 1;
    }
    table
};
