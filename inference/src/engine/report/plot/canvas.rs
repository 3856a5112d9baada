//! Gives pictures one look: colours, letters, axes, legends and grids of panels, for those of one's own as well.

use std::error::Error as StdError;
use std::ops::Range;
use std::path::Path;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::PlotError;
use crate::engine::checkpoint::write_atomically;
use crate::engine::error::Error;

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
/// The colour of axes and letters.
pub const INK: RGBColor = RGBColor(51, 51, 51);
const RULE: RGBColor = RGBColor(228, 228, 228);
const FONT: &str = "sans-serif";

/// The units that are drawn in for each pixel of the finished picture: the library rounds to whole units.
pub const FINE: u32 = 8;

/// The height of a legend in pixels.
pub const LEGEND: u32 = 44;

/// How many panels stand side by side.
const COLUMNS: usize = 3;

/// A part of a picture.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A chart with linear values upwards.
pub type Chart<'a, 'b, X> = ChartContext<'b, SVGBackend<'a>, Cartesian2d<X, RangedCoordf64>>;

/// Whether something could be drawn.
pub type Drawn = Result<(), Box<dyn StdError>>;

/// How much room a chart gives to letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// As much as a picture of its own has.
    Whole,
    /// Little: it is one of several.
    Panel,
}

/// One of the seven colours that stay apart; the first is black.
#[must_use]
pub fn colour(index: usize) -> RGBColor {
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
#[must_use]
pub fn pixels(count: u32) -> u32 {
    count * FINE
}

fn letters(height: u32) -> TextStyle<'static> {
    (FONT, pixels(height)).into_font().color(&INK)
}

/// Draws a line of names, each with its colour: that of `first` and those after it.
///
/// # Errors
/// What the drawing library refuses.
pub fn legend(area: &Area, first: usize, names: &[&str]) -> Drawn {
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

/// Draws axes with a title, and names of what lies along them and of what stands up.
///
/// # Errors
/// What the drawing library refuses, such as an empty range.
pub fn axes<'a, 'b, X>(
    area: &'b Area<'a>,
    layout: Layout,
    [title, along, up]: [&str; 3],
    across: X,
    upwards: Range<f64>,
) -> Result<Chart<'a, 'b, X::CoordDescType>, Box<dyn StdError>>
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
{
    let (height, margins, room, ticks) = match layout {
        Layout::Whole => (13, [14, 30], [40, 76], [8, 7]),
        Layout::Panel => (12, [10, 10], [38, 46], [5, 5]),
    };
    let mut builder = ChartBuilder::on(area);
    builder.margin(pixels(margins[0])).margin_right(pixels(margins[1]));
    if !title.is_empty() {
        builder.caption(title, letters(height + 3));
    }
    builder.x_label_area_size(pixels(room[0])).y_label_area_size(pixels(room[1]));
    let mut chart = builder.build_cartesian_2d(across, upwards)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RULE.stroke_width(FINE))
        .axis_style(INK.stroke_width(FINE))
        .label_style(letters(height))
        .set_all_tick_mark_size(pixels(4))
        .x_labels(ticks[0])
        .y_labels(ticks[1])
        .x_label_formatter(&label)
        .y_label_formatter(&label)
        .x_desc(along)
        .y_desc(up)
        .draw()?;
    Ok(chart)
}

/// Draws on white and puts the finished file in place at once, so that a reader never sees half a picture.
///
/// # Errors
/// [`PlotError::Draw`] if `draw` fails, [`PlotError::Write`] if the file cannot be put in place.
///
/// # Example
/// ```
/// use partita_inference::plot::canvas::{Layout, axes, picture};
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("empty.svg");
/// picture(&path, (300, 200), |area| axes(area, Layout::Whole, ["nothing", "x", "y"], 0.0..1.0, 0.0..1.0).map(|_| ()))?;
/// assert!(std::fs::read_to_string(path)?.contains("width=\"300\""));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn picture(path: &Path, size: (u32, u32), draw: impl FnOnce(&Area) -> Drawn) -> Result<(), PlotError> {
    let refused = |error: Box<dyn StdError>| PlotError::Draw { path: path.into(), reason: error.to_string() };
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

/// Draws a grid of panels of one size, three in a row, under one legend.
///
/// # Errors
/// As for [`picture()`].
pub fn grid<T>(
    path: &Path,
    size: (u32, u32),
    names: &[&str],
    panels: &[T],
    draw: impl Fn(&Area, &T) -> Drawn,
) -> Result<(), PlotError> {
    let columns = panels.len().clamp(1, COLUMNS);
    let rows = panels.len().div_ceil(columns);
    let times = |length: u32, count: usize| length * u32::try_from(count).unwrap_or(u32::MAX);
    picture(path, (times(size.0, columns), times(size.1, rows) + LEGEND), |root| {
        let (top, rest) = root.split_vertically(pixels(LEGEND));
        legend(&top, 0, names)?;
        rest.split_evenly((rows, columns)).iter().zip(panels).try_for_each(|(area, panel)| draw(area, panel))
    })
}

/// Puts a finished picture in place at once, in a folder that is made where it is missing.
///
/// # Errors
/// [`PlotError::Write`].
pub fn put(path: &Path, bytes: &[u8]) -> Result<(), PlotError> {
    write_atomically(path, bytes).map_err(|error| {
        let reason = match error {
            Error::File { reason, .. } => reason,
            other => other.to_string(),
        };
        PlotError::Write { path: path.into(), reason }
    })
}
