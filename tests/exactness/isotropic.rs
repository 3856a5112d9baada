//! Compares the isotropic Gaussian with hand formulas, with the diagonal Gaussian, and with isotropic posteriors.

use std::f64::consts::PI;

use fixtures::partitioned::{LINEAR, Run, close, conjugate_options, exact, four_silos, minus};
use fixtures::regression::pooled;
use partita::burn::{self, module::Module, tensor::Tensor};
use partita::core::{Key, Noise, Purpose};
use partita::inference::{
    Algorithm, Averaging, Barycentre, Conjugate, CovarianceGradient, CovarianceMatrix, DiagonalGaussian, Divergence,
    DrawGradient, Expectation, ExponentialFamily, Family, IsotropicGaussian, KullbackLeibler, Lbfgs, LogPool,
    MomentGradient, NaturalGradient, NormalFamily, Order, ParameterMean, Pvi, Renyi,
};
use partita::{
    Device, FamilyPlan, FitOptions, Gaussian, Model, Normal, PviOptions, Result, Schedule, Scope, Settings,
    SiloSchedule, SiteTable, fit,
};
use partita_laws::derivative;

/// Closed form against closed form.
const EXACT: f64 = 1e-12;
/// Fourth-order differences with step 1e-3 of functions of order ten.
const DIFFERENCE: f64 = 1e-8;

/// Means and the standard deviation of two densities.
const Q: ([f64; 3], f64) = ([0.3, -1.0, 2.0], 0.8);
const P: ([f64; 3], f64) = ([0.0, -0.5, 1.0], 1.2);

fn natural((mean, sd): ([f64; 3], f64)) -> Vec<f64> {
    NormalFamily::isotropic(3).natural_of_standard(&[mean[0], mean[1], mean[2], sd]).unwrap()
}

fn square(vector: [f64; 3]) -> f64 {
    vector.iter().map(|value| value * value).sum()
}

#[test]
fn log_partition_entropy_and_divergence_are_those_of_the_formulas() {
    let family = NormalFamily::isotropic(3);
    let (q, p) = (natural(Q), natural(P));
    let ((mean, sd), (other, wide)) = (Q, P);
    let variance = sd * sd;
    let expected: Vec<f64> = mean.iter().map(|mean| mean / variance).chain([-0.5 / variance]).collect();
    close(&q, &expected, EXACT);
    close(&family.mean_parameters(&q), &[mean[0], mean[1], mean[2], square(mean) + 3.0 * variance], EXACT);
    // A = |h|²/(2λ) - (n/2) log λ + (n/2) log 2π with h = μ/σ² and λ = 1/σ².
    let log_partition = 0.5 * square(mean) / variance + 3.0 * sd.ln() + 1.5 * (2.0 * PI).ln();
    close(&[family.log_partition(&q)], &[log_partition], EXACT);
    let entropy = 1.5 * (1.0 + (2.0 * PI).ln()) + 3.0 * sd.ln();
    close(&[family.entropy(&q)], &[entropy], EXACT);
    let distance = square([mean[0] - other[0], mean[1] - other[1], mean[2] - other[2]]);
    let divergence = 0.5 * (3.0 * variance + distance) / (wide * wide) - 1.5 + 3.0 * (wide / sd).ln();
    close(&[family.kl_divergence(&q, &p)], &[divergence], EXACT);
    close(&[KullbackLeibler.evaluate(&family, &q, &p).unwrap().value], &[divergence], EXACT);
    // The same three by hand, in digits.
    close(&[log_partition, entropy], &[6.063_947_445_671_389, 3.587_384_945_671_389], EXACT);
    close(&[divergence], &[0.848_339_768_768_938], EXACT);
}

#[test]
fn the_gradient_of_the_divergence_by_mean_parameters_is_the_difference_of_natural_parameters() {
    let family = NormalFamily::isotropic(3);
    let (q, p) = (natural(Q), natural(P));
    let expected = minus(&q, &p);
    // Directly, and by mean and covariance in the axes of the two densities.
    for divergence in [&KullbackLeibler as &dyn Divergence, &Renyi { alpha: 1.0 }] {
        close(&divergence.by_mean_parameters(&family, &q, &p).unwrap(), &expected, EXACT);
    }
    let means = family.mean_parameters(&q);
    let value = |means: &[f64]| family.kl_divergence(&family.natural_of_mean(means).unwrap(), &p);
    for (index, expected) in expected.iter().enumerate() {
        let found = derivative(value, &means, index);
        assert!((found - expected).abs() < DIFFERENCE * (1.0 + expected.abs()), "{index}: {found}, not {expected}");
    }
    // By the parameters of the family: the differences of natural parameters through d m / d(μ, log σ).
    let (member, (mean, sd)) = (IsotropicGaussian::new(3), Q);
    let parameters = [mean[0], mean[1], mean[2], sd.ln()];
    let diverged = KullbackLeibler.evaluate(&family, &q, &p).unwrap();
    let mut found = vec![0.0; 4];
    member.vjp_moments(&parameters, &diverged.gradient, &mut found);
    let by_mean = (0..3).map(|i| expected[i] + 2.0 * mean[i] * expected[3]);
    close(&found, &by_mean.chain([6.0 * sd * sd * expected[3]]).collect::<Vec<_>>(), EXACT);
}

#[test]
fn members_and_natural_parameters_are_each_others_inverses() {
    let (family, isotropic) = (IsotropicGaussian::new(3), NormalFamily::isotropic(3));
    let parameters = [0.3, -1.0, 2.0, 0.8_f64.ln()];
    let eta = isotropic.natural_of_member(&family, &parameters).unwrap();
    close(&eta, &natural(Q), EXACT);
    close(&isotropic.member(&family, &eta).unwrap(), &parameters, EXACT);
    close(&isotropic.natural_of_mean(&isotropic.mean_parameters(&eta)).unwrap(), &eta, EXACT);
    close(&isotropic.standard(&eta), &[0.3, -1.0, 2.0, 0.8], EXACT);
    close(&isotropic.moments(&eta).1.deviations(), &[0.8; 3], EXACT);
}

#[test]
fn of_all_isotropic_densities_the_one_with_the_mean_of_the_variances_is_nearest() {
    let (isotropic, any) = (NormalFamily::isotropic(3), NormalFamily::full(3));
    let mean = [0.3, -1.0, 2.0];
    let spread = CovarianceMatrix::Full(vec![1.0, 0.3, 0.0, 0.3, 0.25, -0.2, 0.0, -0.2, 4.0]);
    let variance = (1.0 + 0.25 + 4.0) / 3.0;
    let expected: Vec<f64> = mean.iter().map(|mean| mean / variance).chain([-0.5 / variance]).collect();
    close(&isotropic.natural_of_moments(&mean, &spread).unwrap(), &expected, EXACT);
    let parameters = IsotropicGaussian::new(3).with_moments(&mean, &spread).unwrap();
    close(&parameters, &[0.3, -1.0, 2.0, 0.5 * variance.ln()], EXACT);
    // KL(p || q), by any covariance.
    let p = any.natural_of_moments(&mean, &spread).unwrap();
    let divergence = |variance: f64| {
        let q = any.natural_of_moments(&mean, &CovarianceMatrix::Diagonal(vec![variance.sqrt(); 3])).unwrap();
        any.kl_divergence(&p, &q)
    };
    assert!([variance - 0.01, variance + 0.01].into_iter().all(|other| divergence(other) > divergence(variance)));
}

/// Adds a gradient by the parameters of a family to the present one.
type Adds<'a> = dyn Fn(&dyn Family, &[f64], &mut [f64]) + 'a;

#[test]
fn it_is_the_diagonal_family_with_equal_scales() {
    let (one, each) = (IsotropicGaussian::new(4), DiagonalGaussian::new(4));
    let parameters = [0.3, -1.0, 2.0, 0.7, -0.4];
    let equal = [0.3, -1.0, 2.0, 0.7, -0.4, -0.4, -0.4, -0.4];
    let mut stream = Noise::new(7).stream(Key::new(Purpose::Check, 0));
    let mut random = |count: usize| (0..count).map(|_| stream.standard_normal()).collect::<Vec<f64>>();
    let (noise, location, deviation, cells) = (random(4), random(4), random(4), random(16));
    let (own, other) = (one.draw(&parameters, &noise), each.draw(&equal, &noise));
    close(&own.latent, &other.latent, EXACT);
    close(&own.deviation, &other.deviation, EXACT);
    close(&own.score, &other.score, EXACT);
    close(&[own.log_density, one.entropy(&parameters)], &[other.log_density, each.entropy(&equal)], EXACT);
    close(&one.covariance(&parameters), &each.covariance(&equal), EXACT);
    // The gradient of the one scale is the sum of those of the four.
    let agree = |add: &Adds<'_>| {
        let (mut own, mut other) = (vec![0.5; 5], vec![0.0; 8]);
        add(&one, &parameters, &mut own);
        add(&each, &equal, &mut other);
        let scale: f64 = other.drain(4..).sum();
        other.push(scale);
        // Added to the present gradient.
        other.iter_mut().for_each(|slot| *slot += 0.5);
        close(&own, &other, EXACT);
    };
    agree(&|family, parameters, out| family.vjp(parameters, &noise, &location, &deviation, out));
    agree(&|family, parameters, out| {
        let plain = DrawGradient::new(&location, &deviation);
        let gradient = DrawGradient { factor: -0.5, with_entropy: true, by_variance: &cells[..4], ..plain };
        family.add_gradient(parameters, &noise, gradient, out).unwrap();
    });
    agree(&|family, parameters, out| family.add_entropy_gradient(parameters, out));
    // The gradient by the variances of layers under local reparameterisation.
    agree(&|family, parameters, out| family.vjp_variance(parameters, &location, out).unwrap());
    for covariance in [CovarianceGradient::Diagonal(deviation.clone()), CovarianceGradient::Full(cells.clone())] {
        let gradient = MomentGradient { mean: location.clone(), covariance };
        agree(&|family, parameters, out| family.vjp_moments(parameters, &gradient, out));
    }
}

#[test]
fn averages_of_isotropic_densities_are_isotropic() {
    let family = IsotropicGaussian::new(2);
    let members = [vec![0.0, 2.0, 0.0], vec![2.0, 0.0, 2.0_f64.ln()]];
    // Standard deviations 1 and 2 average; their logarithms do; precisions 1 and 1/4 do, and weigh the means.
    let average = |rule: &dyn Averaging, weights: [f64; 2]| rule.average(&family, &members, &weights).unwrap();
    close(&average(&Barycentre, [0.75, 0.25]), &[0.5, 1.5, 1.25_f64.ln()], EXACT);
    close(&average(&ParameterMean, [0.75, 0.25]), &[0.5, 1.5, 0.25 * 2.0_f64.ln()], EXACT);
    close(&average(&LogPool, [0.5, 0.5]), &[0.4, 1.6, -0.5 * 0.625_f64.ln()], EXACT);
}

/// Rows of three numbers around three unknown means, all of standard deviation 1, with standard normal priors: the
/// posterior is isotropic.
#[derive(Module, Debug)]
struct Means {}

impl Model for Means {
    type Globals = Tensor<1>;
    type Data = Tensor<2>;

    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        scope.sample("z", Normal::new(0.0, 1.0).iid([3]))
    }

    fn local(&self, scope: &mut Scope<'_>, z: &Tensor<1>, data: &Tensor<2>) -> Result<()> {
        scope.plate("row", data.dims()[0], |scope, rows| {
            let outcomes = rows.take(data)?;
            let locations = z.clone().unsqueeze::<2>().expand(outcomes.dims());
            scope.observe("y", Normal::new(locations, 1.0), outcomes)
        })
    }
}

/// Rows of each silo.
const SIZES: [usize; 3] = [2, 4, 3];

/// The numbers of each silo, row by row.
fn numbers() -> Vec<Vec<f64>> {
    let mut noise = Noise::new(31).stream(Key::new(Purpose::Prior, 0));
    let mut silo = |rows: usize| -> Vec<f64> {
        (0..3 * rows).map(|cell| [0.7, -1.1, 0.4][cell % 3] + noise.standard_normal()).collect()
    };
    SIZES.iter().map(|rows| silo(*rows)).collect()
}

fn silos() -> Vec<(String, Tensor<2>)> {
    let device = Device::flex();
    let data = |(values, rows): (Vec<f64>, usize)| (format!("silo-of-{rows}"), device.tensor(values, [rows, 3]));
    numbers().into_iter().zip(SIZES).map(data).collect()
}

/// Sums of the numbers of each column, and of their squares.
fn sums(numbers: &[f64]) -> [[f64; 2]; 3] {
    [0, 1, 2].map(|column| {
        let own = || numbers.iter().skip(column).step_by(3);
        [own().sum(), own().map(|value| value * value).sum()]
    })
}

/// Natural parameters of the exact posterior of some rows: sums, and minus half of one and the number of rows.
fn posterior(numbers: &[f64]) -> Vec<f64> {
    let rows = numbers.len() as f64 / 3.0;
    sums(numbers).map(|[sum, _]| sum).into_iter().chain([-0.5 * (1.0 + rows)]).collect()
}

fn settings(steps: u64) -> Settings {
    let family = FamilyPlan::new().global(Gaussian::isotropic());
    Settings { steps, family, schedule: Schedule::Cosine { initial: 0.05, last: 0.0 }, ..Settings::default() }
}

const RULE: Expectation = Expectation::GaussHermite { points: 4 };

#[test]
fn one_sweep_of_partitioned_inference_finds_an_isotropic_posterior_by_every_solver() {
    let expected = posterior(&numbers().concat());
    let solvers = [
        (NaturalGradient { rate: 1.0, expectation: RULE }.into(), 1e-9),
        (Conjugate.into(), 1e-9),
        // It ends at a gradient of 1e-8.
        (Lbfgs::new(RULE).into(), 1e-6),
    ];
    for (solver, bound) in solvers {
        let options = PviOptions { solver, ..PviOptions::new(100) };
        let run = Run::new(&Means {}, &silos(), &settings(1_000), options);
        assert!(run.pvi.log_normaliser().is_some(), "a standard normal prior is of the family");
        close(run.pvi.prior(), &[0.0, 0.0, 0.0, -0.5], EXACT);
        let run = run.steps(3);
        close(run.pvi.natural(), &expected, bound);
        // Every factor equals its silo's likelihood.
        for (silo, numbers) in numbers().iter().enumerate() {
            let likelihood = minus(&posterior(numbers), &[0.0, 0.0, 0.0, -0.5]);
            close(run.pvi.factor(silo).unwrap(), &likelihood, bound);
        }
        // The posterior is also published in the parameters of its family.
        let (mean, spread) = NormalFamily::isotropic(3).moments(&expected);
        let parameters = [mean, vec![spread.deviations()[0].ln()]].concat();
        close(run.pvi.posterior().parameters, &parameters, bound);
    }
}

#[test]
fn sfvi_climbs_to_an_isotropic_posterior_and_its_evidence() {
    let (device, numbers) = (Device::flex(), numbers().concat());
    let options = FitOptions { settings: settings(6_000), ..FitOptions::default() };
    let fitted = fit(&Means {}, &silos(), &device, &options, None).unwrap();
    let (mean, spread) = NormalFamily::isotropic(3).moments(&posterior(&numbers));
    let sd = spread.deviations()[0];
    let found = fitted.posterior().parameters;
    assert_eq!(found.len(), 4);
    // Sticking the landing has no noise if the family contains the posterior.
    for (found, expected) in found.iter().zip(&mean) {
        assert!((found - expected).abs() < 0.01 * sd, "{found} against {expected}");
    }
    assert!((found[3].exp() / sd - 1.0).abs() < 0.01, "sd {}, exact {sd}", found[3].exp());
    let rows = numbers.len() as f64 / 3.0;
    let column = |[sum, squares]: [f64; 2]| -> f64 {
        -0.5 * (rows * (2.0 * PI).ln() + (rows + 1.0).ln() + squares - sum * sum / (rows + 1.0))
    };
    let evidence: f64 = sums(&numbers).map(column).iter().sum();
    assert!((fitted.report.elbo - evidence).abs() < 1e-3, "{} against {evidence}", fitted.report.elbo);
}

#[test]
fn of_a_posterior_with_correlations_the_mean_is_found_and_the_mean_of_the_precisions() {
    let data = pooled(&four_silos(), &Device::flex());
    let options = conjugate_options(SiloSchedule::Sequential(Order::Fixed));
    let run = Run::new(&LINEAR, &data, &settings(100), options).steps(1);
    let exact = exact(&data, 3);
    let (mean, _) = NormalFamily::full(3).moments(&exact);
    // The diagonal of the packed precision.
    let second = (exact[3] + exact[5] + exact[8]) / 3.0;
    let expected: Vec<f64> = mean.iter().map(|mean| -2.0 * second * mean).chain([second]).collect();
    // A covariance of condition up to 100.
    close(run.pvi.natural(), &expected, 1e-10);
}

/// A prior of two scales, alone.
#[derive(Module, Debug)]
struct TwoScales {}

impl Model for TwoScales {
    type Globals = ();
    type Data = Tensor<1>;

    fn global(&self, scope: &mut Scope<'_>) -> Result<()> {
        scope.sample::<1, _>("a", Normal::new(0.5, 1.0).iid([1]))?;
        scope.sample::<1, _>("b", Normal::new(-1.0, 2.0).iid([2])).map(drop)
    }

    fn local(&self, _: &mut Scope<'_>, (): &(), _: &Tensor<1>) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_normal_prior_of_several_scales_is_replaced_by_the_nearest_isotropic_factor() {
    let solver = NaturalGradient { rate: 0.5, expectation: RULE }.into();
    let options = PviOptions { solver, ..PviOptions::new(300) };
    let names = ["a".to_owned()];
    let pvi = Pvi::new(&TwoScales {}, &Device::flex(), &settings(1_000), &names, vec![1], options).unwrap();
    assert!(pvi.log_normaliser().is_none(), "precisions of 1 and 1/4 were taken for one");
    // The mean of the precisions 1, 1/4 and 1/4, at the means of the prior.
    close(pvi.prior(), &[0.25, -0.5, -0.5, -0.25], 1e-9);
}

#[test]
fn all_globals_that_are_named_leave_nothing_behind() {
    let table = SiteTable::globals(&Means {}, &Device::flex()).unwrap();
    let plan = FamilyPlan::new().global(Gaussian::isotropic()).site("z", Gaussian::isotropic());
    let (family, natural) = (plan.global_family(&table).unwrap(), plan.natural_family(&table).unwrap());
    assert_eq!(natural, NormalFamily::isotropic(3));
    assert_eq!((family.parameter_len(), natural.natural_len()), (4, 4));
    let start = plan.start(&*family, &table);
    let eta = natural.natural_of_member(&*family, &start).unwrap();
    close(&natural.member(&*family, &eta).unwrap(), &start, EXACT);
}

#[test]
fn the_choice_is_saved_by_its_name() {
    let plan = FamilyPlan::new().global(Gaussian::isotropic());
    let text = serde_json::to_string(&plan).unwrap();
    assert!(text.contains("\"Isotropic\""), "{text}");
    assert_eq!(serde_json::from_str::<FamilyPlan>(&text).unwrap(), plan);
}
