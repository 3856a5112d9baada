//! Holds reports of importance-weighted fits to the reweighted posterior that their bound is of.

use super::*;

/// Draws inside the logarithm.
const K: usize = 8;
/// Standard deviation of every latent of the family at its start; the means are 0.
const WIDTH: f64 = 0.7;

fn log_normal(x: f64, mean: f64, sd: f64) -> f64 {
    -0.5 * ((x - mean) / sd).powi(2) - sd.ln() - 0.5 * (2.0 * std::f64::consts::PI).ln()
}

/// Means of μ and μ² under the reweighted posterior of a family at its start, from the formula, each with the variance
/// between sets of draws.
fn by_hand(groups: &[Vec<f64>], sets: u64) -> [(f64, f64); 2] {
    let mut moments = [(0.0, 0.0); 2];
    for set in 0..sets {
        let mut noise = Noise::new(77).stream(Key::new(Purpose::Check, set));
        let (mut total, mut sums) = (0.0, [0.0; 2]);
        for _ in 0..K {
            let mu = WIDTH * noise.standard_normal();
            let mut log_weight = log_normal(mu, 0.5, 2.0) - log_normal(mu, 0.0, WIDTH);
            for group in groups {
                let b = WIDTH * noise.standard_normal();
                log_weight += log_normal(b, mu, 0.8) - log_normal(b, 0.0, WIDTH);
                log_weight += group.iter().map(|y| log_normal(*y, b, 0.6)).sum::<f64>();
            }
            let weight = log_weight.exp();
            total += weight;
            sums[0] += weight * mu;
            sums[1] += weight * mu * mu;
        }
        for (moment, sum) in moments.iter_mut().zip(sums) {
            moment.0 += sum / total;
            moment.1 += (sum / total).powi(2);
        }
    }
    let count = sets as f64;
    moments.map(|(sum, square)| (sum / count, square / count - (sum / count).powi(2)))
}

#[test]
fn a_report_is_of_the_reweighted_posterior_for_every_algorithm() {
    const SETS: u64 = 40_000;
    const DRAWS: usize = 4_000;
    let (device, model, groups) = (Device::flex(), conjugate(), groups(3, 2));
    let [(mean, spread), (square, spread_of_square)] = by_hand(&groups, SETS);
    let variance = square - mean * mean;
    // The family itself, with mean 0 and this width, is far from it.
    assert!(mean > 0.15 && variance < 0.7 * WIDTH * WIDTH, "{mean} {variance}");
    let rounds = RoundOptions { scale_entropy: true, ..RoundOptions::paper(1) };
    for (algorithm, silos) in
        [(AlgorithmChoice::Sfvi, 2), (AlgorithmChoice::Central, 1), (AlgorithmChoice::SfviAvg(rounds), 2)]
    {
        let data = conjugate_silos(&groups, silos);
        let family = FamilyPlan::new().global(Gaussian::full_rank()).local(Gaussian::diagonal()).initial_scale(WIDTH);
        // A rate at which nothing moves: the family stays what it is by hand.
        let settings = Settings {
            steps: 1,
            schedule: Schedule::Constant { rate: 1e-12 },
            family,
            particles: K,
            ..settings(Estimator::ImportanceWeighted { gradient: ImportanceGradient::DoublyReparameterised }, K)
        };
        let name = format!("{algorithm:?}");
        let options =
            FitOptions { algorithm, settings, elbo_draws: DRAWS, trust_draws: Some(0), ..FitOptions::default() };
        let fit = fit(&model, &data, &device, &options, None).unwrap();
        let draws = &fit.draws[0].2;
        assert_eq!(draws.len(), DRAWS, "{name}");
        // 4 standard errors of both sides: 0.006 % of seeds fail each. The draws have the whole variance of μ, and of μ²
        // at most its fourth moment, which is that of the draws.
        let error = |own: f64, by_hand: f64| 4.0 * (own / DRAWS as f64 + by_hand / SETS as f64).sqrt();
        let own = fit.report.site("mu").unwrap();
        assert!((own.mean - mean).abs() < error(variance, spread), "{name}: mean {} for {mean}", own.mean);
        let fourth = draws.iter().map(|draw| draw.powi(4)).sum::<f64>() / DRAWS as f64;
        let found = draws.iter().map(|draw| draw * draw).sum::<f64>() / DRAWS as f64;
        let bound = error(fourth - found * found, spread_of_square);
        assert!((found - square).abs() < bound, "{name}: second moment {found} for {square}, within {bound}");
        // The correction starts from it: what the round of trust weighs is not taken to be draws of the family itself.
        assert!((own.sd - (found - own.mean * own.mean).sqrt()).abs() < 1e-3, "{name}");
    }
}

/// The standard deviation of every latent of a family that is narrower than the posterior, in that of its global.
const NARROWER: f64 = 0.8;

#[test]
fn corrected_numbers_of_an_importance_weighted_fit_are_the_models_own() {
    let (device, model, groups) = (Device::flex(), conjugate(), groups(6, 2));
    let exact = model.posterior(&groups);
    assert!(exact.mean.abs() > 0.8 * exact.sd, "{} {}", exact.mean, exact.sd);
    let data = conjugate_silos(&groups, 2);
    // A rate at which nothing moves: the family stays where it starts, away from the posterior and narrower, so that it
    // shows if the weights of the family are taken for those of the reweighted draws: what these add leaves a variance.
    let settings = Settings {
        steps: 1,
        schedule: Schedule::Constant { rate: 1e-12 },
        family: FamilyPlan::new()
            .global(Gaussian::full_rank())
            .local(Gaussian::diagonal())
            .initial_scale(NARROWER * exact.sd),
        ..settings(Estimator::ImportanceWeighted { gradient: ImportanceGradient::DoublyReparameterised }, K)
    };
    let options = FitOptions { algorithm: AlgorithmChoice::Sfvi, settings, ..FitOptions::default() };
    let fit = fit(&model, &data, &device, &options, None).unwrap();
    let correction = fit.report.trust.correction().unwrap();
    assert!(correction.is_trusted(), "{:?}", correction.pareto_k);
    let found = &correction.sites[0];
    // 5 of the Monte Carlo standard errors that the correction reports; of a standard deviation 1/√2 of that of a mean.
    let error = 5.0 * found.error;
    assert!((found.summary.mean - exact.mean).abs() < error * exact.sd, "{} {}", found.summary.mean, exact.mean);
    assert!((found.summary.sd / exact.sd - 1.0).abs() < error, "{} {}", found.summary.sd, exact.sd);
    // The weights are those of the model alone: with other reweighted draws the corrected numbers are the same.
    let other = FitOptions { elbo_draws: 37, ..options };
    let other = partita::fit(&model, &data, &device, &other, None).unwrap();
    let again = &other.report.trust.correction().unwrap().sites[0];
    assert!((other.report.sites[0].mean - fit.report.sites[0].mean).abs() > 1e-3, "{}", other.report);
    assert!((again.summary.mean - found.summary.mean).abs() < 1e-12, "{again:?} {found:?}");
    assert!((again.summary.sd - found.summary.sd).abs() < 1e-12, "{again:?} {found:?}");
    let before = &fit.report.sites[0];
    assert!((found.sd_ratio - before.sd / found.summary.sd).abs() < 1e-3, "{}", found.sd_ratio);
}
