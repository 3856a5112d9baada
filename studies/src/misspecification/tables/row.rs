//! Compares the posteriors of one row of a table with pooled and exact ones, and prints and saves the results.

use serde_json::{Value, json};

use super::method::{Moments, Run};
use crate::harness::{Table, largest, mean, sample_sd};
use crate::measures::{covariance_distance, generalised_variance_difference, mean_distance};

/// Fifty points, their exact posterior and that of pooled inference.
#[derive(Debug)]
pub(crate) struct DataSet {
    pub(crate) points: Vec<[f64; 2]>,
    pub(crate) exact: Moments,
    pub(crate) pooled: Moments,
}

/// One variant of partitioned inference, run on every data set.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) published: [f64; 3],
    pub(crate) runs: Vec<Run>,
}

impl Moments {
    /// Distances of means, of covariances and of log determinants; NaN for undefined ones.
    fn from(&self, other: &Self) -> [f64; 3] {
        [
            mean_distance(&self.mean, &other.mean).unwrap_or(f64::NAN),
            covariance_distance(&self.covariance, &other.covariance).unwrap_or(f64::NAN),
            generalised_variance_difference(&self.covariance, &other.covariance).unwrap_or(f64::NAN),
        ]
    }

    fn norm(&self) -> f64 {
        covariance_distance(&self.covariance, &[0.0; 4]).unwrap_or(f64::NAN)
    }

    fn smallest_sd(&self) -> f64 {
        self.covariance[0].min(self.covariance[3]).sqrt()
    }

    fn json(&self) -> Value {
        json!({"mean": self.mean, "covariance": self.covariance})
    }
}

impl DataSet {
    /// The distance of the pooled mean from the exact one, in standard deviations, and the relative one of its
    /// covariance.
    pub(crate) fn pooled_from_exact(&self) -> [f64; 2] {
        let [mean, covariance, _] = self.pooled.from(&self.exact);
        [mean / self.exact.smallest_sd(), covariance / self.exact.norm()]
    }
}

impl Row {
    /// A row with the thesis' numbers, before its runs.
    pub(crate) fn new(name: &str, published: [f64; 3]) -> Self {
        Self { name: name.to_owned(), published, runs: Vec::new() }
    }

    fn settled<'a>(&'a self, sets: &'a [DataSet]) -> impl Iterator<Item = (&'a Moments, &'a DataSet)> {
        self.runs.iter().zip(sets).filter_map(|(run, set)| Some((run.found.as_ref().ok()?, set)))
    }

    /// Mean and standard deviation, over the runs that converged, of the distances from pooled inference; `None`
    /// without any.
    pub(crate) fn measured(&self, sets: &[DataSet]) -> Option<[(f64, f64); 3]> {
        over(&self.settled(sets).map(|(found, set)| found.from(&set.pooled)).collect::<Vec<_>>())
    }

    /// The largest difference from pooled inference, of means in standard deviations and of covariances relatively.
    pub(crate) fn largest_in_deviations(&self, sets: &[DataSet]) -> f64 {
        let one = |(found, set): (&Moments, &DataSet)| {
            let [mean, covariance, _] = found.from(&set.pooled);
            largest([mean / set.pooled.smallest_sd(), covariance / set.pooled.norm()])
        };
        largest(self.settled(sets).map(one))
    }

    /// Exchanges, messages and gradient steps of a run on average.
    fn mean_counters(&self) -> [String; 3] {
        let mean = |place: usize| {
            let sum: u64 = self.runs.iter().map(|run| run.counters[place]).sum();
            format!("{:.0}", sum as f64 / self.runs.len() as f64)
        };
        [0, 1, 2].map(mean)
    }

    fn improper_cavities(&self) -> u64 {
        self.runs.iter().map(|run| run.improper_cavities).sum()
    }

    fn cells(&self, sets: &[DataSet]) -> impl Iterator<Item = String> {
        let failed = self.runs.iter().filter(|run| run.found.is_err()).count();
        let from_exact = over(&self.settled(sets).map(|(found, set)| found.from(&set.exact)).collect::<Vec<_>>());
        let published = self.published.map(|number| format!("{number:.4}"));
        let found = three(self.measured(sets)).into_iter().chain(three(from_exact));
        let counts = [self.improper_cavities().to_string(), failed.to_string()];
        [self.name.clone()].into_iter().chain(published).chain(found).chain(counts).chain(self.mean_counters())
    }

    fn json(&self, sets: &[DataSet]) -> Value {
        let run = |(run, set): (&Run, &DataSet)| {
            let [rounds, messages, steps] = run.counters;
            let mut own = match &run.found {
                Ok(found) => json!({
                    "posterior": found.json(),
                    "from_pooled": found.from(&set.pooled),
                    "from_exact": found.from(&set.exact),
                }),
                Err(problem) => json!({ "problem": problem }),
            };
            own["improper_cavities"] = run.improper_cavities.into();
            own["visits"] = run.visits.into();
            own["rounds"] = rounds.into();
            own["messages"] = messages.into();
            own["gradient_steps"] = steps.into();
            own
        };
        let runs: Value = self.runs.iter().zip(sets).map(run).collect();
        json!({"name": self.name, "published": self.published, "runs": runs})
    }
}

/// Mean and standard deviation of each of three numbers.
fn over(found: &[[f64; 3]]) -> Option<[(f64, f64); 3]> {
    let one = |place: usize| {
        let values: Vec<f64> = found.iter().map(|three| three[place]).collect();
        (mean(&values), if values.len() > 1 { sample_sd(&values) } else { 0.0 })
    };
    (!found.is_empty()).then(|| [0, 1, 2].map(one))
}

fn three(found: Option<[(f64, f64); 3]>) -> [String; 3] {
    let cell = |(mean, sd): (f64, f64)| match mean < 1e-4 {
        true => format!("{mean:.0e} ± {sd:.0e}"),
        false => format!("{mean:.4} ± {sd:.4}"),
    };
    found.map_or(["-"; 3].map(str::to_owned), |three| three.map(cell))
}

/// The rows of a table of differences of mean, covariance and log determinant: the thesis', ours from pooled inference,
/// and ours from the exact posterior; last, those of pooled inference from the exact posterior.
pub(crate) fn table(what: &str, pooled: &str, rows: &[Row], sets: &[DataSet]) -> Table {
    println!(
        "Differences of mean, covariance and log determinant: the thesis', ours from {pooled}, ours from the exact."
    );
    println!("Then cavities that are none and runs failed; and rounds, messages, gradient steps of a run.\n");
    let mut table = Table::new([
        what,
        "thesis",
        "",
        "",
        "from pooled",
        "",
        "",
        "from exact",
        "",
        "",
        "cavities",
        "failed",
        "rounds",
        "messages",
        "steps",
    ]);
    rows.iter().for_each(|row| table.row(row.cells(sets)));
    let from_exact = over(&sets.iter().map(|set| set.pooled.from(&set.exact)).collect::<Vec<_>>());
    table.row([pooled.to_owned()].into_iter().chain(std::iter::repeat_n(String::new(), 6)).chain(three(from_exact)));
    table
}

/// The largest Frobenius norm of an exact covariance.
pub(crate) fn largest_norm(sets: &[DataSet]) -> f64 {
    largest(sets.iter().map(|set| set.exact.norm()))
}

/// A table with everything found.
pub(crate) fn json(table: &str, rows: &[Row], sets: &[DataSet]) -> Value {
    let rows: Value = rows.iter().map(|row| row.json(sets)).collect();
    let sets: Value = sets.iter().map(|set| json!({"exact": set.exact.json(), "pooled": set.pooled.json()})).collect();
    json!({"table": table, "rows": rows, "sets": sets})
}
