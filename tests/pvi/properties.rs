//! Holds free energies, factors and their products to properties of partitioned inference in one dimension.

use fixtures::local::{LogLikelihood, Partitioned, Toy, expected, logistic};
use partita::inference::{
    Adam, CovarianceGradient, CovarianceMatrix, DiagonalGaussian, Error, Expectation, ExponentialFamily, Family,
    FamilyDraw, GradientDescent, LocalSolver, MomentGradient, NaturalGradient, NormalFamily, Optimiser, Plug,
    PowerExpectation, Result, Sgd,
};
use partita::{Device, Schedule, Settings};

/// Quadrature by the trapezoidal rule over 24 standard deviations, which is exact to rounding for smooth integrands.
const ROUNDING: f64 = 1e-10;

/// A difference of 1e-5 in a smooth function: truncation and rounding of that order squared.
const DIFFERENCE: f64 = 1e-7;

fn family() -> NormalFamily {
    NormalFamily::diagonal(1)
}

/// Four silos of a logistic regression in one covariate.
fn silos() -> Vec<LogLikelihood> {
    let rows = [
        vec![(0.4, 1.0), (-1.3, -1.0)],
        vec![(2.1, 1.0), (0.7, -1.0), (-0.2, 1.0), (1.6, 1.0)],
        vec![(-2.4, -1.0)],
        vec![(0.9, 1.0), (1.1, 1.0), (-0.6, 1.0)],
    ];
    rows.into_iter().map(|rows| logistic(rows.into_iter().map(|(x, y)| (vec![x], y)).collect())).collect()
}

/// Natural parameters of a standard normal prior, and factors of no fixed point, one of negative precision.
fn state() -> (Vec<f64>, Vec<Vec<f64>>, Vec<f64>) {
    let prior = vec![0.0, -0.5];
    let factors = vec![vec![0.3, -0.2], vec![-0.7, 0.1], vec![0.5, -0.6], vec![0.1, -0.05]];
    let posterior = factors.iter().fold(prior.clone(), |sum, factor| vec![sum[0] + factor[0], sum[1] + factor[1]]);
    (prior, factors, posterior)
}

/// The local free energy of q with a factor as cavity: E[log p] + E[log cavity] + entropy.
fn free_energy(q: &[f64], log_likelihood: &LogLikelihood, cavity: &[f64]) -> f64 {
    let means = family().mean_parameters(q);
    let cavity = cavity[0] * means[0] + cavity[1] * means[1];
    expected(q, |theta| log_likelihood(&[theta]).0) + cavity + family().entropy(q)
}

/// The global free energy of q: E[log p(y)] - KL(q || prior).
fn global_free_energy(q: &[f64], prior: &[f64]) -> f64 {
    let likelihood: f64 = silos().iter().map(|silo| expected(q, |theta| silo(&[theta]).0)).sum();
    likelihood - family().kl_divergence(q, prior)
}

#[test]
fn a_local_free_energy_is_the_tilted_evidence_less_the_divergence_from_the_tilted_density() {
    let cavity = [0.3, -0.4];
    for silo in silos() {
        let tilted = |theta: f64| silo(&[theta]).0 + cavity[0] * theta + cavity[1] * theta * theta;
        // The integral of the tilted density over a wide normal.
        let wide = [0.0, -0.125];
        let log_wide = |theta: f64| wide[1] * theta * theta - family().log_partition(&wide);
        let evidence = expected(&wide, |theta| (tilted(theta) - log_wide(theta)).exp()).ln();
        for q in [[0.0, -0.5], [1.2, -2.0], [-0.8, -0.3]] {
            let log_q = |theta: f64| q[0] * theta + q[1] * theta * theta - family().log_partition(&q);
            let divergence = expected(&q, |theta| log_q(theta) - (tilted(theta) - evidence));
            let found = free_energy(&q, &silo, &cavity);
            assert!((found - (evidence - divergence)).abs() < ROUNDING, "{found} against {}", evidence - divergence);
        }
    }
}

#[test]
fn local_free_energies_and_the_normaliser_add_up_to_the_global_one_at_any_state() {
    let (prior, factors, posterior) = state();
    let own = |(silo, factor): (&LogLikelihood, &Vec<f64>)| {
        // F_m at the common posterior: E[log p(y_m)] - E[log t_m].
        let means = family().mean_parameters(&posterior);
        expected(&posterior, |theta| silo(&[theta]).0) - factor[0] * means[0] - factor[1] * means[1]
    };
    let sum: f64 = silos().iter().zip(&factors).map(own).sum();
    // The product of the prior and all factors has the natural parameters of the posterior.
    let log_normaliser = family().log_partition(&posterior) - family().log_partition(&prior);
    let global = global_free_energy(&posterior, &prior);
    assert!((sum + log_normaliser - global).abs() < ROUNDING, "{sum} + {log_normaliser} against {global}");
}

#[test]
fn gradients_of_local_free_energies_add_up_to_that_of_the_global_one_for_any_factors() {
    let (prior, factors, posterior) = state();
    for direction in 0..2 {
        let at = |step: f64| {
            let mut moved = posterior.clone();
            moved[direction] += step;
            moved
        };
        let slope = |value: &dyn Fn(&[f64]) -> f64| (value(&at(1e-5)) - value(&at(-1e-5))) / 2e-5;
        let locals: f64 = silos()
            .iter()
            .zip(&factors)
            .map(|(silo, factor)| {
                let cavity = [posterior[0] - factor[0], posterior[1] - factor[1]];
                slope(&|q| free_energy(q, silo, &cavity))
            })
            .sum();
        let global = slope(&|q| global_free_energy(q, &prior));
        assert!((locals - global).abs() < DIFFERENCE, "{locals} against {global}");
    }
}

/// Normal densities of one number in natural parameters, in which solvers then take gradients.
#[derive(Debug)]
struct InNaturalParameters;

impl InNaturalParameters {
    fn standard(parameters: &[f64]) -> [f64; 2] {
        let variance = -0.5 / parameters[1];
        [variance * parameters[0], variance.sqrt()]
    }

    /// The transpose of the derivatives of mean and standard deviation, v η₁ and √v with v = -1/(2 η₂) and dv/dη₂ =
    /// 2v².
    fn add(parameters: &[f64], [by_mean, by_sd]: [f64; 2], out: &mut [f64]) {
        let [mean, sd] = Self::standard(parameters);
        out[0] += by_mean * sd * sd;
        out[1] += by_mean * 2.0 * sd * sd * mean + by_sd * sd.powi(3);
    }
}

impl Family for InNaturalParameters {
    fn len(&self) -> usize {
        1
    }

    fn parameter_len(&self) -> usize {
        2
    }

    fn noise_len(&self) -> usize {
        1
    }

    fn initial(&self, scale: f64) -> Vec<f64> {
        vec![0.0, -0.5 / (scale * scale)]
    }

    fn draw(&self, parameters: &[f64], noise: &[f64]) -> FamilyDraw {
        let [mean, sd] = Self::standard(parameters);
        DiagonalGaussian::new(1).draw(&[mean, sd.ln()], noise)
    }

    fn vjp(&self, parameters: &[f64], noise: &[f64], grad_mean: &[f64], grad_offset: &[f64], out: &mut [f64]) {
        Self::add(parameters, [grad_mean[0], grad_offset[0] * noise[0]], out);
    }

    fn vjp_moments(&self, parameters: &[f64], gradient: &MomentGradient, out: &mut [f64]) {
        let CovarianceGradient::Diagonal(by_variance) = &gradient.covariance else { panic!("one component") };
        let [_, sd] = Self::standard(parameters);
        Self::add(parameters, [gradient.mean[0], 2.0 * sd * by_variance[0]], out);
    }

    fn entropy(&self, parameters: &[f64]) -> f64 {
        family().entropy(parameters)
    }

    fn add_entropy_gradient(&self, parameters: &[f64], out: &mut [f64]) {
        Self::add(parameters, [0.0, Self::standard(parameters)[1].recip()], out);
    }

    fn covariance_matrix(&self, parameters: &[f64]) -> CovarianceMatrix {
        CovarianceMatrix::Diagonal(vec![Self::standard(parameters)[1]])
    }

    fn with_moments(&self, mean: &[f64], spread: &CovarianceMatrix) -> Result<Vec<f64>> {
        family().natural_of_moments(mean, spread)
    }
}

/// The change of natural parameters by one step of gradient descent on a likelihood, from a posterior with this cavity.
fn step(coordinates: &Coordinates, log_likelihood: LogLikelihood, cavity: &[f64], from: &[f64]) -> [f64; 2] {
    let (make, optimiser, rate) = coordinates;
    let mut toy = Toy { family: make(), ..Toy::diagonal(1, cavity.to_vec(), log_likelihood) };
    let settings =
        Settings { optimiser: optimiser.clone(), schedule: Schedule::Constant { rate: *rate }, ..Settings::default() };
    let mut solver = GradientDescent::default().start(&settings, &Device::flex());
    let found = toy.visit(&mut *solver, from, 1).unwrap().natural;
    [found[0] - from[0], found[1] - from[1]]
}

/// Coordinates of the family, optimiser and rate.
type Coordinates = (fn() -> Box<dyn Family>, Plug<dyn Optimiser>, f64);

/// The distance of the sum of the silos' steps from the step of one silo with all rows, and the length of that step; at
/// a state that is not a fixed point, with the same draw in all silos.
fn gap(coordinates: Coordinates) -> [f64; 2] {
    let (prior, factors, posterior) = state();
    let mut sum = [0.0; 2];
    for (silo, factor) in silos().into_iter().zip(&factors) {
        let cavity = [posterior[0] - factor[0], posterior[1] - factor[1]];
        let own = step(&coordinates, silo, &cavity, &posterior);
        sum = [sum[0] + own[0], sum[1] + own[1]];
    }
    let all: LogLikelihood = Box::new(|point| {
        let own = silos().into_iter().map(|silo| silo(point));
        own.fold((0.0, vec![0.0]), |(value, slope), (own, by)| (value + own, vec![slope[0] + by[0]]))
    });
    let global = step(&coordinates, all, &prior, &posterior);
    let norm = |a: [f64; 2]| a[0].hypot(a[1]);
    [norm([sum[0] - global[0], sum[1] - global[1]]), norm(global)]
}

#[test]
fn one_plain_step_of_every_silo_in_natural_parameters_adds_up_to_the_step_of_global_inference() {
    let natural: fn() -> Box<dyn Family> = || Box::new(InNaturalParameters);
    let standard: fn() -> Box<dyn Family> = || Box::new(DiagonalGaussian::new(1));
    let plain = Plug::<dyn Optimiser>::from(Sgd { momentum: 0.0 });
    let rates = [1e-2, 1e-3, 1e-4];
    for rate in rates {
        let [gap, length] = gap((natural, plain.clone(), rate));
        assert!(gap < 1e-14 && length > 1e-3 * rate, "{rate}: {gap} of {length}");
    }
    // In mean and log standard deviation natural parameters bend: the gap is of second order in the rate.
    let gaps = rates.map(|rate| gap((standard, plain.clone(), rate))[0]);
    for pair in gaps.windows(2) {
        assert!((90.0..110.0).contains(&(pair[0] / pair[1])), "{gaps:?}");
    }
    // Adam's first step is the rate in every coordinate, whatever the gradient: the gap is as long as the step, in any
    // of them.
    for make in [natural, standard] {
        for rate in rates {
            let [gap, length] = gap((make, Adam::default().into(), rate));
            assert!(gap > 0.5 * length, "{rate}: {gap} of {length}");
        }
    }
}

/// The gradient of the local free energy of the second silo by mean parameters, by the product's own undamped step.
fn slope(q: &[f64]) -> [f64; 2] {
    let expectation = Expectation::GaussHermite { points: 60 };
    let undamped = NaturalGradient { rate: 1.0, expectation }.into();
    let mut toy = Toy::diagonal(1, vec![0.3, -0.4], silos().remove(1));
    let found = toy.solve(&undamped, q, 1).unwrap().natural;
    [found[0] - q[0], found[1] - q[1]]
}

/// The fixed point of a map of natural parameters.
fn rest(from: &[f64], map: impl Fn(&[f64]) -> [f64; 2]) -> [f64; 2] {
    let mut at = [from[0], from[1]];
    for _ in 0..200 {
        let next = map(&at);
        let change = (next[0] - at[0]).hypot(next[1] - at[1]);
        at = next;
        if change < 1e-15 {
            return at;
        }
    }
    panic!("200 rounds were not enough: {at:?}");
}

/// dη/dμ times a change of mean parameters, for μ = (m, m² + v): of η = (m/v, -1/(2v)).
fn by_inverse_fisher(at: &[f64], change: [f64; 2]) -> [f64; 2] {
    let (mean, spread) = family().moments(at);
    let (mean, variance) = (mean[0], spread.deviations()[0].powi(2));
    let by_variance = change[1] - 2.0 * mean * change[0];
    [change[0] / variance - mean * by_variance / variance.powi(2), 0.5 * by_variance / variance.powi(2)]
}

#[test]
fn a_damped_step_is_mirror_descent_and_to_first_order_every_proximal_and_trust_region_step() {
    let from = [0.8, -0.9];
    let expectation = Expectation::GaussHermite { points: 60 };
    let damped = |rate: f64| {
        let solver = NaturalGradient { rate, expectation }.into();
        Toy::diagonal(1, vec![0.3, -0.4], silos().remove(1)).solve(&solver, &from, 1).unwrap().natural
    };
    // Mirror descent: the maximum of ⟨slope, μ⟩ - KL(q || q_old) / ρ, where its slope by μ vanishes. Exact for any ρ.
    for rate in [0.01, 0.3, 1.0] {
        let found = damped(rate);
        let objective = |means: &[f64]| {
            let g = slope(&from);
            let q = family().natural_of_mean(means).unwrap();
            g[0] * means[0] + g[1] * means[1] - family().kl_divergence(&q, &from) / rate
        };
        let means = family().mean_parameters(&found);
        for direction in 0..2 {
            let at = |step: f64| {
                let mut moved = means.clone();
                moved[direction] += step;
                objective(&moved)
            };
            let left = (at(1e-5) - at(-1e-5)) / 2e-5;
            assert!(left.abs() < DIFFERENCE / rate, "{rate}: {left}");
        }
    }
    // Proximal: the maximum of F(q) - KL(q || q_old) / ρ, at η = η_old + ρ ∇F(q).
    let proximal = |rate: f64| {
        rest(&from, |q| {
            let g = slope(q);
            [from[0] + rate * g[0], from[1] + rate * g[1]]
        })
    };
    // Trust region: the maximum of F(q) within the divergence that the damped step has; on the path of proximal steps.
    let trust_region = |rate: f64| {
        let radius = family().kl_divergence(&damped(rate), &from);
        let (mut low, mut high) = (0.5 * rate, 2.0 * rate);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            let is_inside = family().kl_divergence(&proximal(middle), &from) < radius;
            (low, high) = if is_inside { (middle, high) } else { (low, middle) };
        }
        proximal(0.5 * (low + high))
    };
    // With the mean of both divergences: the slope of KL(q_old || q) by μ is the inverse Fisher matrix times μ - μ_old.
    let symmetrised = |rate: f64| {
        let old = family().mean_parameters(&from);
        rest(&from, |q| {
            let (g, means) = (slope(q), family().mean_parameters(q));
            let back = by_inverse_fisher(q, [means[0] - old[0], means[1] - old[1]]);
            let left = |i: usize| rate * g[i] - 0.5 * (q[i] - from[i]) - 0.5 * back[i];
            [q[0] + left(0), q[1] + left(1)]
        })
    };
    type Form<'a> = (&'a str, &'a dyn Fn(f64) -> [f64; 2]);
    let forms: [Form<'_>; 3] =
        [("proximal", &proximal), ("trust region", &trust_region), ("symmetrised", &symmetrised)];
    for (name, form) in forms {
        let gaps = [1e-2, 1e-3, 1e-4].map(|rate| {
            let (found, damped) = (form(rate), damped(rate));
            let (gap, length) =
                ((found[0] - damped[0]).hypot(found[1] - damped[1]), (damped[0] - from[0]).hypot(damped[1] - from[1]));
            assert!(gap < 0.1 * length, "{name}, {rate}: {gap} of {length}");
            gap
        });
        for pair in gaps.windows(2) {
            assert!((80.0..125.0).contains(&(pair[0] / pair[1])), "{name}: {gaps:?}");
        }
    }
}

#[test]
fn the_slope_of_the_divergence_by_mean_parameters_is_the_difference_of_natural_ones() {
    // The damped fixed point is therefore mirror descent with KL(q
    //  q_old), not with the printed KL(q_old
    //  q).
    let (old, q) = (vec![0.8, -0.9], vec![-0.4, -0.3]);
    let means = family().mean_parameters(&q);
    let mut reversed = Vec::new();
    for direction in 0..2 {
        let at = |step: f64| {
            let mut moved = means.clone();
            moved[direction] += step;
            family().natural_of_mean(&moved).unwrap()
        };
        let slope = |value: &dyn Fn(&[f64]) -> f64| (value(&at(1e-6)) - value(&at(-1e-6))) / 2e-6;
        let found = slope(&|q| family().kl_divergence(q, &old));
        assert!((found - (q[direction] - old[direction])).abs() < DIFFERENCE, "{found}");
        reversed.push(slope(&|q| family().kl_divergence(&old, q)) - (q[direction] - old[direction]));
    }
    assert!(reversed.iter().any(|gap| gap.abs() > 0.1), "{reversed:?}");
}

#[test]
fn stochastic_power_expectation_propagation_becomes_a_minibatch_step_of_global_inference() {
    // One factor for all, t = (q/p)^{1/M}: M times the change tends to M dE[log p_k]/dμ + η_0 - η_q, with an error of
    // α.
    let (prior, received) = (vec![0.0, -0.5], vec![0.6, -1.1]);
    let silo = silos().into_iter().nth(1).unwrap();
    let count = 4.0;
    let shared: Vec<f64> = received.iter().zip(&prior).map(|(q, p)| (q - p) / count).collect();
    let cavity: Vec<f64> = received.iter().zip(&shared).map(|(q, t)| q - t).collect();
    let mut toy = Toy::diagonal(1, cavity, silo);
    let rule = Expectation::GaussHermite { points: 60 };
    // An undamped step of the fixed point from the received posterior has the slope as its factor.
    let limit = {
        let step = NaturalGradient { rate: 1.0, expectation: rule }.into();
        let found = toy.solve(&step, &received, 1).unwrap().natural;
        let slope: Vec<f64> = found.iter().zip(&toy.cavity).map(|(q, c)| q - c).collect();
        [0, 1].map(|i| count * slope[i] + prior[i] - received[i])
    };
    let mut error = |alpha: f64| {
        let solver = PowerExpectation::new(alpha).into();
        let found = toy.solve(&solver, &received, 1).unwrap().natural;
        fixtures::largest((0..2).map(|i| (count * (found[i] - received[i]) - limit[i]).abs()))
    };
    let errors = [0.01, 0.001, 0.0001].map(&mut error);
    for pair in errors.windows(2) {
        assert!((9.0..11.0).contains(&(pair[0] / pair[1])), "{errors:?}");
    }
}

#[test]
fn silos_that_bend_away_from_zero_make_an_improper_product_undamped_and_a_proper_one_at_one_over_their_number() {
    // log p_m = ½θ² - θ⁴/20 curves upwards near zero: every factor removes precision.
    let bend = || -> LogLikelihood {
        Box::new(|point| {
            let theta = point[0];
            (0.5 * theta * theta - 0.05 * theta.powi(4), vec![theta - 0.2 * theta.powi(3)])
        })
    };
    let partitioned = || {
        let toys = (0..5).map(|_| Toy::diagonal(1, vec![0.0, 0.0], bend())).collect();
        Partitioned::new(toys, &[0.01, -0.5])
    };
    let rate = |rate| {
        let expectation = Expectation::GaussHermite { points: 40 };
        NaturalGradient { rate, expectation }.into()
    };
    match partitioned().round(&rate(0.3), 300, 1.0) {
        Err(Error::Improper { found, .. }) => assert!(found < 0.0, "{found}"),
        other => panic!("an improper product went unnoticed: {other:?}"),
    }
    let mut damped = partitioned();
    for _ in 0..20 {
        damped.round(&rate(0.3), 300, 0.2).unwrap();
    }
}
