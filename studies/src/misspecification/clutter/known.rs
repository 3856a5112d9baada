//! Fits the model with known clutter by partitioned inference and by the methods it must agree with.

use partita::Loss;
use serde_json::{Value, json};

use super::{Method, Posterior, Study, World, counters, panel};
use crate::harness::{Claim, Result, Table};
use crate::misspecification::ClutterPosterior;

const HEAD: [&str; 9] =
    ["mixture", "method", "mean", "variance", "mean, sd off", "var, % off", "rounds", "messages", "gradient steps"];

impl Study {
    /// Known clutter, forty silos of one number.
    pub(super) fn agreement(&mut self) -> Result<Value> {
        println!("Known clutter, 40 silos of one number\n");
        let (mut rows, mut table) = (Vec::new(), Table::new(HEAD));
        for world in World::both(self.options.shared.seed) {
            self.session.check()?;
            let name = world.name;
            let exact = world.clutter.exact(&world.numbers);
            let methods = self.methods(&world, exact)?;
            for (method, found) in &methods {
                let mean = (found.mean - exact.mean).abs() / exact.variance.sqrt();
                let variance = 100.0 * (found.sd.powi(2) / exact.variance - 1.0).abs();
                let [rounds, messages, steps] = counters(found.cost);
                let numbers = [
                    format!("{:.4}", found.mean),
                    format!("{:.5}", found.sd.powi(2)),
                    format!("{mean:.4}"),
                    format!("{variance:.2}"),
                    rounds,
                    messages,
                    steps,
                ];
                table.row([name.to_owned(), (*method).to_owned()].into_iter().chain(numbers));
                rows.push(json!({
                    "mixture": name,
                    "method": method,
                    "mean": found.mean,
                    "variance": found.sd.powi(2),
                    "cost": found.cost,
                }));
                let claim = format!("{name}: {method} within 0.01 sd and 3 % of the exact posterior");
                self.claims.judge(Claim::new(claim, mean < 0.01 && variance < 3.0));
            }
            self.panels.push(panel(&format!("known clutter, {name}"), &methods));
        }
        print!("{table}");
        self.claims.print_new("Claims:");
        Ok(rows.into())
    }

    fn methods(&self, world: &World, exact: ClutterPosterior) -> Result<[(&'static str, Posterior); 5]> {
        let World { clutter, numbers, .. } = world;
        let missing = || format!("no fixed point for {}", world.name);
        let fitted = |silos: &[Vec<f64>]| Method::pvi(&self.options, Loss::NegativeLogLikelihood).fit(clutter, silos);
        let known = |found: ClutterPosterior| Posterior { mean: found.mean, sd: found.variance.sqrt(), cost: None };
        Ok([
            ("exact, on a grid", known(exact)),
            ("expectation propagation", known(clutter.expectation_propagation(numbers).ok_or_else(missing)?)),
            ("variational, by quadrature", known(clutter.variational(numbers).ok_or_else(missing)?)),
            ("variational, 1 silo", fitted(std::slice::from_ref(numbers))?),
            ("PVI, 40 silos", fitted(&world.silos())?),
        ])
    }
}
