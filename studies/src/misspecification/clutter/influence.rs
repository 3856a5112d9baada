//! Moves one additional number away from the others, and measures the shift of the posterior under each loss.

use partita::core::Array;
use partita::{Loss, StudentT};
use serde_json::{Value, json};

use super::{Method, Posterior, RENYI, Study, counters, stream};
use crate::harness::{Claim, Result, Table};
use crate::measures::fisher_rao_distance;
use crate::misspecification::{Clutter, ClutterSettings};
use crate::pictures::lines;

const DISTANCES: [f64; 7] = [2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0];

/// Losses, and the index of Rényi's divergence or none for that of Kullback and Leibler.
const METHODS: [(Loss, Option<f64>); 5] = [
    (Loss::NegativeLogLikelihood, None),
    (Loss::NegativeLogLikelihood, Some(RENYI)),
    (Loss::Gamma(1.5), None),
    (Loss::Beta(1.5), None),
    (Loss::Beta(1.5), Some(RENYI)),
];

impl Study {
    /// One additional number at growing distance, in two silos of fifty numbers with heavier tails than the model's.
    pub(super) fn influence(&mut self) -> Result<Value> {
        // A Student t with four degrees of freedom has variance 2.
        let law = StudentT::new(4.0, 0.0, 0.5_f64.sqrt()).iid([100]);
        let Array { values: numbers, .. } = law.draw(&mut stream(self.options.shared.seed, 9))?;
        println!("\nFisher-Rao distance that one number more moves the posterior, by its distance; costs of one fit\n");
        let [a, b, c, d, e, f, g] = DISTANCES.map(|distance| distance.to_string());
        let head = ["loss and divergence", &a, &b, &c, &d, &e, &f, &g, "rounds", "messages", "gradient steps"];
        let (mut rows, mut table) = (Vec::new(), Table::new(head));
        let mut curves: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
        for (loss, renyi) in METHODS {
            self.session.check()?;
            let method = Method::generalised(&self.options, loss, renyi);
            let (base, curve) = moved(&method, &numbers)?;
            let name = format!("{loss}, {}", if renyi.is_none() { "KL" } else { "Rényi 0.75" });
            let cells = curve.iter().map(|moved| format!("{moved:.4}")).chain(counters(base.cost));
            table.row([name.clone()].into_iter().chain(cells));
            let is_likelihood = loss == Loss::NegativeLogLikelihood;
            self.claims.judge(if is_likelihood { grows(&name, &curve) } else { fades(&name, &curve) });
            if is_likelihood && let Some((_, under_kl)) = curves.first() {
                // Its posterior is wider, so that the same shift of the mean is a shorter distance.
                let less = curve.iter().zip(under_kl).all(|(moved, (_, under_kl))| moved < under_kl);
                let claim = "influence under the log likelihood is smaller with Rényi than with KL";
                self.claims.judge(Claim::new(claim, less));
            }
            rows.push(json!({"method": name, "distances": DISTANCES, "influence": curve, "cost": base.cost}));
            curves.push((name, DISTANCES.into_iter().zip(curve).collect()));
        }
        let axes = ["distance of the number", "Fisher-Rao distance of the posteriors"];
        lines(&self.session.file("influence.svg"), &curves, "Influence of one number more", axes)?;
        print!("{table}");
        self.claims.print_new("Claims:");
        Ok(rows.into())
    }
}

/// The posterior without the additional number, and its distance from the posteriors with it.
fn moved(method: &Method, numbers: &[f64]) -> Result<(Posterior, Vec<f64>)> {
    let assumed = Clutter::new(ClutterSettings {
        prior_mean: 1.0,
        prior_sd: 2.5_f64.sqrt(),
        noise_weight: 0.0,
        ..ClutterSettings::near()
    });
    let fitted = |outlier: Option<f64>| {
        let mut silos = [numbers[..50].to_vec(), numbers[50..].to_vec()];
        silos[1].extend(outlier);
        method.fit(&assumed, &silos)
    };
    let base = fitted(None)?;
    let moved = |distance: &f64| {
        let own = fitted(Some(*distance))?;
        fisher_rao_distance((own.mean, own.sd), (base.mean, base.sd))
    };
    Ok((base, DISTANCES.iter().map(moved).collect::<Result<_>>()?))
}

fn grows(name: &str, curve: &[f64]) -> Claim {
    let grows = curve.windows(2).all(|pair| pair[0] < pair[1]);
    Claim::new(format!("influence grows with the distance under the {name}"), grows)
}

fn fades(name: &str, curve: &[f64]) -> Claim {
    let fades = curve[1..].iter().all(|moved| *moved < 0.02);
    Claim::new(format!("influence is below 0.02 from distance 4 on under the {name}"), fades)
}
