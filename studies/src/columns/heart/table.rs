//! Compares the results with the paper's Table 3, and judges the claims.

use std::fmt;

use serde_json::{Value, json};

use super::study::{Method, Outcome};
use crate::harness::{Claim, Table, mean, sample_sd};

/// A mean with its standard deviation over folds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OverFolds {
    mean: f64,
    sd: f64,
}

/// The results of one method, and the paper's numbers.
#[derive(Debug)]
pub(crate) struct Row {
    method: Method,
    /// Accuracy in per cent, log likelihood of all rows, log likelihood of wrongly predicted rows.
    columns: [OverFolds; 3],
    /// The standard deviations of the last two over rows.
    over_rows: [f64; 2],
    wrong: usize,
    rows: usize,
    weights: Vec<f64>,
    exchanges: u64,
    bytes: u64,
    seconds: f64,
}

/// The paper's Table 3.
fn paper(method: Method) -> Option<[[f64; 2]; 3]> {
    match method {
        Method::Split => Some([[80.73, 3.65], [-2.21, 4.41], [-10.95, 1.99]]),
        Method::SplitWithPrior => None,
        Method::Hierarchical(rho) if rho < 2.0 => Some([[86.39, 4.20], [-0.36, 0.84], [-1.99, 1.42]]),
        Method::Hierarchical(rho) if rho < 7.0 => Some([[84.98, 4.92], [-0.59, 1.71], [-3.53, 3.01]]),
        Method::Hierarchical(_) => Some([[84.10, 5.23], [-0.67, 1.99], [-3.89, 3.53]]),
    }
}

impl Row {
    /// Means over all test rows, with standard deviations of the means of folds.
    pub(crate) fn new(method: Method, outcomes: &[Outcome]) -> Self {
        let rows = |own: &Outcome| (0..own.labels.len()).map(|row| own.log_likelihood[row]).collect::<Vec<f64>>();
        let wrong = |own: &Outcome| {
            let places = (0..own.labels.len()).filter(|row| !own.is_right(*row));
            places.map(|row| own.log_likelihood[row]).collect::<Vec<f64>>()
        };
        let right = |own: &Outcome| {
            (0..own.labels.len()).map(|row| if own.is_right(row) { 100.0 } else { 0.0 }).collect::<Vec<f64>>()
        };
        let all = |of: &dyn Fn(&Outcome) -> Vec<f64>| outcomes.iter().flat_map(of).collect::<Vec<f64>>();
        let spread = |of: &dyn Fn(&Outcome) -> Vec<f64>| {
            // A fold without a wrong prediction has no mean over wrong ones.
            let means: Vec<f64> = outcomes.iter().map(of).filter(|own| !own.is_empty()).map(|own| mean(&own)).collect();
            OverFolds { mean: mean(&all(of)), sd: sample_sd(&means) }
        };
        Self {
            method,
            columns: [spread(&right), spread(&rows), spread(&wrong)],
            over_rows: [sample_sd(&all(&rows)), sample_sd(&all(&wrong))],
            wrong: all(&wrong).len(),
            rows: all(&rows).len(),
            weights: outcomes.iter().filter_map(|own| own.weights).collect(),
            exchanges: outcomes.iter().map(|own| own.exchanges).sum(),
            bytes: outcomes.iter().map(|own| own.bytes).sum(),
            seconds: outcomes.iter().map(|own| own.seconds).sum(),
        }
    }

    pub(crate) fn json(&self) -> Value {
        let spread = |own: OverFolds| json!({ "mean": own.mean, "sd_over_folds": own.sd });
        let [accuracy, all, wrong] = self.columns.map(spread);
        json!({
            "method": self.method.label(),
            "accuracy": accuracy,
            "log_likelihood": all,
            "log_likelihood_of_wrong": wrong,
            "sd_over_rows": self.over_rows,
            "wrong": self.wrong,
            "rows": self.rows,
            "weights": self.weights,
            "exchanges": self.exchanges,
            "bytes": self.bytes,
            "seconds": self.seconds,
            "paper": paper(self.method),
        })
    }
}

impl fmt::Display for OverFolds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&format!("{:.2} ± {:.2}", self.mean, self.sd))
    }
}

/// Prints the table: means over rows and standard deviations over folds; the paper's numbers as printed there.
pub(crate) fn print(rows: &[Row]) {
    let mut table = Table::new(["", "accuracy %", "log prob, all", "log prob, wrong"]);
    for row in rows {
        let cells = |spreads: [OverFolds; 3]| spreads.map(|spread| spread.to_string());
        table.row([row.method.label().to_owned()].into_iter().chain(cells(row.columns)));
        if let Some(numbers) = paper(row.method) {
            let numbers = numbers.map(|[mean, sd]| OverFolds { mean, sd });
            table.row(["  paper ".to_owned()].into_iter().chain(cells(numbers)));
        }
    }
    println!("\n{table}");
    println!(
        "Ours: means over all test rows ± standard deviations of the means of folds. Standard deviations over rows, which"
    );
    println!("the paper's of log likelihoods seem to be, all and wrong:");
    for row in rows {
        let ([all, wrong], label) = (row.over_rows, row.method.label());
        println!("  {label:<24} {all:.2} {wrong:.2} ({} wrong of {})", row.wrong, row.rows);
    }
}

/// The claims for the hierarchical network with rho = 1: its thresholds, and a lead over both split networks.
pub(crate) fn judge(rows: &[Row]) -> Vec<Claim> {
    let of = |wanted: Method| rows.iter().find(|row| row.method == wanted).map(|row| row.columns.map(|own| own.mean));
    let (Some(own), Some(split), Some(prior)) =
        (of(Method::Hierarchical(1.0)), of(Method::Split), of(Method::SplitWithPrior))
    else {
        return Vec::new();
    };
    let reach = |claim: &str, found: f64, least: f64| {
        Claim::new(claim, found >= least).by(format!("{found:.3}, to reach {least:.3}"))
    };
    let mut verdicts = vec![
        reach("hierarchical, rho = 1: accuracy of at least 86.4 %", own[0], 86.4),
        reach("hierarchical, rho = 1: mean log likelihood of at least -0.36", own[1], -0.36),
    ];
    let columns = ["accuracy", "log likelihood of all rows", "log likelihood of wrong ones"];
    for (other, name) in [(split, "the split network"), (prior, "the split network with the same prior")] {
        for (column, what) in columns.iter().enumerate() {
            let claim = Claim::new(format!("ahead of {name}: {what}"), own[column] > other[column]);
            verdicts.push(claim.by(format!("{:.3} and {:.3}", own[column], other[column])));
        }
    }
    verdicts
}
