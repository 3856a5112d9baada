//! Moves parameters by one step of Adam in one launch.

use burn::tensor::Tensor;
use burn_cubecl::cubecl::{self, prelude::*};

use super::launch::Cells;
use crate::device::to_single;
use crate::math::kernel::AdamUpdate;
use crate::math::kernel::on_device::AdamTensors;

/// [`AdamTensors::step`] as one kernel.
pub(crate) fn adam<const D: usize>(
    own: &AdamTensors<D>,
    gradient: &Tensor<D>,
    units: Option<&Tensor<D>>,
    update: &AdamUpdate,
) -> Option<AdamTensors<D>> {
    let cells = |tensor: &Tensor<D>| Cells::of(tensor, own.value.dims());
    let [value, first, second] = [cells(&own.value)?, cells(&own.first)?, cells(&own.second)?];
    let gradient = cells(gradient)?;
    let units = match units {
        Some(units) => Some(cells(units)?),
        None => None,
    };
    let [new_value, new_first, new_second] = [value.blank(), value.blank(), value.blank()];
    if let Some((groups, group)) = value.threads(value.count()) {
        adam_kernel::launch(
            value.client(),
            groups,
            group,
            value.argument(),
            first.argument(),
            second.argument(),
            gradient.argument(),
            units.map(|units| units.argument()).into(),
            new_value.argument(),
            new_first.argument(),
            new_second.argument(),
            to_single(update.rate),
            to_single(update.first[0]),
            to_single(update.first[1]),
            to_single(update.second[0]),
            to_single(update.second[1]),
            to_single(update.correction),
            to_single(update.epsilon),
        );
    }
    Some(AdamTensors { value: new_value.tensor(), first: new_first.tensor(), second: new_second.tensor() })
}

/// [`AdamTensors::step_plain`], number by number.
#[cube(launch)]
fn adam_kernel(
    value: &[f32],
    first: &[f32],
    second: &[f32],
    gradient: &[f32],
    units: ComptimeOption<&[f32]>,
    new_value: &mut [f32],
    new_first: &mut [f32],
    new_second: &mut [f32],
    rate: f32,
    first_kept: f32,
    first_new: f32,
    second_kept: f32,
    second_new: f32,
    correction: f32,
    epsilon: f32,
) {
    let at = ABSOLUTE_POS;
    if at >= value.len() {
        terminate!();
    }
    #[comptime]
    let unit = match units {
        ComptimeOption::Some(units) => units[at],
        ComptimeOption::None => 1.0f32,
    };
    let given = gradient[at] * unit;
    let gradient = given / max(given.abs() * 1e-18f32, 1.0f32);
    let mean = first[at] * first_kept + gradient * first_new;
    let square = second[at] * second_kept + gradient * gradient * second_new;
    let step = mean * correction / (square.sqrt() + epsilon) * rate;
    new_value[at] = value[at] - step * unit;
    new_first[at] = mean;
    new_second[at] = square;
}
