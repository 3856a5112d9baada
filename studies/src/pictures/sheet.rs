//! Draws many small images side by side as one PNG: digits, weights by pixel, posterior means and deviations.

use std::path::Path;

use partita::inference::plot::PlotError;
use partita::inference::plot::canvas::put;
use png::{BitDepth, ColorType, Encoder, EncodingError};

/// One image of a sheet.
#[derive(Debug, Clone, PartialEq)]
pub struct Tile {
    /// What it shows; errors name it, the picture does not.
    pub title: String,
    /// One value a pixel, row by row.
    pub values: Vec<f64>,
    /// Its rows and columns of pixels.
    pub shape: [usize; 2],
}

/// How a sheet is laid out and coloured.
#[derive(Debug, Clone, PartialEq)]
pub struct SheetOptions {
    /// How many tiles stand side by side.
    pub columns: usize,
    /// The side of a pixel in pixels of the picture.
    pub scale: usize,
    /// What colour a value has.
    pub colours: Colours,
}

/// What colour a value has; equal values have equal colours in all tiles of a sheet.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Colours {
    /// Black for the smallest value of the sheet to white for the largest.
    Grey,
    /// White for zero, red for the largest value by size, blue for its negative.
    Diverging,
}

/// From negative over zero to positive: the scale `RdBu` of ColorBrewer, turned round, with white in the middle.
///
/// # References
/// Harrower and Brewer (2003), ColorBrewer.org: an online tool for selecting colour schemes for maps, The Cartographic
/// Journal 40, 27-37.
const DIVERGING: [[u8; 3]; 11] = [
    [5, 48, 97],
    [33, 102, 172],
    [67, 147, 195],
    [146, 197, 222],
    [209, 229, 240],
    [255, 255, 255],
    [253, 219, 199],
    [244, 165, 130],
    [214, 96, 77],
    [178, 24, 43],
    [103, 0, 31],
];
const GREY: [[u8; 3]; 2] = [[0, 0, 0], [255, 255, 255]];

/// The colour between tiles, seen beside black and beside white.
const GAP: u8 = 190;

/// The width of the gap between tiles and around them.
const GAP_WIDTH: usize = 2;

impl Default for SheetOptions {
    fn default() -> Self {
        Self { columns: 10, scale: 3, colours: Colours::Grey }
    }
}

/// Writes images as a grid of tiles, row by row, to a PNG file.
///
/// # Errors
/// [`PlotError::Empty`] without a tile, for options of zero, or for a tile that has not one finite value a pixel or
/// another shape than the first; [`PlotError::Draw`] for a sheet too large for a PNG;
/// [`PlotError::Write`] if the file cannot be put in place.
///
/// # Example
/// ```
/// use partita_studies::pictures::{SheetOptions, Tile, contact_sheet};
/// let folder = tempfile::tempdir()?;
/// let tile = Tile { title: "a corner".into(), values: vec![0.0, 0.5, 0.5, 1.0], shape: [2, 2] };
/// contact_sheet(&folder.path().join("sheet.png"), &[tile.clone(), tile], &SheetOptions::default())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn contact_sheet(path: &Path, tiles: &[Tile], options: &SheetOptions) -> Result<(), PlotError> {
    let [rows, columns] = check(path, tiles, options)?;
    let refused = |reason: String| PlotError::Draw { path: path.into(), reason };
    let across = options.columns.min(tiles.len());
    let down = tiles.len().div_ceil(across);
    let length = |tiles: usize, pixels: usize| {
        let tile = pixels.checked_mul(options.scale)?.checked_add(GAP_WIDTH)?;
        let whole = tile.checked_mul(tiles)?.checked_add(GAP_WIDTH)?;
        // The PNG format holds lengths below 2^31.
        i32::try_from(whole).ok().and(u32::try_from(whole).ok())
    };
    let (Some(width), Some(height)) = (length(across, columns), length(down, rows)) else {
        return Err(refused(format!("{down} x {across} tiles of {rows} x {columns} at scale {}", options.scale)));
    };
    let (tile_width, tile_height) = (columns * options.scale + GAP_WIDTH, rows * options.scale + GAP_WIDTH);
    let paint = Paint::of(tiles, options.colours);
    let stride = 3 * width as usize;
    let mut canvas = vec![GAP; stride * height as usize];
    for (index, tile) in tiles.iter().enumerate() {
        let (left, top) = (GAP_WIDTH + index % across * tile_width, GAP_WIDTH + index / across * tile_height);
        for (row, line) in tile.values.chunks_exact(columns).enumerate() {
            let colours: Vec<u8> = line
                .iter()
                .flat_map(|value| std::iter::repeat_n(paint.colour(*value), options.scale))
                .flatten()
                .collect();
            for copy in 0..options.scale {
                let start = (top + row * options.scale + copy) * stride + 3 * left;
                canvas[start..start + colours.len()].copy_from_slice(&colours);
            }
        }
    }
    let bytes = encoded(width, height, &canvas).map_err(|error| refused(error.to_string()))?;
    put(path, &bytes)
}

/// The bytes of a PNG file of `pixels`: red, green and blue of each, row by row.
fn encoded(width: u32, height: u32, pixels: &[u8]) -> Result<Vec<u8>, EncodingError> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, width, height);
    encoder.set_color(ColorType::Rgb);
    encoder.set_depth(BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish()?;
    Ok(bytes)
}

/// The shape that all tiles have.
fn check(path: &Path, tiles: &[Tile], options: &SheetOptions) -> Result<[usize; 2], PlotError> {
    let empty = |found: String, expected| PlotError::Empty { path: path.into(), found, expected };
    let Some(first) = tiles.first() else { return Err(empty("no tile".into(), "at least one image")) };
    if options.columns == 0 || options.scale == 0 {
        let found = format!("{} columns at scale {}", options.columns, options.scale);
        return Err(empty(found, "at least one column and a scale of at least one"));
    }
    let [rows, columns] = first.shape;
    for (index, tile) in tiles.iter().enumerate() {
        let wrong =
            |found: String, expected| Err(empty(format!("{found} in tile {index} (`{}`)", tile.title), expected));
        if tile.shape != first.shape || rows == 0 || columns == 0 {
            return wrong(format!("shape {:?}", tile.shape), "the first tile's shape, with pixels");
        }
        if rows.checked_mul(columns) != Some(tile.values.len()) {
            return wrong(format!("{} values", tile.values.len()), "one value a pixel");
        }
        if let Some(pixel) = tile.values.iter().position(|value| !value.is_finite()) {
            return wrong(format!("{} in pixel {pixel}", tile.values[pixel]), "finite values");
        }
    }
    Ok(first.shape)
}

/// A map from values to colours: the first colour at `low`, the last at `high`, straight lines between them.
struct Paint {
    low: f64,
    high: f64,
    colours: &'static [[u8; 3]],
}

impl Paint {
    fn of(tiles: &[Tile], colours: Colours) -> Self {
        let values = || tiles.iter().flat_map(|tile| tile.values.iter().copied());
        let low = values().fold(f64::INFINITY, f64::min);
        let high = values().fold(f64::NEG_INFINITY, f64::max);
        match colours {
            Colours::Grey => Self { low, high, colours: &GREY },
            Colours::Diverging => {
                let largest = high.max(-low);
                Self { low: -largest, high: largest, colours: &DIVERGING }
            }
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "the place is between the first colour and the last, and a colour's number below 256"
    )]
    fn colour(&self, value: f64) -> [u8; 3] {
        // Halves, because the difference of two numbers may be too large for a number. Values that are all equal lie
        // in the middle.
        let span = self.high / 2.0 - self.low / 2.0;
        let share = if span > 0.0 { (value / 2.0 - self.low / 2.0) / span } else { 0.5 };
        let place = share.clamp(0.0, 1.0) * (self.colours.len() - 1) as f64;
        let below = (place as usize).min(self.colours.len() - 2);
        let rest = place - below as f64;
        std::array::from_fn(|channel| {
            let (from, to) = (f64::from(self.colours[below][channel]), f64::from(self.colours[below + 1][channel]));
            (from + rest * (to - from)).round() as u8
        })
    }
}
