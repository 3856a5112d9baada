//! Claims that pictures of studies are drawn whole or not at all, and that what cannot be drawn is refused.
#![allow(clippy::unwrap_used, reason = "a failure to set the scene fails the test")]

use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;

use partita::inference::metrics::{Calibration, CalibrationBin};
use partita::inference::plot::PlotError;
use partita_studies::pictures::{
    Band, BandPanel, BandPoint, Colours, SheetOptions, Tile, bands, contact_sheet, lines, reliability,
};

/// Copies all pictures to the folder named by `PARTITA_KEEP_PICTURES`, for those who want to see them.
fn keep(folder: &Path) {
    let Some(kept) = std::env::var_os("PARTITA_KEEP_PICTURES") else { return };
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), Path::new(&kept).join(entry.file_name())).unwrap();
    }
}

/// A predictor whose accuracy is its confidence less `excess`, with `rows` of a bin.
fn predictor(name: &str, excess: f64, rows: impl Fn(u32) -> usize) -> (String, Calibration) {
    let bins = (0..15).map(|bin| {
        let (lower, upper) = (f64::from(bin) / 15.0, f64::from(bin + 1) / 15.0);
        let middle = (lower + upper) / 2.0;
        let ripple = 0.02 * (7.0 * middle).sin();
        CalibrationBin {
            lower,
            upper,
            rows: rows(bin),
            confidence: middle,
            accuracy: middle - excess * middle + ripple,
        }
    });
    (name.to_owned(), Calibration { bins: bins.collect(), error: 0.8 * excess })
}

fn predictors() -> Vec<(String, Calibration)> {
    let rows = |bin: u32| if bin < 2 { 0 } else { (bin * bin * bin) as usize };
    vec![
        predictor("Bayesian network", 0.02, rows),
        predictor("one network", 0.15, |bin| if bin < 3 { 0 } else { bin.pow(5) as usize }),
    ]
}

/// A ring in a square of `side` pixels, its values from `low` to `high`.
fn ring(side: u32, radius: f64, low: f64, high: f64) -> Tile {
    let middle = f64::from(side - 1) / 2.0;
    let value = |row, column| {
        let distance = (f64::from(row) - middle).hypot(f64::from(column) - middle);
        low + (high - low) * (-(distance - radius).powi(2) / 6.0).exp()
    };
    let cells = (0..side).flat_map(|row| (0..side).map(move |column| (row, column)));
    Tile {
        title: format!("radius {radius}"),
        values: cells.map(|(row, column)| value(row, column)).collect(),
        shape: [side as usize; 2],
    }
}

/// The width, height and RGB bytes of a PNG file in the form that is written here: one block, lines without a filter.
fn decode(path: &Path) -> (usize, usize, Vec<u8>) {
    let mut reader = png::Decoder::new(BufReader::new(File::open(path).unwrap())).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let frame = reader.next_frame(&mut pixels).unwrap();
    reader.finish().unwrap();
    assert_eq!((frame.color_type, frame.bit_depth), (png::ColorType::Rgb, png::BitDepth::Eight));
    assert_eq!(pixels.len(), (3 * frame.width * frame.height) as usize);
    (frame.width as usize, frame.height as usize, pixels)
}

#[test]
fn a_reliability_diagram_names_each_predictor_with_its_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("reliability.svg");
    reliability(&path, &predictors(), "Calibration on the test set").unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>") && !text.contains("NaN"));
    assert_eq!(text.matches("Bayesian network, ECE 0.016").count(), 1);
    assert_eq!(text.matches("one network, ECE 0.120").count(), 1);
    // A point for each bin with rows.
    assert_eq!(text.matches("<circle").count(), 13 + 12);
    reliability(&folder.path().join("one.svg"), &predictors()[..1], "One predictor").unwrap();
    keep(folder.path());
}

#[test]
fn a_reliability_diagram_of_no_models_or_of_no_rows_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("reliability.svg");
    for (predictors, word) in [(vec![], "no predictor"), (vec![predictor("idle", 0.0, |_| 0)], "no rows of `idle`")] {
        let error = reliability(&path, &predictors, "Calibration").unwrap_err();
        assert!(matches!(error, PlotError::Empty { .. }) && error.to_string().contains(word), "{error}");
    }
    assert!(!path.exists());
}

#[test]
fn a_sheet_has_its_tiles_where_they_belong_in_the_colours_of_their_values() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sheet.png");
    let tile = |values: &[f64]| Tile { title: "corner".into(), values: values.to_vec(), shape: [1, 2] };
    let tiles = [tile(&[0.0, 1.0]), tile(&[0.5, 0.0]), tile(&[1.0, 0.25])];
    let options = SheetOptions { columns: 2, scale: 3, colours: Colours::Grey };
    contact_sheet(&path, &tiles, &options).unwrap();
    let (width, height, bytes) = decode(&path);
    // Two tiles of 2 x 3 pixels across and two of 3 down, with gaps of two between and around them.
    assert_eq!((width, height), (2 + 2 * 8, 2 + 2 * 5));
    let at = |x: usize, y: usize| [0, 1, 2].map(|channel| bytes[3 * (y * width + x) + channel]);
    for (place, grey) in
        [((2, 2), 0), ((4, 4), 0), ((5, 2), 255), ((10, 3), 128), ((13, 4), 0), ((2, 7), 255), ((7, 9), 64)]
    {
        assert_eq!(at(place.0, place.1), [grey; 3], "{place:?}");
    }
    // Gaps, and the place of the tile that there is not.
    for place in [(0, 0), (1, 5), (8, 3), (2, 5), (10, 7), (17, 11)] {
        assert_eq!(at(place.0, place.1), [190; 3], "{place:?}");
    }
}

#[test]
fn zero_is_white_and_equal_sizes_have_equal_strength_in_a_diverging_sheet() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sheet.png");
    let tile = Tile { title: "weights".into(), values: vec![-0.2, 0.0, 0.4, -0.4], shape: [1, 4] };
    let options = SheetOptions { columns: 5, scale: 1, colours: Colours::Diverging };
    contact_sheet(&path, &[tile], &options).unwrap();
    let (width, _, bytes) = decode(&path);
    let pixels: Vec<&[u8]> = bytes[3 * (2 * width + 2)..][..12].chunks_exact(3).collect();
    // Half of the largest value is between the third colour and the fourth of the blue side.
    assert_eq!(pixels, [[107, 172, 209], [255; 3], [103, 0, 31], [5, 48, 97]]);
}

#[test]
fn sheets_of_equal_and_of_huge_values_are_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sheet.png");
    for values in [vec![0.0; 4], vec![3.0; 4], vec![f64::MAX, f64::MIN, 0.0, 1.0], vec![0.0, 5e-324, 0.0, 0.0]] {
        for colours in [Colours::Grey, Colours::Diverging] {
            let tile = Tile { title: "one".into(), values: values.clone(), shape: [2, 2] };
            contact_sheet(&path, &[tile], &SheetOptions { colours, ..SheetOptions::default() }).unwrap();
        }
    }
    let rings: Vec<Tile> = (0..20).map(|k| ring(28, 0.6 * f64::from(k), 0.0, 1.0)).collect();
    contact_sheet(&folder.path().join("grey.png"), &rings, &SheetOptions::default()).unwrap();
    let waves: Vec<Tile> = (0..13).map(|k| ring(28, f64::from(k), -0.3, 0.5 - 0.1 * f64::from(k % 5))).collect();
    let options = SheetOptions { colours: Colours::Diverging, ..SheetOptions::default() };
    contact_sheet(&folder.path().join("diverging.png"), &waves, &options).unwrap();
    keep(folder.path());
}

#[test]
fn tiles_that_cannot_be_drawn_are_named_and_leave_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sheet.png");
    let tile = |values: &[f64], shape| Tile { title: "a name".into(), values: values.to_vec(), shape };
    let sound = tile(&[0.0, 1.0], [1, 2]);
    for (second, word) in [
        (tile(&[0.0, f64::NAN], [1, 2]), "NaN in pixel 1"),
        (tile(&[0.0], [1, 2]), "1 values"),
        (tile(&[0.0, 1.0], [2, 1]), "shape [2, 1]"),
    ] {
        let error = contact_sheet(&path, &[sound.clone(), second], &SheetOptions::default()).unwrap_err();
        assert!(matches!(error, PlotError::Empty { .. }) && error.to_string().contains("tile 1"), "{error}");
        assert!(error.to_string().contains(word) && error.to_string().contains("a name"), "{error}");
    }
    let options = |columns, scale| SheetOptions { columns, scale, colours: Colours::Grey };
    for (tiles, options) in
        [(vec![], options(1, 1)), (vec![sound.clone()], options(0, 1)), (vec![sound.clone()], options(1, 0))]
    {
        let error = contact_sheet(&path, &tiles, &options).unwrap_err();
        assert!(matches!(error, PlotError::Empty { .. }), "{error}");
    }
    let error = contact_sheet(&path, &[sound], &options(1, usize::MAX)).unwrap_err();
    assert!(matches!(error, PlotError::Draw { .. }), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn lines_carry_the_names_of_their_methods_and_axes_and_are_refused_without_points() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lines.svg");
    let axes = ["a distance", "an influence"];
    let line = |points: &[(f64, f64)]| vec![("some method".to_owned(), points.to_vec())];
    for (refused, words) in
        [(vec![], "no line"), (line(&[(1.0, 2.0)]), "some method"), (line(&[(1.0, 2.0), (2.0, f64::NAN)]), "NaN")]
    {
        let error = lines(&path, &refused, "a title", axes).unwrap_err();
        assert!(matches!(error, PlotError::Empty { .. }) && error.to_string().contains(words), "{error}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    lines(&path, &line(&[(1.0, 2.0), (2.0, 3.0)]), "a title", axes).unwrap();
    let svg = fs::read_to_string(&path).unwrap();
    for words in ["some method", "a title", "a distance", "an influence"] {
        assert!(svg.contains(words), "the picture lacks `{words}`");
    }
}

/// Points around a line, and the line with a band.
fn banded(name: &str, intercept: f64, slope: f64) -> Band {
    let mean = |at: f64| intercept + slope * at;
    let points = (0..40).map(|k| (0.15 * f64::from(k), mean(0.15 * f64::from(k)) + (7.3 * f64::from(k)).sin()));
    let line = (0..=10).map(|k| 0.6 * f64::from(k));
    let line = line.map(|at| BandPoint {
        at,
        low: mean(at) - 0.2 - 0.05 * at,
        mean: mean(at),
        high: mean(at) + 0.2 + 0.05 * at,
    });
    Band { name: name.into(), points: points.collect(), line: line.collect() }
}

#[test]
fn bands_show_every_point_and_a_band_for_each_group_of_each_panel() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bands.svg");
    let panel = |title: &str| BandPanel {
        title: title.into(),
        groups: vec![banded("not Africa", 9.2, -0.2), banded("Africa", 7.3, 0.19)],
    };
    bands(&path, &["sequential", "synchronous", "asynchronous"].map(panel), ["ruggedness", "log wealth"]).unwrap();
    let svg = fs::read_to_string(&path).unwrap();
    assert_eq!(svg.matches("<circle").count(), 3 * 2 * 40);
    assert_eq!(svg.matches("<polygon").count(), 3 * 2);
    for words in ["sequential", "synchronous", "asynchronous", "not Africa", "ruggedness", "log wealth"] {
        assert!(svg.contains(words), "{words}");
    }
    keep(folder.path());
}

#[test]
fn bands_without_a_group_or_with_a_point_that_is_no_number_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bands.svg");
    let mut broken = banded("broken", 1.0, f64::NAN);
    broken.points.clear();
    let panel = |groups| vec![BandPanel { title: "panel".into(), groups }];
    for panels in [vec![], panel(vec![]), panel(vec![broken])] {
        let error = bands(&path, &panels, ["x", "y"]).unwrap_err();
        assert!(matches!(error, PlotError::Empty { .. }), "{error}");
    }
    assert!(!path.exists());
}
