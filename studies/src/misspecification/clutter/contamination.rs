//! Fits a normal model to numbers of which a tenth or a fifth lie elsewhere, in ten silos, by three losses.

use partita::Loss;
use serde_json::{Value, json};

use super::{Method, Posterior, Study, counters, panel, stream};
use crate::harness::{Claim, Result, Table, largest};
use crate::misspecification::{Clutter, ClutterSettings};

const SIGNAL: f64 = 2.0;

const LOSSES: [Loss; 3] = [Loss::NegativeLogLikelihood, Loss::Beta(1.5), Loss::Gamma(1.5)];

/// The fits of one loss to all data sets.
struct Fits {
    first: Posterior,
    /// The largest error of a mean.
    worst: f64,
    rows: Vec<Value>,
}

impl Study {
    /// A normal model for numbers of which a tenth or a fifth lie elsewhere, in ten silos.
    pub(super) fn contamination(&mut self) -> Result<Value> {
        println!("\nA signal at {SIGNAL}, some numbers around 10, a normal model, 10 silos of 10 numbers\n");
        let head = ["wrong", "loss", "mean", "sd", "largest error of the mean", "rounds", "messages", "gradient steps"];
        let (mut rows, mut table) = (Vec::new(), Table::new(head));
        for share in [0.1, 0.2] {
            let wrong = format!("{:.0} %", 100.0 * share);
            let mut methods = Vec::new();
            for loss in LOSSES {
                self.session.check()?;
                let Fits { first, worst, rows: own } = self.contaminated(share, loss)?;
                rows.extend(own);
                let name = loss.to_string();
                let numbers = [format!("{:.4}", first.mean), format!("{:.4}", first.sd), format!("{worst:.4}")];
                table.row([wrong.clone(), name.clone()].into_iter().chain(numbers).chain(counters(first.cost)));
                // The clean mean of 80 numbers is itself uncertain by 0.11; 0.4 is three and a half times that.
                self.claims.judge(match loss {
                    Loss::NegativeLogLikelihood => {
                        let claim = format!("{wrong} wrong: the log likelihood loses the mean (off by more than 0.5)");
                        Claim::new(claim, worst > 0.5)
                    }
                    _ => {
                        let claim = format!("{wrong} wrong: the {name} keeps the mean (off by less than 0.4)");
                        Claim::new(claim, worst < 0.4)
                    }
                });
                methods.push((name, first));
            }
            let named: Vec<(&str, Posterior)> = methods.iter().map(|(name, found)| (name.as_str(), *found)).collect();
            self.panels.push(panel(&format!("{wrong} wrong numbers"), &named));
        }
        print!("{table}");
        self.claims.print_new("Claims:");
        Ok(rows.into())
    }

    fn contaminated(&self, share: f64, loss: Loss) -> Result<Fits> {
        let settings =
            ClutterSettings { noise_mean: 10.0, noise_sd: 1.0, noise_weight: share, ..ClutterSettings::near() };
        let normal = Clutter::new(ClutterSettings { noise_weight: 0.0, ..settings });
        let (mut first, mut worst, mut rows) = (None, 0.0_f64, Vec::new());
        for set in 0..self.options.sets {
            let mut noise = stream(self.options.shared.seed + set, 20);
            let numbers = Clutter::new(settings).draw(SIGNAL, 100, &mut noise);
            let silos: Vec<Vec<f64>> = numbers.chunks(10).map(<[f64]>::to_vec).collect();
            let found = Method::pvi(&self.options, loss).fit(&normal, &silos)?;
            worst = largest([worst, (found.mean - SIGNAL).abs()]);
            first = first.or(Some(found));
            rows.push(json!({
                "share": share,
                "loss": loss.to_string(),
                "set": set,
                "mean": found.mean,
                "sd": found.sd,
                "cost": found.cost,
            }));
        }
        Ok(Fits { first: first.ok_or("no data set: give --sets a larger number")?, worst, rows })
    }
}
