//! Holds silos without noise, and silos that divide it, to sums over all of them.

use super::super::parts::write;
use super::*;

#[test]
fn a_silo_without_noise_gives_sums_over_all_silos_and_nothing_else() {
    let mut silos: Vec<MaskedSilo> = (0..3).map(|place| without_noise(open(place, false), place)).collect();
    let names = NAMES.map(str::to_owned);
    let mut method = coordinator(&GaussianMean {}, &names, &[3; 3], &Device::flex(), &sfvi()).unwrap();
    let plain = method.outgoing().unwrap().remove(0).message;
    assert_eq!(plain.kind, "sfvi.step");
    let keys = exchange_keys(&mut silos, "s1");
    // Two of three, whose difference to the sum of three would be the third's own numbers.
    silos.iter_mut().for_each(|silo| silo.masking.fewest = 2);
    for kind in ["sfvi.step", "few.start", "trust.values", "evaluate.rows", "avg.round"] {
        let found = silos[0].answer(&Message { kind: kind.into(), ..plain.clone() }).unwrap_err().to_string();
        assert!(found.contains("masked sums alone"), "{kind}: {found}");
    }
    let found = silos[0].answer(&asked_for(plain.clone(), "s1", 0, &NAMES[..2], &keys)).unwrap_err().to_string();
    assert!(found.contains("sums without noise are over all silos"), "{found}");
    for kind in ["few.round", "avg.round", "vertical.factor"] {
        let other = Message { kind: kind.into(), ..plain.clone() };
        let found = silos[0].answer(&asked_for(other, "s1", 0, &NAMES, &keys)).unwrap_err().to_string();
        assert!(found.contains("expected a request for a sum"), "{kind}: {found}");
    }
    // All of them answer, with numbers that are not their own.
    let own = open(0, false).answer(&plain).unwrap();
    let (_, hidden) = values_of(&silos[0].answer(&asked_for(plain.clone(), "s1", 0, &NAMES, &keys)).unwrap()).unwrap();
    let (_, numbers) = apart(&own, &plain).unwrap();
    assert!(numbers.len() == hidden.values.len() && !numbers.is_empty());
    assert!(hidden.values.iter().zip(&numbers).all(|(hidden, own)| distance(*hidden, *own) > NEAR >> 20));
    assert!(numbers.iter().all(|own| distance(*own, write(0.0).unwrap()) < 1 << 80));
}

/// Three silos of which two have the noise together: one may collude.
fn dividing(folder: &Path) -> Vec<MaskedSilo> {
    let shares = Shares::of(Some(1), 3).unwrap();
    let one = |place| {
        let mut own = behind_masks(sharing(place, Some(folder), 50.0, shares), place, 2);
        own.masking.departures = Departures::SharedNoise;
        own
    };
    (0..3).map(one).collect()
}

#[test]
fn silos_that_divide_the_noise_give_sums_over_all_of_them_alone_and_attempts_are_charged() {
    let folder = tempfile::tempdir().unwrap();
    let mut silos = dividing(folder.path());
    let keys = exchange_keys(&mut silos, "s1");
    // Two of three would have the noise of the promise together, and one of them may be a colluder.
    let found = silos[0].answer(&asked("s1", 0, &NAMES[..2], &keys)).unwrap_err().to_string();
    assert!(found.contains("sums of which silos divide the noise are over all silos"), "{found}");
    let plain = method().outgoing().unwrap().remove(0).message;
    assert!(silos[0].answer(&plain).unwrap_err().to_string().contains("masked sums alone"));
    let budget = Budget { epsilon: 50.0, delta: 1e-5, unit: "row".into() };
    let spent = || Ledger::open(&folder.path().join("north"), budget.clone()).unwrap().spent().unwrap();
    assert_eq!(spent().releases, 0);
    let mut sums = Vec::new();
    for (session, attempt) in [("s2", 0), ("s3", 1), ("s4", 0)] {
        let keys = exchange_keys(&mut silos, session);
        let request = asked(session, attempt, &NAMES, &keys);
        let replies: Vec<_> =
            silos.iter_mut().map(|silo| values_of(&silo.answer(&request).unwrap()).unwrap().1).collect();
        sums.push(partita_privacy::Masked::sum(&replies, 3).unwrap());
    }
    assert!(sums[0] != sums[1] && sums[0] == sums[2], "another attempt has other noise, the same one has the same");
    assert_eq!((spent().releases, spent().colluders), (2, Some(1)));
}
