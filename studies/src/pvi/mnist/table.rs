//! Prints and draws the measurements: errors, test and training likelihoods, pruned weights and costs.

use super::plan::Part;
use super::study::{Curve, Point};
use crate::harness::{Result, Session, Table, real};
use crate::pictures;

/// The errors and costs of the runs of a part.
pub(crate) fn print(part: Part, curves: &[Curve]) {
    println!("\n{}", part.title());
    let head =
        ["", "error %", "log likelihood", "training", "pruned", "rounds", "messages", "steps", "parallel", "seconds"];
    let mut table = Table::new(head);
    for curve in curves {
        let Some(point) = curve.last() else {
            table.row([curve.label.clone(), "not measured".to_owned()]);
            continue;
        };
        let training = point.train_log_likelihood.map_or("-".to_owned(), |found| format!("{found:.4}"));
        let scores = [format!("{:.2}", 100.0 * point.error), format!("{:.4}", point.log_likelihood), training];
        let counts = [point.pruned as u64, point.rounds, point.messages, point.steps, point.parallel_steps];
        let counts = counts.map(|count| count.to_string());
        let seconds = [format!("{:.0}", curve.seconds)];
        table.row([curve.label.clone()].into_iter().chain(scores).chain(counts).chain(seconds));
    }
    print!("{table}");
    for curve in curves {
        if let Some(refused) = &curve.refused {
            println!("{} was then refused: {refused}", curve.label);
        }
    }
}

/// Draws the accuracy of the runs of a part against the gradient steps of all silos.
pub(crate) fn draw(session: &Session, part: Part, curves: &[Curve]) -> Result<()> {
    let points = |of: fn(&Point) -> f64| -> Vec<(String, Vec<(f64, f64)>)> {
        let line = |curve: &Curve| {
            let points = curve.points.iter().map(|point| (real(point.steps), of(point)));
            (curve.label.clone(), points.collect::<Vec<_>>())
        };
        curves.iter().map(line).filter(|(_, points)| points.len() > 1).collect()
    };
    let file = |what: &str| session.file(&format!("{}_{what}.svg", format!("{part:?}").to_lowercase()));
    let accuracy = points(|point| 100.0 * (1.0 - point.error));
    if accuracy.is_empty() {
        return Ok(());
    }
    let along = "gradient steps of all silos";
    pictures::lines(&file("accuracy"), &accuracy, part.title(), [along, "test accuracy, per cent"])?;
    let pruned = points(|point| real(point.pruned as u64));
    pictures::lines(&file("pruned"), &pruned, part.title(), [along, "pruned weights"])?;
    Ok(())
}
