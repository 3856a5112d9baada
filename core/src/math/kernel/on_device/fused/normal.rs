//! Gives the square of the normal log density on a device, with its slopes by values, locations and scales.

use burn::tensor::Tensor;
use burn_cubecl::cubecl::{self, prelude::*};

use super::launch::Cells;
use crate::device::to_single;
use crate::distribution::Term;
use crate::math::operation::{Slope, sloped};

/// A parameter of all events: a number, or a tensor on the device.
struct Operand<'a> {
    number: f32,
    cells: Option<Cells>,
    tracked: Option<&'a Tensor<2>>,
}

impl<'a> Operand<'a> {
    /// That of a term, if it is one number for all events or has this shape.
    fn of(term: &'a Term, shape: [usize; 2]) -> Option<Self> {
        match term {
            Term::Number(number) => Some(Self { number: to_single(*number), cells: None, tracked: None }),
            Term::Tensor(own) => {
                let shape = if own.dims() == [1, 1] { [1, 1] } else { shape };
                Some(Self {
                    number: 0.0,
                    cells: Some(Cells::of(own, shape)?),
                    tracked: own.is_autodiff().then_some(own),
                })
            }
        }
    }

    fn argument(&self) -> Option<BufferArg> {
        self.cells.as_ref().map(Cells::argument)
    }
}

/// $-\tfrac12((x - \mu)/\sigma)^2$ of each event as one node; `None` where the device has no kernel, or location and scale are
/// neither one for all events nor one an event.
pub(crate) fn normal_square(value: &Term, location: &Term, scale: &Term) -> Option<Term> {
    let Term::Tensor(tensor) = value else { return None };
    let shape = tensor.dims();
    let operands = [Operand::of(value, shape)?, Operand::of(location, shape)?, Operand::of(scale, shape)?];
    let values = Cells::of(tensor, shape)?;
    let square = values.blank();
    let slopes = operands.each_ref().map(|own| own.tracked.map(|_| values.blank()));
    if let Some((groups, group)) = values.threads(values.count()) {
        let [_, location, scale] = &operands;
        let [by_value, by_location, by_scale] = slopes.each_ref().map(|slope| slope.as_ref().map(Cells::argument));
        normal_kernel::launch(
            values.client(),
            groups,
            group,
            values.argument(),
            location.argument().into(),
            scale.argument().into(),
            square.argument(),
            by_value.into(),
            by_location.into(),
            by_scale.into(),
            location.number,
            scale.number,
        );
    }
    let slopes = operands.iter().zip(slopes);
    let slopes = slopes.filter_map(|(own, slope)| Some(Slope { by: own.tracked?.clone(), slope: slope?.tensor() }));
    Some(Term::Tensor(sloped(square.tensor(), slopes.collect())))
}

#[cube(launch)]
fn normal_kernel(
    value: &[f32],
    location: ComptimeOption<&[f32]>,
    scale: ComptimeOption<&[f32]>,
    square: &mut [f32],
    by_value: ComptimeOption<&mut [f32]>,
    by_location: ComptimeOption<&mut [f32]>,
    by_scale: ComptimeOption<&mut [f32]>,
    location_number: f32,
    scale_number: f32,
) {
    let at = ABSOLUTE_POS;
    if at >= value.len() {
        terminate!();
    }
    #[comptime]
    let mean = match location {
        ComptimeOption::Some(location) => location[at % location.len()],
        ComptimeOption::None => location_number,
    };
    #[comptime]
    let deviation = match scale {
        ComptimeOption::Some(scale) => scale[at % scale.len()],
        ComptimeOption::None => scale_number,
    };
    let z = (value[at] - mean) / deviation;
    square[at] = -0.5f32 * z * z;
    #[comptime]
    if let ComptimeOption::Some(by_value) = by_value {
        by_value[at] = -z / deviation;
    }
    #[comptime]
    if let ComptimeOption::Some(by_location) = by_location {
        by_location[at] = z / deviation;
    }
    #[comptime]
    if let ComptimeOption::Some(by_scale) = by_scale {
        by_scale[at] = z * z / deviation;
    }
}
