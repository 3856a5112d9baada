//! Draws from a Gaussian with independent components in one launch, and takes gradients by the draws back in another.

use burn::tensor::Tensor;
use burn_cubecl::cubecl::{self, prelude::*};

use super::launch::Cells;
use crate::math::kernel::on_device::{DiagonalGradient, DiagonalNoise, DrawGradients, DrawTensors};

/// [`DiagonalNoise::draw`] as one kernel.
pub(crate) fn draw(own: DiagonalNoise<'_>, mean: &Tensor<2>) -> Option<DrawTensors> {
    let [draws, width] = own.noise.dims();
    let [mean, scale] = [Cells::of(mean, [1, width])?, Cells::of(own.scale, [1, width])?];
    let noise = Cells::of(own.noise, [draws, width])?;
    let [latent, deviation] = [noise.blank(), noise.blank()];
    if let Some((groups, group)) = noise.threads(noise.count()) {
        draw_kernel::launch(
            noise.client(),
            groups,
            group,
            mean.argument(),
            scale.argument(),
            noise.argument(),
            latent.argument(),
            deviation.argument(),
        );
    }
    Some(DrawTensors { latent: latent.tensor(), deviation: deviation.tensor() })
}

/// [`DiagonalNoise::pull_back`] as one kernel.
pub(crate) fn pull_back(own: DiagonalNoise<'_>, gradients: DrawGradients<'_>) -> Option<DiagonalGradient> {
    let [draws, width] = own.noise.dims();
    let [scale, noise] = [Cells::of(own.scale, [1, width])?, Cells::of(own.noise, [draws, width])?];
    let cells = |tensor: &Tensor<2>| Cells::of(tensor, [draws, width]);
    let [location, deviation] = [cells(gradients.location)?, cells(gradients.deviation)?];
    let [mean, log_scale] = [scale.blank(), scale.blank()];
    if let Some((groups, group)) = scale.threads(scale.count()) {
        pull_back_kernel::launch(
            scale.client(),
            groups,
            group,
            scale.argument(),
            noise.argument(),
            location.argument(),
            deviation.argument(),
            mean.argument(),
            log_scale.argument(),
            gradients.adds_score,
        );
    }
    Some(DiagonalGradient { mean: mean.tensor(), log_scale: log_scale.tensor() })
}

/// [`DiagonalNoise::draw_plain`], number by number.
#[cube(launch)]
fn draw_kernel(mean: &[f32], scale: &[f32], noise: &[f32], latent: &mut [f32], deviation: &mut [f32]) {
    let at = ABSOLUTE_POS;
    if at >= noise.len() {
        terminate!();
    }
    let column = at % scale.len();
    let own = scale[column] * noise[at];
    latent[at] = mean[column] + own;
    deviation[at] = own;
}

/// [`DiagonalNoise::pull_back_plain`], a thread a component.
#[cube(launch)]
fn pull_back_kernel(
    scale: &[f32],
    noise: &[f32],
    location: &[f32],
    deviation: &[f32],
    by_mean: &mut [f32],
    by_log_scale: &mut [f32],
    #[comptime] adds_score: bool,
) {
    let at = ABSOLUTE_POS;
    if at >= scale.len() {
        terminate!();
    }
    let own = scale[at];
    let mut mean = 0.0f32;
    let mut log_scale = 0.0f32;
    for draw in 0..noise.len() / scale.len() {
        let cell = draw * scale.len() + at;
        let e = noise[cell];
        let mut through_mean = location[cell];
        let mut through_scale = deviation[cell];
        if adds_score {
            through_mean += e / own;
            through_scale += e / own;
        }
        mean += through_mean;
        log_scale += through_scale * own * e;
    }
    by_mean[at] = mean;
    by_log_scale[at] = log_scale;
}
