//! Runs the autoencoder small and compares the bound of the untrained silo with those of the trained ones.

use crate::gaussian_mean::assert_drawn;
use crate::quick;

#[test]
fn vae_serves_a_silo_that_did_not_train() {
    if partita::datasets::mnist().is_err() {
        fixtures::skip("data", "MNIST is neither in PARTITA_DATA nor in the cache, and cannot be downloaded");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (text, result) = quick("vae", folder.path(), &[]);
    fixtures::says(&text, &["silo-1", "silo-2", "silo-3 (held out)", "too many to list", "left silos"]);
    for key in
        ["elbo", "elbo_se", "rounds", "messages", "bytes", "gradient_steps", "seconds", "seed", "device", "options"]
    {
        assert!(!result[key].is_null(), "result.json lacks `{key}`");
    }
    assert_eq!(result["theta"]["numbers"], 160_804);
    let bound = |silo: usize| result["silos"][silo]["bound_a_picture"].as_f64().unwrap();
    // Measured -131, -134 and -138; independent pixels cost 206 nats a picture.
    for silo in 0..3 {
        assert!((-160.0..-100.0).contains(&bound(silo)), "silo {silo}: {} nats a picture", bound(silo));
    }
    assert!((bound(2) - bound(1)).abs() < 10.0, "{} and {}", bound(2), bound(1));
    for picture in ["generated.png", "reconstructions.png"] {
        let bytes = std::fs::read(folder.path().join(picture)).unwrap();
        assert!(bytes.starts_with(b"\x89PNG"), "{picture}");
    }
    assert_drawn(folder.path(), &["elbo.svg"]);
}
