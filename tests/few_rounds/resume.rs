//! Holds runs to their bits: for any number of threads, and after going on from a checkpoint.

use partita::models::{Child, MixedLogistic, RepeatedBinary, six_cities};
use partita::{Device, Fit, FitOptions, fit};

fn run(change: impl FnOnce(&mut FitOptions)) -> Fit {
    let device = Device::flex();
    // Children who never wheezed say little by themselves, and say it again beside what the others said.
    let (never, others): (Vec<Child>, Vec<Child>) =
        six_cities().into_iter().step_by(5).partition(|child| child.wheeze == [false; 4]);
    let silos: Vec<_> = [("north", never), ("south", others)]
        .map(|(name, part)| (name.to_owned(), RepeatedBinary::six_cities(&part, &device).unwrap()))
        .into();
    let mut options = FitOptions { elbo_draws: 20, summary_draws: 0, ..super::options() };
    change(&mut options);
    fit(&MixedLogistic::new(4), &silos, &device, &options, None).unwrap()
}

fn bits(fit: &Fit) -> (Vec<u64>, u64) {
    let parameters = fit.posterior().parameters.iter().map(|value| value.to_bits()).collect();
    (parameters, fit.report.elbo.to_bits())
}

#[test]
fn threads_do_not_change_a_bit() {
    let one = bits(&run(|options| options.threads = 1));
    for threads in [2, 5] {
        assert_eq!(bits(&run(|options| options.threads = threads)), one, "{threads} threads");
    }
}

#[test]
fn a_run_that_is_cut_goes_on_with_the_same_bits() {
    let whole = run(|_| {});
    let rounds = whole.record.trace.len() as u64;
    assert!(rounds >= 5);
    // Silos say their rows again in the first rounds.
    for cut in [1, 2, 3, rounds - 1] {
        let folder = tempfile::tempdir().unwrap();
        let checkpoint = Some((folder.path().to_owned(), 1));
        let part = run(|options| (options.settings.steps, options.checkpoint) = (cut, checkpoint.clone()));
        assert_eq!(part.record.trace.len() as u64, cut);
        let resumed = run(|options| (options.checkpoint, options.resume) = (checkpoint, true));
        assert_eq!(bits(&resumed), bits(&whole), "cut after round {cut}");
    }
}
