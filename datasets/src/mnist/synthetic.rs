//! Draws digits of a seven-segment display, shifted and with noise, for runs that cannot download pictures.

use partita_core::{Key, Noise, NoiseStream, Purpose};

use super::{ImageSet, Images};

/// Rows and columns of a picture, as in MNIST.
const SIZE: usize = 28;
const CLASSES: usize = 10;
/// First row and column of a display that is not shifted, and the largest shift.
const CORNER: [usize; 2] = [4, 8];
const MOVE: usize = 3;
/// Rows and columns of a segment within the display, from and to: top, upper left and right, middle, lower left and
/// right, bottom.
const SEGMENTS: [[usize; 4]; 7] =
    [[0, 2, 0, 12], [0, 10, 0, 2], [0, 10, 10, 12], [9, 11, 0, 12], [10, 20, 0, 2], [10, 20, 10, 12], [18, 20, 0, 12]];
/// The segments of each digit, the first of [`SEGMENTS`] first.
const DIGITS: [[u8; 7]; CLASSES] = [
    [1, 1, 1, 0, 1, 1, 1],
    [0, 0, 1, 0, 0, 1, 0],
    [1, 0, 1, 1, 1, 0, 1],
    [1, 0, 1, 1, 0, 1, 1],
    [0, 1, 1, 1, 0, 1, 0],
    [1, 1, 0, 1, 0, 1, 1],
    [1, 1, 0, 1, 1, 1, 1],
    [1, 0, 1, 0, 0, 1, 0],
    [1, 1, 1, 1, 1, 1, 1],
    [1, 1, 1, 1, 0, 1, 1],
];
/// The probability that a pixel of a segment stays dark, and that one outside is lit.
const FLIPPED: f64 = 0.1;

/// `train` pictures for fitting and `test` pictures for testing, of the digits of a seven-segment display, 28 × 28 like
/// those of [`crate::mnist()`]: a far easier stand-in for it where downloads are impossible.
///
/// Each is shifted by up to three pixels in either direction and has its own brightness; one pixel in ten is wrong. The
/// classes follow each other in turn; the same `seed` gives the same pictures.
///
/// # Example
/// ```
/// use partita_datasets::synthetic_digits;
/// let digits = synthetic_digits([60, 10], 1);
/// assert_eq!((digits.train.len(), digits.test.shape()), (60, [28, 28]));
/// assert_eq!(digits.train.labels()[..3], [0, 1, 2]);
/// ```
#[must_use]
pub fn synthetic_digits([train, test]: [usize; 2], seed: u64) -> ImageSet {
    let draw = |part: u32, count: usize| {
        let mut noise = Noise::new(seed).stream(Key::new(Purpose::Prior, 0).block(part));
        let labels: Vec<u8> = (0..10).cycle().take(count).collect();
        let pixels = labels.iter().flat_map(|label| picture(usize::from(*label), &mut noise)).collect();
        Images { pixels, labels, shape: [SIZE, SIZE], classes: CLASSES }
    };
    ImageSet { train: draw(0, train), test: draw(1, test) }
}

/// One picture of a digit, row by row.
fn picture(digit: usize, noise: &mut NoiseStream) -> Vec<u8> {
    let corner = CORNER.map(|place| place + noise.index(2 * MOVE + 1) - MOVE);
    let mut lit = [false; SIZE * SIZE];
    for ([top, bottom, left, right], is_on) in SEGMENTS.into_iter().zip(DIGITS[digit]) {
        for row in top..bottom {
            for column in left..right {
                lit[(corner[0] + row) * SIZE + corner[1] + column] |= is_on == 1;
            }
        }
    }
    let brightness = 150 + noise.index(106);
    let mut pixel = |is_lit: bool| if is_lit == (noise.uniform() >= FLIPPED) { brightness } else { 0 };
    lit.into_iter().map(|is_lit| u8::try_from(pixel(is_lit)).unwrap_or(u8::MAX)).collect()
}
