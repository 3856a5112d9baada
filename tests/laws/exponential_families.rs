//! Holds every exponential family to its laws, the laws to faults planted in one, and both to known numbers.

use partita::inference::{CovarianceForm, Error, ExponentialFamily, Impropriety, NormalFamily};
use partita_core::NoiseStream;
use partita_laws::{ExponentialFamilyLaw, exponential_family};

#[test]
fn independent_normals_keep_the_laws() {
    let family = NormalFamily::diagonal(1);
    exponential_family(&family, &[vec![0.3, 0.8], vec![-0.4, 1.4], vec![2.0, 0.5]]).unwrap();
    exponential_family(&NormalFamily::diagonal(2), &[vec![0.3, -1.0, 0.8, 1.2], vec![1.0, 0.5, 0.6, 0.9]]).unwrap();
    exponential_family(&NormalFamily::diagonal(3), &[vec![0.3, -1.0, 2.0, 0.8, 1.2, 0.4], vec![1.0; 6]]).unwrap();
}

#[test]
fn normals_of_any_covariance_keep_the_laws() {
    exponential_family(&NormalFamily::full(1), &[vec![0.3, 0.8], vec![-0.4, 1.4]]).unwrap();
    let members = [vec![0.3, -1.0, 0.8, -0.5, 1.2], vec![1.0, 0.5, 0.6, 0.2, 0.9]];
    exponential_family(&NormalFamily::full(2), &members).unwrap();
    let members =
        [vec![0.3, -1.0, 2.0, 0.8, -0.5, 1.2, 0.1, 0.3, 0.7], vec![1.0, 0.5, 0.0, 0.6, 0.2, 0.9, 0.4, -0.3, 1.1]];
    exponential_family(&NormalFamily::full(3), &members).unwrap();
}

#[test]
fn normals_of_one_variance_keep_the_laws() {
    exponential_family(&NormalFamily::isotropic(1), &[vec![0.3, 0.8], vec![-0.4, 1.4]]).unwrap();
    exponential_family(&NormalFamily::isotropic(2), &[vec![0.3, -1.0, 0.8], vec![1.0, 0.5, 0.6]]).unwrap();
    exponential_family(&NormalFamily::isotropic(3), &[vec![0.3, -1.0, 2.0, 0.8], vec![1.0, 0.5, 0.0, 1.2]]).unwrap();
}

#[test]
fn normals_in_parts_keep_the_laws() {
    use CovarianceForm::{Diagonal, Full, Isotropic};
    // Two correlated components around an independent one, none in order.
    let family = NormalFamily::of_parts(vec![(vec![2, 0], Full), (vec![1], Diagonal)]).unwrap();
    let members = [vec![0.3, -1.0, 2.0, 0.8, -0.5, 1.2, 0.7], vec![1.0, 0.5, 0.0, 0.6, 0.2, 0.9, 1.1]];
    exponential_family(&family, &members).unwrap();
    let family = NormalFamily::of_parts(vec![(vec![1], Diagonal), (vec![0], Full)]).unwrap();
    exponential_family(&family, &[vec![0.3, -1.0, 0.8, 0.5], vec![1.0, 0.5, 0.6, 0.2]]).unwrap();
    // Two components of one variance around a correlated pair.
    let family = NormalFamily::of_parts(vec![(vec![3, 0], Isotropic), (vec![1, 2], Full)]).unwrap();
    let members = [vec![0.3, -1.0, 2.0, 0.4, 0.7, 0.8, -0.5, 1.2], vec![1.0, 0.5, 0.0, 0.2, 1.1, 0.6, 0.2, 0.9]];
    exponential_family(&family, &members).unwrap();
}

#[test]
fn parts_of_a_normal_that_do_not_have_every_component_once_are_refused() {
    use CovarianceForm::{Diagonal, Full, Isotropic};
    for (parts, words) in [
        (vec![(vec![0, 1], Full), (vec![1], Diagonal)], "component 1 of 3, twice"),
        (vec![(vec![0, 2], Isotropic)], "component 2 of 2, which leaves out"),
    ] {
        let error = NormalFamily::of_parts(parts).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("parts of a normal family"), "{error}");
    }
}

#[test]
fn the_divergence_of_two_normals_is_the_known_one_both_ways() {
    let family = NormalFamily::diagonal(1);
    let normal = |mean: f64, variance: f64| family.natural_of_standard(&[mean, variance.sqrt()]).unwrap();
    let (q, p) = (normal(0.3, 0.7), normal(-0.4, 1.9));
    // Ten digits are known.
    assert!((family.kl_divergence(&q, &p) - 0.312_422_309_8).abs() < 1e-10);
    assert!((family.kl_divergence(&p, &q) - 0.707_878_442_0).abs() < 1e-10);
}

#[test]
fn an_improper_precision_matrix_names_its_direction() {
    let family = NormalFamily::full(3);
    // Λ = diag(1, -0.5, 2) with a little between the first and the last.
    let natural = [0.0, 0.0, 0.0, -0.5, 0.0, 0.25, -0.1, 0.0, -1.0];
    let found = family.check("a product", &natural).unwrap_err();
    let Error::Improper { operation, component, found } = found else { panic!("{found}") };
    assert_eq!((operation.as_str(), component.as_str()), ("a product", "component 1"));
    assert!((found + 0.5).abs() < 1e-14);
}

#[test]
fn an_improper_variance_of_many_names_the_first_of_them() {
    let parts = vec![(vec![0], CovarianceForm::Diagonal), (vec![2, 1], CovarianceForm::Isotropic)];
    let family = NormalFamily::of_parts(parts).unwrap();
    let found = family.check("a quotient", &[0.3, -0.2, 0.1, -0.5, 0.25]).unwrap_err();
    let Error::Improper { component, found, .. } = found else { panic!("{found}") };
    assert_eq!((component.as_str(), found), ("component 2", -0.5));
}

/// A normal family with one planted mistake, which the laws must find.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mistake {
    Statistics,
    Redundant,
    Constant,
    Means,
    OfMean,
    OfStandard,
    Standard,
    Score,
    Draw,
    Proper,
    Lenient,
    LenientMean,
    Strict,
}

fn sound() -> NormalFamily {
    NormalFamily::diagonal(1)
}

impl ExponentialFamily for Mistake {
    fn len(&self) -> usize {
        1
    }

    fn natural_len(&self) -> usize {
        2
    }

    fn statistics(&self, point: &[f64]) -> Vec<f64> {
        let mut statistics = sound().statistics(point);
        if *self == Self::Statistics {
            statistics.push(0.0);
        }
        statistics
    }

    fn impropriety(&self, natural: &[f64]) -> Option<Impropriety> {
        match self {
            Self::Proper => None,
            Self::Strict => Some(Impropriety { component: 0, found: natural[0] }),
            // Takes a flat density.
            Self::Lenient => sound().impropriety(natural).filter(|found| found.found != 0.0),
            _ => sound().impropriety(natural),
        }
    }

    fn log_partition(&self, natural: &[f64]) -> f64 {
        match self {
            Self::Constant => sound().log_partition(natural) + 1e-3,
            Self::Redundant => natural[0] + natural[1],
            _ => sound().log_partition(natural),
        }
    }

    fn mean_parameters(&self, natural: &[f64]) -> Vec<f64> {
        let mut means = sound().mean_parameters(natural);
        match self {
            Self::Means => means[1] += 1e-6,
            Self::Redundant => means.fill(1.0),
            _ => {}
        }
        means
    }

    fn natural_of_mean(&self, mean_parameters: &[f64]) -> partita::inference::Result<Vec<f64>> {
        if *self == Self::LenientMean {
            return Ok(sound().natural_of_mean(mean_parameters).unwrap_or_else(|_| vec![0.0, -0.5]));
        }
        let mut natural = sound().natural_of_mean(mean_parameters)?;
        natural[0] *= if *self == Self::OfMean { 1.0 + 1e-9 } else { 1.0 };
        Ok(natural)
    }

    fn standard(&self, natural: &[f64]) -> Vec<f64> {
        let mut standard = sound().standard(natural);
        // Returns the precision and reads it back: consistent with itself, but not with the parameter given.
        if *self == Self::Standard {
            standard[1] = standard[1].recip();
        }
        standard
    }

    fn natural_of_standard(&self, standard: &[f64]) -> partita::inference::Result<Vec<f64>> {
        let mut natural = sound().natural_of_standard(standard)?;
        natural[1] *= if *self == Self::OfStandard { 0.5 } else { 1.0 };
        Ok(natural)
    }

    fn score(&self, natural: &[f64], point: &[f64]) -> Vec<f64> {
        let mut score = sound().score(natural, point);
        score[0] += if *self == Self::Score { 1e-6 } else { 0.0 };
        score
    }

    fn draw(&self, natural: &[f64], noise: &mut NoiseStream) -> Vec<f64> {
        let mut draw = sound().draw(natural, noise);
        draw[0] += if *self == Self::Draw { 0.1 } else { 0.0 };
        draw
    }
}

#[test]
fn the_laws_find_every_planted_mistake() {
    use ExponentialFamilyLaw as Law;
    let members = [vec![0.3, 0.8], vec![-0.4, 1.4]];
    let found = |mistake: Mistake| exponential_family(&mistake, &members).unwrap_err().law;
    assert!(matches!(found(Mistake::Statistics), Law::Length { vector: "the statistics", found: 3, .. }));
    assert!(matches!(found(Mistake::Redundant), Law::Minimal));
    assert!(matches!(found(Mistake::Constant), Law::Integral { of: "the density's integral", .. }));
    assert!(matches!(found(Mistake::Means), Law::Derivative { of: "mean parameter", index: 1, .. }));
    assert!(matches!(found(Mistake::OfMean), Law::Inverse { through: "mean parameters", index: 0, .. }));
    assert!(matches!(found(Mistake::OfStandard), Law::Inverse { through: "standard parameters", index: 1, .. }));
    assert!(matches!(found(Mistake::Standard), Law::Inverse { .. }));
    assert!(matches!(found(Mistake::Score), Law::Derivative { of: "score", index: 0, .. }));
    assert!(matches!(found(Mistake::Draw), Law::Draws { .. }));
    assert!(matches!(found(Mistake::Proper), Law::Accepted { what: "negated natural parameters", .. }));
    assert!(matches!(found(Mistake::Lenient), Law::Accepted { what: "natural parameters of zero", .. }));
    assert!(matches!(found(Mistake::LenientMean), Law::Accepted { .. }));
    assert!(matches!(found(Mistake::Strict), Law::Refused { what: "natural parameters", .. }));
}
