//! Computes moments of a posterior of one or two globals by sums over a grid of the unconstrained scale.

use partita::burn::tensor::Tensor;
use partita::core::{Latents, LogDensity};
use partita::{Device, SiteTable};

use super::judged::Moments;
use super::small::Hard;
use crate::harness::{Result, real};

/// The mean and the standard deviation of every number of the globals, by the midpoint rule in the box `sides`.
pub(super) fn moments(model: &Hard, data: &Tensor<1>, sides: &[[f64; 2]], device: &Device) -> Result<Vec<Moments>> {
    let table = SiteTable::of(model, device, data)?;
    let density = LogDensity::new(model, device, &table);
    let each: usize = if sides.len() == 1 { 2_000 } else { 160 };
    let count = if sides.len() == 1 { each } else { each * each };
    let locals = vec![Vec::new(); table.blocks().len()];
    let (mut logs, mut points) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for index in 0..count {
        let places = [index % each, index / each];
        let place = |(place, [low, high]): (usize, &[f64; 2])| {
            low + (high - low) * (real(place as u64) + 0.5) / real(each as u64)
        };
        let globals: Vec<f64> = places.into_iter().zip(sides).map(place).collect();
        logs.push(density.joint(Latents { globals: &globals, locals: &locals }, data)?.value);
        let natural = table.natural_globals(model, device, &globals)?;
        points.push(natural.into_iter().flat_map(|(_, array)| array.values).collect::<Vec<f64>>());
    }
    let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = logs.iter().map(|value| (value - largest).exp()).collect();
    Ok(Moments::weighted(&points, &weights))
}
