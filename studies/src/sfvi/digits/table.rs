//! Prints rows, and the table of their means and ranges over seeds beside the paper's numbers.

use serde_json::{Value, json};

use crate::harness::mean;

/// Prints one fit as it is finished.
pub(crate) fn print_row(row: &Value) {
    let number = |key: &str| row[key].as_f64().map_or("-".to_owned(), |value| format!("{value:.1}"));
    println!(
        "  {:<26} seed {:>2}  train {:>5}  test {:>5}  ELBO {:>10} at half, {:>10} at the end  sigma_W {:>7}  {:>6} s",
        row["method"].as_str().unwrap_or_default(),
        row["seed"],
        number("train"),
        number("test"),
        number("elbo_at_half"),
        number("elbo"),
        row["sigma_weights"].as_f64().map_or("-".to_owned(), |value| format!("{value:.4}")),
        number("seconds"),
    );
}

/// Means and ranges over the seeds of each case and method, in the order in which they first appear.
pub(crate) fn summarise(rows: &[Value]) -> Vec<Value> {
    let mut groups: Vec<(String, Vec<&Value>)> = Vec::new();
    for row in rows {
        let key = format!("{} {}", row["case"], row["slug"]);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, members)) => members.push(row),
            None => groups.push((key, vec![row])),
        }
    }
    let summary = |(_, members): &(String, Vec<&Value>)| {
        let mut summary = json!({ "seeds": members.len() });
        for key in ["case", "silos", "rows_per_silo", "method", "slug", "rounds", "steps", "paper"] {
            summary[key] = members[0][key].clone();
        }
        for key in ["train", "test", "elbo_at_half", "elbo", "seconds", "sigma_weights", "sigma_intercepts"] {
            summary[key] = spread(members.iter().filter_map(|row| row[key].as_f64()).collect());
        }
        summary
    };
    groups.iter().map(summary).collect()
}

fn spread(values: Vec<f64>) -> Value {
    if values.is_empty() {
        return Value::Null;
    }
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    json!({ "mean": mean(&values), "least": least, "most": most })
}

/// Prints the table.
pub(crate) fn print(summary: &[Value]) {
    println!("\nAccuracy in per cent, mean (range) over seeds, and the paper's\n");
    println!("| J | n | method | train | paper | test | paper | rounds | steps a silo | ELBO at half | ELBO |");
    println!("|---:|---:|---|---|---:|---|---:|---:|---:|---:|---:|");
    for row in summary {
        let range = |key: &str| {
            let at = |part: &str| row[key][part].as_f64().unwrap_or(f64::NAN);
            format!("{:.1} ({:.1} to {:.1})", at("mean"), at("least"), at("most"))
        };
        let paper = |index: usize| row["paper"][index].as_f64().map_or("-".to_owned(), |value| format!("{value:.1}"));
        let bound = |key: &str| row[key]["mean"].as_f64().map_or("-".to_owned(), |value| format!("{value:.0}"));
        println!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            row["silos"],
            row["rows_per_silo"],
            row["method"].as_str().unwrap_or_default(),
            range("train"),
            paper(0),
            range("test"),
            paper(1),
            row["rounds"],
            row["steps"],
            bound("elbo_at_half"),
            bound("elbo"),
        );
    }
}
