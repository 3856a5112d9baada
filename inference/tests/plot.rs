//! Claims that pictures are drawn whole or not at all, and that what cannot be drawn is refused with its reason.
#![allow(clippy::unwrap_used, reason = "a failure to set the scene fails the test")]

use std::fs;
use std::path::Path;

use partita_inference::plot::{Density, Panel, PlotError, marginals, trace};

/// A trace that rises like a fit does, with a deterministic ripple for noise.
fn fit() -> Vec<(f64, f64)> {
    (1..=5_000)
        .map(f64::from)
        .map(|step| {
            (step, -820.0 - 900.0 * (-step / 400.0).exp() + 3.0 * (12.9898 * step).sin() * (78.233 * step).cos())
        })
        .collect()
}

fn normal(name: &str, mean: f64, sd: f64) -> (String, Density) {
    (name.to_owned(), Density::Normal { mean, sd })
}

fn panels() -> Vec<Panel> {
    let rows = [
        ("Intercept", "log odds", [-3.162, -3.10, -3.267, -3.151], [0.226, 0.20, 0.319, 0.344]),
        ("Mother smokes", "log odds", [0.458, 0.451, 0.414, 0.515], [0.287, 0.25, 0.414, 0.419]),
        ("Age", "log odds a year", [-0.218, -0.217, -0.086, -0.396], [0.087, 0.080, 0.116, 0.136]),
        ("Age, mother smokes", "log odds a year", [0.105, 0.104, -0.079, 0.334], [0.138, 0.13, 0.192, 0.207]),
        ("Omega", "minus log sd of the intercepts", [-0.788, -0.76, -0.856, -0.748], [0.086, 0.076, 0.114, 0.132]),
    ];
    let names = ["NUTS, pooled", "SFVI", "silo A alone", "silo B alone"];
    rows.map(|(title, unit, means, sds)| Panel {
        title: title.into(),
        unit: unit.into(),
        curves: (0..4).map(|k| normal(names[k], means[k], sds[k])).collect(),
    })
    .into()
}

/// Copies all pictures to the folder named by `PARTITA_KEEP_PICTURES`, for those who want to see them.
fn keep(folder: &Path) {
    let Some(kept) = std::env::var_os("PARTITA_KEEP_PICTURES") else { return };
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), Path::new(&kept).join(entry.file_name())).unwrap();
    }
}

#[test]
fn a_trace_and_a_grid_of_marginals_are_whole_svg_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name| folder.path().join(name);
    trace(&path("trace.svg"), &fit(), "A fit").unwrap();
    marginals(&path("marginals.svg"), &panels()).unwrap();
    for name in ["trace.svg", "marginals.svg"] {
        let text = fs::read_to_string(path(name)).unwrap();
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"), "{name}");
        assert!(!text.contains("NaN") && !text.contains("inf"), "{name}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    keep(folder.path());
}

#[test]
fn values_that_are_not_drawn_where_they_lie_are_counted_in_the_caption() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.svg");
    let mut points = fit();
    points[7].1 = f64::NAN;
    trace(&path, &points, "A fit").unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("1 of 5000 values not finite") && text.contains("values below the frame"));
}

#[test]
fn every_curve_is_named_in_the_legend_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("marginals.svg");
    marginals(&path, &panels()).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    for name in ["NUTS, pooled", "SFVI", "silo A alone", "silo B alone"] {
        assert_eq!(text.matches(name).count(), 1, "{name}");
    }
}

#[test]
fn what_cannot_be_drawn_is_refused_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("picture.svg");
    let mut point_mass = panels();
    point_mass[1].curves[0].1 = Density::Normal { mean: 0.0, sd: 0.0 };
    let refused = [
        trace(&path, &[], "A fit"),
        trace(&path, &[(1.0, -3.0)], "A fit"),
        trace(&path, &[(1.0, f64::NAN), (2.0, f64::NAN)], "A fit"),
        marginals(&path, &[]),
        marginals(&path, &point_mass),
    ];
    for result in refused {
        assert!(matches!(result, Err(PlotError::Empty { .. })), "{result:?}");
    }
    assert!(!path.exists());
}

#[test]
fn a_missing_folder_is_made_and_one_that_cannot_be_made_is_an_error_that_names_the_picture() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("not there/yet/picture.svg");
    marginals(&path, &panels()).unwrap();
    assert!(path.exists());
    let path = path.join("picture.svg");
    let error = marginals(&path, &panels()).unwrap_err();
    assert!(matches!(&error, PlotError::Write { path: named, .. } if *named == path), "{error}");
}
