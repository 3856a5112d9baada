//! Draws what several runs have measured now and then, or its means, with a level that is to be reached.

use std::path::Path;

use partita::inference::plot::PlotError;
use partita::inference::plot::canvas::{Area, Drawn, FINE, INK, LEGEND, Layout, axes, colour, legend, picture, pixels};
use plotters::prelude::*;

use super::lines::is_drawable;

const SIZE: (u32, u32) = (760, 460);

/// Steps, and what was measured there.
type Points = Vec<(f64, f64)>;

/// What part of the longest run may lie below the frame: the first steps rise so far that nothing else would be seen.
const START: f64 = 0.02;

/// Draws what each run measured, and a thin line at `level`; `words` are the title and the names of what lies along and
/// what stands up.
///
/// # Errors
/// [`PlotError::Empty`] without a run, or for one without two finite values at different steps; [`PlotError::Write`] if
/// the file cannot be put in place.
///
/// # Example
/// ```
/// use partita_studies::pictures;
/// let folder = tempfile::tempdir()?;
/// let runs = [("slow".to_owned(), vec![(0.0, -9.0), (10.0, -2.0)]), ("fast".to_owned(), vec![(0.0, -3.0), (10.0, -2.0)])];
/// pictures::curves(&folder.path().join("runs.svg"), &runs, ["two runs", "step", "ELBO, nats"], Some(-2.1))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn curves(
    path: &Path,
    runs: &[(String, Vec<(f64, f64)>)],
    words: [&str; 3],
    level: Option<f64>,
) -> Result<(), PlotError> {
    let lines = runs.iter().enumerate();
    let lines = lines.map(|(kind, (_, points))| Line { kind, points: points.clone(), thin: false });
    let names: Vec<&str> = runs.iter().map(|(name, _)| name.as_str()).collect();
    draw(path, &names, &lines.collect::<Vec<_>>(), words, level)
}

/// Draws the mean of what repeated runs measured, one curve a kind, with each repetition thin beside it, and a thin line
/// at `level`; `words` as for [`curves`].
///
/// Repetitions of a kind are measured at the same steps, as far as they go; the mean ends with the shortest.
///
/// # Errors
/// [`PlotError::Empty`] without a kind, for one without a repetition, or for a repetition without two finite values at
/// different steps; [`PlotError::Write`] if the file cannot be put in place.
///
/// # Example
/// ```
/// use partita_studies::pictures;
/// let folder = tempfile::tempdir()?;
/// let seeds = vec![vec![(0.0, -9.0), (10.0, -2.0)], vec![(0.0, -7.0), (10.0, -3.0)]];
/// pictures::repeated(&folder.path().join("seeds.svg"), &[("fit".to_owned(), seeds)], ["two seeds", "step", "ELBO, nats"], Some(-2.1))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn repeated(
    path: &Path,
    kinds: &[(String, Vec<Points>)],
    words: [&str; 3],
    level: Option<f64>,
) -> Result<(), PlotError> {
    let mut lines = Vec::new();
    for (kind, (_, repetitions)) in kinds.iter().enumerate() {
        lines.extend(repetitions.iter().map(|points| Line { kind, points: points.clone(), thin: true }));
        lines.push(Line { kind, points: mean(repetitions), thin: false });
    }
    let names: Vec<&str> = kinds.iter().map(|(name, _)| name.as_str()).collect();
    draw(path, &names, &lines, words, level)
}

/// Steps and values averaged place by place, as far as all repetitions go.
fn mean(repetitions: &[Points]) -> Points {
    #[expect(clippy::cast_precision_loss, reason = "repetitions are few")]
    let share = 1.0 / repetitions.len() as f64;
    let places = repetitions.iter().map(Vec::len).min().unwrap_or(0);
    let add = |sum: (f64, f64), (step, value): &(f64, f64)| (sum.0 + share * step, sum.1 + share * value);
    let at = |place| repetitions.iter().filter_map(|points| points.get(place)).fold((0.0, 0.0), add);
    (0..places).map(at).collect()
}

/// What is drawn in the colour of a kind: a run, or the mean of several.
struct Line {
    kind: usize,
    points: Points,
    thin: bool,
}

fn draw(path: &Path, names: &[&str], lines: &[Line], words: [&str; 3], level: Option<f64>) -> Result<(), PlotError> {
    let idle = lines.iter().find(|line| !is_drawable(&line.points));
    if lines.is_empty() || idle.is_some() {
        let found =
            idle.map_or_else(|| "no run".to_owned(), |line| format!("{:?} of `{}`", line.points, names[line.kind]));
        let expected = "two finite values at different steps for each run";
        return Err(PlotError::Empty { path: path.into(), found, expected });
    }
    let all = || lines.iter().flat_map(|line| &line.points);
    let first = all().map(|point| point.0).fold(f64::INFINITY, f64::min);
    let last = all().map(|point| point.0).fold(f64::NEG_INFINITY, f64::max);
    let high = all().map(|point| point.1).chain(level).fold(f64::NEG_INFINITY, f64::max);
    let shown = all().filter(|point| point.0 >= first + START * (last - first));
    let low = shown.map(|point| point.1).chain(level).fold(f64::INFINITY, f64::min);
    let margin = (0.05 * (high - low)).max(1e-6 * high.abs()).max(f64::MIN_POSITIVE);
    let frame = low - margin..high + margin;
    picture(path, SIZE, |root| {
        let (top, rest) = root.split_vertically(pixels(LEGEND));
        legend(&top, 1, names)?;
        draw_lines(&rest, lines, words, first..last, frame, level)
    })
}

fn draw_lines(
    area: &Area,
    lines: &[Line],
    words: [&str; 3],
    steps: std::ops::Range<f64>,
    frame: std::ops::Range<f64>,
    level: Option<f64>,
) -> Drawn {
    let (low, ends) = (frame.start, [steps.start, steps.end]);
    let mut chart = axes(area, Layout::Whole, words, steps, frame)?;
    if let Some(level) = level {
        chart.draw_series(LineSeries::new(ends.map(|step| (step, level)), INK.mix(0.6).stroke_width(FINE)))?;
    }
    for line in lines {
        let inside = line.points.iter().copied().filter(|point| point.1 >= low);
        let colour = colour(line.kind + 1);
        let style = if line.thin { colour.mix(0.5).stroke_width(FINE / 2) } else { colour.stroke_width(2 * FINE) };
        chart.draw_series(LineSeries::new(inside, style))?;
    }
    Ok(())
}
