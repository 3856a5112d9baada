//! Writes the six-cities step as one plain loop over arrays, without Burn: the limit Partita is measured against.
//!
//! The model, family, estimator and optimiser are those of `benches/peers/six_cities_jax.py`: random intercepts $u_i
//! e^{-\omega}$, full-rank $q(Z_G)$, $q(u_i \mid Z_G)$ with mean and log-scale linear in $Z_G$, sticking-the-landing
//! gradients, Adam with cosine decay. Derivatives are by hand; noise is the framework's own keyed streams.

use std::f64::consts::PI;

use partita_core::kernel::{AdamUpdate, adam, add_scaled, bernoulli_logit, dot, exponential};
use partita_core::{Key, Noise, Purpose};

use super::data::{AGES, Child};

/// Coefficients and log precision: the length of $Z_G$.
const GLOBALS: usize = 5;
/// Means, logarithms of the diagonal, and the entries below it, row after row.
const GLOBAL_PARAMETERS: usize = 20;
/// Arrays over children: mean, log-scale, five slopes, five tilts.
const LOCAL_ARRAYS: usize = 12;
const PRIOR_VARIANCE: f64 = 100.0;
const RATE: f64 = 0.02;
const LAST_STEP: f64 = 20_000.0;

/// The state of the fit and the workspace of a step.
#[derive(Debug)]
pub(crate) struct Limit {
    noise: Noise,
    time: u64,
    smoke: Vec<f64>,
    /// All children at seven, all at eight, ...; so are the logits and the residuals.
    answers: Vec<f64>,
    parameters: Vec<f64>,
    gradient: Vec<f64>,
    first: Vec<f64>,
    second: Vec<f64>,
    /// Arrays over children: noise, scale, latent, summed residuals, those times age, slopes by mean and by log-scale.
    draws: [Vec<f64>; 7],
    ones: Vec<f64>,
    logits: Vec<f64>,
    residuals: Vec<f64>,
}

/// One draw of $Z_G$: noise, scale matrix, deviation from the mean, value.
struct Shared {
    noise: [f64; GLOBALS],
    tril: [[f64; GLOBALS]; GLOBALS],
    away: [f64; GLOBALS],
    value: [f64; GLOBALS],
}

impl Limit {
    /// The starting point of the JAX script, for these children.
    pub(crate) fn new(children: &[Child], seed: u64) -> Self {
        let count = children.len();
        let length = GLOBAL_PARAMETERS + LOCAL_ARRAYS * count;
        let mut parameters = vec![0.0; length];
        parameters[GLOBALS..2 * GLOBALS].fill(-2.0);
        Self {
            noise: Noise::new(seed),
            time: 0,
            smoke: children.iter().map(|child| child.smoke).collect(),
            answers: (0..AGES.len()).flat_map(|visit| children.iter().map(move |child| child.wheeze[visit])).collect(),
            parameters,
            gradient: vec![0.0; length],
            first: vec![0.0; length],
            second: vec![0.0; length],
            draws: std::array::from_fn(|_| vec![0.0; count]),
            ones: vec![1.0; count],
            logits: vec![0.0; count * AGES.len()],
            residuals: vec![0.0; count * AGES.len()],
        }
    }

    /// One step with `particles` draws; returns the estimate of the ELBO before it, in nats.
    pub(crate) fn step(&mut self, particles: u32) -> f64 {
        let rate = RATE * 0.5 * (1.0 + (PI * self.time as f64 / LAST_STEP).cos());
        let elbo = self.estimate(particles);
        self.time += 1;
        let update = AdamUpdate::at(self.time, rate, [0.9, 0.999], 1e-8);
        adam(&mut self.parameters, &self.gradient, &mut self.first, &mut self.second, &update);
        elbo
    }

    /// The ELBO averaged over `particles` draws; leaves the gradient of its negative in `self.gradient`.
    pub(crate) fn estimate(&mut self, particles: u32) -> f64 {
        self.gradient.fill(0.0);
        let mut elbo = 0.0;
        for particle in 0..particles {
            let key = Key::new(Purpose::Fit, self.time).particle(particle);
            let shared = self.draw_globals(key);
            self.noise.stream(key.silo(0)).normal(&mut self.draws[0]);
            elbo += self.accumulate(&shared, -1.0 / f64::from(particles));
        }
        elbo / f64::from(particles)
    }

    fn draw_globals(&self, key: Key) -> Shared {
        let mut noise = [0.0; GLOBALS];
        self.noise.stream(key).normal(&mut noise);
        let (mean, rest) = self.parameters.split_at(GLOBALS);
        let mut below = rest[GLOBALS..].iter();
        let mut tril = [[0.0; GLOBALS]; GLOBALS];
        for row in 0..GLOBALS {
            tril[row][..row].fill_with(|| below.next().copied().unwrap_or(0.0));
            tril[row][row] = rest[row].exp();
        }
        let away = tril.map(|row| row.iter().zip(noise).map(|(entry, noise)| entry * noise).sum());
        Shared { noise, tril, away, value: std::array::from_fn(|k| mean[k] + away[k]) }
    }

    /// Adds one particle: returns its ELBO term, and adds `weight` times its gradient.
    fn accumulate(&mut self, shared: &Shared, weight: f64) -> f64 {
        let sums = local_part(self, shared, weight);
        let constant = GLOBALS as f64 * 0.5 * PRIOR_VARIANCE.ln();
        let prior: f64 = shared.value.iter().map(|z| -0.5 * z * z / PRIOR_VARIANCE).sum();
        let density: f64 = (0..GLOBALS).map(|k| -0.5 * shared.noise[k].powi(2) - shared.tril[k][k].ln()).sum();
        // The score of q at the draw: the transposed triangular system solved for the noise.
        let mut score = shared.noise;
        for k in (0..GLOBALS).rev() {
            for other in k + 1..GLOBALS {
                score[k] -= shared.tril[other][k] * score[other];
            }
            score[k] /= shared.tril[k][k];
        }
        let direct: [f64; GLOBALS] =
            std::array::from_fn(|k| sums.direct[k] - shared.value[k] / PRIOR_VARIANCE + score[k]);
        let mut below = 2 * GLOBALS;
        for (row, direct) in direct.into_iter().enumerate() {
            let slope = weight * (direct + sums.path[row]);
            self.gradient[row] += weight * direct;
            self.gradient[GLOBALS + row] += slope * shared.noise[row] * shared.tril[row][row];
            for (slot, noise) in self.gradient[below..below + row].iter_mut().zip(shared.noise) {
                *slot += slope * noise;
            }
            below += row;
        }
        sums.value + prior - constant - density
    }
}

/// Sums over children: the ELBO, and its derivatives by $Z_G$, directly and through the latents of the children.
struct Sums {
    value: f64,
    direct: [f64; GLOBALS],
    path: [f64; GLOBALS],
}

fn local_part(limit: &mut Limit, shared: &Shared, weight: f64) -> Sums {
    let (away, count) = (shared.away, limit.smoke.len());
    let arrays = &limit.parameters[GLOBAL_PARAMETERS..];
    let own: [&[f64]; LOCAL_ARRAYS] = std::array::from_fn(|k| &arrays[k * count..][..count]);
    let [noise, scale, latent, total, aged, by_mean, by_log_scale] =
        limit.draws.each_mut().map(|draws| &mut draws[..count]);
    let smoke = &limit.smoke[..count];
    latent.copy_from_slice(own[0]);
    scale.copy_from_slice(own[1]);
    for k in 0..GLOBALS {
        add_scaled(latent, away[k], own[2 + k]);
        add_scaled(scale, away[k], own[7 + k]);
    }
    let mut value = dot(scale, &limit.ones);
    exponential(scale);
    let [.., omega] = shared.value;
    let spread = (-omega).exp();
    write_logits(&mut limit.logits, shared.value, spread, latent, scale, noise, smoke);
    value += bernoulli_logit(&limit.logits, &limit.answers, 1.0, &mut limit.residuals, &mut []);
    add_visits(&limit.residuals, total, aged);
    write_slopes(spread, total, [noise, scale, latent], by_mean, by_log_scale);
    value += 0.5 * (dot(noise, noise) - dot(latent, latent));
    let mut direct = [
        dot(total, &limit.ones),
        dot(total, smoke),
        dot(aged, &limit.ones),
        dot(aged, smoke),
        -spread * dot(total, latent),
    ];
    // From here on the arrays hold the derivatives of log q(u | Z_G), with its parameters fixed, by mean and log-scale.
    for (scale, noise) in scale.iter_mut().zip(noise.iter_mut()) {
        *scale = *noise / *scale;
        *noise = 1.0 - *noise * *noise;
    }
    let mut path = [0.0; GLOBALS];
    for k in 0..GLOBALS {
        path[k] = dot(own[2 + k], by_mean) + dot(own[7 + k], by_log_scale);
        direct[k] += dot(own[7 + k], noise) - dot(own[2 + k], scale);
    }
    let arrays = &mut limit.gradient[GLOBAL_PARAMETERS..];
    for (k, factor) in [1.0, 1.0].into_iter().chain(away).chain(away).enumerate() {
        let slopes = if k == 0 || (2..7).contains(&k) { &*by_mean } else { &*by_log_scale };
        add_scaled(&mut arrays[k * count..][..count], weight * factor, slopes);
    }
    Sums { value, direct, path }
}

/// Turns deviates into latents' effects on the log odds: visit after visit, child after child.
#[inline(always)]
fn write_logits(
    logits: &mut [f64],
    value: [f64; GLOBALS],
    spread: f64,
    mean: &[f64],
    scale: &[f64],
    noise: &[f64],
    smoke: &[f64],
) {
    for (logits, age) in logits.chunks_exact_mut(smoke.len()).zip(AGES) {
        let (base, slope) = (value[0] + value[2] * age, value[1] + value[3] * age);
        for ((logit, smoke), ((mean, scale), noise)) in
            logits.iter_mut().zip(smoke).zip(mean.iter().zip(scale).zip(noise))
        {
            *logit = base + slope * smoke + (mean + scale * noise) * spread;
        }
    }
}

/// Sums the residuals of each child over visits, plainly and times age.
#[inline(always)]
fn add_visits(residuals: &[f64], total: &mut [f64], aged: &mut [f64]) {
    let (early, late) = residuals.split_at(2 * total.len());
    let ((seven, eight), (nine, ten)) = (early.split_at(total.len()), late.split_at(total.len()));
    let visits = seven.iter().zip(eight).zip(nine.iter().zip(ten));
    for ((total, aged), ((seven, eight), (nine, ten))) in total.iter_mut().zip(aged).zip(visits) {
        *total = (seven + eight) + (nine + ten);
        *aged = (seven * AGES[0] + eight * AGES[1]) + ten * AGES[3];
    }
}

/// Completes the latents, and writes the derivatives of the ELBO by the mean and the log-scale of each.
#[inline(always)]
fn write_slopes(
    spread: f64,
    total: &[f64],
    [noise, scale, latent]: [&mut [f64]; 3],
    by_mean: &mut [f64],
    by_log_scale: &mut [f64],
) {
    let draws = latent.iter_mut().zip(scale.iter().zip(noise.iter()));
    for (((latent, (scale, noise)), total), (by_mean, by_log_scale)) in
        draws.zip(total).zip(by_mean.iter_mut().zip(by_log_scale))
    {
        *latent += scale * noise;
        *by_mean = total * spread - *latent + noise / scale;
        *by_log_scale = *by_mean * scale * noise;
    }
}
