//! Keeps products of designs and coefficients, so that readings at several latents of the same rows compute them once.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Start, by_coefficient, by_intercept, multiply};
use crate::array::Array;
use crate::error::Result;
use crate::handle::Handle;
use crate::math::operation;

/// The products of one reading, on any thread.
///
/// A design is identified by the address of its numbers and coefficients by their tensor; a kept product holds both, so
/// that none can reuse the address.
#[derive(Debug, Clone, Default)]
pub(crate) struct Products(Arc<Mutex<Vec<Product>>>);

#[derive(Debug)]
struct Product {
    values: Arc<Vec<f64>>,
    coefficients: Handle,
    cells: Handle,
}

/// The most products that are kept: further ones are computed every time.
const MOST: usize = 16;

/// A design of which all rows stay, with those that a plate evaluates.
#[derive(Debug, Clone)]
pub(super) struct Whole {
    pub(super) products: Products,
    /// The rows of the whole design.
    pub(super) total: usize,
    /// The row of the whole design of each row now evaluated; `None` for all in order.
    pub(super) chosen: Option<Arc<[usize]>>,
}

impl Whole {
    /// The product of all rows with the coefficients: one node of the tape, however often it is asked for.
    pub(super) fn product(
        &self,
        values: &Arc<Vec<f64>>,
        coefficients: Handle,
        [_, repeats, columns]: [usize; 3],
    ) -> Handle {
        let mut known = self.products.0.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |own: &&Product| Arc::ptr_eq(&own.values, values) && own.coefficients.is_same(&coefficients);
        if let Some(found) = known.iter().find(same) {
            return found.cells.clone();
        }
        let (own, cells) = (Arc::clone(values), [self.total, repeats, columns]);
        let product = operation::apply(
            vec![coefficients.clone()],
            Box::new(move |arrays| {
                let none = Start { intercepts: None, places: None };
                let eta = multiply(&own, &arrays[0].values, none, cells);
                let back = move |gradient: &[f64]| vec![by_coefficient(&own, gradient, cells)];
                (Array { shape: vec![eta.len()], values: eta }, Box::new(back))
            }),
        );
        if known.len() < MOST {
            known.push(Product { values: Arc::clone(values), coefficients, cells: product.clone() });
        }
        product
    }

    /// The cells of the rows now evaluated, with intercepts where there are any: one node of the tape.
    pub(super) fn take(
        &self,
        product: Handle,
        (intercepts, places): (Option<Handle>, Option<Arc<[usize]>>),
        repeats: usize,
        shape: Vec<usize>,
    ) -> Result<Handle> {
        if self.chosen.is_none() && intercepts.is_none() {
            return Ok(product.reshaped(&shape));
        }
        let (chosen, rows) = (self.chosen.clone(), shape[0]);
        operation::apply_with_constants([Some(product), intercepts], move |[cells, intercepts], wanted| {
            let cells = cells.unwrap_or_default();
            let count = intercepts.as_ref().map_or(0, Vec::len);
            let start = Start { intercepts: intercepts.as_deref(), places: places.as_deref() };
            let eta = match (start, chosen.as_deref()) {
                (Start { intercepts: Some(own), places: Some(places) }, Some(chosen)) if repeats == 1 => {
                    chosen.iter().zip(places).map(|(row, place)| cells[*row] + own[*place]).collect()
                }
                (Start { intercepts: Some(own), places: Some(places) }, None) if repeats == 1 => {
                    cells.iter().zip(places).map(|(cell, place)| cell + own[*place]).collect()
                }
                (start, chosen) => {
                    let mut eta = start.cells(rows, repeats);
                    add_rows(&mut eta, &cells, chosen, repeats);
                    eta
                }
            };
            let len = cells.len();
            let back = move |gradient: &[f64]| {
                let mut results = Vec::with_capacity(2);
                if wanted[0] {
                    results.push(by_row(gradient, len, chosen.as_deref(), repeats));
                }
                if wanted[1] {
                    results.push(by_intercept(gradient, repeats, count, places.as_deref()));
                }
                results
            };
            (Array { values: eta, shape }, Box::new(back))
        })
    }
}

/// Adds the cells of each chosen row.
fn add_rows(sum: &mut [f64], cells: &[f64], chosen: Option<&[usize]>, repeats: usize) {
    match chosen {
        None => sum.iter_mut().zip(cells).for_each(|(slot, cell)| *slot += cell),
        Some(chosen) if repeats == 1 => sum.iter_mut().zip(chosen).for_each(|(slot, row)| *slot += cells[*row]),
        Some(chosen) => {
            for (slots, row) in sum.chunks_exact_mut(repeats.max(1)).zip(chosen) {
                slots.iter_mut().zip(&cells[row * repeats..]).for_each(|(slot, cell)| *slot += cell);
            }
        }
    }
}

/// The gradient by the cells of all rows.
fn by_row(gradient: &[f64], len: usize, chosen: Option<&[usize]>, repeats: usize) -> Vec<f64> {
    let Some(chosen) = chosen else { return gradient.to_vec() };
    let mut sums = vec![0.0; len];
    for (own, row) in gradient.chunks_exact(repeats.max(1)).zip(chosen) {
        sums[row * repeats..].iter_mut().zip(own).for_each(|(slot, own)| *slot += own);
    }
    sums
}
