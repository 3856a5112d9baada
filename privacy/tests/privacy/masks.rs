//! Holds masked sums to the plain ones, bit for bit, and silos to refuse rosters, keys and places that give them away.

use partita_privacy::{
    Budget, Cost, Error, Grid, Ledger, Masked, Masker, Peers, Place, Released, RunKey, SignedKey, SiloKey,
};

use super::Seeded;

/// What all silos are asked.
const ASKED: &[u8] = b"a sum";
const NAMES: [&str; 5] = ["east", "north", "south", "up", "west"];

struct World {
    keys: Vec<SiloKey>,
    peers: Peers,
}

fn world() -> World {
    let keys: Vec<SiloKey> = (0..5).map(|at| SiloKey::from_bytes(&[at + 1; 32])).collect();
    let peers = NAMES.iter().zip(&keys).map(|(name, key)| ((*name).to_owned(), key.public())).collect();
    World { keys, peers }
}

impl World {
    fn run_keys(&self, run: &str) -> Vec<RunKey> {
        let named = NAMES.iter().zip(&self.keys).enumerate();
        named.map(|(at, (name, key))| RunKey::new(run, name, key, &mut Seeded::new(at as u64)).unwrap()).collect()
    }

    fn maskers(&self) -> Vec<Masker> {
        let keys = self.run_keys("run");
        let signed: Vec<SignedKey> = keys.iter().map(RunKey::signed).collect();
        keys.into_iter().map(|own| Masker::new(own, &self.peers, &signed, 3).unwrap()).collect()
    }
}

fn place(round: u64, attempt: u64) -> Place {
    Place { round, attempt }
}

/// Numbers modulo 2¹²⁸.
fn encoded(plain: &Released) -> Vec<u128> {
    plain.values.iter().map(|value| value.cast_unsigned()).collect()
}

/// The refused thing.
fn refusal<T: std::fmt::Debug>(found: Result<T, Error>) -> &'static str {
    match found {
        Err(Error::Refused { what, .. }) => what,
        other => panic!("{other:?} was not refused"),
    }
}

#[test]
fn the_masked_sum_has_the_bits_of_the_plain_one_in_any_order() {
    let (grid, mut maskers) = (Grid::new(1.0, Grid::STEPS).unwrap(), world().maskers());
    for round in 0..4_u64 {
        let rows = |silo: usize| vec![vec![silo as f64 * 0.3 - 0.7, 1e9, -0.1 * round as f64]; silo + 1];
        let plain: Vec<Released> = (0..5)
            .map(|silo| {
                grid.sum(3, rows(silo)).unwrap().release(grid.noise(9.0).unwrap(), &mut Seeded::new(round)).unwrap()
            })
            .collect();
        let mut masked: Vec<Masked> = maskers
            .iter_mut()
            .zip(&plain)
            .map(|(masker, plain)| masker.mask(place(round, 0), &NAMES, ASKED, &encoded(plain)).unwrap())
            .collect();
        let expected: Vec<i128> = (0..3).map(|at| plain.iter().map(|plain| plain.values[at]).sum()).collect();
        for turn in 0..5 {
            masked.rotate_left(turn);
            masked.swap(0, 3);
            let sum = Masked::sum(&masked, 5).unwrap();
            assert!(sum.iter().map(|value| value.cast_signed()).eq(expected.iter().copied()));
        }
        // What one silo sends is nowhere near what it has.
        for (masked, plain) in masked.iter().zip(&plain) {
            assert!(masked.values.iter().zip(encoded(plain)).all(|(masked, plain)| *masked != plain));
        }
    }
}

#[test]
fn masks_differ_by_round_attempt_roster_run_and_request_and_look_uniform() {
    let zeros = vec![0; 2048];
    let mut masker = world().maskers().remove(0);
    let mut all: Vec<Vec<u128>> = Vec::new();
    for (place, roster) in [(place(0, 0), &NAMES[..]), (place(0, 1), &NAMES[..]), (place(1, 0), &NAMES[..4])] {
        all.push(masker.mask(place, roster, ASKED, &zeros).unwrap().values);
    }
    let mut other = world().maskers().remove(0);
    all.push(other.mask(place(1, 0), &NAMES, ASKED, &zeros).unwrap().values);
    let mut other = world().maskers().remove(0);
    all.push(other.mask(place(1, 0), &NAMES, b"another sum", &zeros).unwrap().values);
    for (at, one) in all.iter().enumerate() {
        // 262,144 bits, half of them set: six standard errors.
        let ones: u32 = one.iter().map(|value| value.count_ones()).sum();
        assert!((f64::from(ones) - 131_072.0).abs() < 6.0 * 256.0, "{ones}");
        assert!(all[at + 1..].iter().all(|two| one.iter().zip(two).all(|(a, b)| a != b)));
    }
}

#[test]
fn rosters_that_give_a_silo_away_are_refused() {
    let mut maskers = world().maskers();
    let north = &mut maskers[1];
    for (roster, what) in [
        (vec!["north", "west"], "the number of silos"),
        (vec!["north", "west", "west"], "the roster"),
        (vec!["east", "south", "west"], "the roster"),
        (vec!["north", "south", "stranger"], "a silo of the roster"),
        (vec![], "the roster"),
    ] {
        assert_eq!(refusal(north.mask(place(0, 0), &roster, ASKED, &[1])), what, "{roster:?}");
    }
    north.mask(place(0, 0), &NAMES, ASKED, &[1]).unwrap();
}

#[test]
fn a_mask_is_used_once() {
    let mut masker = world().maskers().remove(0);
    masker.mask(place(1, 1), &NAMES, ASKED, &[1]).unwrap();
    for before in [place(1, 1), place(1, 0), place(0, 7)] {
        assert_eq!(refusal(masker.mask(before, &NAMES, ASKED, &[2])), "the place");
        assert_eq!(refusal(masker.mask(before, &NAMES[..4], ASKED, &[2])), "the place");
    }
    masker.mask(place(1, 2), &NAMES, ASKED, &[2]).unwrap();
}

#[test]
fn a_silo_that_leaves_costs_another_attempt_with_fresh_noise_and_both_are_charged() {
    let folder = tempfile::tempdir().unwrap();
    let (grid, noise) = (Grid::new(1.0, Grid::STEPS).unwrap(), 20.0);
    let budget = Budget { epsilon: 3.0, delta: 1e-5, unit: "row".into() };
    let ledger = Ledger::open(&folder.path().join("ledger"), budget).unwrap();
    let mut maskers = world().maskers();
    let mut entropy = Seeded::new(3);
    let mut ask = |maskers: &mut Vec<Masker>, attempt: u64, roster: &[&str]| {
        let request = format!("round 0 {attempt} {roster:?}");
        let draw = || {
            let released = grid.sum(2, [[0.1, 0.2]])?.release(grid.noise(noise)?, &mut entropy)?;
            Ok(encoded(&released).iter().flat_map(|value| value.to_le_bytes()).collect())
        };
        let bytes = ledger.answer(request.as_bytes(), Cost::new(noise, 1).unwrap(), draw).unwrap().bytes;
        let values: Vec<u128> = bytes.as_chunks::<16>().0.iter().map(|own| u128::from_le_bytes(*own)).collect();
        let first = maskers[0].mask(place(0, attempt), roster, ASKED, &values).unwrap();
        let others = roster.len() - 1;
        let masked = maskers[1..=others]
            .iter_mut()
            .map(|masker| masker.mask(place(0, attempt), roster, ASKED, &[0, 0]).unwrap());
        (values, [vec![first], masked.collect()].concat())
    };
    let (noisy, mut answers) = ask(&mut maskers, 0, &NAMES);
    answers.pop();
    assert_eq!(refusal(Masked::sum(&answers, 5)), "the number of answers");
    let (again, answers) = ask(&mut maskers, 1, &NAMES[..4]);
    assert_ne!(noisy, again);
    assert_eq!(Masked::sum(&answers, 4).unwrap(), again);
    assert_eq!(ledger.spent().unwrap().releases, 2);
}

#[test]
fn answers_to_different_requests_are_not_added_up() {
    let mut maskers = world().maskers();
    let mut masked: Vec<Masked> =
        maskers.iter_mut().map(|masker| masker.mask(place(0, 0), &NAMES, ASKED, &[1, 2]).unwrap()).collect();
    assert_eq!(Masked::sum(&masked, 5).unwrap(), [5, 10]);
    assert_eq!(refusal(Masked::sum(&masked[..4], 5)), "the number of answers");
    assert_eq!(refusal(Masked::sum(&[], 0)), "the number of answers");
    let other = maskers[4].mask(place(0, 1), &NAMES, ASKED, &[1, 2]).unwrap();
    let kept = std::mem::replace(&mut masked[4], other);
    assert_eq!(refusal(Masked::sum(&masked, 5)), "the rosters or requests of the answers");
    masked[4] = Masked { values: vec![1], ..kept };
    assert_eq!(refusal(Masked::sum(&masked, 5)), "the lengths of the answers");
}

#[test]
fn keys_of_strangers_of_other_runs_or_put_in_by_a_coordinator_are_refused() {
    let world = world();
    let signed: Vec<SignedKey> = world.run_keys("run").iter().map(RunKey::signed).collect();
    let masker = |signed: &[SignedKey], fewest| {
        let own = world.run_keys("run").remove(0);
        Masker::new(own, &world.peers, signed, fewest)
    };
    masker(&signed, 2).unwrap();
    assert_eq!(refusal(masker(&signed, 1)), "the fewest silos");
    let changes: [fn(&mut SignedKey); 4] = [
        |key| key.key[0] ^= 1,
        |key| key.signature[0] ^= 1,
        |key| key.run = "another run".into(),
        |key| key.silo = "west".into(),
    ];
    for change in changes {
        let mut changed = signed.clone();
        change(&mut changed[2]);
        assert_eq!(refusal(masker(&changed, 2)), "a key");
    }
    // A key of the coordinator's own, signed by itself.
    let forged = RunKey::new("run", "south", &SiloKey::from_bytes(&[9; 32]), &mut Seeded::new(9)).unwrap().signed();
    assert_eq!(refusal(masker(&[signed[1].clone(), forged], 2)), "a key");
    let stranger = RunKey::new("run", "moon", &SiloKey::from_bytes(&[9; 32]), &mut Seeded::new(9)).unwrap().signed();
    assert_eq!(refusal(masker(&[stranger], 2)), "a silo of the roster");
    let other_run: Vec<SignedKey> = world.run_keys("run 2").iter().map(RunKey::signed).collect();
    assert_eq!(refusal(masker(&other_run, 2)), "a key");
    assert_eq!(refusal(masker(&[signed[1].clone(), signed[1].clone()], 2)), "a key");
}

#[test]
fn no_secret_is_in_a_text_for_people() {
    let world = world();
    let keys = world.run_keys("run");
    let texts = [format!("{:?}", world.keys[0]), format!("{:?}", keys[0]), format!("{:?}", world.maskers()[0])];
    let secret = format!("{:?}", [1_u8; 32]);
    assert!(texts.iter().all(|text| !text.contains(&secret[1..secret.len() - 1])), "{texts:?}");
}
