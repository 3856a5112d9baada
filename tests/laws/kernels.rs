//! Holds every vectorised loop to its plain one under every instruction set, and to exact values at the ends.

use partita_core::Precision;
use partita_core::kernel::{
    AdamUpdate, BLOCK, BetaTerms, BinomialTerms, DiagonalDraw, DiagonalSlopes, InstructionSet, NormalTerms, ROWS,
    SparseColumns, SparseEntries, TanhNetwork, TanhNetworkBack, adam, add_scaled, bernoulli_logit, categorical_logit,
    dot, exponential, low_rank_logits, normal, poisson_log, sparse_columns, sparse_product, sparse_transposed, stick,
    tanh_network,
};

const SETS: [InstructionSet; 3] = [InstructionSet::Avx512, InstructionSet::Avx2, InstructionSet::Libm];

/// Lengths around the block, and long ones.
const LENGTHS: [usize; 9] = [0, 1, 3, 15, 16, 17, 65, 2141, 2144];

/// Numbers in `low..high` in no particular order, the same on every run.
pub(super) fn scattered(length: usize, low: f64, high: f64) -> Vec<f64> {
    let golden = 0.618_033_988_749_894_9;
    (1..=length).map(|index| low + (high - low) * (index as f64 * golden).fract()).collect()
}

fn bits(numbers: &[f64]) -> Vec<u64> {
    numbers.iter().map(|number| number.to_bits()).collect()
}

/// Asserts that the errors are at most `tolerance` of what `size` gives for the index and the expected number.
fn close(name: &str, found: &[f64], expected: &[f64], tolerance: f64, size: impl Fn(usize, f64) -> f64) {
    assert_eq!(found.len(), expected.len());
    for (index, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= tolerance * size(index, *b), "{name}, number {index}: {a} not {b}");
    }
}

/// Runs a kernel under every instruction set: vector sets give the same bits, and those of the loop over libm to
/// `tolerance` of the size that `size` gives for an output, an index and the number found there.
fn agrees(
    name: &str,
    tolerance: f64,
    size: impl Fn(usize, usize, f64) -> f64,
    run: impl Fn(InstructionSet) -> Vec<Vec<f64>>,
) {
    let [wide, narrow, libm] = SETS.map(run);
    for (output, expected) in libm.iter().enumerate() {
        assert_eq!(bits(&wide[output]), bits(&narrow[output]), "{name}, output {output}");
        let size = |index, expected| size(output, index, expected);
        close(&format!("{name}, output {output}"), &wide[output], expected, tolerance, size);
    }
}

fn coins(length: usize) -> Vec<f64> {
    scattered(length, 0.0, 1.0).into_iter().map(|u| f64::from(u < 0.3)).collect()
}

fn counts(length: usize) -> Vec<f64> {
    scattered(length, 0.0, 50.0).into_iter().map(f64::floor).collect()
}

#[test]
fn bernoulli_and_poisson_agree_with_libm() {
    for length in LENGTHS {
        let (logits, y) = (scattered(length, -12.0, 9.0), coins(length));
        // Rounding of exp, log1p and one division each way, measured 4.4e-16; running sums in two orders, 2e-15.
        let size = |output, _, b: f64| if output == 0 { 5.0 * b.abs() } else { b.abs() };
        agrees(&format!("bernoulli {length}"), 2e-15, size, |set| {
            let (mut residual, mut terms) = (vec![0.0; length], vec![0.0; length]);
            let sum = set.bernoulli_logit(&logits, &y, 1.7, &mut residual, &mut terms);
            assert_eq!(sum.to_bits(), set.bernoulli_logit(&logits, &y, 1.0, &mut [], &mut []).to_bits());
            adds_up(sum, &terms);
            vec![vec![sum], residual, terms]
        });
        let (log_rate, y) = (scattered(length, -20.0, 6.0), counts(length));
        let total: f64 = log_rate.iter().zip(&y).map(|(l, y)| (y * l).abs() + l.exp()).sum();
        // One unit of exp and one rounding, measured 2.2e-16.
        let size = |output, index: usize, _| match output {
            0 => total,
            1 => y[index].max(log_rate[index].exp()),
            _ => (y[index] * log_rate[index]).abs() + log_rate[index].exp(),
        };
        agrees(&format!("poisson {length}"), 1e-15, size, |set| {
            let (mut residual, mut terms) = (vec![0.0; length], vec![0.0; length]);
            let sum = set.poisson_log(&log_rate, &y, 1.0, &mut residual, &mut terms);
            adds_up(sum, &terms);
            vec![vec![sum], residual, terms]
        });
    }
}

#[test]
fn binomial_agrees_with_libm() {
    for length in LENGTHS {
        let (logits, successes) = (scattered(length, -12.0, 9.0), counts(length));
        for failures in [scattered(length, 0.1, 30.0), vec![4.2]] {
            let at = |index: usize| if failures.len() == 1 { failures[0] } else { failures[index] };
            let part = |index: usize| (successes[index] + at(index)) * (1.0 + logits[index].abs());
            let total: f64 = (0..length).map(part).sum();
            // Rounding of exp, log1p and one division each way.
            let size = |output, index: usize, b: f64| match output {
                0 => total,
                1 => 1.7 * (successes[index] + at(index)),
                2 => b.abs(),
                _ => part(index),
            };
            agrees(&format!("binomial {length}"), 1e-15, size, |set| {
                let mut by = [(); 3].map(|()| vec![0.0; length]);
                let [by_logits, by_failures, terms] = &mut by;
                let sum = |by_logits, by_failures, terms, scale| {
                    let (logits, successes, failures) = (&*logits, &*successes, &*failures);
                    set.binomial_logit(&mut BinomialTerms {
                        logits,
                        successes,
                        failures,
                        scale,
                        by_logits,
                        by_failures,
                        terms,
                    })
                };
                let plain = sum(&mut [], &mut [], &mut [], 1.0);
                let all = sum(by_logits, by_failures, terms, 1.7);
                assert_eq!(plain.to_bits(), all.to_bits());
                adds_up(all, terms);
                [vec![vec![all]], by.to_vec()].concat()
            });
        }
    }
}

#[test]
fn beta_agrees_with_libm() {
    for length in LENGTHS {
        let values: Vec<f64> = scattered(length, -9.0, 9.0).iter().map(|odds| 1.0 / (1.0 + odds.exp())).collect();
        for most in [0.3, 60.0, 2e4] {
            for [ones, zeros] in [
                [scattered(length, 1e-3 * most, most), vec![0.3 * most]],
                [vec![0.1 * most], scattered(length, 1e-2 * most, most)],
            ] {
                let at = |own: &[f64], index: usize| own[if own.len() == 1 { 0 } else { index }];
                // Concentrations times logarithms, the largest of which are those of the values.
                let part = |index: usize| 10.0 * (2.0 + at(&ones, index) + at(&zeros, index));
                let total: f64 = (0..length).map(part).sum();
                let inverse = |own: &[f64], index: usize| 17.0 * (1.0 + at(own, index).recip());
                let size = |output, index: usize, _: f64| match output {
                    0 => total,
                    1 => inverse(&ones, index),
                    2 => inverse(&zeros, index),
                    _ => part(index),
                };
                agrees(&format!("beta {length} {most}"), 1e-15, size, |set| {
                    let mut by = [(); 3].map(|()| vec![0.0; length]);
                    let [by_ones, by_zeros, terms] = &mut by;
                    let sum = |by_ones, by_zeros, terms, scale| {
                        let (values, ones, zeros) = (&*values, &*ones, &*zeros);
                        set.beta(&mut BetaTerms { values, ones, zeros, scale, by_ones, by_zeros, terms })
                    };
                    let plain = sum(&mut [], &mut [], &mut [], 1.0);
                    let all = sum(by_ones, by_zeros, terms, 1.7);
                    assert_eq!(plain.to_bits(), all.to_bits());
                    adds_up(all, terms);
                    [vec![vec![all]], by.to_vec()].concat()
                });
            }
        }
    }
}

/// Refuses terms that are not those of a sum.
fn adds_up(sum: f64, terms: &[f64]) {
    let (own, size): (f64, f64) = (terms.iter().sum(), terms.iter().map(|term| term.abs()).sum());
    assert!((own - sum).abs() <= 1e-13 * size || own.is_nan() && sum.is_nan(), "{sum} {own}");
}

/// The sum, the three derivatives, times 1.3, and the single terms of normal terms.
fn normal_terms(set: InstructionSet, x: &[f64], location: &[f64], scale: &[f64]) -> Vec<Vec<f64>> {
    let mut by = [(); 4].map(|()| vec![0.0; x.len()]);
    let [by_x, by_location, by_scale, terms] = &mut by;
    let sum = set.normal(&mut NormalTerms { x, location, scale, factor: 1.3, by_x, by_location, by_scale, terms });
    adds_up(sum, terms);
    [vec![vec![sum]], by.to_vec()].concat()
}

#[test]
fn normal_agrees_with_libm() {
    for length in LENGTHS {
        let x = scattered(length, -5.0, 5.0);
        for location in [scattered(length, -1.0, 3.0), vec![0.25]] {
            for scale in [scattered(length, 0.01, 3.0), vec![0.7]] {
                let own = |numbers: &[f64], index: usize| *numbers.get(index).unwrap_or(&numbers[0]);
                let square = |index: usize| ((x[index] - own(&location, index)) / own(&scale, index)).powi(2);
                let total: f64 = (0..length).map(|index| square(index) + 6.0).sum();
                // A reciprocal and a product instead of one division, measured 8e-16.
                let size = |output, index, b: f64| match output {
                    0 => total,
                    3 => 1.3 * (1.0 + square(index)) / own(&scale, index),
                    4 => square(index) + 6.0,
                    _ => b.abs(),
                };
                agrees(&format!("normal {length}"), 1e-15, size, |set| normal_terms(set, &x, &location, &scale));
            }
        }
    }
}

#[test]
fn categorical_agrees_with_libm() {
    for (rows, width) in [(0, 3), (1, 1), (1, 40), (3, 2), (16, 10), (17, 3), (211, 10), (214, 10), (33, 16)] {
        let class: Vec<f64> = scattered(rows, 0.0, width as f64).into_iter().map(f64::floor).collect();
        let logits = scattered(rows * width, -9.0, 7.0);
        // One unit of exp, a reciprocal and a product, measured 5e-16.
        agrees(
            &format!("categorical {rows} x {width}"),
            2e-15,
            |_, _, b| b.abs(),
            |set| {
                let (mut gradient, mut terms) = (vec![0.0; rows * width], vec![0.0; rows]);
                let sum = set.categorical_logit(&logits, &class, 0.8, &mut gradient, &mut terms);
                adds_up(sum, &terms);
                vec![vec![sum], gradient, terms]
            },
        );
    }
}

#[test]
fn maps_and_draws_agree_with_libm() {
    for length in LENGTHS {
        for end in [40.0, 700.0] {
            agrees(
                &format!("exponential {length}"),
                f64::EPSILON,
                |_, _, b| b.abs(),
                |set| {
                    let mut x = scattered(length, -end, end);
                    set.exponential(&mut x);
                    vec![x]
                },
            );
        }
        // Of numbers on both sides of one, where a logarithm has no large part.
        agrees(
            &format!("logarithm {length}"),
            2.0 * f64::EPSILON,
            |_, _, b| b.abs(),
            |set| {
                let mut x = scattered(length, -300.0, 300.0).iter().map(|own| own.exp()).collect::<Vec<f64>>();
                x.extend(scattered(length, 0.5, 2.0));
                set.logarithm(&mut x);
                vec![x]
            },
        );
        let u = scattered(length, -60.0, 60.0);
        agrees(
            &format!("stick {length}"),
            1e-15,
            |_, _, b| b.abs().max(1.0),
            |set| {
                let (mut shifted, mut softplus) = (vec![0.0; length], vec![0.0; length]);
                set.stick(&u, &mut shifted, &mut softplus);
                vec![shifted, softplus]
            },
        );
        let [mean, log_scale, noise] = [(-2.0, 2.0), (-4.0, 1.0), (-3.0, 3.0)].map(|(l, h)| scattered(length, l, h));
        let size = |output, _, b: f64| b.abs().max(if output == 3 { 1.0 + length as f64 } else { 1.0 });
        agrees(&format!("diagonal draw {length}"), 4e-16, size, |set| {
            let [mut latent, mut deviation, mut score] = [(); 3].map(|()| vec![0.0; length]);
            let sum = set.diagonal_draw(&mut DiagonalDraw {
                mean: &mean,
                log_scale: &log_scale,
                noise: &noise,
                latent: &mut latent,
                deviation: &mut deviation,
                score: &mut score,
            });
            let [mut same, mut offset] = [(); 2].map(|()| vec![0.0; length]);
            let alone = set.diagonal_draw(&mut DiagonalDraw {
                mean: &mean,
                log_scale: &log_scale,
                noise: &noise,
                latent: &mut same,
                deviation: &mut offset,
                score: &mut [],
            });
            assert_eq!([bits(&same), bits(&offset)], [bits(&latent), bits(&deviation)]);
            assert_eq!(alone.to_bits(), sum.to_bits());
            vec![latent, deviation, score, vec![sum]]
        });
        let gradient = scattered(length, -5.0, 2.0);
        let curvature = scattered(length, -1.0, 1.0);
        // Factors of at most 3, 5 and e, and 2 and the square of e.
        agrees(
            &format!("diagonal slopes {length}"),
            4e-16,
            |_, _, _| 60.0,
            |set| {
                let slopes = |by_variance: &[f64], deviation: &[f64], is_first: bool| {
                    let [mut by_mean, mut out] = [mean.clone(), mean.clone()];
                    set.diagonal_slopes(&mut DiagonalSlopes {
                        log_scale: &log_scale,
                        noise: &noise,
                        deviation,
                        by_mean: &curvature,
                        by_offset: &gradient,
                        by_variance,
                        other: 1.0,
                        factor: -0.7,
                        is_first,
                        mean: &mut by_mean,
                        out: &mut out,
                    });
                    [by_mean, out]
                };
                let [[by_mean, alone], [same, both]] = [&[][..], &curvature].map(|own| slopes(own, &[], false));
                let expected: Vec<f64> = mean.iter().zip(&curvature).map(|(slot, own)| slot + -0.7 * own).collect();
                assert_eq!([bits(&by_mean), bits(&same)], [bits(&expected), bits(&expected)]);
                // One pass has the bits of two.
                let mut scales = log_scale.clone();
                set.exponential(&mut scales);
                let by_variance =
                    scales.iter().zip(&curvature).map(|(scale, slope)| 2.0 * (scale * scale) * (-0.7 * slope));
                let apart: Vec<f64> = alone.iter().zip(by_variance).map(|(slot, slope)| slot + slope).collect();
                assert_eq!(bits(&both), bits(&apart));
                // So has the offset that was kept, and what begins is added to zeros.
                let offset: Vec<f64> = scales.iter().zip(&noise).map(|(scale, noise)| scale * noise).collect();
                assert_eq!(slopes(&[], &offset, false).map(|own| bits(&own)), [&by_mean, &alone].map(|own| bits(own)));
                let [first_mean, first] = slopes(&[], &offset, true);
                for (index, (by_mean, own)) in first_mean.iter().zip(&first).enumerate() {
                    assert_eq!(by_mean.to_bits(), (0.0 + -0.7 * curvature[index]).to_bits());
                    assert_eq!(own.to_bits(), (0.0 + -0.7 * (gradient[index] * offset[index] + 1.0)).to_bits());
                }
                vec![alone, both]
            },
        );
    }
}

fn single(numbers: &[f64]) -> Vec<f32> {
    numbers.iter().map(|number| *number as f32).collect()
}

fn wide(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().map(|number| f64::from(*number)).collect()
}

/// Draws of independent components, their gradients and variances in single precision, of [`DiagonalSlopes`] with factor -0.7.
fn diagonal_single(
    set: InstructionSet,
    [mean, log_scale, noise, gradient, curvature]: &[Vec<f64>; 5],
) -> Vec<Vec<f64>> {
    let length = mean.len();
    let [noise, gradient, curvature] = [noise, gradient, curvature].map(|numbers| single(numbers));
    let [mut latent, mut deviation, mut score] = [(); 3].map(|()| vec![0.0_f32; length]);
    let (latent_of, deviation_of, score_of) = (&mut latent, &mut deviation, &mut score);
    let draw =
        DiagonalDraw { mean, log_scale, noise: &noise, latent: latent_of, deviation: deviation_of, score: score_of };
    let sum = set.diagonal_draw_single(&mut { draw });
    let mut variances = single(log_scale);
    set.diagonal_variances_single(&mut variances);
    let slopes = |by_variance: &[f32], kept: &[f32]| {
        let [mut by_mean, mut out] = [mean.clone(), mean.clone()];
        set.diagonal_slopes_single(&mut DiagonalSlopes {
            log_scale,
            noise: &noise,
            deviation: kept,
            by_mean: &curvature,
            by_offset: &gradient,
            by_variance,
            other: 1.0,
            factor: -0.7,
            is_first: false,
            mean: &mut by_mean,
            out: &mut out,
        });
        [by_mean, out]
    };
    let [by_mean, alone] = slopes(&[], &[]);
    assert_eq!(slopes(&[], &deviation).map(|own| bits(&own)), [bits(&by_mean), bits(&alone)]);
    let [_, both] = slopes(&curvature, &[]);
    [&latent, &deviation, &score, &variances]
        .map(|own| wide(own))
        .into_iter()
        .chain([vec![sum], by_mean, alone, both])
        .collect()
}

#[test]
fn draws_in_single_precision_are_those_of_double_precision() {
    for length in LENGTHS {
        let [mean, log_scale, noise] = [(-2.0, 2.0), (-4.0, 1.0), (-3.0, 3.0)].map(|(l, h)| scattered(length, l, h));
        let (gradient, curvature) = (scattered(length, -5.0, 2.0), scattered(length, -1.0, 1.0));
        let inputs = [mean, log_scale, noise, gradient, curvature];
        // Numbers below 10, 9, 180, 8 and 60, each with up to five roundings of 6e-8; a sum of double precision.
        let sizes = [10.0, 9.0, 180.0, 8.0, 1.0 + 10.0 * length as f64, 1.0, 60.0, 60.0];
        let name = format!("single draw {length}");
        agrees(&name, 3e-7, |output, _, _| sizes[output], |set| diagonal_single(set, &inputs));
        let found = diagonal_single(InstructionSet::of_this_machine(), &inputs);
        let [mean, log_scale, noise, gradient, curvature] = &inputs;
        let scales = log_scale.iter().map(|own| own.exp());
        let places = || mean.iter().zip(scales.clone()).zip(noise).zip(gradient.iter().zip(curvature));
        let each = |of: &dyn Fn(f64, f64, f64, f64, f64) -> f64| -> Vec<f64> {
            places().map(|(((m, s), e), (b, c))| of(*m, s, *e, *b, *c)).collect()
        };
        let expected = [
            each(&|m, s, e, _, _| m + s * e),
            each(&|_, s, e, _, _| s * e),
            each(&|_, s, e, _, _| -e / s),
            each(&|_, s, _, _, _| s * s),
            vec![each(&|_, s, e, _, _| -s.ln() - 0.5 * e * e).iter().sum()],
            each(&|m, _, _, _, c| m - 0.7 * c),
            each(&|m, s, e, b, _| m - 0.7 * (b * s * e + 1.0)),
            each(&|m, s, e, b, c| m - 0.7 * (b * s * e + 1.0) - 1.4 * s * s * c),
        ];
        for (output, (found, expected)) in found.iter().zip(&expected).enumerate() {
            close(&format!("{name}, output {output}"), found, expected, 3e-7, |_, _| sizes[output]);
        }
    }
}

#[test]
fn products_in_single_precision_have_the_same_bits_everywhere() {
    for length in LENGTHS {
        let [a, b] = [(-3.0, 2.0), (-1.0, 4.0)].map(|(low, high)| {
            scattered(length, low, high).into_iter().map(|number| number as f32).collect::<Vec<f32>>()
        });
        let terms = || a.iter().zip(&b).map(|(a, b)| f64::from(*a) * f64::from(*b));
        let (exact, total) = (terms().sum::<f64>(), terms().map(f64::abs).sum::<f64>());
        let none = |_, _, _| 0.0;
        agrees(&format!("in single precision {length}"), 0.0, none, |set| {
            let (found, mut sum) = (f64::from(set.dot_single(&a, &b)), b.clone());
            // At most 134 terms a lane, of which each addition rounds by 6e-8.
            assert!((found - exact).abs() <= 1e-5 * total, "{found} {exact}");
            set.add_scaled_single(&mut sum, 0.7, &a);
            for ((sum, a), b) in sum.iter().zip(&a).zip(&b) {
                assert!((f64::from(*sum) - (0.7 * f64::from(*a) + f64::from(*b))).abs() <= 1e-6, "{sum}");
            }
            vec![vec![found], sum.into_iter().map(f64::from).collect()]
        });
    }
}

#[test]
fn sums_and_steps_agree_with_plain_loops() {
    for length in LENGTHS {
        let (a, b) = (scattered(length, -3.0, 2.0), scattered(length, -1.0, 4.0));
        let total: f64 = a.iter().zip(&b).map(|(a, b)| (a * b).abs()).sum();
        agrees(&format!("dot {length}"), 1e-15, |_, _, _| total, |set| vec![vec![set.dot(&a, &b)]]);
        // These two have the same bits everywhere.
        agrees(
            &format!("scaled sum {length}"),
            0.0,
            |_, _, _| 0.0,
            |set| {
                let mut sum = b.clone();
                set.add_scaled(&mut sum, 0.7, &a);
                vec![sum]
            },
        );
        agrees(
            &format!("adam {length}"),
            0.0,
            |_, _, _| 0.0,
            |set| {
                let [mut parameters, mut m] = [1.0, 0.1].map(|end| scattered(length, -end, end));
                let mut v = scattered(length, 0.0, 0.1);
                set.adam(&mut parameters, &a, &mut m, &mut v, &AdamUpdate::at(3, 0.01, [0.9, 0.999], 1e-8));
                vec![parameters, m, v]
            },
        );
        agrees(
            &format!("adam in single precision {length}"),
            0.0,
            |_, _, _| 0.0,
            |set| {
                let mut parameters = scattered(length, -1.0, 1.0);
                let [mut m, mut s] = [-0.1, 0.0]
                    .map(|low| scattered(length, low, 0.1).iter().map(|own| *own as f32).collect::<Vec<f32>>());
                set.adam_single(&mut parameters, &a, &mut m, &mut s, &AdamUpdate::at(3, 0.01, [0.9, 0.999], 1e-8));
                let wide = |numbers: &[f32]| numbers.iter().map(|own| f64::from(*own)).collect();
                vec![parameters, wide(&m), wide(&s)]
            },
        );
    }
}

#[test]
fn low_rank_products_are_those_of_plain_sums() {
    const WIDTH: usize = 3 * BLOCK;
    const RANK: usize = 5;
    let (w, t) = (scattered(ROWS * RANK, -1.0, 2.0), scattered(RANK * WIDTH, -3.0, 1.0));
    let r = scattered(ROWS * WIDTH, -2.0, 2.0);
    let sum = |count: usize, term: &dyn Fn(usize) -> f64| (0..count).map(term).sum::<f64>();
    let logit = |cell| sum(RANK, &|k| w[cell / WIDTH * RANK + k] * t[k * WIDTH + cell % WIDTH]);
    let factor = |cell| sum(WIDTH, &|v| r[cell / RANK * WIDTH + v] * t[cell % RANK * WIDTH + v]);
    let loading = |cell| 1.0 + sum(ROWS, &|d| w[d * RANK + cell / WIDTH] * r[d * WIDTH + cell % WIDTH]);
    let run = |set: InstructionSet| {
        let mut found = vec![vec![0.0; ROWS * WIDTH], vec![0.0; ROWS * RANK], vec![1.0; RANK * WIDTH]];
        set.low_rank_logits(&w, &t, WIDTH, &mut found[0]);
        set.low_rank_factors(&r, &t, WIDTH, &mut found[1]);
        set.low_rank_loadings(&w, &r, WIDTH, &mut found[2]);
        found
    };
    let size = |output, _, b: f64| b.abs().max(if output == 1 { 10.0 } else { 1.0 });
    agrees("low rank", 1e-14, size, run);
    for found in SETS.map(run) {
        close("logits", &found[0], &(0..ROWS * WIDTH).map(logit).collect::<Vec<_>>(), 1e-14, |_, b| b.abs().max(1.0));
        close("factors", &found[1], &(0..ROWS * RANK).map(factor).collect::<Vec<_>>(), 1e-14, |_, b| b.abs().max(10.0));
        let expected: Vec<f64> = (0..RANK * WIDTH).map(loading).collect();
        close("loadings", &found[2], &expected, 1e-14, |_, b| b.abs().max(1.0));
    }
}

/// Row starts, columns and codes of a matrix of 29 rows and 40 columns, with an empty row.
fn matrix() -> (Vec<usize>, Vec<u16>, Vec<u8>) {
    let (mut starts, mut columns) = (vec![0], Vec::new());
    for row in 0..29 {
        columns.extend((0..40_u16).filter(|column| row != 3 && (usize::from(*column) * 7 + row * 5) % 11 < 4));
        starts.push(columns.len());
    }
    let codes = (0..columns.len()).map(|index| (index * 37 % 251) as u8).collect();
    (starts, columns, codes)
}

/// Some rows of the matrix, column after column: their number, column starts, rows and codes.
fn by_column(rows: std::ops::Range<usize>) -> (usize, Vec<usize>, Vec<u16>, Vec<u8>) {
    let (starts, columns, codes) = matrix();
    let (mut ends, mut places, mut kept) = (vec![0], Vec::new(), Vec::new());
    for column in 0..40 {
        for (place, row) in (0..).zip(rows.clone()) {
            let entry = (starts[row]..starts[row + 1]).find(|index| columns[*index] == column);
            places.extend(entry.map(|_| place));
            kept.extend(entry.map(|index| codes[index]));
        }
        ends.push(places.len());
    }
    (rows.len(), ends, places, kept)
}

#[test]
fn sparse_products_agree_with_libm_however_entries_are_stored() {
    let (starts, columns, codes) = matrix();
    let table: [f64; 256] = std::array::from_fn(|code| code as f64 / 85.0 - 1.0);
    let (wide, values): (Vec<u32>, Vec<f64>) =
        columns.iter().zip(&codes).map(|(column, code)| (u32::from(*column), table[usize::from(*code)])).unzip();
    let coded = SparseEntries::Coded { columns: &columns, codes: &codes, table: &table };
    let plain = SparseEntries::Plain { columns: &wide, values: &values };
    // The same rows in two blocks, column after column.
    let blocks = [by_column(0..13), by_column(13..29)];
    let blocks = blocks.each_ref().map(|(rows, starts, places, codes)| SparseColumns {
        rows: *rows,
        starts,
        entries: SparseEntries::Coded { columns: places, codes, table: &table },
    });
    for outputs in [1, 3, 8, 10, 16, 17, 37] {
        let (weights, start) = (scattered(40 * outputs, -2.0, 3.0), scattered(outputs, -1.0, 1.0));
        let upstream = scattered(29 * outputs, -9.0, 9.0);
        // Sixty products of size at most 6: their rounding errors, and those of the sums; ten times as much back.
        let size = |output, _, _| if output == 0 { 1.0 } else { 10.0 };
        agrees(&format!("sparse, {outputs} outputs"), 1e-13, size, |set| {
            let mut eta = [vec![0.0; 29 * outputs], vec![0.0; 29 * outputs]];
            let mut sums = [(); 3].map(|()| vec![7.0; 40 * outputs]);
            for (number, entries) in [coded, plain].into_iter().enumerate() {
                set.sparse_product(&starts, entries, &weights, &start, &mut eta[number]);
                set.sparse_transposed(&starts, entries, &upstream, outputs, &mut sums[number]);
            }
            set.sparse_columns(&blocks, &upstream, outputs, &mut sums[2]);
            assert_eq!((bits(&eta[0]), bits(&sums[0])), (bits(&eta[1]), bits(&sums[1])));
            close("by column", &sums[2], &sums[0], 1e-12, |_, _| 1.0);
            let ([eta, _], [by_row, _, by_column]) = (eta, sums);
            vec![eta, by_row, by_column]
        });
    }
}

/// The outputs, the gradients by rows and the gradients by parameters.
fn passed(set: InstructionSet, precision: Precision, network: TanhNetwork<'_>, count: usize) -> Vec<Vec<f64>> {
    let (rows, upstream) = (scattered(network.inputs * count, -3.0, 2.0), scattered(network.heads * count, -1.0, 2.0));
    let (mut outputs, mut by_rows) = (vec![0.0; upstream.len()], vec![0.5; count]);
    let mut by_parameters = vec![0.25; network.parameters.len()];
    let back =
        TanhNetworkBack { rows: &rows, upstream: &upstream, by_rows: &mut by_rows, by_parameters: &mut by_parameters };
    match precision {
        Precision::Double => {
            set.tanh_network(network, &rows, &mut outputs);
            set.tanh_network_back(network, back);
        }
        Precision::Single => {
            set.tanh_network_single(network, &rows, &mut outputs);
            set.tanh_network_back_single(network, back);
        }
    }
    vec![outputs, by_rows, by_parameters]
}

/// The outputs from the formula.
fn formula(network: TanhNetwork<'_>, count: usize) -> Vec<f64> {
    let TanhNetwork { inputs, hidden, heads, .. } = network;
    let mut rest = network.parameters;
    let [w1, b1, w2, a, b2] = network.lengths().map(|length| rest.split_off(..length).unwrap_or_default());
    let rows = scattered(inputs * count, -3.0, 2.0);
    let output = |cell: usize| {
        let (head, row) = (cell / count, cell % count);
        let through = |weights: &[f64], from: usize| -> f64 {
            (0..inputs).map(|input| weights[from * inputs + input] * rows[input * count + row]).sum()
        };
        let unit = |unit: usize| w2[head * hidden + unit] * (b1[unit] + through(w1, unit)).tanh();
        (0..hidden).map(unit).sum::<f64>() + through(a, head) + b2[head]
    };
    (0..heads * count).map(output).collect()
}

#[test]
fn tanh_networks_agree_with_libm_and_the_formula() {
    for [inputs, hidden, heads] in [[1, 8, 1], [1, 3, 2], [2, 5, 2], [6, 4, 3]] {
        let shape = TanhNetwork { parameters: &[], inputs, hidden, heads };
        let parameters = scattered(shape.lengths().iter().sum(), -1.0, 1.2);
        let network = TanhNetwork { parameters: &parameters, ..shape };
        for count in [1, 15, 16, 17, 300] {
            let libm = passed(InstructionSet::Libm, Precision::Double, network, count);
            let size = |output: usize, _, _| libm[output].iter().fold(1.0_f64, |most, value| most.max(value.abs()));
            agrees(&format!("{inputs} inputs, {count} rows"), 1e-13, size, |set| {
                passed(set, Precision::Double, network, count)
            });
            for set in SETS {
                close(
                    "formula",
                    &passed(set, Precision::Double, network, count)[0],
                    &formula(network, count),
                    1e-14,
                    |_, _| 1.0,
                );
            }
            // Roundings of 6e-8 of hidden units, of products and of sums of as many terms as there are rows in a lane.
            agrees(&format!("{inputs} inputs, {count} rows, single"), 5e-5, size, |set| {
                let found = passed(set, Precision::Single, network, count);
                for (output, found) in found.iter().enumerate() {
                    close("single", found, &libm[output], 5e-5, |index, expected| size(output, index, expected));
                }
                found
            });
        }
    }
}

#[test]
fn one_parameter_serves_all_events() {
    let (mut found, mut expected) = (vec![0.0; 37], vec![0.0; 37]);
    for kernel in [bernoulli_logit, poisson_log] {
        let sum = kernel(&[0.4], &coins(37), 1.0, &mut found, &mut []);
        assert_eq!(sum.to_bits(), kernel(&[0.4; 37], &coins(37), 1.0, &mut expected, &mut []).to_bits());
        assert_eq!(bits(&found), bits(&expected));
    }
}

#[test]
fn only_what_is_asked_for_is_written() {
    let (x, location, scale) = (&*scattered(35, -2.0, 2.0), &[0.1][..], &[2.0][..]);
    let mut own = vec![0.0; 35];
    let all = normal_terms(InstructionSet::Avx512, x, location, scale);
    let (by_x, by_location, by_scale) = (&mut [][..], &mut [][..], own.as_mut_slice());
    let terms = &mut [][..];
    let sum = normal(&mut NormalTerms { x, location, scale, factor: 1.3, by_x, by_location, by_scale, terms });
    assert_eq!(sum.to_bits(), all[0][0].to_bits());
    assert_eq!(bits(&own), bits(&all[3]));
}

#[test]
fn extreme_arguments_are_exact() {
    let mut residual = [9.0; 7];
    let logits = [800.0, 800.0, -800.0, -800.0, 710.0, -745.0, 0.0];
    let sum = bernoulli_logit(&logits, &[1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0], 1.0, &mut residual, &mut []);
    assert!((sum + 1600.0 + std::f64::consts::LN_2).abs() < 1e-12, "{sum}");
    close("bernoulli", &residual, &[0.0, -1.0, 0.0, 1.0, 0.0, 0.0, 0.5], 1e-300, |_, _| 1.0);
    let mut residual = [0.0; 2];
    let sum = poisson_log(&[-800.0, -800.0], &[0.0, 2.0], 1.0, &mut residual, &mut []);
    assert_eq!(sum.to_bits(), (-1600.0_f64).to_bits());
    close("poisson", &residual, &[0.0, 2.0], 1e-300, |_, _| 1.0);
    assert!(poisson_log(&[710.0], &[3.0], 1.0, &mut [], &mut []) < f64::MIN);
    let mut x = [f64::NEG_INFINITY, -746.0, 0.0, 710.0, f64::INFINITY, f64::NAN];
    exponential(&mut x);
    assert_eq!(bits(&x[..5]), bits(&[0.0, 0.0, 1.0, f64::INFINITY, f64::INFINITY]));
    assert!(x[5].is_nan());
    // One unit of weight 1 and one output of weight 1.
    let network = TanhNetwork { parameters: &[1.0, 0.0, 1.0, 0.0, 0.0], inputs: 1, hidden: 1, heads: 1 };
    let mut outputs = [0.0; 4];
    tanh_network(network, &[-800.0, 0.0, 800.0, f64::NAN], &mut outputs);
    assert_eq!(outputs[..3], [-1.0, 0.0, 1.0]);
    assert!(outputs[3].is_nan());
}

#[test]
fn softmax_keeps_its_digits_and_its_gradients_add_up_to_zero() {
    let class: Vec<f64> = scattered(50, 0.0, 7.0).into_iter().map(f64::floor).collect();
    let mut gradient = vec![0.0; 350];
    categorical_logit(&scattered(350, -9.0, 7.0), &class, 3.0, &mut gradient, &mut []);
    assert!(gradient.chunks(7).all(|row| row.iter().sum::<f64>().abs() < 1e-14));
    let mut gradient = [0.0; 6];
    let sum = categorical_logit(&[1000.0, 0.0, -1000.0, -1e9, -1e9, -1e9], &[1.0, 2.0], 1.0, &mut gradient, &mut []);
    assert!((sum + 1000.0 + 3.0_f64.ln()).abs() < 1e-12, "{sum}");
    let third = 1.0 / 3.0;
    close("softmax", &gradient, &[-1.0, 1.0, 0.0, -third, -third, 2.0 * third], 1e-15, |_, b| b.abs().max(1.0));
    // A class that is all but certain.
    let mut gradient = [0.0; 3];
    let sum = categorical_logit(&[0.0, 40.0, -5.0], &[1.0], 1.0, &mut gradient, &mut []);
    let expected = (-40.0_f64).exp() + (-45.0_f64).exp();
    assert!((sum + expected).abs() < 1e-15 * expected && (gradient[1] - expected).abs() < 1e-15 * expected);
    for (logits, class) in [([f64::NAN, 0.0, 0.0], 1.0), ([0.0, 0.0, f64::NAN], 1.0), ([0.0; 3], f64::NAN)] {
        assert!(categorical_logit(&logits, &[class], 1.0, &mut gradient, &mut []).is_nan());
    }
    for class in [3.0, -1.0, 0.5] {
        assert!(categorical_logit(&[0.0; 3], &[class], 1.0, &mut gradient, &mut []).is_nan(), "{class}");
    }
}

#[test]
fn no_rows_and_no_outputs_are_no_work() {
    let entries = SparseEntries::Plain { columns: &[], values: &[] };
    sparse_product(&[0], entries, &[1.0, 2.0], &[0.0], &mut []);
    sparse_product(&[0, 0], entries, &[], &[], &mut []);
    let mut sums = [1.0, 2.0];
    sparse_transposed(&[0], entries, &[], 1, &mut sums);
    assert_eq!(bits(&sums), bits(&[0.0, 0.0]));
    sums.fill(1.0);
    sparse_columns(&[], &[], 1, &mut sums);
    assert_eq!(bits(&sums), bits(&[0.0, 0.0]));
    sparse_columns(&[SparseColumns { rows: 1, starts: &[0], entries }], &[], 0, &mut []);
}

#[test]
fn a_nan_is_not_hidden() {
    let mut residual = vec![0.0; 37];
    for place in [0, 16, 36] {
        for kernel in [bernoulli_logit, poisson_log] {
            let mut x = scattered(37, -12.0, 6.0);
            x[place] = f64::NAN;
            assert!(kernel(&x, &coins(37), 1.0, &mut residual, &mut []).is_nan() && residual[place].is_nan());
            assert!(kernel(&coins(37), &x, 1.0, &mut [], &mut []).is_nan());
        }
    }
    let (good, mut bad) = (scattered(37, 0.5, 2.0), scattered(37, 0.5, 2.0));
    bad[20] = f64::NAN;
    let wide = InstructionSet::Avx512;
    for (x, location, scale) in [(&bad, &good, &good), (&good, &bad, &good), (&good, &good, &bad)] {
        let terms = normal_terms(wide, x, location, scale);
        assert!(terms[0][0].is_nan() && terms[1..].iter().all(|by| by[20].is_nan()));
    }
    assert!([f64::NAN, -1.0].into_iter().all(|scale| normal_terms(wide, &good, &good, &[scale])[0][0].is_nan()));
    let (mut sum, mut x) = (vec![0.0; 20], vec![1.0; 20]);
    x[17] = f64::NAN;
    add_scaled(&mut sum, 0.0, &x);
    assert!(sum[17].is_nan() && sum[16].is_finite() && dot(&sum, &[0.0; 20]).is_nan());
    let (mut shifted, mut softplus) = ([0.0; 2], [0.0; 2]);
    stick(&[0.0, f64::NAN], &mut shifted, &mut softplus);
    assert!(shifted[1].is_nan() && softplus[1].is_nan() && softplus[0].is_finite());
    let mut factors = vec![0.0; ROWS * 5];
    factors[6] = f64::NAN;
    let mut logits = vec![0.0; ROWS * BLOCK];
    low_rank_logits(&factors, &[1.0; 5 * BLOCK], BLOCK, &mut logits);
    assert!(logits[BLOCK].is_nan() && logits[0].is_finite());
    let entries = SparseEntries::Plain { columns: &[0, 1], values: &[1.0, 0.0] };
    let mut eta = [0.0; 2];
    sparse_product(&[0, 1, 2], entries, &[1.0, f64::NAN], &[0.5], &mut eta);
    assert!((eta[0] - 1.5).abs() < 1e-15 && eta[1].is_nan());
    let (mut parameters, mut m, mut v) = (vec![1.5; 18], vec![0.0; 18], vec![0.0; 18]);
    let mut gradient = vec![1.0; 18];
    gradient[17] = f64::NAN;
    adam(&mut parameters, &gradient, &mut m, &mut v, &AdamUpdate::at(1, 0.1, [0.9, 0.999], 1e-8));
    assert!(parameters[17].is_nan() && parameters[16].is_finite());
}
