//! Tests that a step of some rows in units of their own is that of all rows, to the last bit.

use super::*;
use crate::engine::family::RowOptions;
use crate::engine::optimiser::{Adam, Optimiser, RowPlaces};

/// Adam by rows, and what it says of the rows that a step leaves out.
struct Told {
    rule: Box<dyn UpdateRule>,
    others: Others,
}

enum Others {
    /// Steps enter and leave the units of their own rows.
    Wait,
    /// Steps enter and leave the units of all rows.
    Move,
}

impl UpdateRule for Told {
    fn step(&mut self, rate: f64, parameters: &mut [f64], gradient: &[f64]) {
        self.rule.step(rate, parameters, gradient);
    }

    fn step_rows(&mut self, rate: f64, parameters: &mut [f64], gradient: &[f64], places: &RowPlaces<'_>) {
        self.rule.step_rows(rate, parameters, gradient, places);
    }

    fn save(&self) -> Vec<(String, Vec<f64>)> {
        self.rule.save()
    }

    fn load(&mut self, state: Vec<(String, Vec<f64>)>) -> bool {
        self.rule.load(state)
    }

    fn save_rows(&self, places: &RowPlaces<'_>) -> Option<Vec<(String, Vec<f64>)>> {
        assert!(places.rows.is_empty(), "a step copies the moments of rows {:?}", places.rows);
        match self.others {
            Others::Wait => self.rule.save_rows(places),
            Others::Move => None,
        }
    }
}

#[test]
fn a_minibatch_in_units_moves_as_if_all_rows_entered_them() {
    let options = RowOptions {
        dense: vec![true; 2],
        given_globals: vec![true, false],
        scale_given_globals: vec![false, true],
        ..RowOptions::independent(2)
    };
    let family = RowGaussian::new(5, 2, 3, options);
    // Scales from a hundredth to a hundred, and means that have come far.
    let numbers = |count: usize, scale: f64| {
        (0_u32..).take(count).map(|at| scale * (7.3 * f64::from(at)).sin()).collect::<Vec<f64>>()
    };
    let parameters = numbers(family.parameter_len(), 4.6);
    let block = |rule: Box<dyn UpdateRule>| Block {
        plate: None,
        outer: None,
        family: family.clone(),
        is_encoded: false,
        parameters: parameters.clone(),
        start: numbers(10, 0.3),
        rule,
    };
    let rule = |others| Box::new(Told { rule: Adam::default().start(&Device::flex()), others });
    let (mut some, mut all) = (block(rule(Others::Wait)), block(rule(Others::Move)));
    for rows in [vec![1, 4], vec![0, 2], vec![4, 3], vec![2, 1]] {
        let gradient = numbers(2 * family.row_parameter_len(), 10.0);
        let rows = ChosenRows { rows, outer: Vec::new(), weight: 2.5 };
        some.descend(Some(&rows), gradient.clone(), 0.05, true);
        all.descend(Some(&rows), gradient, 0.05, true);
        assert!(some.parameters != parameters);
        let bits = |block: &Block| block.parameters.iter().map(|value| value.to_bits()).collect::<Vec<u64>>();
        assert_eq!(bits(&some), bits(&all));
    }
}
