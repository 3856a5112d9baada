//! Passes a family and an average that are written here to a fit, held to the same laws as those of the crate.
//!
//! ```sh
//! cargo run --release --example own_plugs --features laws
//! ```
//!
//! What you should see: the silo `west` has noted its values ten times too large. The average of the crate, a Wasserstein
//! barycentre, puts the mean at 4.83; the median over silos at 1.98, which is `south`'s, with sd 0.316 (held to 0.03 and
//! 0.02). Two seconds on a laptop; `output/own_plugs/result.json` has the report.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::path::Path;

use partita::inference::{
    Averaging, Barycentre, CovarianceMatrix, Family, FamilyDraw, MomentGradient, Result, SiteFamily,
};
use partita::laws;
use partita::models::GaussianMean;
use partita::{AlgorithmChoice, FamilyPlan, FitOptions, Plug, RoundOptions, Schedule, Settings, fit};

/// The median over the silos, parameter by parameter: one silo alone cannot move it far.
#[derive(Debug)]
struct Median;

impl Averaging for Median {
    fn average(&self, family: &dyn Family, members: &[Vec<f64>], _: &[f64]) -> Result<Vec<f64>> {
        let median = |index: usize| {
            let mut all: Vec<f64> = members.iter().map(|member| member[index]).collect();
            all.sort_by(f64::total_cmp);
            0.5 * (all[(all.len() - 1) / 2] + all[all.len() / 2])
        };
        Ok((0..family.parameter_len()).map(median).collect())
    }
}

/// Independent normal numbers with standard deviations log(1 + exp(rho)), as Blundell and others (2015) train them.
#[derive(Debug)]
struct Softplus;

impl SiteFamily for Softplus {
    fn over(&self, numbers: usize) -> Result<Box<dyn Family>> {
        Ok(Box::new(SoftplusGaussian(numbers)))
    }
}

/// The family over so many numbers; its parameters are the means, then rho.
#[derive(Debug)]
struct SoftplusGaussian(usize);

impl SoftplusGaussian {
    fn sds(&self, parameters: &[f64]) -> Vec<f64> {
        parameters[self.0..].iter().map(|rho| rho.exp().ln_1p()).collect()
    }

    fn add(&self, parameters: &[f64], by_mean: &[f64], by_sd: impl Fn(usize) -> f64, out: &mut [f64]) {
        out.iter_mut().zip(by_mean).for_each(|(slot, gradient)| *slot += gradient);
        (0..self.0).for_each(|i| out[self.0 + i] += by_sd(i) / (1.0 + (-parameters[self.0 + i]).exp()));
    }
}

impl Family for SoftplusGaussian {
    fn len(&self) -> usize {
        self.0
    }
    fn parameter_len(&self) -> usize {
        2 * self.0
    }
    fn initial(&self, scale: f64) -> Vec<f64> {
        [vec![0.0; self.0], vec![scale.exp_m1().ln(); self.0]].concat()
    }
    fn draw(&self, parameters: &[f64], noise: &[f64]) -> FamilyDraw {
        let sds = self.sds(parameters);
        let deviation: Vec<f64> = sds.iter().zip(noise).map(|(sd, e)| sd * e).collect();
        let latent = parameters.iter().zip(&deviation).map(|(mean, deviation)| mean + deviation).collect();
        let surprise = noise.iter().map(|e| 0.5 * (e * e - 1.0)).sum::<f64>();
        let score = sds.iter().zip(noise).map(|(sd, e)| -e / sd).collect();
        FamilyDraw { latent, deviation, log_density: -self.entropy(parameters) - surprise, score }
    }
    fn vjp(&self, parameters: &[f64], noise: &[f64], grad_mean: &[f64], grad_offset: &[f64], out: &mut [f64]) {
        self.add(parameters, grad_mean, |i| grad_offset[i] * noise[i], out);
    }
    fn vjp_moments(&self, parameters: &[f64], gradient: &MomentGradient, out: &mut [f64]) {
        let (sds, by_variance) = (self.sds(parameters), gradient.covariance.by_variance(self.0));
        self.add(parameters, &gradient.mean, |i| 2.0 * sds[i] * by_variance[i], out);
    }
    fn entropy(&self, parameters: &[f64]) -> f64 {
        let constant = 0.5 * (1.0 + (2.0 * std::f64::consts::PI).ln());
        self.sds(parameters).iter().map(|sd| sd.ln() + constant).sum()
    }
    fn add_entropy_gradient(&self, parameters: &[f64], out: &mut [f64]) {
        let sds = self.sds(parameters);
        self.add(parameters, &[], |i| 1.0 / sds[i], out);
    }
    fn covariance_matrix(&self, parameters: &[f64]) -> CovarianceMatrix {
        CovarianceMatrix::Diagonal(self.sds(parameters))
    }
    fn with_moments(&self, mean: &[f64], spread: &CovarianceMatrix) -> Result<Vec<f64>> {
        Ok(mean.iter().copied().chain(spread.deviations().iter().map(|sd| sd.exp_m1().ln())).collect())
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    laws::averaging(&Median)?;
    laws::family(&*Softplus.over(3)?)?;

    let device = partita::gpu::device(None)?;
    let silos = [("north", [1.2, 0.4, 2.1]), ("south", [3.0, 2.2, 1.4]), ("west", [19.0, 8.0, 11.0])];
    let silos = silos.map(|(name, own)| (name.to_owned(), GaussianMean::data(&own, &device)));
    let fitted = |averaging: Plug<dyn Averaging>| {
        let rounds = RoundOptions { averaging, ..RoundOptions::paper(500) };
        let settings = Settings {
            steps: 4_000,
            family: FamilyPlan::new().global(Softplus),
            schedule: Schedule::Constant { rate: 0.03 },
            ..Settings::default()
        };
        let options = FitOptions { algorithm: AlgorithmChoice::SfviAvg(rounds), settings, ..FitOptions::default() };
        fit(&GaussianMean {}, &silos, &device, &options, None).map(|fit| fit.report)
    };
    let (moved, report) = (fitted(Barycentre.into())?, fitted(Median.into())?);
    println!("{report}\nThe barycentre has its mean at {:.2}.", moved.sites[0].mean);
    assert!((moved.sites[0].mean - 4.83).abs() < 0.1);
    assert!((report.sites[0].mean - 1.98).abs() < 0.03 && (report.sites[0].sd - 0.316).abs() < 0.02);
    Ok(report.write_json(Path::new("output/own_plugs/result.json"))?)
}
