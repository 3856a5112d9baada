//! Compares the posteriors of one row of a table with pooled and exact ones, and prints and saves what was found.

use partita::inference::metrics::{covariance_distance, generalised_variance_difference, mean_distance};
use serde_json::{Value, json};

use super::method::{Moments, Run};

/// Fifty points, their exact posterior and that of pooled inference.
#[derive(Debug)]
pub(crate) struct DataSet {
    pub(crate) points: Vec<[f64; 2]>,
    pub(crate) exact: Moments,
    pub(crate) pooled: Moments,
}

/// One way of partitioned inference, run on every data set.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) published: [f64; 3],
    pub(crate) runs: Vec<Run>,
}

impl Moments {
    /// Distances of means, of covariances and of log determinants; `NaN` for what cannot be compared.
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
    /// How far the pooled mean is from the exact one, in standard deviations, and its covariance, relatively.
    pub(crate) fn pooled_from_exact(&self) -> [f64; 2] {
        let [mean, covariance, _] = self.pooled.from(&self.exact);
        [mean / self.exact.smallest_sd(), covariance / self.exact.norm()]
    }
}

impl Row {
    fn settled<'a>(&'a self, sets: &'a [DataSet]) -> impl Iterator<Item = (&'a Moments, &'a DataSet)> {
        self.runs.iter().zip(sets).filter_map(|(run, set)| Some((run.found.as_ref().ok()?, set)))
    }

    /// Mean and standard deviation, over the runs that settled, of the distances from pooled inference; none without any.
    pub(crate) fn measured(&self, sets: &[DataSet]) -> Option<[(f64, f64); 3]> {
        over(&self.settled(sets).map(|(found, set)| found.from(&set.pooled)).collect::<Vec<_>>())
    }

    /// The largest difference from pooled inference, of means in standard deviations and of covariances relatively.
    pub(crate) fn largest_in_deviations(&self, sets: &[DataSet]) -> f64 {
        let one = |(found, set): (&Moments, &DataSet)| {
            let [mean, covariance, _] = found.from(&set.pooled);
            (mean / set.pooled.smallest_sd()).max(covariance / set.pooled.norm())
        };
        self.settled(sets).map(one).fold(0.0, f64::max)
    }

    /// Exchanges, messages and gradient steps of a run on average, in words.
    fn mean_counters(&self) -> String {
        let mean = |place: usize| {
            let sum: u64 = self.runs.iter().map(|run| run.counters[place]).sum();
            format!("{:.0}", sum as f64 / self.runs.len() as f64)
        };
        format!("{:>7} {:>9} {:>14}", mean(0), mean(1), mean(2))
    }

    fn improper_cavities(&self) -> u64 {
        self.runs.iter().map(|run| run.improper_cavities).sum()
    }

    pub(crate) fn print(&self, sets: &[DataSet]) {
        let failed = self.runs.iter().filter(|run| run.found.is_err()).count();
        let from_exact = over(&self.settled(sets).map(|(found, set)| found.from(&set.exact)).collect::<Vec<_>>());
        let [a, b, c] = self.published;
        print!("{:<19} {a:>7.4} {b:>7.4} {c:>7.4} |", self.name);
        print_three(self.measured(sets));
        print!(" |");
        print_three(from_exact);
        println!(" | {:>6} {:>6} | {}", self.improper_cavities(), failed, self.mean_counters());
    }

    pub(crate) fn json(&self, sets: &[DataSet]) -> Value {
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
    let count = found.len() as f64;
    let one = |place: usize| {
        let mean = found.iter().map(|three| three[place]).sum::<f64>() / count;
        let squares: f64 = found.iter().map(|three| (three[place] - mean).powi(2)).sum();
        (mean, if found.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 })
    };
    (!found.is_empty()).then(|| [0, 1, 2].map(one))
}

fn print_three(three: Option<[(f64, f64); 3]>) {
    match three {
        None => print!(" {:>15} {:>15} {:>15}", "-", "-", "-"),
        Some(three) => three.iter().for_each(|(mean, sd)| {
            let shown = if *mean < 1e-4 { format!("{mean:.0e} ± {sd:.0e}") } else { format!("{mean:.4} ± {sd:.4}") };
            print!(" {shown:>15}");
        }),
    }
}

pub(crate) fn print_head(what: &str) {
    let three = "mean, covariance, log det";
    println!(
        "{what:<19} {:<23} | {:<47} | {:<47} | cavities that are none, runs failed | rounds, messages, gradient steps",
        "thesis",
        format!("from pooled: {three}"),
        format!("from exact: {three}")
    );
}

/// How far pooled inference itself is from the exact posterior.
pub(crate) fn print_pooled(name: &str, sets: &[DataSet]) {
    print!("{name:<19} {:>23} | {:>47} |", "", "");
    print_three(over(&sets.iter().map(|set| set.pooled.from(&set.exact)).collect::<Vec<_>>()));
    println!(" |");
}

/// The largest Frobenius norm of an exact covariance.
pub(crate) fn largest_norm(sets: &[DataSet]) -> f64 {
    sets.iter().map(|set| set.exact.norm()).fold(0.0, f64::max)
}

pub(crate) fn sets(sets: &[DataSet]) -> Value {
    sets.iter().map(|set| json!({"exact": set.exact.json(), "pooled": set.pooled.json()})).collect()
}
