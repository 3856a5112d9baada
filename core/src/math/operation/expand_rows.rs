//! Repeats rows of a tensor by index as one node of the tape: what an outer row has, for each of its inner rows.

use std::sync::Arc;

use super::apply;
use crate::array::Array;
use crate::handle::Handle;

/// Row `places[i]` of `input` as row `i`; the gradient of a row is the sum over the rows it became.
///
/// # Shapes
/// `[outer, ...]` → `[places, ...]`, every place below `outer`.
pub(crate) fn expand_rows(input: Handle, places: Arc<[usize]>) -> Handle {
    apply(
        vec![input],
        Box::new(move |mut arrays| {
            let Array { values, mut shape } = arrays.swap_remove(0);
            let each: usize = shape.iter().skip(1).product();
            if let Some(first) = shape.first_mut() {
                *first = places.len();
            }
            let mut rows = Vec::with_capacity(places.len() * each);
            match each {
                1 => rows.extend(places.iter().map(|place| values[*place])),
                _ => places.iter().for_each(|place| rows.extend_from_slice(&values[place * each..(place + 1) * each])),
            }
            let numbers = values.len();
            let vjp = move |gradient: &[f64]| {
                let mut sums = vec![0.0; numbers];
                for (place, own) in places.iter().zip(gradient.chunks_exact(each.max(1))) {
                    let slots = &mut sums[place * each..(place + 1) * each];
                    slots.iter_mut().zip(own).for_each(|(slot, own)| *slot += own);
                }
                vec![sums]
            };
            (Array { values: rows, shape }, Box::new(vjp))
        }),
    )
}
