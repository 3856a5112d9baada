//! Compares divergences by draws, from generators, with closed forms and integrals.

use super::*;

/// f = -log u: Kullback and Leibler.
#[derive(Debug, Clone, Copy)]
struct Logarithm;

impl Generator for Logarithm {
    fn value(&self, log_ratio: f64) -> f64 {
        log_ratio * sigmoid(log_ratio)
    }

    fn curvature(&self, log_ratio: f64) -> f64 {
        sigmoid(log_ratio)
    }
}

/// f = u log u: Kullback and Leibler the other way.
#[derive(Debug, Clone, Copy)]
struct Entropy;

impl Generator for Entropy {
    fn value(&self, log_ratio: f64) -> f64 {
        -log_ratio * sigmoid(-log_ratio)
    }

    fn curvature(&self, log_ratio: f64) -> f64 {
        sigmoid(-log_ratio)
    }
}

/// f = 2(1 - √u), whose expectation is 2(1 - exp(-D/4)) for Rényi's D of one half.
#[derive(Debug, Clone, Copy)]
struct Hellinger;

impl Generator for Hellinger {
    fn value(&self, log_ratio: f64) -> f64 {
        2.0 * (1.0 - (-0.5 * log_ratio).exp()) * sigmoid(log_ratio)
    }

    fn curvature(&self, log_ratio: f64) -> f64 {
        0.5 * (-0.5 * log_ratio).exp() * sigmoid(log_ratio)
    }
}

/// Twice as curved as its value.
#[derive(Debug, Clone, Copy)]
struct Bent;

impl Generator for Bent {
    fn value(&self, log_ratio: f64) -> f64 {
        Logarithm.value(log_ratio)
    }

    fn curvature(&self, log_ratio: f64) -> f64 {
        2.0 * Logarithm.curvature(log_ratio)
    }
}

/// Not a number.
#[derive(Debug, Clone, Copy)]
struct Undefined;

impl Generator for Undefined {
    fn value(&self, _: f64) -> f64 {
        f64::NAN
    }

    fn curvature(&self, log_ratio: f64) -> f64 {
        Logarithm.curvature(log_ratio)
    }
}

#[test]
fn generators_keep_their_laws_and_a_wrong_value_or_curvature_is_found() {
    let all: [(&str, &dyn Generator); 4] =
        [("log", &Logarithm), ("entropy", &Entropy), ("Hellinger", &Hellinger), ("Jensen-Shannon", &JensenShannon)];
    for (name, generator) in all {
        laws::generator(name, generator).unwrap();
    }
    let violation = laws::generator("bent", &Bent).unwrap_err();
    assert!(matches!(violation.law, laws::GeneratorLaw::Curvature { .. }), "{violation}");
    let violation = laws::generator("undefined", &Undefined).unwrap_err();
    assert!(matches!(violation.law, laws::GeneratorLaw::AtOne { .. }), "{violation}");
}

/// Mean and standard error of a list.
fn mean_with_error(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, (variance / count).sqrt())
}

/// Holds value and natural gradient of draws to a closed form, over 100 keys of 200 draws from each density.
fn draws_agree<G: Generator + Copy + 'static>(
    generator: G,
    value: impl Fn(&NormalFamily, &[f64], &[f64]) -> (f64, Vec<f64>),
) {
    for (family, q, p) in families() {
        let (q, p) = (family.natural_of_standard(&q).unwrap(), family.natural_of_standard(&p).unwrap());
        let (expected, by_means) = value(&family, &q, &p);
        let mut columns = vec![Vec::new(); 1 + by_means.len()];
        for step in 0..100 {
            let noise = Noise::new(17);
            let divergence = FDivergence { generator, draws: 200, noise, key: Key::new(Purpose::Check, step) };
            columns[0].push(divergence.evaluate(&family, &q, &p).unwrap().value);
            let by_means = divergence.by_mean_parameters(&family, &q, &p).unwrap();
            columns[1..].iter_mut().zip(by_means).for_each(|(column, found)| column.push(found));
        }
        for (column, expected) in columns.iter().zip([vec![expected], by_means].concat()) {
            let (found, error) = mean_with_error(column);
            let bound = STANDARD_ERRORS * error + EXACT;
            assert!((found - expected).abs() < bound, "{generator:?}: {found} ± {error} against {expected}");
        }
    }
}

#[test]
fn divergences_by_draws_agree_with_their_closed_forms() {
    let exact = |divergence: &dyn Divergence, family: &NormalFamily, q: &[f64], p: &[f64]| {
        let value = divergence.evaluate(family, q, p).unwrap().value;
        (value, divergence.by_mean_parameters(family, q, p).unwrap())
    };
    draws_agree(Logarithm, |family, q, p| exact(&KullbackLeibler, family, q, p));
    draws_agree(Entropy, |family, q, p| exact(&ReverseKullbackLeibler, family, q, p));
    draws_agree(Hellinger, |family, q, p| {
        let (value, by_means) = exact(&Renyi { alpha: 0.5 }, family, q, p);
        let root = (-0.25 * value).exp();
        (2.0 * (1.0 - root), by_means.iter().map(|g| 0.5 * root * g).collect())
    });
}

#[test]
fn the_divergence_of_jensen_and_shannon_by_draws_is_its_integral() {
    for pair @ [m, v, n, w] in PAIRS {
        let middle = |q: f64, p: f64| (0.5 * (q.exp() + p.exp())).ln();
        let to_middle = |own: f64, middle: f64| if own > -700.0 { own.exp() * (own - middle) } else { 0.0 };
        let expected = integral(pair, |q, p| 0.5 * (to_middle(q, middle(q, p)) + to_middle(p, middle(q, p))));
        assert!(expected < std::f64::consts::LN_2);
        let key = Key::new(Purpose::Check, 0);
        let divergence = FDivergence { generator: JensenShannon, draws: 20_000, noise: Noise::new(29), key };
        let (found, error) = divergence.estimate(&NormalFamily::diagonal(1), &one(m, v), &one(n, w)).unwrap();
        let bound = STANDARD_ERRORS * error;
        assert!((found.value - expected).abs() < bound, "{} ± {error} against {expected}", found.value);
    }
}
