//! Claims that measures of predictions and topics satisfy their identities, and that coherence is gensim's.

use fixtures::numbers;
use partita::SparseRows;
use partita::core::{Key, Noise, NoiseStream, Purpose};
use partita::inference::metrics::{
    LeaveOneOut, MetricError, Predictions, SmoothedWeights, accuracy, calibration, expected_calibration_error,
    test_log_likelihood, top_words, umass_coherence,
};
use serde_json::Value;

/// Sums and quotients of at most a few thousand numbers near one, in double precision.
const ROUNDING: f64 = 1e-12;

fn stream(seed: u64) -> NoiseStream {
    Noise::new(seed).stream(Key::new(Purpose::Check, 0))
}

/// The softmax of normal numbers of this standard deviation, one row of classes after the other.
fn softmax(stream: &mut NoiseStream, rows: usize, classes: usize, sd: f64) -> Vec<f64> {
    let row = |_| {
        let weights: Vec<f64> = (0..classes).map(|_| (sd * stream.standard_normal()).exp()).collect();
        let sum: f64 = weights.iter().sum();
        weights.into_iter().map(move |weight| weight / sum)
    };
    (0..rows).flat_map(row).collect()
}

/// A class drawn from each row of probabilities.
fn draw(stream: &mut NoiseStream, probabilities: &[f64], classes: usize) -> Vec<usize> {
    let class = |row: &[f64]| {
        let mut left = stream.uniform();
        row.iter().position(|probability| (left -= probability, left < 0.0).1).unwrap_or(classes - 1)
    };
    probabilities.chunks_exact(classes).map(class).collect()
}

/// The largest probability of each row.
fn confidences(probabilities: &[f64], classes: usize) -> Vec<f64> {
    probabilities.chunks_exact(classes).map(|row| row.iter().copied().fold(0.0, f64::max)).collect()
}

#[test]
fn one_hot_truth_is_right_certain_and_calibrated() {
    let labels = [2_u8, 0, 1, 1];
    let mut probabilities = vec![0.0; 12];
    labels.iter().enumerate().for_each(|(row, label)| probabilities[3 * row + usize::from(*label)] = 1.0);
    let predictions = Predictions::new(&probabilities, 3, &labels).unwrap();
    let found = (accuracy(&predictions), test_log_likelihood(&predictions), expected_calibration_error(&predictions));
    assert_eq!(found, (1.0, 0.0, 0.0));
}

#[test]
fn certain_and_wrong_is_infinitely_unlikely_and_never_clipped() {
    let predictions = Predictions::new(&[1.0, 0.0], 2, &[1_u8]).unwrap();
    let found = (accuracy(&predictions), test_log_likelihood(&predictions), expected_calibration_error(&predictions));
    assert_eq!(found, (0.0, f64::NEG_INFINITY, 1.0));
}

#[test]
fn uniform_predictions_have_the_log_likelihood_of_a_guess() {
    for classes in [2, 3, 10, 49] {
        let labels: Vec<usize> = (0..classes).collect();
        let probabilities = vec![1.0 / classes as f64; classes * classes];
        let predictions = Predictions::new(&probabilities, classes, &labels).unwrap();
        assert!((test_log_likelihood(&predictions) + (classes as f64).ln()).abs() < ROUNDING);
        // Of equally probable classes the first is taken, which is right once; its confidence is the same number.
        assert!((accuracy(&predictions) - 1.0 / classes as f64).abs() < ROUNDING);
        assert!(expected_calibration_error(&predictions) < ROUNDING);
    }
}

#[test]
fn the_order_of_rows_does_not_matter() {
    let mut stream = stream(1);
    let probabilities = softmax(&mut stream, 200, 4, 1.5);
    let labels = draw(&mut stream, &probabilities, 4);
    let turned: Vec<f64> = probabilities.chunks_exact(4).rev().flatten().copied().collect();
    let turned_labels: Vec<usize> = labels.iter().rev().copied().collect();
    let [a, b] = [(&probabilities, &labels), (&turned, &turned_labels)].map(|(probabilities, labels)| {
        let predictions = Predictions::new(probabilities, 4, labels).unwrap();
        [accuracy(&predictions), test_log_likelihood(&predictions), expected_calibration_error(&predictions)]
    });
    assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < ROUNDING), "{a:?} {b:?}");
}

#[test]
fn the_calibration_error_of_five_rows_is_that_computed_by_hand() {
    // Confidences 0.95 (right), 0.94 (wrong), 0.62 (right), 0.61 (right), 0.4 (wrong): the bins (14/15, 1] twice,
    // (9/15, 10/15] twice and (5/15, 6/15] once, 0.4 being the upper end of its bin.
    let probabilities =
        [[0.95, 0.05, 0.0], [0.06, 0.94, 0.0], [0.38, 0.0, 0.62], [0.61, 0.3, 0.09], [0.4, 0.3, 0.3]].concat();
    let predictions = Predictions::new(&probabilities, 3, &[0_u8, 0, 2, 0, 2]).unwrap();
    let expected = ((1.0_f64 - 1.89).abs() + (2.0_f64 - 1.23).abs() + 0.4) / 5.0;
    let found = calibration(&predictions);
    assert!((found.error - expected).abs() < ROUNDING, "{found:?}");
    assert_eq!((found.bins.len(), found.bins[14].rows, found.bins[9].rows, found.bins[5].rows), (15, 2, 2, 1));
    assert_eq!(found.bins.iter().map(|bin| bin.rows).sum::<usize>(), predictions.rows());
    assert!((found.bins[9].confidence - 0.615).abs() < ROUNDING && (found.bins[9].accuracy - 1.0).abs() < ROUNDING);
    let log_likelihood = (0.95_f64 * 0.06 * 0.62 * 0.61 * 0.3).ln() / 5.0;
    assert!((test_log_likelihood(&predictions) - log_likelihood).abs() < ROUNDING);
    assert!((accuracy(&predictions) - 0.6).abs() < ROUNDING);
}

#[test]
fn labels_drawn_from_the_predictions_leave_them_calibrated() {
    const ROWS: usize = 20_000;
    let mut stream = stream(2);
    let probabilities = softmax(&mut stream, ROWS, 10, 2.0);
    let labels = draw(&mut stream, &probabilities, 10);
    let predictions = Predictions::new(&probabilities, 10, &labels).unwrap();
    // Of a bin with variance V_b = sum p (1 - p), the mean of |right - sum p| is at most sqrt(V_b); over 15 bins the
    // sum is at most sqrt(15 V). Its variance is at most V. Five standard deviations are added.
    let variance: f64 = confidences(&probabilities, 10).iter().map(|p| p * (1.0 - p)).sum();
    let bound = (15.0_f64.sqrt() + 5.0) * variance.sqrt() / ROWS as f64;
    let error = expected_calibration_error(&predictions);
    assert!(error < bound && bound < 0.03, "{error} against {bound}");
    // The fraction of correct predictions is the mean confidence, within five standard errors.
    let mean = confidences(&probabilities, 10).iter().sum::<f64>() / ROWS as f64;
    assert!((accuracy(&predictions) - mean).abs() < 5.0 * variance.sqrt() / ROWS as f64);
    // The log likelihood is minus the entropy, within five standard errors.
    let entropies = probabilities.chunks_exact(10).map(|row| row.iter().map(|p| -p * p.ln()).sum::<f64>());
    let squares = probabilities.chunks_exact(10).map(|row| {
        let mean = row.iter().map(|p| p * p.ln()).sum::<f64>();
        row.iter().map(|p| p * (p.ln() - mean).powi(2)).sum::<f64>()
    });
    let (entropy, spread) = (entropies.sum::<f64>(), squares.sum::<f64>().sqrt());
    assert!((test_log_likelihood(&predictions) * ROWS as f64 + entropy).abs() < 5.0 * spread);
}

#[test]
fn overconfidence_is_found_to_its_size() {
    const ROWS: usize = 20_000;
    let mut stream = stream(3);
    // All have confidence 0.9, and 0.7 are correct.
    let labels: Vec<usize> = (0..ROWS).map(|_| usize::from(stream.uniform() >= 0.7)).collect();
    let probabilities = [0.9, 0.1].repeat(ROWS);
    let error = expected_calibration_error(&Predictions::new(&probabilities, 2, &labels).unwrap());
    assert!((error - 0.2).abs() < 5.0 * (0.7_f64 * 0.3 / ROWS as f64).sqrt(), "{error}");
}

#[test]
fn predictions_that_are_none_are_refused_by_row() {
    let refused = |probabilities: &[f64], classes, labels: &[u8], words: &[&str]| {
        let error = Predictions::new(probabilities, classes, labels).unwrap_err();
        assert!(words.iter().all(|word| error.to_string().contains(word)), "{error}");
        error
    };
    let error = refused(&[0.5, 0.5, 0.5, 0.4], 2, &[0, 1], &["row 1", "0.9"]);
    assert!(matches!(error, MetricError::Sum { row: 1, .. }));
    for bad in [f64::NAN, -0.1, 1.1, f64::INFINITY] {
        let error = refused(&[0.5, 0.5, 0.5, bad], 2, &[0, 1], &["class 1 in row 1", "softmax"]);
        assert!(matches!(error, MetricError::Probability { row: 1, class: 1, .. }));
    }
    let error = refused(&[0.5, 0.5, 0.5, 0.5], 2, &[0, 2], &["label 2 in row 1", "below 2"]);
    assert!(matches!(error, MetricError::Label { .. }));
    assert!(matches!(refused(&[0.5; 3], 2, &[0, 1], &["found 3", "2 x 2"]), MetricError::Length { .. }));
    assert!(matches!(refused(&[], 2, &[], &["0 rows"]), MetricError::Empty { .. }));
    assert!(matches!(refused(&[], 0, &[0], &["0 classes"]), MetricError::Empty { .. }));
}

#[test]
fn single_precision_is_precise_enough() {
    let mut stream = stream(4);
    let rounded: Vec<f64> = softmax(&mut stream, 500, 49, 3.0).iter().map(|p| f64::from(*p as f32)).collect();
    Predictions::new(&rounded, 49, &vec![0_u8; 500]).unwrap();
}

/// Four documents over four words; word 3 occurs in none.
fn documents() -> SparseRows {
    let rows = [vec![(0, 2.0), (1, 1.0)], vec![(0, 1.0)], vec![(0, 1.0), (1, 5.0), (2, 1.0)], vec![(2, 3.0)]];
    SparseRows::new(&rows, 4).unwrap()
}

#[test]
fn the_coherence_of_three_words_is_that_computed_by_hand() {
    // Documents with word 0: 3, with 1: 2, with 2: 2; with 0 and 1: 2, with 0 and 2: 1, with 1 and 2: 1.
    let expected = ((2.0_f64 / 3.0).ln() + (1.0_f64 / 3.0).ln() + (1.0_f64 / 2.0).ln()) / 3.0;
    let found = umass_coherence(&[0, 1, 2], &documents()).unwrap();
    // The epsilon moves each term by at most 4e-12.
    assert!((found - expected).abs() < 1e-11, "{found} against {expected}");
    // The order matters: the earlier word is the condition.
    let turned = ((1.0_f64 / 2.0).ln() + (1.0_f64 / 2.0).ln() + (2.0_f64 / 2.0).ln()) / 3.0;
    assert!((umass_coherence(&[2, 1, 0], &documents()).unwrap() - turned).abs() < 1e-11);
}

#[test]
fn coherence_equals_the_golden_numbers_of_gensim() {
    let golden: Value = serde_json::from_str(include_str!("../golden/coherence.json")).unwrap();
    let whole = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
    let entry = |pair: &Value| (u32::try_from(whole(&pair[0])).unwrap(), pair[1].as_f64().unwrap());
    let rows: Vec<Vec<(u32, f64)>> = golden["corpus"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row.as_array().unwrap().iter().map(entry).collect())
        .collect();
    let counts = SparseRows::new(&rows, whole(&golden["words"])).unwrap();
    let topics = golden["topics"].as_array().unwrap();
    assert_eq!((topics.len(), counts.rows()), (5, 60));
    for (topic, expected) in topics.iter().zip(golden["coherence"].as_array().unwrap()) {
        let words: Vec<usize> = topic.as_array().unwrap().iter().map(whole).collect();
        let (found, expected) = (umass_coherence(&words, &counts).unwrap(), expected.as_f64().unwrap());
        assert!((found - expected).abs() < ROUNDING * expected.abs(), "{words:?}: {found}, gensim {expected}");
    }
}

#[test]
fn words_that_cannot_be_compared_are_refused() {
    let refused = |words: &[usize], word: &str| {
        let error = umass_coherence(words, &documents()).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
        error
    };
    assert!(matches!(refused(&[0, 3], "none of the 4 documents"), MetricError::NeverOccurs { word: 3, documents: 4 }));
    assert!(matches!(refused(&[0, 4], "word 4 out of range"), MetricError::Word { word: 4, columns: 4, .. }));
    assert!(matches!(refused(&[0, 1, 0], "word 0 twice"), MetricError::Word { word: 0, .. }));
    assert!(matches!(refused(&[0], "1 words"), MetricError::Empty { .. }));
    assert!(matches!(refused(&[], "0 words"), MetricError::Empty { .. }));
    let nothing = SparseRows::new(&[], 4).unwrap();
    assert!(matches!(umass_coherence(&[0, 1], &nothing).unwrap_err(), MetricError::NeverOccurs { documents: 0, .. }));
    // An entry of zero is not an occurrence.
    let zero = SparseRows::new(&[vec![(0, 1.0), (1, 0.0)]], 2).unwrap();
    assert!(matches!(umass_coherence(&[0, 1], &zero).unwrap_err(), MetricError::NeverOccurs { word: 1, .. }));
}

#[test]
fn top_words_are_ordered_by_weight_and_then_by_place() {
    let weights = [-1.0, 0.0, f64::NEG_INFINITY, -0.0, 3.0];
    assert_eq!(top_words(&weights, 5).unwrap(), [4, 1, 3, 0, 2]);
    assert_eq!(top_words(&weights, 2).unwrap(), [4, 1]);
    assert!(top_words(&weights, 0).unwrap().is_empty());
    assert!(matches!(top_words(&weights, 6).unwrap_err(), MetricError::Empty { .. }));
    let error = top_words(&[0.0, f64::NAN], 1).unwrap_err();
    assert!(matches!(error, MetricError::Weight { word: 1, .. }), "{error}");
}

#[test]
fn smoothed_weights_are_those_of_arviz() {
    let golden: Value = serde_json::from_str(include_str!("../golden/smoothed_weights.json")).unwrap();
    let numbers = |values: &Value| -> Vec<f64> {
        values.as_array().unwrap().iter().map(|value| value.as_f64().unwrap_or(f64::NEG_INFINITY)).collect()
    };
    let is_same = |own: f64, golden: f64| (own - golden).abs() < 1e-8 || own.to_bits() == golden.to_bits();
    for case in golden["cases"].as_array().unwrap() {
        let (name, found) = (&case["name"], SmoothedWeights::of(&numbers(&case["log_ratios"])));
        let expected = case["pareto_k"].as_f64().unwrap_or(f64::INFINITY);
        assert!(is_same(found.pareto_k, expected), "{name}: {}", found.pareto_k);
        for (own, golden) in found.log_weights.iter().zip(numbers(&case["log_weights"])) {
            assert!(is_same(*own, golden), "{name}: {own} {golden}");
        }
        let size = case["effective_sample_size"].as_f64().unwrap();
        assert!((found.effective_sample_size() / size - 1.0).abs() < 1e-8, "{name}");
        let sum: f64 = found.weights().iter().sum();
        assert!((sum - 1.0).abs() < ROUNDING, "{name}: {sum}");
    }
}

#[test]
fn leave_one_out_is_that_of_arviz() {
    let golden: Value = serde_json::from_str(include_str!("../golden/leave_one_out.json")).unwrap();
    for case in golden["cases"].as_array().unwrap() {
        let observations = usize::try_from(case["observations"].as_u64().unwrap()).unwrap();
        let found = LeaveOneOut::of(&numbers(&case["log_likelihood"]), observations).unwrap();
        let sums = [found.sum(), found.standard_error(), found.effective_parameters()];
        let expected = ["sum", "standard_error", "effective_parameters"].map(|name| case[name].as_f64().unwrap());
        let own = [&found.log_densities[..], &found.pareto_k, &sums].concat();
        let golden = [numbers(&case["log_densities"]), numbers(&case["pareto_k"]), expected.to_vec()].concat();
        assert_eq!(own.len(), golden.len());
        for (own, golden) in own.iter().zip(golden) {
            assert!((own - golden).abs() < 1e-8, "{}: {own} {golden}", case["name"]);
        }
        assert_eq!(found.above(0.7) as u64, case["above"].as_u64().unwrap());
    }
    assert!(matches!(LeaveOneOut::of(&[-1.0; 5], 2), Err(MetricError::Empty { .. })));
}

/// The log density of a normal distribution.
fn log_normal(value: f64, mean: f64, variance: f64) -> f64 {
    -0.5 * ((value - mean).powi(2) / variance + (std::f64::consts::TAU * variance).ln())
}

#[test]
fn leave_one_out_is_what_fits_without_the_observation_say() {
    // y ~ N(mean, 1) and mean ~ N(0, 1): without one of n observations the mean is N(their sum / n, 1 / n).
    let outcomes = [0.3, -0.8, 1.1, 0.4, -0.2, 1.9, 0.6, -1.3];
    let (count, sum, mut stream) = (outcomes.len() as f64, outcomes.iter().sum::<f64>(), stream(5));
    let draws: Vec<f64> =
        (0..4_000).map(|_| sum / (count + 1.0) + stream.standard_normal() / (count + 1.0).sqrt()).collect();
    let table: Vec<f64> =
        draws.iter().flat_map(|mean| outcomes.map(|outcome| log_normal(outcome, *mean, 1.0))).collect();
    let found = LeaveOneOut::of(&table, outcomes.len()).unwrap();
    let (mut bound, mut gained) = (0.0, 0.0);
    for (index, outcome) in outcomes.iter().enumerate() {
        let exact = log_normal(*outcome, (sum - outcome) / count, 1.0 + 1.0 / count);
        let own: Vec<f64> = draws.iter().map(|mean| log_normal(*outcome, *mean, 1.0)).collect();
        let weights = SmoothedWeights::of(&own.iter().map(|own| -own).collect::<Vec<_>>()).weights();
        // The standard error of an importance-weighted mean, in units of the mean.
        let square = |(own, weight): (&f64, &f64)| (weight * ((own - exact).exp() - 1.0)).powi(2);
        let error = own.iter().zip(&weights).map(square).sum::<f64>().sqrt();
        let apart = (found.log_densities[index] - exact).abs();
        // 5 standard errors: eight observations miss them once in 200,000 seeds.
        assert!(apart < 5.0 * error, "{index}: {apart} {error}");
        bound += 5.0 * error;
        gained += found.seen[index] - exact;
    }
    // The bounds are not so wide that they would hold of what the posterior has seen.
    assert!(bound < gained, "{bound} {gained}");
    assert_eq!(found.above(0.7), 0);
    // One mean is about one parameter; had the observations not been left out there would be none.
    assert!((0.5..1.5).contains(&found.effective_parameters()), "{}", found.effective_parameters());
}
