//! Holds a silo of a private study to noised sums alone, whatever it is asked.

use std::fmt::Write;
use std::path::Path;

use partita_inference::{AlgorithmChoice, FewRoundsOptions, FitOptions, HtmlOptions, coordinator, fit};

use super::*;
use crate::executables::StudyFile;
use crate::formula::{ReadOptions, SiloTable};

const STUDY: &str = "formula = \"y ~ x + (1 | child)\"\nfamily = \"bernoulli\"\nsilos = [\"north\"]\n[privacy]\nunit = \"row\"\n\
                     epsilon = 2.0\ndelta = 1e-5\n[privacy.columns]\ny = [0, 1]\nx = [-2.0, 2.0]\n";

fn seat(folder: &Path, text_of_study: &str) -> Seat {
    with_delta(folder, text_of_study, "1e-5").unwrap()
}

/// The same with this delta of the owner's.
fn with_delta(folder: &Path, text_of_study: &str, delta: &str) -> partita_flower::Result<Seat> {
    let mut text = "child,y,x\n".to_owned();
    (0..60).for_each(|row| writeln!(text, "c{},{},{}", row / 4, row % 3 % 2, f64::from(row % 9) / 2.0 - 2.0).unwrap());
    let data = folder.join("north.csv");
    std::fs::write(&data, text).unwrap();
    let study = StudyFile::parse(text_of_study).unwrap();
    let privacy =
        if study.privacy.is_some() { format!("[privacy]\nepsilon = 9.0\ndelta = {delta}\n") } else { String::new() };
    let file = format!(
        "name = \"north\"\ndata = {data:?}\nstate = {:?}\n{privacy}[engine]\naddress = \"127.0.0.1:1\"\n",
        folder.join("state")
    );
    std::fs::create_dir_all(folder.join("state")).unwrap();
    let file: SiloFile = toml::from_str(&file).unwrap();
    let own = study.study(ReadOptions::default()).unwrap();
    let columns = own.columns(&SiloTable { name: "north".into(), path: data }).unwrap();
    let fit = study.run_file().unwrap().fit_options(&study.settings()).unwrap();
    Ok(Seat {
        private: PrivateSeat::of(&study, &file, &own, &columns)?,
        profile: own.profile(&columns).unwrap(),
        study: own,
        fit,
        silos: study.silos.clone(),
        index: 0,
        columns,
        held_out: None,
        output: folder.to_owned(),
        file,
        contrasts: Vec::new(),
        reported: Arc::default(),
        unwritten: Arc::default(),
        then_stops: None,
    })
}

#[test]
fn a_delta_of_the_study_or_of_the_owner_that_promises_nothing_is_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let large = STUDY.replace("delta = 1e-5", "delta = 0.07").replace("epsilon = 2.0", "epsilon = 0.1");
    // Fifteen children.
    for (study, delta, whose) in [(&*large, "1e-5", "the study"), (STUDY, "0.07", "this silo's file")] {
        let Err(found) = with_delta(folder.path(), study, delta) else { panic!("{whose}: it took its seat") };
        let expected = format!("7e-2 of {whose}, for a silo of 15 rows");
        assert!(found.to_string().contains(&expected), "{found}");
    }
    assert!(!folder.path().join("state.ledger").exists());
}

/// What a coordinator tells of a fit of the silo's file, with this name as the heading of its page and as its silo's.
fn told(folder: &Path, name: &str) -> Message {
    let text = "formula = \"y ~ x\"\nfamily = \"bernoulli\"\nsilos = [\"north\"]\n";
    let study = StudyFile::parse(text).unwrap().study(ReadOptions::default()).unwrap();
    let (table, device) = (SiloTable { name: "north".into(), path: folder.join("north.csv") }, Device::flex());
    let prepared = study.prepare(&[table], &device).unwrap();
    let algorithm = AlgorithmChoice::FewRounds(FewRoundsOptions::default());
    let options = FitOptions { algorithm, ..FitOptions::default() };
    let mut fitted = fit(&prepared.plan.model, &prepared.silos, &device, &options, None).unwrap();
    fitted.report.silos = vec![name.to_owned()];
    let message = put(Message::new(agree::REPORT), "result", &fitted.report).unwrap();
    put(message, "content", &fitted.page(&HtmlOptions { title: name.into(), ..HtmlOptions::default() })).unwrap()
}

#[test]
fn a_silo_makes_the_page_of_the_report_itself_and_writes_no_markup_of_a_coordinator() {
    let folder = tempfile::tempdir().unwrap();
    let mut silo = StudySilo::new(seat(folder.path(), STUDY));
    silo.answer(&Message::new(agree::MODEL).setting("agreed", "anything")).unwrap();
    let hostile = "\"><img src=x onerror=alert(1)><script>alert(1)</script>";
    // A coordinator of an earlier version sends a page too.
    let report = told(folder.path(), hostile);
    silo.answer(&report.clone().setting("page", hostile)).unwrap();
    let path = folder.path().join(PAGE);
    let page = std::fs::read_to_string(&path).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{page}");
    assert!(!page.contains("<script") && !page.contains("<img"), "{page}");
    // One that contradicts itself keeps no file of the owner's from being written.
    let spent = folder.path().join("privacy.json");
    std::fs::remove_file(&spent).unwrap();
    let mut torn: serde_json::Value = get(&report, "result").unwrap();
    torn["sites"] = serde_json::json!([]);
    let content = report.get_setting("content").unwrap();
    drop(silo.answer(&put(Message::new(agree::REPORT).setting("content", content), "result", &torn).unwrap()));
    assert!(spent.is_file());
    // What is no report has no page, and no page of before stands beside it.
    let none = Message::new(agree::REPORT).setting("result", hostile).setting("content", "{}");
    let found = silo.answer(&none).unwrap_err().to_string();
    assert!(found.contains("`result`") && !path.exists(), "{found}");
    // Nor does it hide that a file of the owner's is not written.
    std::fs::remove_file(&spent).unwrap();
    std::fs::create_dir_all(spent.join("in the way")).unwrap();
    let found = silo.answer(&none).unwrap_err().to_string();
    assert!(found.contains("privacy.json"), "{found}");
}

#[test]
fn a_file_of_the_owners_that_is_not_written_is_not_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let seat = seat(folder.path(), STUDY);
    let (reported, unwritten) = (Arc::clone(&seat.reported), Arc::clone(&seat.unwritten));
    let mut silo = StudySilo::new(seat);
    silo.answer(&Message::new(agree::MODEL).setting("agreed", "anything")).unwrap();
    let report = told(folder.path(), "north");
    let place = folder.path().join("privacy.json");
    std::fs::create_dir_all(place.join("in the way")).unwrap();
    assert!(silo.answer(&report).is_err() && reported.load(Ordering::Relaxed));
    let found = unwritten.lock().unwrap().as_ref().unwrap().to_string();
    assert!(found.contains("privacy.json"), "{found}");
    // The coordinator tells the report again.
    std::fs::remove_dir_all(&place).unwrap();
    silo.answer(&report).unwrap();
    assert!(unwritten.lock().unwrap().is_none() && place.is_file());
}

#[test]
fn a_silo_of_a_private_study_says_how_many_rows_it_has_and_noised_sums_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let seat = seat(folder.path(), STUDY);
    let (fit, agreed, study) = (seat.fit.clone(), seat.private.as_ref().unwrap().agreed.clone(), seat.study.clone());
    let count = seat.private.as_ref().unwrap().count();
    let mut silo = StudySilo::new(seat);
    for kind in [agree::PROFILE, agree::DESIGN, agree::AVERAGE] {
        let found = silo.answer(&Message::new(kind)).unwrap_err().to_string();
        assert!(found.contains("silos answer with noised sums alone"), "{kind}: {found}");
    }
    // The engine and the coordinator are told of fifteen children, and not of their sixty lines.
    assert_eq!(count, 15);
    // What the coordinator says of the model is not read.
    let seated = silo.answer(&Message::new(agree::MODEL).setting("agreed", "anything")).unwrap();
    assert_eq!((seated.get_word("rows").unwrap(), seated.settings.len(), seated.numbers.len()), (15, 0, 0));
    for kind in ["few.start", "few.round", "trust.values", "leave_one_out.rows", "predictive.check", "evaluate.rows"] {
        let found = silo.answer(&Message::new(kind)).unwrap_err().to_string();
        assert!(found.contains("noised sums alone"), "{kind}: {found}");
    }
    let plan = study.plan(&agreed.summary).unwrap();
    let options = FitOptions { ..fit };
    let mut method = coordinator(&plan.model, &["north".to_owned()], &[15], &Device::flex(), &options).unwrap();
    let request = method.outgoing().unwrap().remove(0).message;
    let answer = silo.answer(&request).unwrap();
    let names: Vec<&str> = answer.records.iter().map(|record| record.name.as_str()).collect();
    assert_eq!((names, answer.numbers.len(), answer.settings.len()), (vec!["gradient", "curvature"], 1, 0));
    // Another coordinator's identical request has the same answer, in whichever order its parts came.
    let mut turned = request.clone();
    turned.records.reverse();
    turned.numbers.reverse();
    assert_eq!(silo.answer(&turned).unwrap(), answer);
    let own = std::fs::read_to_string(folder.path().join("state.ledger")).unwrap();
    assert_eq!(own.matches("\"spent\"").count(), 1);
}

#[test]
fn parties_with_another_promise_are_of_another_run() {
    let identity = |text: &str| {
        let study = StudyFile::parse(text).unwrap();
        study.run_file().unwrap().identity(&study.settings()).unwrap()
    };
    let own = identity(STUDY);
    for (from, to) in [
        ("epsilon = 2.0", "epsilon = 2.5"),
        ("delta = 1e-5", "delta = 1e-6"),
        ("delta = 1e-5", "delta = 1e-5\nrounds = 11"),
        ("delta = 1e-5", "delta = 1e-5\nsecure_sums = true"),
        ("x = [-2.0, 2.0]", "x = [-2.0, 3.0]"),
    ] {
        assert_ne!(identity(&STUDY.replace(from, to)), own, "{to}");
    }
    assert_eq!(identity(STUDY), own);
}

#[test]
fn parties_with_other_files_are_told_the_entry_that_differs() {
    let told = |text: &str| {
        let study = StudyFile::parse(text).unwrap();
        study.run_file().unwrap().entries(&study.settings()).unwrap()
    };
    let (open, _) = STUDY.split_once("[privacy]").unwrap();
    for (text, from, to, entry) in [
        (open, "y ~ x + (1 | child)", "y ~ x", "formula"),
        (open, "bernoulli", "poisson", "family"),
        (open, "[\"north\"]", "[\"north\", \"south\"]", "silos"),
        (open, "[\"north\"]\n", "[\"north\"]\nseed = 2\n", "seed"),
        (open, "[\"north\"]\n", "[\"north\"]\n[priors]\nx = \"normal(0, 1)\"\n", "priors"),
        (open, "[\"north\"]\n", "[\"north\"]\n[run]\nalgorithm = \"sfvi\"\n", "run"),
        (STUDY, "epsilon = 2.0", "epsilon = 2.5", "privacy"),
    ] {
        let (own, other) = (told(text), told(&text.replace(from, to)));
        assert!(text.contains(from) && own.len() == other.len(), "{to}");
        let differing = own.iter().zip(&other).filter(|(own, other)| own != other);
        assert_eq!(differing.map(|((name, _), _)| name.as_str()).collect::<Vec<_>>(), [entry]);
    }
    // Every entry of the file is among them.
    let all = serde_json::to_value(StudyFile::parse(STUDY).unwrap()).unwrap();
    let own = told(STUDY);
    let is_told = |name: &&String| own.iter().any(|(known, _)| known == *name);
    assert_eq!(all.as_object().unwrap().keys().find(|name| !is_told(name)), None);
}

#[test]
fn what_an_owner_refuses_of_the_design_does_not_leave() {
    let folder = tempfile::tempdir().unwrap();
    let (open, _) = STUDY.split_once("[privacy]").unwrap();
    let mut own = seat(folder.path(), open);
    let agreement = own.study.agree(std::slice::from_ref(&own.profile)).unwrap();
    let request = put(Message::new(agree::DESIGN), "agreement", &agreement).unwrap();
    let designed = |seat: &Seat| -> DesignSummary {
        get(&StudySilo::new(seat.clone()).answer(&request).unwrap(), "design").unwrap()
    };
    let all = designed(&own);
    assert_eq!((all.sums.products.unwrap().len(), all.sums.outcome.unwrap().count, all.random[0].groups), (1, 60, 15));
    assert!(own.profile.refuse("products") && own.profile.refuse("outcome") && !own.profile.refuse("squares"));
    let less = designed(&own);
    assert!(less.sums.products.is_none() && less.sums.outcome.is_none() && less.sums.means == all.sums.means);
    // Others go on without them, and what a study cannot do without is refused before anything is said.
    assert!(own.study.agree(std::slice::from_ref(&own.profile)).is_ok() && own.study.plan(&less).is_ok());
    for item in ["rows", "columns", "groups"] {
        let error = own.study.does_without(item).unwrap_err().to_string();
        assert!(error.contains(&format!("`{item}`")) && error.contains("do not take part"), "{error}");
    }
    assert!(own.study.does_without("outcome").is_ok(), "priors of a bernoulli study do not follow the outcome");
    let gaussian = Study { family: "gaussian".parse().unwrap(), ..own.study.clone() };
    assert!(gaussian.does_without("outcome").is_err() && gaussian.does_without("products").is_ok());
}

#[test]
fn a_silo_that_comes_back_with_other_rows_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let open = STUDY.split("[privacy]").next().unwrap();
    let seat = seat(folder.path(), open);
    let state = folder.path().join("state");
    SavedRows::of(&seat.columns).write(&state).unwrap();
    SavedRows::of(&seat.columns).check(&state).unwrap();
    // As many rows, one of which is another.
    let text = std::fs::read_to_string(folder.path().join("north.csv")).unwrap().replacen(",0,", ",1,", 1);
    let path = folder.path().join("other.csv");
    std::fs::write(&path, text).unwrap();
    let other = seat.study.columns(&SiloTable { name: "north".into(), path }).unwrap();
    let found = SavedRows::of(&other).check(&state).unwrap_err().to_string();
    assert!(found.contains("`data` has other rows now (60) than when this silo began it (60)"), "{found}");
    // A state of an earlier version says nothing of rows.
    std::fs::remove_file(state.join("rows.json")).unwrap();
    SavedRows::of(&other).check(&state).unwrap();
}

#[test]
fn a_silo_answers_an_averaged_contrast_of_levels_with_a_sum_for_each_level_and_draw() {
    let folder = tempfile::tempdir().unwrap();
    let text = "formula = \"y ~ x\"\nfamily = \"categorical\"\nsilos = [\"north\"]\n";
    let asked = "x: 1 - 0 averaged";
    let seat = Seat { contrasts: vec![asked.parse().unwrap()], ..seat(folder.path(), text) };
    let (study, profile) = (seat.study.clone(), seat.profile.clone());
    let mut strict = seat.clone();
    strict.file.most_draws = Some(1);
    let [mut silo, mut strict] = [seat, strict].map(StudySilo::new);
    let agreement = study.agree(&[profile]).unwrap();
    let designed = silo.answer(&put(Message::new(agree::DESIGN), "agreement", &agreement).unwrap()).unwrap();
    let summary = DesignSummary::merge(&[get(&designed, "design").unwrap()]).unwrap();
    let model = put(Message::new(agree::MODEL), "agreed", &Agreed { agreement, summary }).unwrap();
    for own in [&mut silo, &mut strict] {
        own.answer(&model).unwrap();
    }
    // Intercept and slope of the level 1 at two draws.
    let request = Message::new(agree::AVERAGE).setting("contrast", asked).floats("draws", &[0.3, 0.7, 0.5, 0.0]);
    let answer = silo.answer(&request).unwrap();
    let chance = |odds: f64| 1.0 / (1.0 + (-odds).exp());
    let sum = 60.0 * (chance(1.0) - chance(0.3));
    let found = answer.expect_floats("differences", 4).unwrap();
    let close = found.iter().zip([-sum, 0.0, sum, 0.0]).all(|(own, expected)| (own - expected).abs() < 1e-11);
    assert!(close, "{found:?} {sum}");
    assert_eq!(
        (answer.expect_floats("weight", 1).unwrap()[0].to_bits(), answer.numbers.len()),
        (60.0_f64.to_bits(), 0)
    );
    // The owner's limit counts the draws that such a request has.
    let found = strict.answer(&request).unwrap_err().to_string();
    let expected = "`average.contrast` at 2 draws, and the owner of the rows allows 1 or fewer (`most_draws`)";
    assert!(found.contains(expected), "{found}");
}
