//! Draws what studies compare: curves, lines, bands and calibration as SVG, sheets of images as PNG.

mod bands;
mod caption;
mod curves;
mod lines;
mod reliability;
mod sheet;

pub use bands::{Band, BandPanel, BandPoint, bands};
pub use curves::{curves, repeated};
pub use lines::lines;
pub use reliability::reliability;
pub use sheet::{Colours, SheetOptions, Tile, contact_sheet};
