//! Holds every density to the laws of densities, one row each.

use partita::burn::tensor::Tensor;
use partita_core::{
    Array, Bernoulli, Beta, BetaBinomial, Binomial, Categorical, Cauchy, Density, Device, Dirichlet, Distribution,
    Exponential, Flat, Gamma, Geometric, Gradient, HalfCauchy, HalfNormal, HalfStudentT, InverseGamma, InverseGaussian,
    Laplace, LkjCholesky, LogNormal, Multinomial, MultivariateNormal, MultivariateStudentT, NegativeBinomial,
    NoiseStream, Normal, OrderedLogistic, OrderedProbit, ParameterRule, PiecewiseExponential, Poisson, Precision,
    Signature, SkewNormal, StudentT, Support, SymmetricDirichlet, Uniform, VonMises, Weibull, WishartCholesky,
};
use partita_laws::{DensityCase, DensityLaw, density, density_on_device};

/// One case: the value, then the parameters.
type Row<'a> = (&'a [f64], &'a [&'a [f64]]);

macro_rules! holds {
    ($($name:ident: $density:expr, $rows:expr;)+) => {
        $(
            #[test]
            fn $name() {
                let rows: &[Row<'_>] = &$rows;
                let case = |(value, parameters): &Row<'_>| DensityCase::new(value, parameters);
                let cases: Vec<_> = rows.iter().map(case).collect();
                assert_eq!(density(&$density, &cases), Ok(()));
                // Stirling's series and the logarithms between lose a few digits more than the host's special
                // functions.
                density_on_device(&$density, &cases, &Device::flex(), 1e-10).unwrap();
            }
        )+
    };
}

holds! {
    bernoulli_keeps_the_laws: Bernoulli,
        [(&[1.0], &[&[-2.0]]), (&[0.0], &[&[0.7]]), (&[1.0], &[&[0.0]])];
    beta_keeps_the_laws: Beta,
        [(&[0.3], &[&[2.0], &[5.0]]), (&[0.9], &[&[0.4], &[0.6]]), (&[0.37], &[&[300.0], &[500.0]])];
    binomial_keeps_the_laws: Binomial,
        [(&[3.0], &[&[10.0], &[-1.0]]), (&[0.0], &[&[4.0], &[0.5]]), (&[600.0], &[&[1000.0], &[0.4]])];
    categorical_keeps_the_laws: Categorical,
        [(&[2.0], &[&[0.1, -1.0, 2.0]]), (&[0.0], &[&[0.0, 0.0]]), (&[3.0], &[&[500.0, 501.0, 499.0, 500.5]])];
    cauchy_keeps_the_laws: Cauchy,
        [(&[0.3], &[&[1.0], &[2.0]]), (&[-30.0], &[&[0.0], &[0.5]])];
    dirichlet_keeps_the_laws: Dirichlet,
        [(&[0.2, 0.3, 0.5], &[&[1.0, 2.0, 4.0]]), (&[0.75, 0.25], &[&[0.3, 0.2]]), (&[0.25, 0.75], &[&[20.0, 70.0]])];
    exponential_keeps_the_laws: Exponential,
        [(&[0.3], &[&[2.0]]), (&[40.0], &[&[0.05]])];
    gamma_keeps_the_laws: Gamma,
        [(&[0.3], &[&[2.0], &[5.0]]), (&[0.01], &[&[0.2], &[0.6]]), (&[28.0], &[&[300.0], &[11.0]])];
    half_cauchy_keeps_the_laws: HalfCauchy,
        [(&[0.3], &[&[2.0]]), (&[40.0], &[&[0.5]])];
    half_normal_keeps_the_laws: HalfNormal,
        [(&[0.3], &[&[2.0]]), (&[9.0], &[&[2.5]])];
    inverse_gamma_keeps_the_laws: InverseGamma,
        [(&[0.7], &[&[9.0], &[5.0]]), (&[2.0], &[&[0.5], &[0.6]]), (&[0.035], &[&[300.0], &[11.0]])];
    laplace_keeps_the_laws: Laplace,
        [(&[0.3], &[&[1.0], &[2.0]]), (&[7.0], &[&[0.0], &[0.5]])];
    log_normal_keeps_the_laws: LogNormal,
        [(&[0.3], &[&[-1.0], &[0.5]]), (&[7.0], &[&[2.0], &[0.2]])];
    multinomial_keeps_the_laws: Multinomial,
        [(&[2.0, 0.0, 3.0], &[&[5.0], &[0.3, -1.0, 1.0]]), (&[700.0, 300.0], &[&[1000.0], &[1.0, 0.0]])];
    multivariate_normal_keeps_the_laws: MultivariateNormal,
        [
            (&[0.3, -1.0], &[&[1.0, 2.0], &[2.0, 0.0, -1.5, 0.3]]),
            (&[0.0, 1.0, 2.0], &[&[0.0, 0.5, 3.0], &[0.5, 0.0, 0.0, 0.7, 2.0, 0.0, 1.0, -1.0, 0.4]]),
        ];
    negative_binomial_keeps_the_laws: NegativeBinomial,
        [(&[3.0], &[&[5.0], &[0.2]]), (&[0.0], &[&[0.7], &[1.0]]), (&[12.0], &[&[1000.0], &[-4.6]])];
    normal_keeps_the_laws: Normal,
        [(&[0.3], &[&[1.0], &[2.0]]), (&[-7.0], &[&[100.0], &[15.0]])];
    piecewise_exponential_keeps_the_laws: PiecewiseExponential,
        [
            (&[0.3], &[&[0.4], &[0.1, -1.0], &[2.0]]),
            (&[5.0], &[&[-0.7], &[0.1, -1.5, 0.7, -0.2], &[0.5, 2.0, 9.0]]),
        ];
    poisson_keeps_the_laws: Poisson,
        [(&[3.0], &[&[1.2]]), (&[0.0], &[&[-1.0]]), (&[520.0], &[&[6.2]])];
    student_t_keeps_the_laws: StudentT,
        [
            (&[0.3], &[&[9.0], &[1.0], &[2.0]]),
            (&[-7.0], &[&[1.5], &[0.0], &[0.5]]),
            (&[2.0], &[&[80.0], &[1.0], &[0.7]]),
        ];
    symmetric_dirichlet_keeps_the_laws: SymmetricDirichlet,
        [(&[0.2, 0.3, 0.5], &[&[1.0]]), (&[0.75, 0.25], &[&[0.3]]), (&[0.1, 0.2, 0.4, 0.3], &[&[20.0]])];
    beta_binomial_keeps_the_laws: BetaBinomial,
        [
            (&[3.0], &[&[10.0], &[2.0], &[0.7]]),
            (&[0.0], &[&[4.0], &[0.5], &[30.0]]),
            (&[600.0], &[&[1000.0], &[70.0], &[50.0]]),
        ];
    flat_keeps_the_laws: Flat,
        [(&[3.0], &[])];
    geometric_keeps_the_laws: Geometric,
        [(&[3.0], &[&[-1.2]]), (&[0.0], &[&[2.0]]), (&[40.0], &[&[-3.0]])];
    half_student_t_keeps_the_laws: HalfStudentT,
        [(&[0.3], &[&[9.0], &[2.0]]), (&[7.0], &[&[1.5], &[0.5]]), (&[2.0], &[&[80.0], &[1.2]])];
    inverse_gaussian_keeps_the_laws: InverseGaussian,
        [(&[0.7], &[&[1.0], &[3.0]]), (&[9.0], &[&[4.0], &[40.0]]), (&[0.2], &[&[1.3], &[0.9]])];
    lkj_cholesky_keeps_the_laws: LkjCholesky,
        [
            (&[1.0, 0.0, 0.6, 0.8], &[&[2.5]]),
            (&[1.0, 0.0, 0.0, 0.6, 0.8, 0.0, 0.48, 0.6, 0.64], &[&[0.7]]),
        ];
    multivariate_student_t_keeps_the_laws: MultivariateStudentT,
        [
            (&[0.3, -1.0], &[&[9.0], &[1.0, 2.0], &[2.0, 0.0, -1.5, 0.3]]),
            (
                &[0.0, 1.0, 2.0],
                &[&[30.0], &[0.0, 0.5, 3.0], &[0.5, 0.0, 0.0, 0.7, 2.0, 0.0, 1.0, -1.0, 0.4]],
            ),
        ];
    ordered_logistic_keeps_the_laws: OrderedLogistic,
        [
            (&[1.0], &[&[0.3], &[-1.0, 0.5, 2.0]]),
            (&[0.0], &[&[-0.7], &[0.1]]),
            (&[3.0], &[&[1.2], &[-1.0, 0.5, 2.0]]),
        ];
    ordered_probit_keeps_the_laws: OrderedProbit,
        [
            (&[1.0], &[&[0.3], &[-1.0, 0.5, 2.0]]),
            (&[0.0], &[&[-0.7], &[0.1]]),
            (&[3.0], &[&[1.2], &[-1.0, 0.5, 2.0]]),
        ];
    skew_normal_keeps_the_laws: SkewNormal,
        [
            (&[0.3], &[&[1.0], &[2.0], &[3.0]]),
            (&[-7.0], &[&[0.0], &[4.0], &[-1.5]]),
            (&[2.0], &[&[1.0], &[0.7], &[0.0]]),
        ];
    von_mises_keeps_the_laws: VonMises,
        [(&[0.3], &[&[1.0], &[2.0]]), (&[-3.0], &[&[9.0], &[0.4]]), (&[1.1], &[&[1.0], &[60.0]])];
    weibull_keeps_the_laws: Weibull,
        [(&[0.3], &[&[1.5], &[2.0]]), (&[40.0], &[&[0.8], &[30.0]]), (&[0.9], &[&[20.0], &[1.0]])];
    wishart_cholesky_keeps_the_laws: WishartCholesky,
        [
            (&[1.5, 0.0, 0.4, 0.7], &[&[5.0], &[2.0, 0.0, -1.5, 0.3]]),
            (
                &[1.5, 0.0, 0.0, 0.4, 0.7, 0.0, -1.0, 2.0, 3.0],
                &[&[2.5], &[0.5, 0.0, 0.0, 0.7, 2.0, 0.0, 1.0, -1.0, 0.4]],
            ),
        ];
    uniform_keeps_the_laws: Uniform,
        [(&[0.3], &[&[-1.0], &[2.0]]), (&[1e6], &[&[999_999.0], &[1_000_003.0]])];
}

#[test]
fn device_forms_keep_digits_in_single_precision_where_one_parameter_is_large() {
    let device = Device::flex().with_precision(Precision::Single);
    let case = |value: f64, parameters: &[&[f64]]| DensityCase::new(&[value], parameters);
    let cases: [(&dyn Density, DensityCase); 6] = [
        (&StudentT, case(0.3, &[&[1e5], &[1.0], &[2.0]])),
        (&HalfStudentT, case(0.3, &[&[1e5], &[2.0]])),
        (&NegativeBinomial, case(3.0, &[&[1e5], &[-10.4]])),
        // A value that single precision has.
        (&Beta, case(1.0 - 0.5_f64.powi(15), &[&[1e5], &[2.0]])),
        (&Beta, case(0.5_f64.powi(15), &[&[2.0], &[1e5]])),
        (&BetaBinomial, case(8.0, &[&[10.0], &[1e5], &[2.0]])),
    ];
    for (density, case) in cases {
        assert!(density_on_device(density, &[case], &device, 1e-4).unwrap());
    }
}

/// A normal density with one planted mistake, which the laws must find.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mistake {
    ScaleDerivative,
    Assignment,
    DrawScale,
    DrawMean,
    DrawShape,
    DrawSupport,
    Cumulative,
    Integral,
    IntegralAtOne,
    IntegralDerivative,
    NoIntegral,
    TailSum,
    TailChange,
    TailDerivative,
}

impl Signature for Mistake {
    fn name(&self) -> &'static str {
        "Mistake"
    }

    fn parameters(&self) -> &'static [ParameterRule] {
        Normal.parameters()
    }

    fn support(&self, parameters: [&[f64]; 3]) -> Support {
        Normal.support(parameters)
    }
}

impl Density for Mistake {
    fn log_prob(&self, value: &[f64], parameters: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        if *self == Self::Assignment {
            gradient.value.fill(0.0);
        }
        let log_prob = Normal.log_prob(value, parameters, gradient);
        if let (Self::ScaleDerivative, [slot]) = (self, &mut *gradient.parameters[1]) {
            *slot += gradient.scale * 1e-5;
        }
        log_prob
    }

    fn draw(&self, parameters: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]) {
        Normal.draw(parameters, noise, out);
        let deviation = out[0] - parameters[0][0];
        match self {
            Self::DrawScale => out[0] += 0.05 * deviation,
            Self::DrawMean => out[0] += 0.05 * parameters[1][0],
            // A uniform number with the mean and the variance of the normal one.
            Self::DrawShape => out[0] = parameters[0][0] + parameters[1][0] * 12.0_f64.sqrt() * (noise.uniform() - 0.5),
            Self::DrawSupport => out[0] = f64::NAN,
            _ => {}
        }
    }

    fn mean(&self, parameters: [&[f64]; 3]) -> Option<Vec<f64>> {
        Normal.mean(parameters)
    }

    fn variance(&self, parameters: [&[f64]; 3]) -> Option<Vec<f64>> {
        Normal.variance(parameters)
    }

    fn cumulative(&self, value: f64, parameters: [&[f64]; 3]) -> Option<f64> {
        let factor = if *self == Self::Cumulative { 1.0 + 1e-4 } else { 1.0 };
        if *self == Self::TailChange {
            return Normal.cumulative(value, parameters).map(|cumulative| 0.5 * cumulative);
        }
        Normal.cumulative(value, parameters).map(|cumulative| factor * cumulative)
    }

    fn log_cdf(&self, value: f64, parameters: [&[f64]; 3], gradient: &mut Gradient<'_>) -> Option<f64> {
        let found = Normal.log_cdf(value, parameters, gradient)?;
        if let (Self::TailDerivative, [slot]) = (self, &mut *gradient.parameters[0]) {
            *slot += gradient.scale * 1e-5;
        }
        match self {
            Self::TailSum => Some(found + 1e-6),
            // The tails sum to one, and neither is that of the density.
            Self::TailChange => Some((found.exp() * 0.5).ln()),
            _ => Some(found),
        }
    }

    fn log_survival(&self, value: f64, parameters: [&[f64]; 3], gradient: &mut Gradient<'_>) -> Option<f64> {
        let found = Normal.log_survival(value, parameters, gradient)?;
        Some(if *self == Self::TailChange { (0.5 + 0.5 * found.exp()).ln() } else { found })
    }

    fn log_power_integral(&self, power: f64, parameters: [&[f64]; 3], gradient: &mut Gradient<'_>) -> Option<f64> {
        let found = Normal.log_power_integral(power, parameters, gradient)?;
        if let (Self::IntegralDerivative, [slot]) = (self, &mut *gradient.parameters[1]) {
            *slot += gradient.scale * 1e-5;
        }
        let off = match self {
            Self::Integral => 0.02 * (power - 1.0),
            Self::IntegralAtOne => 1e-6,
            Self::NoIntegral if power > 1.0 => f64::NAN,
            _ => 0.0,
        };
        Some(found + off)
    }
}

fn found(mistake: Mistake) -> Result<(), DensityLaw> {
    let case = DensityCase::new(&[0.3], &[&[1.0], &[2.0]]);
    density(&mistake, &[case]).map_err(|violation| violation.law)
}

#[test]
fn a_wrong_derivative_is_found() {
    use DensityLaw::Derivative;
    assert!(matches!(found(Mistake::ScaleDerivative), Err(Derivative { argument: "scale", .. })));
    assert!(matches!(found(Mistake::Assignment), Err(Derivative { argument: "value", .. })));
}

#[test]
fn wrong_draws_are_found() {
    use DensityLaw::{Distribution, Draw, Moment};
    assert!(matches!(found(Mistake::DrawScale), Err(Moment { moment: "variance", .. })));
    assert!(matches!(found(Mistake::DrawMean), Err(Moment { moment: "mean", .. })));
    assert!(matches!(found(Mistake::DrawShape), Err(Distribution { .. })));
    assert!(matches!(found(Mistake::DrawSupport), Err(Draw { .. })));
}

#[test]
fn a_wrong_cumulative_function_is_found() {
    assert!(matches!(found(Mistake::Cumulative), Err(DensityLaw::Cumulative { .. })));
}

#[test]
fn wrong_tails_are_found() {
    use DensityLaw::{Cumulative, Derivative, Tails};
    assert!(matches!(found(Mistake::TailSum), Err(Tails { .. })));
    // Half the distribution function: already its slope is not the density.
    assert!(matches!(found(Mistake::TailChange), Err(Cumulative { .. })));
    assert!(matches!(found(Mistake::TailDerivative), Err(Derivative { argument: "location", .. })));
}

#[test]
fn a_wrong_integral_of_a_power_is_found() {
    use DensityLaw::{Derivative, Integral};
    assert!(matches!(found(Mistake::Integral), Err(Integral { power: 1.5, .. })));
    assert!(matches!(found(Mistake::IntegralAtOne), Err(Integral { power: 1.0, .. })));
    assert!(matches!(found(Mistake::IntegralDerivative), Err(Derivative { argument: "scale", .. })));
    // What is no number has no derivative, not even by the location.
    assert!(matches!(found(Mistake::NoIntegral), Err(Derivative { argument: "location", .. })));
}

#[test]
fn a_case_outside_the_support_is_refused() {
    let case = DensityCase::new(&[-1.0], &[&[1.0]]);
    let violation = density(&Exponential, &[case]).unwrap_err();
    assert!(matches!(violation.law, DensityLaw::Case { .. }) && violation.subject.ends_with(", case 0"), "{violation}");
    let case = DensityCase::new(&[0.5], &[&[1.0], &[0.0]]);
    assert!(density(&Uniform, &[case]).is_err());
}

#[test]
fn equal_concentrations_make_the_symmetric_dirichlet() {
    // Three, and as many as a vocabulary has words; the concentrations of priors on topics, and one far above.
    for (count, beta) in [(3, 0.7), (2_000, 0.02), (2_000, 5.0), (50, 1e4)] {
        let raw: Vec<f64> = (1..=count).map(|i| (f64::from(i) * 0.618).fract() + 1e-6).collect();
        let total: f64 = raw.iter().sum();
        let value: Vec<f64> = raw.iter().map(|x| x / total).collect();
        let all = vec![beta; value.len()];
        let (mut by_value, mut expected_by_value) = (vec![0.0; value.len()], vec![0.0; value.len()]);
        let (mut by_beta, mut by_each) = ([0.0], vec![0.0; value.len()]);
        let mut slots = Gradient { scale: 1.5, value: &mut by_value, parameters: [&mut by_beta, &mut [], &mut []] };
        let found = SymmetricDirichlet.log_prob(&value, [&[beta], &[], &[]], &mut slots);
        let mut slots =
            Gradient { scale: 1.5, value: &mut expected_by_value, parameters: [&mut by_each, &mut [], &mut []] };
        let expected = Dirichlet.log_prob(&value, [&all, &[], &[]], &mut slots);
        // The terms that cancel are as many as there are categories, each of the size of log x or log Γ.
        let size: f64 = value
            .iter()
            .map(|x| (beta - 1.0).abs() * x.ln().abs() + beta.max(1.0 / beta).ln().abs() * beta.max(1.0))
            .sum();
        assert!((found - expected).abs() <= 1e-13 * size, "{count} {beta}: {found} {expected}");
        assert_eq!(by_value, expected_by_value);
        let sum: f64 = by_each.iter().sum();
        let size: f64 = 1.5 * value.iter().map(|x| x.ln().abs()).sum::<f64>();
        assert!((by_beta[0] - sum).abs() <= 1e-12 * size, "{count} {beta}: {} {sum}", by_beta[0]);
    }
}

#[test]
fn a_number_stands_for_a_tensor_of_that_number() {
    let device = Device::flex();
    let tensor = |value: f64| device.tensor(vec![value; 3], [3]);
    let value = Array { values: vec![0.4, 1.7, 2.9], shape: vec![3] };
    let same = |numbers: Distribution<1>, tensors: Distribution<1>| {
        assert_eq!(numbers.shape(), tensors.shape());
        let (a, b) = (numbers.log_prob_of(&value).unwrap(), tensors.log_prob_of(&value).unwrap());
        assert!((a - b).abs() < 1e-14 * a.abs(), "{a} of numbers, {b} of tensors");
    };
    same(Normal::new(0.3, 1.2).iid([3]), Normal::new(tensor(0.3), tensor(1.2)));
    same(Gamma::new(2.0, 0.7).iid([3]), Gamma::new(tensor(2.0), tensor(0.7)));
    same(StudentT::new(4.0, 0.3, 1.2).iid([3]), StudentT::new(tensor(4.0), tensor(0.3), tensor(1.2)));
    same(Normal::new(0.3, 1.2).iid([3]), Normal::new(tensor(0.3), 1.2));
}

#[test]
fn a_tensor_of_one_element_stands_for_a_number_beside_any_rank() {
    /// With 6 numbers in `$shape`: values and slopes by the tensor of one element against a number in its place.
    macro_rules! beside {
        ($rank:literal, $shape:expr) => {{
            let shape: [usize; $rank] = $shape;
            let device = Device::flex();
            let all = |value: f64| device.leaf((0..6).map(|i| value + f64::from(i) * 0.1).collect::<Vec<_>>(), shape);
            let one = |value: f64| device.leaf(vec![value], [1]);
            let slope = |law: &Distribution<$rank>, at: f64, single: &Tensor<1>| {
                assert_eq!(law.shape(), shape);
                let value = law.log_prob(device.tensor(vec![at; 6], shape)).unwrap();
                let number: f64 = value.clone().into_scalar();
                (number, single.grad(&value.backward()).unwrap().into_scalar::<f64>())
            };
            let near = |value: f64, law: &dyn Fn(f64) -> f64, (found, slope): (f64, f64)| {
                assert!((found - law(value)).abs() < 1e-12, "{found}");
                let expected = (law(value + 1e-5) - law(value - 1e-5)) / 2e-5;
                assert!((slope - expected).abs() < 1e-6, "{slope} {expected}");
            };
            let at = |value: f64| Array::new(vec![value; 6], shape.to_vec()).unwrap();
            let (mean, sd) = (all(0.3), one(1.4));
            let found = slope(&Normal::new(mean.clone(), sd.clone()), 0.7, &sd);
            near(1.4, &|sd| Normal::new(mean.clone(), sd).log_prob_of(&at(0.7)).unwrap(), found);
            let found = slope(&StudentT::new(5.0, mean.clone(), sd.clone()), 0.7, &sd);
            near(1.4, &|sd| StudentT::new(5.0, mean.clone(), sd).log_prob_of(&at(0.7)).unwrap(), found);
            let (degrees, scale) = (one(4.0), all(1.0));
            let found = slope(&StudentT::new(degrees.clone(), mean.clone(), scale.clone()), 0.7, &degrees);
            let by_number = |nu: f64| StudentT::new(nu, mean.clone(), scale.clone()).log_prob_of(&at(0.7)).unwrap();
            near(4.0, &by_number, found);
        }};
    }
    beside!(2, [2, 3]);
    beside!(3, [1, 2, 3]);
    beside!(4, [3, 1, 2, 1]);
}
