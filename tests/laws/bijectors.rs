//! Holds every bijector to the laws of its trait: one row for each, and planted faults that the laws must detect.

use partita_core::{
    Bijector, CorrelationCholeskyMap, CovarianceCholeskyMap, Device, Error, ExponentialMap, HalfLineMap, IdentityMap,
    IntervalMap, OrderedMap, PositiveOrderedMap, Result, SimplexMap, Support, for_support,
};
use partita_laws::{BijectorViolation, bijector, bijector_on_device};

#[test]
fn every_map_keeps_the_laws() {
    let cases: [(Box<dyn Bijector>, usize, Vec<usize>); 15] = [
        (Box::new(IdentityMap), 3, vec![0, 1, 2]),
        (Box::new(ExponentialMap), 3, vec![0, 1, 2]),
        (Box::new(IntervalMap::new(-2.0, 0.5).unwrap()), 3, vec![0, 1, 2]),
        (Box::new(IntervalMap::new(0.0, 1.0).unwrap()), 1, vec![0]),
        (Box::new(HalfLineMap::above(-2.0).unwrap()), 3, vec![0, 1, 2]),
        (Box::new(HalfLineMap::below(0.5).unwrap()), 3, vec![0, 1, 2]),
        (Box::new(SimplexMap), 2, vec![0]),
        (Box::new(SimplexMap), 5, vec![0, 1, 2, 3]),
        // More than one block of the vectorised loop.
        (Box::new(SimplexMap), 20, (0..19).collect()),
        (Box::new(OrderedMap), 4, vec![0, 1, 2, 3]),
        (Box::new(PositiveOrderedMap), 4, vec![0, 1, 2, 3]),
        (Box::new(CovarianceCholeskyMap), 1, vec![0]),
        (Box::new(CovarianceCholeskyMap), 9, vec![0, 3, 4, 6, 7, 8]),
        (Box::new(CorrelationCholeskyMap), 4, vec![2]),
        (Box::new(CorrelationCholeskyMap), 16, vec![4, 8, 9, 12, 13, 14]),
    ];
    for (map, event, free) in cases {
        bijector(&*map, event, &free).unwrap_or_else(|violation| panic!("{map:?} of {event}: {violation:?}"));
    }
    assert!(matches!(HalfLineMap::above(f64::INFINITY), Err(Error::Argument { argument: "end", .. })));
}

#[test]
fn device_forms_agree_with_the_maps_on_the_host() {
    let device = Device::flex();
    bijector_on_device(&IdentityMap, 3, &device, 1e-13).unwrap();
    bijector_on_device(&ExponentialMap, 3, &device, 1e-13).unwrap();
    bijector_on_device(&IntervalMap::new(-2.0, 0.5).unwrap(), 3, &device, 1e-13).unwrap();
    bijector_on_device(&HalfLineMap::above(-2.0).unwrap(), 3, &device, 1e-13).unwrap();
    bijector_on_device(&HalfLineMap::below(0.5).unwrap(), 3, &device, 1e-13).unwrap();
    bijector_on_device(&SimplexMap, 2, &device, 1e-12).unwrap();
    bijector_on_device(&SimplexMap, 7, &device, 1e-12).unwrap();
}

#[test]
fn every_continuous_support_has_a_map_into_it() {
    for support in [
        Support::Real,
        Support::RealVector,
        Support::Positive,
        Support::Interval(2.0, 3.0),
        Support::GreaterThan(2.0),
        Support::LessThan(-2.0),
        Support::Simplex,
    ] {
        let map = for_support(&support).unwrap();
        let unconstrained = vec![0.7; map.unconstrained_len(3).unwrap()];
        let mut event = [0.0; 3];
        map.forward(&unconstrained, &mut event);
        assert!(support.contains(&event), "{support:?} {event:?}");
    }
    for support in
        [Support::Ordered, Support::PositiveOrdered, Support::CorrelationCholesky, Support::CovarianceCholesky]
    {
        let map = for_support(&support).unwrap();
        let unconstrained = vec![0.7; map.unconstrained_len(9).unwrap()];
        let mut event = [0.0; 9];
        map.forward(&unconstrained, &mut event);
        assert!(support.contains(&event), "{support:?} {event:?}");
        event[4] = -1.0;
        assert!(!support.contains(&event), "{support:?} {event:?}");
    }
}

#[test]
fn discrete_supports_are_refused_with_a_way_out() {
    for support in [
        Support::Boolean,
        Support::Count,
        Support::CountUpTo(4.0),
        Support::CountBetween(1.0, f64::INFINITY),
        Support::CountVector,
    ] {
        let error = for_support(&support).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Argument { argument: "support", .. }));
        assert!(error.to_string().contains("sum it out of the model"));
    }
}

#[test]
fn an_inverse_outside_the_support_names_the_number() {
    let mut u = [0.0; 3];
    for (map, x) in [
        (Box::new(ExponentialMap) as Box<dyn Bijector>, [1.0, -2.0, 3.0]),
        (Box::new(IntervalMap::new(0.0, 4.0).unwrap()), [1.0, 4.0, 3.0]),
        (Box::new(HalfLineMap::below(4.0).unwrap()), [1.0, 4.0, 3.0]),
        (Box::new(SimplexMap), [0.5, -0.5, 1.0]),
        (Box::new(OrderedMap), [1.0, 0.5, 3.0]),
        (Box::new(PositiveOrderedMap), [1.0, 0.5, 3.0]),
        (Box::new(IdentityMap), [1.0, f64::INFINITY, 3.0]),
    ] {
        let result = map.inverse(&x, &mut u);
        assert!(matches!(result, Err(Error::Support { index: 1, .. })), "{map:?}: {result:?}");
    }
}

#[test]
fn correlations_near_one_keep_their_digits() -> Result<()> {
    let u = [25.0, -30.0, 12.0];
    let (mut factor, mut back) = ([0.0; 9], [0.0; 3]);
    let log_det = CorrelationCholeskyMap.forward(&u, &mut factor);
    CorrelationCholeskyMap.inverse(&factor, &mut back)?;
    assert!(u.iter().zip(back).all(|(u, b)| (u - b).abs() < 1e-12), "{back:?}");
    // −2 Σ log cosh u, less log cosh once more for the one entry to the left of another.
    let expected = -2.0 * (25.0 + 30.0 + 12.0) - 30.0 + (2.0 * 3.0 + 1.0) * std::f64::consts::LN_2;
    assert!((log_det - expected).abs() < 1e-9, "{log_det} {expected}");
    Ok(())
}

#[test]
fn every_row_has_length_one() {
    let mut factor = [0.0; 16];
    CorrelationCholeskyMap.forward(&[0.3, -1.2, 2.0, 0.1, -0.4, 0.9], &mut factor);
    for row in factor.chunks_exact(4) {
        assert!((row.iter().map(|x| x * x).sum::<f64>() - 1.0).abs() < 1e-15);
    }
}

#[test]
fn a_row_of_another_length_is_refused() {
    assert!(CorrelationCholeskyMap.inverse(&[1.0, 0.0, 0.5, 0.5], &mut [0.0]).is_err());
}

#[test]
fn an_entry_above_the_diagonal_is_refused_by_index() {
    let result = CovarianceCholeskyMap.inverse(&[1.0, 0.1, 0.0, 1.0], &mut [0.0; 3]);
    assert!(matches!(result, Err(Error::Support { index: 1, .. })));
}

#[test]
fn a_matrix_that_is_not_square_is_refused() {
    assert!(matches!(CovarianceCholeskyMap.unconstrained_len(6), Err(Error::Length { found: 6, .. })));
}

#[test]
fn far_tails_stay_inside_with_an_exact_log_determinant() -> Result<()> {
    let map = IntervalMap::new(2.0, 5.0)?;
    for u in [-800.0, 800.0] {
        let mut x = [0.0];
        let log_det = map.forward(&[u], &mut x);
        assert!(x[0] > 2.0 && x[0] < 5.0);
        assert!((log_det - (3.0_f64.ln() - 800.0)).abs() < 1e-12);
    }
    Ok(())
}

#[test]
fn an_interval_without_interior_is_refused() {
    assert!(IntervalMap::new(1.0, 1.0).is_err());
    assert!(IntervalMap::new(0.0, f64::INFINITY).is_err());
    assert!(IntervalMap::new(f64::NAN, 1.0).is_err());
}

#[test]
fn an_invisible_step_still_increases() {
    let mut x = [0.0; 2];
    OrderedMap.forward(&[1.0, -100.0], &mut x);
    assert!(x[1] > x[0]);
}

#[test]
fn equal_numbers_are_refused() {
    assert!(OrderedMap.inverse(&[1.0, 1.0], &mut [0.0; 2]).is_err());
}

#[test]
fn small_entries_keep_their_digits() -> Result<()> {
    let u = [-200.0, 30.0, 150.0];
    let (mut x, mut back) = ([0.0; 4], [0.0; 3]);
    SimplexMap.forward(&u, &mut x);
    SimplexMap.inverse(&x, &mut back)?;
    assert!(u.iter().zip(back).all(|(u, b)| (u - b).abs() < 1e-11), "{back:?}");
    Ok(())
}

#[test]
fn a_vector_that_does_not_sum_to_one_is_refused_by_name() {
    let message = SimplexMap.inverse(&[0.5, 0.4], &mut [0.0]).map_err(|error| error.to_string());
    assert!(matches!(message, Err(text) if text.contains("sum to 0.9")));
}

#[test]
fn as_many_entries_as_a_vocabulary_start_equal_and_come_back() -> Result<()> {
    let mut x = [0.0; 2_000];
    SimplexMap.forward(&[0.0; 1_999], &mut x);
    // Two thousand roundings on the way to the last piece of the stick.
    assert!(x.iter().all(|x| (x * 2_000.0 - 1.0).abs() < 1e-12));
    let u: Vec<f64> = (0..1_999).map(|i| 3.0 * f64::from(i).sin()).collect();
    let mut back = vec![0.0; 1_999];
    SimplexMap.forward(&u, &mut x);
    SimplexMap.inverse(&x, &mut back)?;
    assert!(u.iter().zip(back).all(|(u, b)| (u - b).abs() < 1e-11));
    Ok(())
}

#[test]
fn a_single_category_has_nothing_to_learn() -> Result<()> {
    let mut x = [0.0];
    assert_eq!(SimplexMap.unconstrained_len(1)?, 0);
    assert!(SimplexMap.forward(&[], &mut x).abs() < f64::EPSILON);
    SimplexMap.inverse(&x, &mut [])
}

/// The exponential map with one fault.
#[derive(Debug)]
enum Faulty {
    Inverse,
    LogDeterminant,
    Vjp,
    Weight,
}

impl Bijector for Faulty {
    fn forward(&self, unconstrained: &[f64], constrained: &mut [f64]) -> f64 {
        let log_det = ExponentialMap.forward(unconstrained, constrained);
        if matches!(self, Self::LogDeterminant) { -log_det } else { log_det }
    }

    fn inverse(&self, constrained: &[f64], unconstrained: &mut [f64]) -> Result<()> {
        ExponentialMap.inverse(constrained, unconstrained)?;
        if matches!(self, Self::Inverse) {
            unconstrained[0] += 1e-6;
        }
        Ok(())
    }

    fn vjp(&self, unconstrained: &[f64], constrained: &[f64], gradient: &[f64], weight: f64, out: &mut [f64]) {
        let weight = if matches!(self, Self::Weight) { weight + 1e-5 } else { weight };
        ExponentialMap.vjp(unconstrained, constrained, gradient, weight, out);
        if matches!(self, Self::Vjp) {
            out[1] *= 1.001;
        }
    }
}

#[test]
fn the_laws_find_every_planted_fault() {
    let found = |fault: Faulty| bijector(&fault, 2, &[0, 1]).unwrap_err();
    assert!(matches!(found(Faulty::Inverse), BijectorViolation::RoundTrip { index: 0, .. }));
    assert!(matches!(found(Faulty::LogDeterminant), BijectorViolation::LogDeterminant { .. }));
    let violation = found(Faulty::Vjp);
    assert!(matches!(violation, BijectorViolation::LogDeterminant { .. } | BijectorViolation::Vjp { index: 1, .. }));
    let violation = found(Faulty::Weight);
    assert!(matches!(violation, BijectorViolation::Vjp { .. } | BijectorViolation::LogDeterminant { .. }));
}
