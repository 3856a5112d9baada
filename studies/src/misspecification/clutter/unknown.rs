//! Fits a normal model without clutter to numbers of which half are clutter, by losses and divergences.

use partita::Loss;
use serde_json::{Value, json};

use super::method::settled;
use super::{Method, Posterior, RENYI, Study, World, counters, panel};
use crate::harness::{Claim, Result, Table};
use crate::misspecification::{Clutter, ClutterSettings};

impl Study {
    /// A normal model for numbers of which half are clutter.
    pub(super) fn half_clutter(&mut self) -> Result<Value> {
        println!("\nUnknown clutter, half of the numbers, 40 silos of one number\n");
        let head = ["mixture", "method", "mean", "variance", "rounds", "messages", "gradient steps"];
        let (mut rows, mut table) = (Vec::new(), Table::new(head));
        for world in World::both(self.options.shared.seed) {
            self.session.check()?;
            let (name, methods) = (world.name, self.fits(&world)?);
            for (method, found) in &methods {
                let numbers = match found {
                    Some(found) => [format!("{:.4}", found.mean), format!("{:.5}", found.sd.powi(2))],
                    None => ["a cavity", "is no density"].map(str::to_owned),
                };
                let cost = counters(found.and_then(|found| found.cost));
                table.row([name.to_owned(), (*method).to_owned()].into_iter().chain(numbers).chain(cost));
                rows.push(json!({
                    "mixture": name,
                    "method": method,
                    "mean": found.map(|found| found.mean),
                    "variance": found.map(|found| found.sd.powi(2)),
                    "cost": found.and_then(|found| found.cost),
                }));
            }
            let sd = |row: usize| methods[row].1.map(|found: Posterior| found.sd);
            let than = "less certain than the model that knows of the clutter";
            self.claims.judge(Claim::new(format!("{name}: the β loss is {than}"), sd(3) > sd(0)));
            // A fit that ended early has no variances to compare.
            if let Some(both) = sd(4) {
                self.claims.judge(Claim::new(format!("{name}: with Rényi and the β loss {than}"), Some(both) > sd(0)));
            }
            let found: Vec<(&str, Posterior)> =
                methods.iter().filter_map(|(method, found)| Some((*method, (*found)?))).collect();
            self.panels.push(panel(&format!("unknown clutter, {name}"), &found));
        }
        print!("{table}");
        self.claims.print_new("Claims:");
        Ok(rows.into())
    }

    /// The model with known clutter, and four fits of the model without clutter; `None` for a fit that was refused.
    fn fits(&self, world: &World) -> Result<[(&'static str, Option<Posterior>); 5]> {
        let (options, silos) = (&self.options, world.silos());
        let normal = Clutter::new(ClutterSettings { noise_weight: 0.0, ..world.settings });
        let fitted = |model, loss| Method::pvi(options, loss).fit(model, &silos);
        // Undamped, the Rényi divergence soon meets a cavity that is no density.
        let generalised =
            |loss| settled(Method::generalised(options, loss, Some(RENYI)).damped(0.2).fit(&normal, &silos));
        Ok([
            ("PVI that knows of the clutter", Some(fitted(&world.clutter, Loss::NegativeLogLikelihood)?)),
            ("normal model, log likelihood", Some(fitted(&normal, Loss::NegativeLogLikelihood)?)),
            ("the same, Rényi 0.75", generalised(Loss::NegativeLogLikelihood)?),
            ("normal model, β loss of index 1.5", Some(fitted(&normal, Loss::Beta(1.5))?)),
            ("the same, β loss and Rényi 0.75", generalised(Loss::Beta(1.5))?),
        ])
    }
}
