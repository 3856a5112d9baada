//! Multiplies what outer rows have by the columns of their inner rows, and sums over columns, as one node of the tape.

use std::sync::Arc;

use super::apply;
use crate::array::Array;
use crate::handle::Handle;

/// $`\sum_k x_{ik} b_{g_i k}`$ of rows $`i`$ in groups $`g_i`$, the `places`; `columns` are constants.
///
/// # Shapes
/// `effects`: $`b`$ `[outer, width]`; `columns`: $`x`$ `[places, width]` → `[places]`.
pub(crate) fn inner_products(effects: Handle, columns: Array, places: Arc<[usize]>) -> Handle {
    apply(
        vec![effects],
        Box::new(move |mut arrays| {
            let Array { values: effects, shape } = arrays.swap_remove(0);
            let width = shape.last().copied().unwrap_or(1).max(1);
            let dot = |(place, own): (&usize, &[f64])| {
                let effects = &effects[place * width..(place + 1) * width];
                effects.iter().zip(own).map(|(effect, column)| effect * column).sum()
            };
            let products: Vec<f64> = places.iter().zip(columns.values.chunks_exact(width)).map(dot).collect();
            let numbers = effects.len();
            let vjp = move |gradient: &[f64]| {
                let mut sums = vec![0.0; numbers];
                for ((place, own), slope) in places.iter().zip(columns.values.chunks_exact(width)).zip(gradient) {
                    let slots = &mut sums[place * width..(place + 1) * width];
                    slots.iter_mut().zip(own).for_each(|(slot, column)| *slot += slope * column);
                }
                vec![sums]
            };
            (Array { shape: vec![products.len()], values: products }, Box::new(vjp))
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;

    #[test]
    fn products_and_their_gradient_are_those_of_each_row() {
        let device = Device::flex();
        let effects = device.leaf::<2>(vec![1.0, 2.0, 3.0, 4.0], [2, 2]);
        let columns = Array { values: vec![1.0, 0.5, 1.0, -1.0, 2.0, 8.0], shape: vec![3, 2] };
        let found = inner_products(effects.clone().into(), columns, [1, 0, 1].into()).typed::<1>();
        // 3 + 4/2, 1 - 2 and 6 + 32.
        assert_eq!(Handle::from(found.clone()).read().unwrap().values, [5.0, -1.0, 38.0]);
        let slopes = device.tensor::<1>(vec![1.0, 10.0, 100.0], [3]);
        let gradients = (found * slopes).sum().backward();
        let by = Handle::from(effects.grad(&gradients).unwrap()).read().unwrap().values;
        // Of the first row 10 · (1, -1), of the second (1, 0.5) and 100 · (2, 8).
        assert_eq!(by, [10.0, -10.0, 201.0, 800.5]);
    }
}
