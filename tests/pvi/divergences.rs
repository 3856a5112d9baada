//! Compares divergences of normal densities with integrals, known numbers, limits and differences.

mod draws;

use partita::core::{Key, Noise, Purpose};
use partita::inference::{
    BetaDivergence, CovarianceForm, DiagonalGaussian, Divergence, Error, ExponentialFamily, FDivergence, Family,
    FullRankGaussian, GammaDivergence, Generator, IsotropicGaussian, JensenShannon, KullbackLeibler, NoDivergence,
    NormalFamily, Plug, Renyi, ReverseKullbackLeibler,
};
use partita::{Device, FamilyPlan, Gaussian, Model, Normal, Result, Scope, SiteTable, burn};
use partita_core::special::sigmoid;
use partita_laws as laws;
use partita_laws::derivative;

/// The trapezoidal rule on a fine grid is exact to rounding for functions that decay like normal densities.
const QUADRATURE: f64 = 1e-11;
/// Closed form against closed form, with the condition of a covariance.
const EXACT: f64 = 1e-12;
/// Fourth-order differences with step 1e-3 of functions of order ten.
const DIFFERENCE: f64 = 1e-8;
/// A correct estimate is farther off with probability 6e-7.
const STANDARD_ERRORS: f64 = 5.0;
/// Means and variances of q and p.
const PAIRS: [[f64; 4]; 4] =
    [[0.3, 0.7, -0.4, 1.9], [1.0, 1.4, 0.2, 1.1], [0.0, 0.05, 2.0, 3.0], [-1.0, 2.0, 1.0, 2.5]];

fn one(mean: f64, variance: f64) -> Vec<f64> {
    NormalFamily::diagonal(1).natural_of_standard(&[mean, variance.sqrt()]).unwrap()
}

/// The divergence of two normal densities of one number.
fn of_one(divergence: &dyn Divergence, [m, v, n, w]: [f64; 4]) -> f64 {
    divergence.evaluate(&NormalFamily::diagonal(1), &one(m, v), &one(n, w)).unwrap().value
}

/// The integral of a function of the two log densities.
fn integral([m, v, n, w]: [f64; 4], function: impl Fn(f64, f64) -> f64) -> f64 {
    let log_density = |x: f64, mean: f64, variance: f64| {
        -0.5 * ((x - mean).powi(2) / variance + (2.0 * std::f64::consts::PI * variance).ln())
    };
    let step = 1.0 / 512.0;
    let values = (-40 * 512..=40 * 512).map(|place| {
        let x = f64::from(place) * step;
        function(log_density(x, m, v), log_density(x, n, w))
    });
    step * values.sum::<f64>()
}

fn close(found: f64, expected: f64, bound: f64) {
    assert!((found - expected).abs() <= bound * (1.0 + expected.abs()), "{found} against {expected}");
}

#[test]
fn the_known_values_of_renyi_and_kullback_leibler_come_out() {
    // Ten digits are known.
    let known = [
        (0.25, 0.530_447_297_1),
        (0.5, 0.428_011_125_2),
        (0.75, 0.360_543_534_9),
        (1.5, 0.247_885_046_2),
        (1.0, 0.312_422_309_8),
        (0.0, 0.707_878_442_0),
    ];
    for (alpha, expected) in known {
        assert!((of_one(&Renyi { alpha }, PAIRS[0]) - expected).abs() < 1e-10, "{alpha}");
    }
    assert!((of_one(&KullbackLeibler, PAIRS[0]) - 0.312_422_309_8).abs() < 1e-10);
    assert!((of_one(&ReverseKullbackLeibler, PAIRS[0]) - 0.707_878_442_0).abs() < 1e-10);
}

#[test]
fn every_divergence_is_its_integral() {
    for pair in PAIRS {
        let kl = integral(pair, |q, p| q.exp() * (q - p));
        close(of_one(&KullbackLeibler, pair), kl, QUADRATURE);
        close(of_one(&ReverseKullbackLeibler, pair), integral(pair, |q, p| p.exp() * (p - q)), QUADRATURE);
        for alpha in [0.2, 0.5, 0.7, 1.4, 2.0] {
            let log_integral = integral(pair, |q, p| (alpha * q + (1.0 - alpha) * p).exp()).ln();
            close(of_one(&Renyi { alpha }, pair), log_integral / (alpha * (alpha - 1.0)), QUADRATURE);
        }
        for beta in [0.8, 1.2, 1.5, 2.0] {
            let own = integral(pair, |q, _| (beta * q).exp());
            let other = integral(pair, |_, p| (beta * p).exp());
            let cross = integral(pair, |q, p| (q + (beta - 1.0) * p).exp());
            let expected = own / (beta * (beta - 1.0)) + other / beta - cross / (beta - 1.0);
            close(of_one(&BetaDivergence { beta }, pair), expected, QUADRATURE);
            let expected = own.ln() / (beta * (beta - 1.0)) + other.ln() / beta - cross.ln() / (beta - 1.0);
            close(of_one(&GammaDivergence { gamma: beta }, pair), expected, QUADRATURE);
        }
        assert!(of_one(&NoDivergence, pair) == 0.0);
    }
}

/// Correlated, independent, isotropic and mixed families, with parameters of two of their members.
fn families() -> Vec<(NormalFamily, Vec<f64>, Vec<f64>)> {
    vec![
        (NormalFamily::diagonal(3), vec![0.3, -1.0, 2.0, 0.8, 0.6, 1.1], vec![0.0, -0.5, 1.0, 1.2, 1.3, 1.2]),
        (
            NormalFamily::full(3),
            vec![0.3, -1.0, 2.0, 0.8, -0.5, 1.2, 0.1, 0.3, 0.7],
            vec![1.0, 0.5, 0.0, 1.6, 0.2, 1.9, 0.4, -0.3, 1.4],
        ),
        (
            NormalFamily::of_parts(vec![(vec![2, 0], CovarianceForm::Full), (vec![1], CovarianceForm::Diagonal)])
                .unwrap(),
            vec![0.3, -1.0, 2.0, 0.8, -0.5, 1.2, 0.7],
            vec![1.0, 0.5, 0.0, 1.6, 0.2, 1.9, 1.1],
        ),
        (NormalFamily::isotropic(3), vec![0.3, -1.0, 2.0, 0.8], vec![0.0, -0.5, 1.0, 1.2]),
    ]
}

#[test]
fn in_several_dimensions_divergences_are_what_the_log_partition_function_says() {
    for (family, q, p) in families() {
        let (q, p) = (family.natural_of_standard(&q).unwrap(), family.natural_of_standard(&p).unwrap());
        let at = |a: f64, b: f64| {
            let mixed: Vec<f64> = q.iter().zip(&p).map(|(q, p)| a * q + b * p).collect();
            family.log_partition(&mixed)
        };
        let value = |divergence: &dyn Divergence| divergence.evaluate(&family, &q, &p).unwrap().value;
        close(value(&KullbackLeibler), family.kl_divergence(&q, &p), EXACT);
        close(value(&ReverseKullbackLeibler), family.kl_divergence(&p, &q), EXACT);
        for alpha in [0.25, 0.6, 1.3] {
            let expected =
                at(alpha, 1.0 - alpha) / (alpha * (alpha - 1.0)) - at(1.0, 0.0) / (alpha - 1.0) + at(0.0, 1.0) / alpha;
            close(value(&Renyi { alpha }), expected, EXACT);
        }
        for index in [0.7, 1.25, 2.0] {
            let own = at(index, 0.0) - index * at(1.0, 0.0);
            let other = at(0.0, index) - index * at(0.0, 1.0);
            let cross = at(1.0, index - 1.0) - at(1.0, 0.0) - (index - 1.0) * at(0.0, 1.0);
            let combine =
                |[own, other, cross]: [f64; 3]| own / (index * (index - 1.0)) + other / index - cross / (index - 1.0);
            close(value(&GammaDivergence { gamma: index }), combine([own, other, cross]), EXACT);
            let expected = combine([own, other, cross].map(f64::exp));
            close(value(&BetaDivergence { beta: index }), expected, EXACT);
        }
    }
}

fn closed_forms() -> Vec<Box<dyn Divergence>> {
    let mut all: Vec<Box<dyn Divergence>> =
        vec![Box::new(KullbackLeibler), Box::new(ReverseKullbackLeibler), Box::new(NoDivergence)];
    for index in [0.6, 1.0, 1.4] {
        all.push(Box::new(Renyi { alpha: index }));
        all.push(Box::new(BetaDivergence { beta: index }));
        all.push(Box::new(GammaDivergence { gamma: index }));
    }
    all
}

/// A vector of two, a number, and a vector of three.
#[derive(burn::module::Module, Debug)]
struct ThreeSites {}

impl Model for ThreeSites {
    type Globals = ();
    type Data = ();

    fn global(&self, scope: &mut Scope<'_>) -> Result<()> {
        scope.sample("a", Normal::new(0.0, 1.0).iid([2]))?;
        scope.sample("b", Normal::new(0.0, 1.0))?;
        scope.sample("c", Normal::new(0.0, 1.0).iid([3])).map(drop)
    }

    fn local(&self, _: &mut Scope<'_>, (): &(), (): &()) -> Result<()> {
        Ok(())
    }
}

#[test]
fn gradients_reach_the_parameters_of_every_family_as_differences_say() {
    let table = SiteTable::globals(&ThreeSites {}, &Device::flex()).unwrap();
    let plan = FamilyPlan::new().global(Gaussian::diagonal()).site("c", Gaussian::full_rank());
    let (full, diagonal) = (CovarianceForm::Full, CovarianceForm::Diagonal);
    let mixed = NormalFamily::of_parts(vec![(vec![3, 4, 5], full), (vec![0, 1, 2], diagonal)]).unwrap();
    let shared = plan.clone().site("a", Gaussian::isotropic());
    let parts = vec![(vec![3, 4, 5], full), (vec![2], diagonal), (vec![0, 1], CovarianceForm::Isotropic)];
    let families: [(Box<dyn Family>, NormalFamily); 5] = [
        (Box::new(DiagonalGaussian::new(3)), NormalFamily::diagonal(3)),
        (Box::new(FullRankGaussian::new(3)), NormalFamily::full(3)),
        (Box::new(IsotropicGaussian::new(3)), NormalFamily::isotropic(3)),
        (plan.global_family(&table).unwrap(), mixed),
        (shared.global_family(&table).unwrap(), NormalFamily::of_parts(parts).unwrap()),
    ];
    for (family, natural) in families {
        let mut noise = Noise::new(3).stream(Key::new(Purpose::Check, 0));
        let mut member = |scale: f64| {
            let initial = family.initial(scale).into_iter();
            initial.map(|value| value + 0.2 * noise.standard_normal()).collect::<Vec<f64>>()
        };
        let (q, p) = (member(0.6), member(1.1));
        let p = natural.natural_of_member(&*family, &p).unwrap();
        for divergence in closed_forms() {
            let value = |parameters: &[f64]| {
                let q = natural.natural_of_member(&*family, parameters).unwrap();
                divergence.evaluate(&natural, &q, &p).unwrap().value
            };
            let own = natural.natural_of_member(&*family, &q).unwrap();
            let mut gradient = vec![0.0; q.len()];
            family.vjp_moments(&q, &divergence.evaluate(&natural, &own, &p).unwrap().gradient, &mut gradient);
            for (index, found) in gradient.iter().enumerate() {
                let expected = derivative(value, &q, index);
                assert!((found - expected).abs() < DIFFERENCE, "{divergence:?} {index}: {found} against {expected}");
            }
            // The natural gradient is the same by mean parameters.
            let means = natural.mean_parameters(&own);
            let by_means = divergence.by_mean_parameters(&natural, &own, &p).unwrap();
            let value = |means: &[f64]| {
                divergence.evaluate(&natural, &natural.natural_of_mean(means).unwrap(), &p).unwrap().value
            };
            for (index, found) in by_means.iter().enumerate() {
                let expected = derivative(value, &means, index);
                // Mean parameters move variances by more than parameters do.
                let bound = 100.0 * DIFFERENCE * (1.0 + expected.abs());
                assert!((found - expected).abs() < bound, "{divergence:?} {index}: {found} against {expected}");
            }
        }
    }
}

#[test]
fn a_divergence_is_zero_with_gradient_zero_at_its_cavity_and_positive_elsewhere() {
    for (family, q, p) in families() {
        let (q, p) = (family.natural_of_standard(&q).unwrap(), family.natural_of_standard(&p).unwrap());
        for divergence in closed_forms() {
            let here = divergence.evaluate(&family, &q, &q).unwrap();
            assert!(here.value.abs() < EXACT, "{divergence:?}: {}", here.value);
            let by_means = divergence.by_mean_parameters(&family, &q, &q).unwrap();
            assert!(by_means.iter().all(|g| g.abs() < EXACT), "{divergence:?}: {by_means:?}");
            let there = divergence.evaluate(&family, &q, &p).unwrap().value;
            assert!(there > 0.0 || format!("{divergence:?}") == "NoDivergence", "{divergence:?}: {there}");
        }
    }
}

#[test]
fn indices_near_their_limits_lose_no_digits() {
    let pair = PAIRS[0];
    let (kl, reverse) = (of_one(&KullbackLeibler, pair), of_one(&ReverseKullbackLeibler, pair));
    for distance in [0.0, 1e-15, 1e-12, 1e-9, 1e-6] {
        // The slopes of all of them by the index are below one here.
        let bound = distance + 4.0 * f64::EPSILON;
        for sign in [-1.0, 1.0] {
            let index = 1.0 + sign * distance;
            assert!((of_one(&Renyi { alpha: index }, pair) - kl).abs() <= bound, "{index}");
            assert!((of_one(&BetaDivergence { beta: index }, pair) - kl).abs() <= bound, "{index}");
            assert!((of_one(&GammaDivergence { gamma: index }, pair) - kl).abs() <= bound, "{index}");
        }
        assert!((of_one(&Renyi { alpha: distance }, pair) - reverse).abs() <= bound, "{distance}");
    }
}

#[test]
fn means_far_from_zero_cost_no_digits() {
    // Sixteenths, so that the shift itself is exact; means a thousand times their deviations apart from zero.
    let (near, far) = ([0.0625, 0.015_625, -0.125, 0.0625], [1000.0625, 0.015_625, 999.875, 0.0625]);
    for divergence in closed_forms() {
        let (near, far) = (of_one(&*divergence, near), of_one(&*divergence, far));
        // Natural parameters hold the mean times the precision: a relative error of 1e-16 in 64 000 is one of 1e-12 in
        // the offset.
        assert!((near - far).abs() < 2e-11 * (1.0 + near), "{divergence:?}: {near} against {far}");
    }
}

#[test]
fn a_posterior_too_wide_for_its_index_is_refused_with_the_largest_variance() {
    let family = NormalFamily::diagonal(3);
    let natural = |variances: [f64; 3]| {
        let sds = variances.map(f64::sqrt);
        family.natural_of_standard(&[0.1, 0.2, 0.3, sds[0], sds[1], sds[2]]).unwrap()
    };
    let refused = |divergence: &dyn Divergence, variances| {
        let found = divergence.evaluate(&family, &natural(variances), &natural([2.0; 3])).unwrap_err();
        let Error::DivergenceDomain { component, found, largest, index, .. } = found else { panic!("{found}") };
        (component, found, largest, index)
    };
    // α/(α - 1) = 5/3 for α = 2.5.
    let (component, found, largest, alpha) = refused(&Renyi { alpha: 2.5 }, [1.0, 3.5, 3.4]);
    assert_eq!((component, alpha), (1, 2.5));
    close(found, 3.5, EXACT);
    close(largest, 10.0 / 3.0, EXACT);
    Renyi { alpha: 2.5 }.evaluate(&family, &natural([1.0, 3.3, 3.2]), &natural([2.0; 3])).unwrap();
    let (component, _, largest, _) = refused(&BetaDivergence { beta: 0.6 }, [1.0, 1.0, 5.5]);
    assert!(component == 2);
    close(largest, 5.0, EXACT);
    close(refused(&GammaDivergence { gamma: 0.6 }, [1.0, 1.0, 5.5]).2, 5.0, EXACT);
    // Along a direction of a full covariance: diag(9, 1) turned by 45 degrees, against the identity.
    let family = NormalFamily::full(2);
    let q = family.natural_of_standard(&[0.0, 0.0, 5.0, 4.0, 5.0]).unwrap();
    let p = family.natural_of_standard(&[0.0, 0.0, 1.0, 0.0, 1.0]).unwrap();
    let found = Renyi { alpha: 1.5 }.evaluate(&family, &q, &p).unwrap_err();
    let Error::DivergenceDomain { found, largest, .. } = &found else { panic!("{found}") };
    // The direction has variance 9 and may have 3.
    close(found / largest, 3.0, EXACT);
}

#[test]
fn the_error_says_divergence_index_component_and_how_to_start() {
    let found = Renyi { alpha: 5.0 }.evaluate(&NormalFamily::diagonal(1), &one(0.0, 4.0), &one(0.0, 1.0)).unwrap_err();
    let text = found.to_string();
    fixtures::says(
        &text,
        &["Rényi divergence with index 5", "component 0 is 4", "below 1.25", "Start::Tight", "below 1.118"],
    );
}

#[test]
fn an_improper_cavity_is_refused_by_all_but_kullback_leibler() {
    let family = NormalFamily::diagonal(1);
    let improper = [0.4, 0.1];
    for divergence in closed_forms() {
        let found = divergence.evaluate(&family, &one(0.3, 0.7), &improper);
        match format!("{divergence:?}").as_str() {
            "KullbackLeibler" | "NoDivergence" => assert!(found.is_ok()),
            _ => assert!(matches!(found, Err(Error::Improper { .. })), "{divergence:?}"),
        }
    }
    // Up to the constant: E_q[log q - η·T].
    let value =
        |mean: f64, variance: f64| KullbackLeibler.evaluate(&family, &one(mean, variance), &improper).unwrap().value;
    let expected = |mean: f64, variance: f64| {
        -0.5 * (2.0 * std::f64::consts::PI * std::f64::consts::E * variance).ln()
            - (0.4 * mean + 0.1 * (mean * mean + variance))
    };
    close(value(0.3, 0.7), expected(0.3, 0.7), EXACT);
    close(value(-2.0, 0.1), expected(-2.0, 0.1), EXACT);
    let gradient = KullbackLeibler.evaluate(&family, &one(0.3, 0.7), &improper).unwrap().gradient;
    close(gradient.mean[0], derivative(|m| expected(m[0], 0.7), &[0.3], 0), DIFFERENCE);
    close(gradient.covariance.by_variance(1)[0], derivative(|v| expected(0.3, v[0]), &[0.7], 0), DIFFERENCE);
}

#[test]
fn indices_that_mean_nothing_are_refused() {
    let refused: [Plug<dyn Divergence>; 5] = [
        Renyi { alpha: -0.5 }.into(),
        Renyi { alpha: f64::NAN }.into(),
        BetaDivergence { beta: 0.0 }.into(),
        GammaDivergence { gamma: f64::INFINITY }.into(),
        FDivergence::new(JensenShannon, 1).into(),
    ];
    for choice in refused {
        assert!(matches!(choice.check(), Err(Error::Setting { .. })), "{choice:?}");
    }
    for choice in [Plug::<dyn Divergence>::default(), Renyi { alpha: 0.0 }.into(), NoDivergence.into()] {
        choice.check().unwrap();
    }
}

#[test]
fn indices_that_mean_nothing_are_refused_of_divergences_built_without_a_choice() {
    let few =
        FDivergence { generator: JensenShannon, draws: 1, noise: Noise::new(1), key: Key::new(Purpose::Check, 0) };
    let built: [&dyn Divergence; 6] = [
        &Renyi { alpha: -0.5 },
        &Renyi { alpha: f64::NAN },
        &BetaDivergence { beta: 0.0 },
        &BetaDivergence { beta: -1.0 },
        &GammaDivergence { gamma: f64::INFINITY },
        &few,
    ];
    for divergence in built {
        let found = divergence.evaluate(&NormalFamily::diagonal(1), &one(0.3, 0.7), &one(0.0, 1.0));
        assert!(matches!(found, Err(Error::Setting { .. })), "{divergence:?}: {found:?}");
    }
}

#[test]
fn a_beta_divergence_whose_integrals_vanish_is_an_error_that_names_the_component() {
    let divergence = BetaDivergence { beta: 1.5 };
    let density = |len: usize, wide: usize| {
        let sds = (0..len).map(|component| if component == wide { 30.0 } else { 10.0 });
        let standard: Vec<f64> = std::iter::repeat_n(0.0, len).chain(sds).collect();
        NormalFamily::diagonal(len).natural_of_standard(&standard).unwrap()
    };
    // Half of log(10 √2π) a component and half of ½ log 1.5: each takes 1.8 from the logarithm, so that 300 are fine.
    let found = divergence.evaluate(&NormalFamily::diagonal(300), &density(300, 7), &density(300, 9)).unwrap();
    assert!(found.gradient.mean.iter().chain(&found.gradient.covariance.by_variance(300)).any(|g| *g != 0.0));
    let found = divergence.evaluate(&NormalFamily::diagonal(500), &density(500, 7), &density(500, 7)).unwrap_err();
    let text = found.to_string();
    assert!(matches!(found, Error::Setting { setting: "divergence", .. }), "{text}");
    fixtures::says(&text, &["500 components", "component 7 of variance 9.000e2", "Gamma"]);
    // Far means make the integral of q p^0.5 vanish alone.
    let found = divergence.evaluate(&NormalFamily::diagonal(1), &one(70.0, 1.0), &one(0.0, 1.0)).unwrap_err();
    assert!(found.to_string().contains("component 0 of variance 1.000e0, 7.000e1 standard deviations"), "{found}");
}
