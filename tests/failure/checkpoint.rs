//! Tests the errors of checkpoints: truncated, missing, of another model, of other data, or not writable.

use std::fs;
use std::path::{Path, PathBuf};

use partita::inference::{AlgorithmChoice, Error as FitError, Fit, Result as FitResult, Sgd};
use partita::{HalfNormal, Normal};
use tempfile::TempDir;

use super::{Recipe, fit_over, hierarchy, says, silos, sound};

const DATA: [&[f64]; 2] = [&[0.5, -1.0, 2.0], &[1.5, 0.0]];

/// Fits six steps with a checkpoint every third, or resumes from one to the number of steps in `resume`.
fn fit(model: &Recipe, data: &[&[f64]], root: &Path, resume: bool) -> FitResult<Fit> {
    fit_over(model, &silos(data), |options| {
        options.checkpoint = Some((root.to_owned(), 3));
        options.resume = resume;
        options.settings.steps = if resume { 9 } else { 6 };
    })
}

/// A checkpoint of the hierarchy, with the path of one of its files.
fn checkpoint(file: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    fit(&hierarchy(), &DATA, folder.path(), false).unwrap();
    let path = folder.path().join("step-000000006").join(file);
    assert!(path.exists(), "{}", path.display());
    (folder, path)
}

/// The checkpoint error itself, whether a silo or the run reports it.
fn reported(error: &FitError) -> &FitError {
    match error {
        FitError::InSilo { source, .. } => reported(source),
        other => other,
    }
}

#[test]
fn a_whole_checkpoint_goes_on() {
    let (folder, _) = checkpoint("coordinator.partita");
    let resumed = fit(&hierarchy(), &DATA, folder.path(), true).unwrap();
    assert_eq!(resumed.record.counters.gradient_steps, 9);
}

#[test]
fn a_checkpoint_cut_short_anywhere_is_refused() {
    for file in ["coordinator.partita", "silo-a.partita", "silo-b.partita"] {
        let (folder, path) = checkpoint(file);
        let bytes = fs::read(&path).unwrap();
        for length in [0, 1, 4, 6, 20, bytes.len() / 2, bytes.len() - 9, bytes.len() - 1] {
            fs::write(&path, &bytes[..length]).unwrap();
            let error = fit(&hierarchy(), &DATA, folder.path(), true).unwrap_err();
            assert!(
                matches!(reported(&error), FitError::Checkpoint { path: named, .. } if *named == path),
                "{error:?}"
            );
            says(&error, &[file, "damaged", "SHA-256", "`step-N` folder before it", "start anew"]);
        }
        fs::write(&path, [bytes.as_slice(), &[0]].concat()).unwrap();
        let error = fit(&hierarchy(), &DATA, folder.path(), true).unwrap_err();
        says(&error, &[file, "damaged", "SHA-256"]);
    }
}

#[test]
fn a_bit_of_a_checkpoint_that_was_flipped_is_found_and_the_one_before_it_is_there() {
    for file in ["coordinator.partita", "silo-a.partita"] {
        let (folder, path) = checkpoint(file);
        let bytes = fs::read(&path).unwrap();
        // In a number of the state: it stays a message that can be read.
        for place in [bytes.len() - 40, bytes.len() / 2, bytes.len() - 1] {
            let mut flipped = bytes.clone();
            flipped[place] ^= 1;
            fs::write(&path, flipped).unwrap();
            let error = fit(&hierarchy(), &DATA, folder.path(), true).unwrap_err();
            assert!(matches!(reported(&error), FitError::Checkpoint { .. }), "{error:?}");
            says(&error, &[file, "damaged", "SHA-256"]);
        }
        fs::write(folder.path().join("latest"), "step-000000003").unwrap();
        let resumed = fit(&hierarchy(), &DATA, folder.path(), true).unwrap();
        assert_eq!(resumed.record.counters.gradient_steps, 9);
    }
}

#[test]
fn a_checkpoint_without_one_of_its_files_is_refused() {
    for file in ["coordinator.partita", "silo-a.partita"] {
        let (folder, path) = checkpoint(file);
        fs::remove_file(&path).unwrap();
        let error = fit(&hierarchy(), &DATA, folder.path(), true).unwrap_err();
        assert!(matches!(reported(&error), FitError::Checkpoint { .. }), "{error:?}");
        says(&error, &[file, "cannot be read", "name the right folder"]);
    }
}

#[test]
fn a_pointer_to_nowhere_is_refused() {
    for pointer in ["", "step-000000005", "\u{0}"] {
        let (folder, _) = checkpoint("coordinator.partita");
        fs::write(folder.path().join("latest"), pointer).unwrap();
        let result = fit(&hierarchy(), &DATA, folder.path(), true);
        refused!(result, FitError::Checkpoint { .. }, ["cannot be read"]);
    }
    let (folder, _) = checkpoint("coordinator.partita");
    fs::write(folder.path().join("latest"), [0xff, 0xfe]).unwrap();
    refused!(fit(&hierarchy(), &DATA, folder.path(), true), FitError::Checkpoint { .. }, ["latest", "cannot be read"]);
}

#[test]
fn resuming_from_an_empty_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let result = fit(&hierarchy(), &DATA, folder.path(), true);
    refused!(result, FitError::Checkpoint { .. }, ["there is no checkpoint there", "Start without resuming"]);
}

#[test]
fn a_checkpoint_of_another_models_globals_is_refused() {
    let (folder, _) = checkpoint("coordinator.partita");
    let other = Recipe::global(|scope| scope.sample("tau", HalfNormal::new(1.0)));
    let words = ["coordinator.partita", "another model", "mu Normal [1]", "tau HalfNormal [1]"];
    refused!(fit(&other, &DATA, folder.path(), true), FitError::Checkpoint { .. }, words);
}

#[test]
fn a_checkpoint_of_another_models_locals_is_refused() {
    let (folder, _) = checkpoint("silo-a.partita");
    let other = Recipe::local(|scope, mu, data| {
        scope.plate("row", data.dims()[0], |scope, rows| {
            scope.sample("slope", Normal::new(0.0, 1.0))?;
            let effect = scope.sample("effect", Normal::new(mu.clone(), 1.0))?;
            scope.observe("y", Normal::new(effect, 1.0), rows.take(data)?)
        })
    });
    for model in [other, sound()] {
        let error = fit(&model, &DATA, folder.path(), true).unwrap_err();
        assert!(matches!(reported(&error), FitError::Checkpoint { .. }), "{error:?}");
        says(&error, &["does not fit silo `a`", "another model, other data or other settings"]);
    }
}

#[test]
fn a_checkpoint_of_other_data_is_refused() {
    let (folder, _) = checkpoint("silo-b.partita");
    let error = fit(&hierarchy(), &[DATA[0], &[1.5, 0.0, 1.0]], folder.path(), true).unwrap_err();
    assert!(matches!(reported(&error), FitError::Checkpoint { .. }), "{error:?}");
    says(&error, &["silo-b.partita", "does not fit silo `b`", "other data"]);
}

#[test]
fn a_checkpoint_of_other_settings_is_refused() {
    let (folder, _) = checkpoint("coordinator.partita");
    let with = |change: fn(&mut partita::FitOptions)| {
        fit_over(&hierarchy(), &silos(&DATA), |options| {
            (options.checkpoint, options.resume) = (Some((folder.path().to_owned(), 3)), true);
            options.settings.steps = 9;
            change(options);
        })
    };
    let result = with(|options| options.settings.optimiser = Sgd { momentum: 0.9 }.into());
    refused!(result, FitError::Checkpoint { .. }, ["coordinator.partita", "another optimiser"]);
    let result = with(|options| options.settings.seed = 2);
    refused!(result, FitError::Checkpoint { .. }, ["coordinator.partita", "seed"]);
    let result = fit_over(&hierarchy(), &silos(&[&[0.5, -1.0, 2.0]]), |options| {
        (options.checkpoint, options.resume) = (Some((folder.path().to_owned(), 3)), true);
        options.algorithm = AlgorithmChoice::Central;
    });
    refused!(result, FitError::Checkpoint { .. }, ["coordinator.partita", "central.coordinator"]);
}

#[test]
fn a_checkpoint_of_a_central_fit_is_held_to_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let central = |data: &[f64], resume| {
        fit_over(&hierarchy(), &silos(&[data]), |options| {
            options.checkpoint = Some((folder.path().to_owned(), 3));
            options.algorithm = AlgorithmChoice::Central;
            (options.resume, options.settings.steps) = (resume, if resume { 9 } else { 6 });
        })
    };
    central(&[0.5, 1.0], false).unwrap();
    let error = central(&[0.5, 1.0, 2.0], true).unwrap_err();
    assert!(matches!(reported(&error), FitError::Checkpoint { .. }), "{error:?}");
    says(&error, &["silo-a.partita", "other data"]);
    central(&[0.5, 1.0], true).unwrap();
}

#[test]
fn silos_whose_names_differ_in_punctuation_have_their_own_files() {
    let folder = tempfile::tempdir().unwrap();
    let named = |resume| {
        let mut parties = silos(&DATA);
        (parties[0].0, parties[1].0) = ("ward 1".into(), "ward_1".into());
        fit_over(&hierarchy(), &parties, |options| {
            options.checkpoint = Some((folder.path().to_owned(), 3));
            (options.resume, options.settings.steps) = (resume, if resume { 9 } else { 6 });
        })
    };
    named(false).unwrap();
    named(true).unwrap();
}

#[test]
fn a_checkpoint_folder_that_cannot_be_made_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "in the way").unwrap();
    let error = fit(&hierarchy(), &DATA, &file, false).unwrap_err();
    assert!(matches!(reported(&error), FitError::File { .. }), "{error:?}");
    says(&error, &["writing", "step-000000003", "writable"]);
}
