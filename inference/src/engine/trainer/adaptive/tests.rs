//! Tests the adaptive rate on normal densities with known answers, whose scales differ by a million.

use partita_core::{Device, Key, Noise, Purpose};

use super::{Adaptive, Next};
use crate::engine::family::DiagonalGaussian;
use crate::engine::optimiser::Schedule;
use crate::engine::settings::Settings;
use crate::engine::trainer::units::MeanUnit;
use crate::engine::trainer::{Descent, Trainer, norm};

/// Independent normal densities, fitted by sticking the landing with noise as minibatches add it.
struct Quadratic {
    means: Vec<f64>,
    sds: Vec<f64>,
    /// The standard deviation of the noise of gradients, in units of each density.
    noise: f64,
}

/// How a fit of one went.
struct Fitted {
    steps: u64,
    trainer: Trainer,
    /// The largest distance of a mean in standard deviations, and of a log scale.
    error: f64,
}

impl Quadratic {
    /// Sampled bound and gradient of minus the bound.
    fn sample(&self, parameters: &[f64], step: u64) -> (f64, Vec<f64>) {
        let size = self.means.len();
        let mut numbers = vec![0.0; 3 * size];
        Noise::new(7).stream(Key::new(Purpose::Fit, step)).normal(&mut numbers);
        let (mut bound, mut gradient) = (0.0, vec![0.0; 2 * size]);
        for i in 0..size {
            let (mean, log_scale, own) = (parameters[i], parameters[size + i], &numbers[3 * i..3 * i + 3]);
            let (scale, sd) = (log_scale.exp(), self.sds[i]);
            let from = mean + scale * own[0] - self.means[i];
            bound += log_scale - sd.ln() + 0.5 * own[0] * own[0] - 0.5 * (from / sd).powi(2);
            let path = from / (sd * sd) - own[0] / scale;
            gradient[i] = path + self.noise * own[1] / sd;
            gradient[size + i] = path * scale * own[0] + self.noise * own[2] * scale / sd;
        }
        (bound, gradient)
    }

    fn trainer(&self, limit: u64) -> Trainer {
        let schedule = Schedule::adaptive();
        let settings = Settings { steps: limit, schedule, ..Settings::default() };
        let size = self.means.len();
        let start = [vec![0.0; size], vec![0.1_f64.ln(); size]].concat();
        let descent = Descent::new(&settings, &Device::flex());
        let mut trainer = Trainer::new(Box::new(DiagonalGaussian::new(size)), start, &[], descent);
        trainer.adapt(&[]);
        trainer
    }

    fn fit(&self, limit: u64) -> Fitted {
        self.fit_by(self.trainer(limit), limit)
    }

    fn fit_by(&self, mut trainer: Trainer, limit: u64) -> Fitted {
        let mut steps = 0;
        while steps < limit && !trainer.has_converged() {
            let (bound, mut gradient) = self.sample(trainer.parameters(), steps);
            let length = norm(&gradient);
            trainer.step(steps, bound, &mut gradient, length);
            steps += 1;
        }
        let (means, log_scales) = trainer.parameters().split_at(self.means.len());
        let mut error = 0.0_f64;
        for i in 0..means.len() {
            error = error.max(((means[i] - self.means[i]) / self.sds[i]).abs());
            error = error.max((log_scales[i] - self.sds[i].ln()).abs());
        }
        Fitted { steps, trainer, error }
    }
}

fn badly_scaled(noise: f64) -> Quadratic {
    Quadratic { means: vec![0.02, 3.0, 500.0, -2_000.0], sds: vec![1e-3, 1.0, 30.0, 1e3], noise }
}

#[test]
fn scales_from_a_thousandth_to_a_thousand_are_found_alike() {
    let exact = badly_scaled(0.0).fit(100_000);
    assert!(exact.trainer.has_converged() && exact.steps < 50_000, "{} steps", exact.steps);
    assert!(exact.error < 0.05, "{}", exact.error);
    let noisy = badly_scaled(1.0).fit(100_000);
    assert!(noisy.trainer.has_converged() && noisy.steps < 50_000, "{} steps", noisy.steps);
    // The largest of eight errors; an average over n iterates has one of about 1/sqrt(n).
    assert!(noisy.error < 0.2, "{}", noisy.error);
}

#[test]
fn a_run_of_many_coordinates_ends_where_its_bound_rests() {
    let Quadratic { means, sds, noise } = badly_scaled(3.0);
    let many = Quadratic { means: means.repeat(512), sds: sds.repeat(512), noise };
    let fitted = many.fit(100_000);
    assert!(fitted.trainer.has_converged() && fitted.steps < 20_000, "{} steps", fitted.steps);
    // The largest of 4,096 errors.
    assert!(fitted.error < 0.5, "{}", fitted.error);
}

#[test]
fn a_run_of_many_globals_alone_finds_scales_from_a_thousandth_to_a_thousand() {
    let Quadratic { means, sds, noise } = badly_scaled(3.0);
    let many = Quadratic { means: means.repeat(512), sds: sds.repeat(512), noise };
    let mut trainer = many.trainer(100_000);
    trainer.know_rows(false);
    let fitted = many.fit_by(trainer, 100_000);
    assert!(fitted.trainer.has_converged() && fitted.steps < 20_000, "{} steps", fitted.steps);
    assert!(fitted.error < 0.5, "{}", fitted.error);
}

#[test]
fn many_globals_alone_begin_lower_and_fall_to_zero_for_longer() {
    let found = |length: usize| {
        let (mut own, iterate) = (Adaptive::new(0.05, 400), vec![0.0; length]);
        own.know_rows(length, false);
        let (first, mut falling) = (own.rates(1, &iterate)[0], 0);
        for step in 0..400 {
            own.rates(1, &iterate);
            falling += u32::from(own.is_falling());
            own.take(&iterate, f64::from(step), || vec![1.0; length]);
        }
        (first, falling)
    };
    assert_eq!((found(2_047), found(2_048)), ((0.05, 100), (0.03, 200)));
}

#[test]
fn means_of_many_globals_move_in_units_of_their_own_also_after_a_restart() {
    let found = |length: usize, have_latents: bool| {
        let (mut own, iterate) = (Adaptive::new(0.05, 400), vec![0.0; length]);
        own.know_rows(length, have_latents);
        let rate = own.rates(1, &iterate)[0];
        let mut restored = Adaptive::new(0.05, 400);
        assert!(restored.load(&own.save(), length));
        assert_eq!(restored.means(), own.means());
        (rate, own.means())
    };
    assert_eq!(found(2_047, true), (0.05, MeanUnit::OWN));
    assert_eq!(found(2_047, false), (0.05, MeanUnit::OWN));
    assert_eq!(found(2_048, true), (0.05, MeanUnit::Own(4.0)));
    assert_eq!(found(2_048, false), (0.03, MeanUnit::Between));
}

#[test]
fn more_noise_takes_more_steps_and_a_limit_ends_a_run_at_a_rate_of_nearly_zero() {
    assert!(badly_scaled(10.0).fit(100_000).steps > badly_scaled(1.0).fit(100_000).steps);
    let mut cut = badly_scaled(1.0).fit(400);
    assert_eq!((cut.steps, cut.trainer.has_converged()), (400, false));
    assert!(cut.trainer.rate(399) < 1e-5);
}

#[test]
fn a_restored_run_goes_on_with_the_same_bits_at_every_stage() {
    let quadratic = badly_scaled(0.3);
    let whole = quadratic.fit(30_000);
    for cut in [0, 1, 77, 500, whole.steps - 100] {
        let mut trainer = quadratic.trainer(30_000);
        for step in 0..whole.steps {
            if step == cut {
                let mut restored = quadratic.trainer(30_000);
                assert!(restored.load(&trainer.save()));
                trainer = restored;
            }
            let (bound, mut gradient) = quadratic.sample(trainer.parameters(), step);
            let length = norm(&gradient);
            trainer.step(step, bound, &mut gradient, length);
        }
        assert!(trainer.has_converged());
        assert_eq!(trainer.parameters(), whole.trainer.parameters(), "cut at {cut}");
    }
}

#[test]
fn an_explosion_is_undone_at_a_lower_rate_and_not_for_ever() {
    let quadratic = badly_scaled(0.3);
    let mut trainer = quadratic.trainer(30_000);
    assert!(!trainer.undo(), "nothing was done yet");
    let start = trainer.parameters().to_vec();
    let mut rates = Vec::new();
    for step in 0..4 {
        rates.push(trainer.rate(step));
        let (bound, mut gradient) = quadratic.sample(trainer.parameters(), step);
        let length = norm(&gradient);
        trainer.step(step, bound, &mut gradient, length);
        assert_eq!(trainer.undo(), step < 3);
        assert_eq!(trainer.parameters() == start, step < 3);
    }
    assert_eq!(rates, [0.05, 0.05 / 4.0, 0.05 / 16.0, 0.05 / 64.0]);
    // A bound that falls far below where it began is one too.
    let mut trainer = quadratic.trainer(30_000);
    for step in 0..40 {
        let (_, mut gradient) = quadratic.sample(trainer.parameters(), step);
        let length = norm(&gradient);
        trainer.step(step, if step < 20 { -1.0 } else { -1e9 }, &mut gradient, length);
    }
    assert!((trainer.rate(40) - 0.05 / 4.0).abs() < 1e-15);
}

#[test]
fn a_round_that_is_lost_while_the_rate_falls_leads_back_to_where_the_fall_began() {
    let mut stream = Noise::new(3).stream(Key::new(Purpose::Fit, 0));
    let (mut rate, mut iterate, mut begun) = (Adaptive::new(0.05, 100_000), vec![0.0; 4], Vec::new());
    while !rate.is_falling() {
        rate.rates(10, &iterate);
        // Iterates a hundredth of a unit around one, whose bounds rest.
        iterate.iter_mut().for_each(|own| *own = 1.0 + 0.01 * stream.standard_normal());
        let bound = stream.standard_normal();
        if let Next::At(place) = rate.take(&iterate, bound, || vec![1.0; 4]) {
            (begun, iterate) = (place.clone(), place);
        }
    }
    assert!(rate.can_undo() && !rate.has_converged());
    assert_eq!(rate.undo(), begun);
}
