//! Tests that regressions of all families, by their usual links, and groupings take the tape of their own thread, with the bits of Burn's.
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

use partita_core::{Device, Groups, Latents, LogDensity, Part, SiteTable, ValueAndGradient};

use super::*;

/// The effects of groups of a formula.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Grouping {
    None,
    /// `(1 | g)`.
    Intercepts,
    /// `(1 + x | g)`.
    Slopes,
    /// `(1 + x || g)`.
    Apart,
    /// `(1 | g) + (1 | silo)`.
    Silo,
    /// `(1 | g)` of groups that all silos know.
    Across,
}

const GROUPINGS: [Grouping; 6] =
    [Grouping::None, Grouping::Intercepts, Grouping::Slopes, Grouping::Apart, Grouping::Silo, Grouping::Across];

const ROWS: usize = 6;
const GROUPS: [usize; ROWS] = [0, 0, 1, 1, 1, 0];
const X: [f64; ROWS] = [0.5, -1.0, 0.25, 1.5, -0.75, 0.125];
const BINARY: [f64; ROWS] = [1.0, 0.0, 0.0, 1.0, 1.0, 0.0];
const COUNTS: [f64; ROWS] = [0.0, 2.0, 0.0, 1.0, 3.0, 0.0];
const LEVELS: [f64; ROWS] = [0.0, 2.0, 1.0, 1.0, 2.0, 0.0];
const TIMES: [f64; ROWS] = [0.5, 2.0, 1.25, 0.75, 3.0, 1.5];
const PARTS: [f64; ROWS] = [0.5, 0.25, 0.75, 0.125, 0.875, 0.625];

/// Responses with outcomes that they may have.
fn responses() -> Vec<(Response, [f64; ROWS])> {
    let with = |family: Family, zeros| Response { zeros, ..Response::from(family) };
    let names = ["a", "b", "c"].map(str::to_owned).to_vec();
    vec![
        (Family::Gaussian.into(), X),
        (Family::Student.into(), X),
        (Family::Bernoulli.into(), BINARY),
        (Response { link: Link::Probit, ..Family::Bernoulli.into() }, BINARY),
        (Family::Binomial.into(), BINARY),
        (Family::BetaBinomial.into(), BINARY),
        (Family::Poisson.into(), COUNTS),
        (Response { link: Link::Sqrt, ..Family::Poisson.into() }, COUNTS),
        (with(Family::Poisson, Zeros::Inflated), COUNTS),
        (with(Family::NegativeBinomial, Zeros::Hurdle), COUNTS),
        (Family::Gamma.into(), TIMES),
        (Family::LogNormal.into(), TIMES),
        (Family::Beta.into(), PARTS),
        (Family::Weibull.into(), TIMES),
        (Family::PiecewiseExponential { cuts: vec![1.0] }.into(), TIMES),
        (Family::Cumulative { levels: 3 }.into(), LEVELS),
        (Family::Categorical { levels: names }.into(), LEVELS),
    ]
}

fn effects(group: &str, columns: &[&str], dependence: Dependence) -> Effects {
    let deviations = vec![Prior::HalfNormal { scale: 2.5 }; columns.len()];
    let columns = columns.iter().map(|column| (*column).to_owned()).collect();
    Effects { group: group.into(), columns, dependence, deviations }
}

fn plan(response: &Response, grouping: Grouping) -> RegressionPlan {
    let prior = Prior::Normal { mean: 0.0, sd: 2.5 };
    let names = (0..response.predictors()).flat_map(|set| ["(Intercept)", "x"].map(|name| format!("{name}{set}")));
    let count = response.baseline();
    let own = |columns: &[&str], dependence| vec![vec![effects("g", columns, dependence)]];
    let across = AcrossEffects {
        effects: effects("g", &["(Intercept)"], Dependence::Independent),
        groups: vec!["north".into(), "south".into()],
        latents: EffectLatents::Standardised,
    };
    RegressionPlan {
        response: response.clone(),
        coefficients: names.map(|name| (name, prior)).collect(),
        silo: match grouping {
            Grouping::Silo => vec![effects("silo", &["(Intercept)"], Dependence::Independent)],
            _ => Vec::new(),
        },
        levels: match grouping {
            Grouping::None | Grouping::Across => Vec::new(),
            Grouping::Intercepts | Grouping::Silo => own(&["(Intercept)"], Dependence::Independent),
            Grouping::Slopes => own(&["(Intercept)", "x"], Dependence::Correlated(Lkj { concentration: 2.0 })),
            Grouping::Apart => own(&["(Intercept)", "x"], Dependence::Independent),
        },
        across: if grouping == Grouping::Across { vec![across] } else { Vec::new() },
        parameters: response.priors(1.0),
        linear: Vec::new(),
        baseline: (count > 0).then_some(Baseline { count, prior }),
    }
}

fn rows(response: &Response, outcome: [f64; ROWS], grouping: Grouping, device: &Device) -> RegressionRows {
    let mut columns: Vec<Vec<f64>> = X.iter().map(|x| vec![1.0, *x]).collect();
    if grouping == Grouping::Across {
        let indicators = GROUPS.map(|group| [f64::from(u8::from(group == 0)), f64::from(u8::from(group == 1))]);
        columns.iter_mut().zip(indicators).for_each(|(row, own)| row.extend(own));
    }
    let width = columns[0].len();
    let rows = RegressionRows::new(columns.concat(), width, outcome.to_vec(), device).unwrap();
    let rows = match response.family {
        Family::Weibull | Family::PiecewiseExponential { .. } => {
            rows.with_status(device.tensor(BINARY.to_vec(), [ROWS]))
        }
        Family::Categorical { .. } => rows,
        _ => rows.with_offset(device.tensor(PARTS.to_vec(), [ROWS])),
    };
    let slopes = || EffectRows::Columns(Box::new(device.tensor(X.iter().flat_map(|x| [1.0, *x]).collect(), [ROWS, 2])));
    let own = match grouping {
        Grouping::None | Grouping::Across => return rows,
        Grouping::Intercepts | Grouping::Silo => EffectRows::Intercepts,
        Grouping::Slopes | Grouping::Apart => slopes(),
    };
    let level = Level { name: "g".into(), groups: 2, outer: None, effects: vec![own] };
    let rows = rows.in_groups(vec![level], Some(Groups::new(GROUPS.to_vec(), 2).unwrap()));
    if grouping == Grouping::Silo { rows.with_silo_effects(vec![EffectRows::Intercepts]) } else { rows }
}

fn scattered(count: usize) -> Vec<f64> {
    (0..count).map(|index| ((index * 7 + 3) % 11) as f64 / 10.0 - 0.5).collect()
}

fn bits(found: &ValueAndGradient) -> Vec<u64> {
    let all = std::iter::once(&found.value).chain(&found.globals).chain(found.locals.iter().flatten());
    all.map(|number| number.to_bits()).collect()
}

#[test]
fn regressions_take_the_tape_of_their_own_thread_with_the_bits_of_burns() {
    let device = Device::flex();
    for (response, outcome) in responses() {
        for grouping in GROUPINGS {
            // The predictors of categories have no effects of groups.
            if response.predictors() > 1 && grouping != Grouping::None {
                continue;
            }
            let (model, rows) =
                (Regression::new(plan(&response, grouping)), rows(&response, outcome, grouping, &device));
            let table = SiteTable::of(&model, &device, &rows).unwrap();
            let globals = scattered(table.global_len());
            let locals: Vec<Vec<f64>> =
                table.blocks().iter().map(|block| scattered(block.rows * block.width)).collect();
            let latents = Latents { globals: &globals, locals: &locals };
            let own = LogDensity::new(&model, &device, &table);
            let found = [own.local(latents, &rows).unwrap(), own.global(&globals).unwrap()];
            for part in [Part::Local, Part::Global] {
                assert!(!table.was_on_burn_tape(part), "{response:?}, {grouping:?}: {part:?}");
            }
            let burns = LogDensity::new(&model, &device, &table).on_burn_tape();
            let expected = [burns.local(latents, &rows).unwrap(), burns.global(&globals).unwrap()];
            assert_eq!(found.each_ref().map(bits), expected.each_ref().map(bits), "{response:?}, {grouping:?}");
            assert!(found[0].globals.iter().any(|slope| *slope != 0.0), "{response:?}, {grouping:?}");
        }
    }
}
