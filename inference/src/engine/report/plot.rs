//! Draws how a fit went and what it found: traces, marginal densities and calibration as SVG, sheets of images as PNG.

mod bands;
mod curves;
mod density;
mod lines;
mod marginals;
mod reliability;
mod sheet;
mod trace;

use std::path::{Path, PathBuf};

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::engine::checkpoint::write_atomically;
use crate::engine::error::Error;

pub use bands::{Band, BandPanel, BandPoint, bands};
pub use curves::{curves, repeated};
pub use density::Density;
pub use lines::lines;
pub use marginals::{Panel, marginals};
pub use reliability::reliability;
pub use sheet::{Colours, SheetOptions, Tile, contact_sheet};
pub use trace::{StepAxis, trace};

/// Colours that stay apart for colour-blind readers, by Okabe and Ito (2008), the clearest first.
const PALETTE: [RGBColor; 7] = [
    RGBColor(0, 0, 0),
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];
const INK: RGBColor = RGBColor(51, 51, 51);
const RULE: RGBColor = RGBColor(228, 228, 228);
const FONT: &str = "sans-serif";

/// The library rounds to whole units; so many of them make a pixel of the finished picture.
const FINE: u32 = 8;

/// What went wrong while a picture was drawn.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlotError {
    /// There is nothing that could be drawn.
    #[error("drawing {}: found {found}, expected {expected}. Draw it after the first step, from a fit that has not failed.", path.display())]
    Empty {
        /// The picture.
        path: PathBuf,
        /// What was given.
        found: String,
        /// What can be drawn.
        expected: &'static str,
    },
    /// The drawing library refused.
    #[error("drawing {}: found {reason}, expected a finished picture. Check the range of the values.", path.display())]
    Draw {
        /// The picture.
        path: PathBuf,
        /// The library's own words.
        reason: String,
    },
    /// An image of a sheet cannot be drawn.
    #[error("drawing {}, tile {tile} (`{title}`): found {found}, expected {expected}. Give finite values row by row, and images of one size.", path.display())]
    Tile {
        /// The picture.
        path: PathBuf,
        /// The tile, from 0.
        tile: usize,
        /// What it is called.
        title: String,
        /// What was given.
        found: String,
        /// What can be drawn.
        expected: String,
    },
    /// The finished picture could not be put in place.
    #[error("writing {}: found {reason}, expected it to succeed. Check that the folder may be written and has room.", path.display())]
    Write {
        /// The picture.
        path: PathBuf,
        /// What the operating system said.
        reason: String,
    },
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

fn colour(index: usize) -> RGBColor {
    PALETTE[index % PALETTE.len()]
}

/// A number on an axis, without trailing zeros and with a real minus sign.
fn label(value: &f64) -> String {
    if value.abs() < 1e-12 {
        return "0".into();
    }
    let text = if value.abs() < 0.01 { format!("{value:.1e}") } else { format!("{value:.3}") };
    let short = if text.contains('e') { &text } else { text.trim_end_matches('0').trim_end_matches('.') };
    short.replace('-', "\u{2212}")
}

/// Pixels of the finished picture in the units that are drawn in.
fn pixels(count: u32) -> u32 {
    count * FINE
}

fn letters(height: u32) -> TextStyle<'static> {
    (FONT, pixels(height)).into_font().color(&INK)
}

/// A line of names, each with its colour: that of `first` and those after it.
fn draw_legend(area: &Area, first: usize, names: &[&str]) -> Drawn {
    let unit = i32::try_from(FINE)?;
    let middle = 24 * unit;
    let mut left = 24 * unit;
    for (index, name) in names.iter().enumerate() {
        let line = vec![(left, middle), (left + 26 * unit, middle)];
        area.draw(&PathElement::new(line, colour(first + index).stroke_width(3 * FINE)))?;
        let style = letters(14).pos(Pos::new(HPos::Left, VPos::Center));
        area.draw(&Text::new((*name).to_owned(), (left + 34 * unit, middle), style))?;
        // Eight pixels hold an average letter of this size.
        left += (34 + 8 * i32::try_from(name.chars().count())? + 24) * unit;
    }
    Ok(())
}

/// Draws on white and puts the finished file in place at once, so that a reader never sees half a picture.
fn picture(path: &Path, size: (u32, u32), draw: impl FnOnce(&Area) -> Drawn) -> Result<(), PlotError> {
    let refused = |error: Box<dyn std::error::Error>| PlotError::Draw { path: path.into(), reason: error.to_string() };
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (pixels(size.0), pixels(size.1))).into_drawing_area();
        root.fill(&WHITE).map_err(|error| refused(error.into()))?;
        draw(&root).map_err(refused)?;
        root.present().map_err(|error| refused(error.into()))?;
    }
    // The view box keeps the fine units; the picture itself has the size that was asked for.
    let fine = format!("width=\"{}\" height=\"{}\"", pixels(size.0), pixels(size.1));
    let text = text.replacen(&fine, &format!("width=\"{}\" height=\"{}\"", size.0, size.1), 1);
    put(path, text.as_bytes())
}

/// Puts a finished picture in place at once, in a folder that is made where it is missing.
fn put(path: &Path, bytes: &[u8]) -> Result<(), PlotError> {
    write_atomically(path, bytes).map_err(|error| {
        let reason = match error {
            Error::File { reason, .. } => reason,
            other => other.to_string(),
        };
        PlotError::Write { path: path.into(), reason }
    })
}
