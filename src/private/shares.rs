//! States how silos behind masks divide the noise of a sum, and against how many of them together that keeps a promise.

use partita_inference::{Error, Result};

/// How the noise of a sum over all silos is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shares {
    /// The silos that have the noise of the promise together: all but those that may collude. 1 where each has all of it.
    pub(crate) count: u64,
    /// The silos that may work together with the coordinator; `None` where each silo has all of the noise.
    pub(crate) colluders: Option<u64>,
}

impl Shares {
    /// Every silo has all of the noise, and its promise rests on no other.
    pub(crate) const WHOLE: Self = Self { count: 1, colluders: None };

    /// Those of a run over so many silos, of which so many may collude; all others, if it is not said.
    ///
    /// With $`n`$ silos that do not collude each draws noise of variance $`\sigma^2 / n`$: what colluders know and leave out of
    /// a sum, the noise that is left in it has a variance of at least $`\sigma^2`$.
    ///
    /// # Errors
    /// [`Error::Setting`] for as many as there are silos, or more.
    pub(crate) fn of(colluders: Option<u64>, silos: usize) -> Result<Self> {
        let silos = silos as u64;
        match colluders.map(|own| (own, silos.saturating_sub(own))) {
            None | Some((_, 1)) => Ok(Self::WHOLE),
            Some((own, 0)) => Err(Error::Setting {
                setting: "colluders",
                found: format!("{own} of {silos} silos"),
                expected: "fewer than there are silos: a silo that is protected does not work together with others",
            }),
            Some((own, count)) => Ok(Self { count, colluders: Some(own) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use partita_inference::{Mechanism, RowSum};
    use partita_privacy::{Accountant, Budget, Conversion, Cost, Ledger, SeededBits};

    use super::*;
    use crate::private::NoisedSums;

    /// As many draws as tell a variance to 6 % with six standard errors.
    const NUMBERS: usize = 20_000;
    const CLIP: f64 = 0.5;
    const NOISE: f64 = 3.0;

    /// What a mechanism adds to each of some numbers that no row is in.
    fn noise_of(sums: &mut NoisedSums, length: usize) -> Result<Vec<f64>> {
        let mut no_rows = |_: &[usize]| Ok(Vec::<Vec<f64>>::new());
        let sum = RowSum { length, clip: CLIP, noise: NOISE, count: 0, rate: 1.0, sums: 3, rows: &mut no_rows };
        sums.release(b"request", sum)
    }

    #[test]
    fn all_but_the_colluders_have_the_noise_of_the_promise_together() {
        for (colluders, silos, expected) in [(None, 3, 3.0), (Some(1), 4, 4.0 / 3.0), (Some(0), 4, 1.0)] {
            let shares = Shares::of(colluders, silos).unwrap();
            let silo = |seed: u64| {
                let mut own = NoisedSums::new(None, Box::new(SeededBits::new(seed))).shared(shares);
                noise_of(&mut own, NUMBERS).unwrap()
            };
            let each: Vec<Vec<f64>> = (1..=silos as u64).map(silo).collect();
            // In variances of the noise that the promise needs.
            let variance = |of: &[Vec<f64>]| {
                let total = |at: usize| of.iter().map(|own| own[at]).sum::<f64>();
                (0..NUMBERS).map(|at| total(at).powi(2)).sum::<f64>() / NUMBERS as f64 / (NOISE * CLIP).powi(2)
            };
            let six = 6.0 * (2.0 / NUMBERS as f64).sqrt();
            let (all, honest) = (variance(&each), variance(&each[..shares.count as usize]));
            assert!((all / expected - 1.0).abs() < six, "{colluders:?} of {silos}: {all} of {expected}");
            assert!((honest - 1.0).abs() < six, "{colluders:?} of {silos}: {honest}");
        }
    }

    #[test]
    fn a_share_is_charged_as_all_of_the_noise_and_is_no_answer_to_who_asks_for_all_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let budget = Budget { epsilon: 5.0, delta: 1e-5, unit: "row".into() };
        let open = || Ledger::open(&folder.path().join("north.ledger"), budget.clone()).unwrap();
        let with = |shares| NoisedSums::new(Some(open()), Box::new(SeededBits::new(1))).shared(shares);
        let shares = Shares::of(Some(2), 6).unwrap();
        let shared = noise_of(&mut with(shares), 2).unwrap();
        let epsilon = |releases| {
            let costs = [Cost::new(NOISE, releases).unwrap()];
            Accountant::of(costs).epsilon(1e-5, Conversion::Improved).unwrap().to_bits()
        };
        let spent = || open().spent().unwrap();
        assert_eq!((spent().epsilon.to_bits(), spent().colluders), (epsilon(1), Some(2)));
        assert_eq!(noise_of(&mut with(shares), 2).unwrap(), shared);
        assert_ne!(noise_of(&mut with(Shares::WHOLE), 2).unwrap(), shared);
        assert_eq!((spent().epsilon.to_bits(), spent().colluders), (epsilon(2), Some(2)));
    }

    #[test]
    fn a_silo_that_divides_the_noise_gives_sums_of_a_study_over_its_first_rows_alone() {
        let folder = tempfile::tempdir().unwrap();
        let budget = Budget { epsilon: 9.0, delta: 1e-5, unit: "row".into() };
        let open = || Ledger::open(&folder.path().join("north.ledger"), budget.clone()).unwrap();
        let with = |shares, rows: u8, study: u8| {
            let sums = NoisedSums::new(Some(open()), Box::new(SeededBits::new(1))).shared(shares);
            noise_of(&mut sums.about([rows; 32], [study; 32]), 2)
        };
        let shares = Shares::of(Some(1), 4).unwrap();
        let first = with(shares, 1, 1).unwrap();
        let refused = with(shares, 2, 1).unwrap_err().to_string();
        assert!(refused.contains("are not those with which this silo was first asked"), "{refused}");
        assert_eq!((open().spent().unwrap().releases, with(shares, 1, 1).unwrap()), (1, first));
        // In another study, and with all of the noise, they are answered and charged.
        with(shares, 2, 2).unwrap();
        with(Shares::WHOLE, 3, 1).unwrap();
        let spent = open().spent().unwrap();
        assert_eq!((spent.releases, spent.never_drawn, spent.colluders), (3, 0, Some(1)));
    }

    #[test]
    fn a_share_is_in_multiples_of_a_power_of_two_whatever_the_clip_is() {
        let mut sums = NoisedSums::new(None, Box::new(SeededBits::new(3))).shared(Shares::of(Some(1), 4).unwrap());
        let mut rows = |of: &[usize]| Ok(of.iter().map(|row| vec![*row as f64 / 9.0; 20]).collect::<Vec<_>>());
        let sum = RowSum { length: 20, clip: 0.7, noise: NOISE, count: 50, rate: 1.0, sums: 3, rows: &mut rows };
        let found = sums.release(b"request", sum).unwrap();
        let units = found.iter().map(|own| own * f64::from(1 << 21));
        assert!(units.clone().all(|own| own.fract() == 0.0) && units.map(f64::abs).sum::<f64>() > 1e6, "{found:?}");
    }

    #[test]
    fn silos_divide_the_noise_unless_all_others_may_collude() {
        let of = |colluders, silos| Shares::of(colluders, silos);
        for (colluders, silos) in [(None, 5), (Some(4), 5), (Some(1), 2), (Some(0), 1)] {
            assert_eq!(of(colluders, silos).unwrap(), Shares::WHOLE, "{colluders:?} of {silos}");
        }
        assert_eq!(of(Some(1), 5).unwrap(), Shares { count: 4, colluders: Some(1) });
        assert_eq!(of(Some(0), 2).unwrap(), Shares { count: 2, colluders: Some(0) });
        for (colluders, silos) in [(5, 5), (9, 5), (1, 1)] {
            let found = of(Some(colluders), silos).unwrap_err().to_string();
            assert!(found.contains("colluders") && found.contains("fewer than there are silos"), "{found}");
        }
    }
}
