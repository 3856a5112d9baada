//! Runs the UCI study small and checks identities between its methods, and its counters.

use partita::datasets::credit;
use serde_json::Value;

use partita::inference::Error;
use partita_studies::harness::is_outcome;

use crate::quick;

#[test]
fn pvi_uci_writes_its_curves_claims_and_pictures() {
    if credit().is_err() {
        fixtures::skip("data", "credit approval is neither in PARTITA_DATA nor in the cache, and cannot be downloaded");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (_, result) = quick("pvi_uci", folder.path(), &[]);
    let panels = result["panels"].as_array().unwrap();
    assert_eq!(panels.len(), 2);
    for panel in panels {
        let seeds = panel["seeds"].as_array().unwrap();
        assert_eq!(seeds.len(), 2);
        for methods in seeds {
            let points = |name: &str| {
                let found = methods.as_array().unwrap().iter().find(|curve| curve["method"] == name);
                found.unwrap()["points"].as_array().unwrap().clone()
            };
            // With factors of 1 removal has no effect: the first sweeps are identical.
            let [sequential, continual, streaming] = ["sequential PVI", "VCL", "streaming VB"].map(points);
            assert_eq!((&sequential[0], &streaming[0]), (&continual[0], &continual[0]));
            assert_ne!(sequential[2]["loss"], streaming[2]["loss"]);
            // Ten silos a sweep or round, a request and an answer each, 300 steps a silo.
            for (name, contacts) in [("sequential PVI", 30), ("synchronous PVI", 30), ("BCM, same prior", 10)] {
                let last = points(name).pop().unwrap();
                assert_eq!(
                    (last["messages"].as_u64(), last["silo_steps"].as_u64()),
                    (Some(2 * contacts), Some(300 * contacts))
                );
            }
            // In parallel ten silos take the time of one; in sequence they do not. Bytes are counted both ways.
            for (name, together) in [("sequential PVI", 1), ("synchronous PVI", 10), ("global VI", 10)] {
                let last = points(name).pop().unwrap();
                let count = |key: &str| last[key].as_u64().unwrap();
                assert_eq!(count("silo_steps"), together * count("parallel_steps"), "{name}");
                // A message has some numbers of eight bytes.
                let least = 4 * count("messages");
                assert!(count("bytes_to_silos") > least && count("bytes_from_silos") > least, "{name}: {last}");
            }
            let global = points("global VI").pop().unwrap();
            assert_eq!((global["messages"].as_u64(), global["silo_steps"].as_u64()), (Some(16_000), Some(8_000)));
            // Without the covariates 131 rows with a share of 0.55 cost 0.688 nats each.
            for curve in [sequential, points("synchronous PVI"), vec![global]] {
                assert!(curve.last().unwrap()["loss"].as_f64().unwrap() < 0.5, "{curve:?}");
            }
        }
    }
    // F4.1 for split A, F4.2, F4.4 and F4.5 for split B, F4.3 and F4.6 for both, and F4.2 between the two.
    assert_eq!(result["claims"].as_array().unwrap().len(), 1 + 3 + 2 * 2 + 1);
    for picture in ["credit_a.svg", "credit_b.svg"] {
        let svg = std::fs::read_to_string(folder.path().join(picture)).unwrap();
        assert!(svg.starts_with("<svg"), "{picture}");
        // Of each of the four methods with more than one point two seeds and their mean.
        assert!(svg.matches("<polyline").count() >= 4 * 3, "{picture}");
    }

    // If one seed of synchronous PVI was refused, its claims are not met, and report it; others stay.
    let kept = folder.path().join("credit_a_2.json");
    let mut seed: Value = serde_json::from_str(&std::fs::read_to_string(&kept).unwrap()).unwrap();
    seed["found"][2]["refused"] = "silo `silo-4` has no density".into();
    seed["found"][2]["points"].as_array_mut().unwrap().truncate(1);
    for point in seed["found"][0]["points"].as_array_mut().unwrap() {
        // Curves kept before these were counted lack them.
        let point = point.as_object_mut().unwrap();
        assert!(point.remove("parallel_steps").is_some() && point.remove("bytes").is_some());
    }
    std::fs::write(&kept, seed.to_string()).unwrap();
    let (_, again) = quick("pvi_uci", folder.path(), &["--resume"]);
    for (before, after) in result["claims"].as_array().unwrap().iter().zip(again["claims"].as_array().unwrap()) {
        let (claim, place) = (after["claim"].as_str().unwrap(), after["place"].as_str().unwrap());
        let about = ["F4.1", "F4.2", "F4.3"].contains(&claim) && (place == "credit A" || place == "credit A<B");
        let named = after["found"].as_str().unwrap().contains("synchronous PVI was refused with seed 2: silo `silo-4`");
        assert_eq!((about, about), (named, named && after["met"] == false), "{after}");
        assert!(about || before == after, "{before} {after}");
    }
}

#[test]
fn what_is_no_density_or_has_run_away_is_something_to_find_out_and_a_lost_silo_or_a_wrong_number_given_is_not() {
    let improper = || Error::Improper { operation: "a visit".into(), component: "beta[0]".into(), found: -1.0 };
    let of = |source: Error| Error::InSilo { silo: "silo-3".into(), step: 7, source: Box::new(source) };
    assert!(is_outcome(&improper()) && is_outcome(&of(improper())));
    let scale = |found: f64| {
        let (parameter, expected) = ("scale", "a finite number > 0");
        Error::Model(partita::Error::Parameter { distribution: "Normal".into(), parameter, found, index: 0, expected })
    };
    assert!(is_outcome(&of(scale(f64::NAN))) && !is_outcome(&of(scale(-1.0))));
    let found = f64::INFINITY;
    let gradient = Error::NotFinite { who: "silo-3".into(), step: 7, quantity: "the gradient".into(), found };
    let made = || partita::Error::NotFiniteMade { operation: "the loss".into(), found };
    assert!(is_outcome(&gradient) && is_outcome(&of(Error::Model(made()))));
    let lost = || Error::SiloLost { silo: "silo-3".into(), step: 7, reason: "gone".into() };
    assert!(!is_outcome(&lost()) && !is_outcome(&of(lost())));
}

#[test]
fn pvi_uci_repeats_section_5_2_on_a_stand_in_of_five_clusters_and_two_models() {
    if credit().is_err() {
        fixtures::skip("data", "credit approval is neither in PARTITA_DATA nor in the cache, and cannot be downloaded");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (text, result) = quick("pvi_uci", folder.path(), &["--stand-in"]);
    let sizes = text.lines().filter_map(|line| line.trim().strip_prefix("silo ")?.split_whitespace().nth(1));
    let sizes: Vec<usize> = sizes.map(|size| size.parse().unwrap()).collect();
    assert_eq!((sizes.len(), sizes.iter().sum::<usize>()), (5, 522), "{text}");
    let panels = result["panels"].as_array().unwrap();
    assert_eq!([&panels[0]["table"], &panels[1]["table"]], ["credit regression", "credit network"]);
    for panel in panels {
        // Five silos a sweep or round, two messages and 60 steps each; global VI has one step an exchange.
        for (place, (messages, steps)) in [(2_000, 1_000), (60, 1_800), (60, 1_800)].into_iter().enumerate() {
            let curve = &panel["seeds"][0][place];
            let points = curve["points"].as_array().unwrap();
            let last = points.last().unwrap();
            assert_eq!((last["messages"].as_u64(), last["silo_steps"].as_u64()), (Some(messages), Some(steps)));
            assert!(last["loss"].as_f64() < points[0]["loss"].as_f64(), "{curve}");
        }
    }
    let claims = result["claims"].as_array().unwrap().iter().map(|claim| claim["claim"].as_str().unwrap());
    assert_eq!(claims.collect::<Vec<_>>(), ["F5.1", "F5.1", "F5.2", "F5.2"]);
    for picture in ["credit_regression_stand_in.svg", "credit_network_stand_in.svg"] {
        assert!(std::fs::read_to_string(folder.path().join(picture)).unwrap().starts_with("<svg"), "{picture}");
    }
}
