//! Fits pictures of three pixels with an encoder: they are found, and drawn anew.

use partita::models::{BinaryPictures, DeepLatentGaussian, PictureEncoder};

use super::*;

/// Every picture has equal neighbours or a single white pixel, so that a latent has something to encode.
fn pictures(count: usize, seed: u64, device: &Device) -> BinaryPictures {
    let mut noise = Noise::new(seed).stream(Key::new(Purpose::Prior, 0));
    let kinds: [[u8; 3]; 4] = [[255, 255, 0], [0, 255, 255], [255, 255, 255], [0, 0, 0]];
    let grey: Vec<u8> = (0..count).flat_map(|_| kinds[noise.index(4)]).collect();
    BinaryPictures::new(&grey, 3, 128, device).unwrap()
}

fn model(device: &Device) -> Amortised<DeepLatentGaussian, PictureEncoder> {
    DeepLatentGaussian::new(1, &[6], 3, 1, device).with_encoder(&[8], 2, device)
}

/// Σ log p(x) over pictures, and Σ KL(q(z) ‖ p(z | x)), by the trapezoidal rule: exact to all digits for these
/// integrands, which vanish with all their derivatives at the ends.
fn by_quadrature(
    model: &Amortised<DeepLatentGaussian, PictureEncoder>,
    data: &BinaryPictures,
    device: &Device,
) -> (f64, f64) {
    let (end, step) = (10.0, 0.01);
    let grid: Vec<f64> = (0..=2_000).map(|index| -end + step * f64::from(index)).collect();
    let intensities = model.model().intensities(&grid, device).unwrap();
    let log_normal = |z: f64, mean: f64, sd: f64| {
        -0.5 * ((z - mean) / sd).powi(2) - sd.ln() - 0.5 * (2.0 * std::f64::consts::PI).ln()
    };
    let posterior = encoded_posterior(model, device, data).unwrap().remove(0);
    let (mut evidence, mut divergence) = (0.0, 0.0);
    for row in 0..data.len() {
        let pixels = data.picture(row);
        let joint: Vec<f64> = grid
            .iter()
            .zip(intensities.chunks_exact(3))
            .map(|(z, p)| {
                // Far out a probability rounds to 0 or 1; there the posterior is zero to all digits.
                let log = |p: f64| p.max(1e-17).ln();
                let pixel = |(p, x): (&f64, &f64)| if *x > 0.5 { log(*p) } else { log(1.0 - p) };
                log_normal(*z, 0.0, 1.0) + p.iter().zip(&pixels).map(pixel).sum::<f64>()
            })
            .collect();
        let own = (step * joint.iter().map(|log| log.exp()).sum::<f64>()).ln();
        evidence += own;
        let density = |z: f64| log_normal(z, posterior.mean[row], posterior.sd[row]);
        let term = |(z, joint): (&f64, &f64)| density(*z).exp() * (density(*z) - joint + own);
        divergence += step * grid.iter().zip(&joint).map(term).sum::<f64>();
    }
    (evidence, divergence)
}

#[test]
fn the_bound_of_a_deep_model_is_its_evidence_less_the_divergence_of_the_encoder() {
    let device = Device::flex();
    let silos = fixtures::named((0..2).map(|silo| pictures(60, 20 + silo, &device)));
    assert!(check(&model(&device), &silos, &device).unwrap().passed());
    let settings = Settings {
        steps: 1_000,
        schedule: Schedule::Cosine { initial: 0.03, last: 0.0 },
        minibatch: [("picture".to_owned(), 20)].into(),
        ..Settings::default()
    };
    let options = FitOptions { settings: settings.clone(), elbo_draws: 200, ..FitOptions::default() };
    let fit = fit(&model(&device), &silos, &device, &options, None).unwrap();
    let fitted = fit.model(&model(&device), &device).unwrap();
    // The uniform distribution over four kinds costs log 4 a picture; independent pixels cost at least 1.9.
    let third = pictures(60, 30, &device);
    for data in [&silos[0].1, &third] {
        let (evidence, divergence) = by_quadrature(&fitted, data, &device);
        let bound = held_out_bound(&fitted, &device, &settings, fit.posterior(), data, 400).unwrap();
        let error = bound.elbo - (evidence - divergence);
        assert!(error.abs() < 5.0 * bound.standard_error, "{bound:?}, evidence {evidence}, {divergence} lost");
        assert!(bound.elbo / 60.0 > -1.7, "{bound:?}, evidence {evidence}, {divergence} lost");
    }
}

#[test]
fn latents_and_pixels_that_make_no_whole_rows_are_refused() {
    let device = Device::flex();
    assert!(BinaryPictures::new(&[0, 255], 3, 128, &device).is_err());
    assert!(BinaryPictures::new(&[], 0, 128, &device).is_err());
    let two = DeepLatentGaussian::new(2, &[4], 3, 1, &device);
    assert_eq!(two.intensities(&[0.0; 4], &device).unwrap().len(), 6);
    assert!(two.intensities(&[0.0; 3], &device).is_err());
}
