//! Prints and draws what was measured: errors, likelihoods of test and training digits, pruned weights and costs.

use std::path::Path;

use partita::inference::plot;

use super::Failure;
use super::plan::Part;
use super::study::{Curve, Point};

/// The errors and costs of the runs of a part.
pub(crate) fn print(part: Part, curves: &[Curve]) {
    println!("\n{}", part.title());
    println!(
        "{:<44} {:>7} {:>14} {:>9} {:>8} {:>7} {:>9} {:>9} {:>9} {:>8}",
        "", "error", "log likelihood", "training", "pruned", "rounds", "messages", "steps", "parallel", "seconds"
    );
    for curve in curves {
        match curve.last() {
            Some(point) => println!(
                "{:<44} {:>5.2} % {:>14.4} {:>9} {:>8} {:>7} {:>9} {:>9} {:>9} {:>8.0}",
                curve.label,
                100.0 * point.error,
                point.log_likelihood,
                point.train_log_likelihood.map_or("-".to_owned(), |found| format!("{found:.4}")),
                point.pruned,
                point.rounds,
                point.messages,
                point.steps,
                point.parallel_steps,
                curve.seconds
            ),
            None => println!("{:<44} ended before it was measured", curve.label),
        }
        if let Some(refused) = &curve.refused {
            println!("    then refused: {refused}");
        }
    }
    println!();
}

/// Draws the accuracy of the runs of a part against the gradient steps of all silos.
pub(crate) fn draw(folder: &Path, part: Part, curves: &[Curve]) -> Result<(), Failure> {
    let points = |of: fn(&Point) -> f64| -> Vec<(String, Vec<(f64, f64)>)> {
        let line = |curve: &Curve| {
            let points = curve.points.iter().map(|point| (real(point.steps), of(point)));
            (curve.label.clone(), points.collect::<Vec<_>>())
        };
        curves.iter().map(line).filter(|(_, points)| points.len() > 1).collect()
    };
    let file = |what: &str| folder.join(format!("{}_{what}.svg", format!("{part:?}").to_lowercase()));
    let accuracy = points(|point| 100.0 * (1.0 - point.error));
    if accuracy.is_empty() {
        return Ok(());
    }
    let along = "gradient steps of all silos";
    plot::lines(&file("accuracy"), &accuracy, part.title(), [along, "test accuracy, per cent"])?;
    let pruned = points(|point| real(point.pruned as u64));
    plot::lines(&file("pruned"), &pruned, part.title(), [along, "pruned weights"])?;
    Ok(())
}

/// Counts as numbers to compute with.
#[expect(clippy::cast_precision_loss, reason = "counts of steps are far below 2^52")]
pub(crate) fn real(count: u64) -> f64 {
    count as f64
}
