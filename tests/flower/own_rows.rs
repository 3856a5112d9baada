//! Claims that a silo that is stopped writes the report of its own rows, which is that of a fit in one process.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fixtures::split;
use partita::compiled_in::CompiledIn;
use partita::executables::{Planned, SiloFile, Watch, run_silo};
use partita::flower::{Envelope, Keeper, Log, RunFile, read_toml};
use partita::inference::{
    InProcess, LocalReport, Message, Result, SiloProgram, coordinator, fit_parties, silo_program,
};
use partita::models::{MixedLogistic, RepeatedBinary, six_cities};
use partita::{Device, FitOptions, fit};

/// A silo behind its keeper, as if every request came over the engine.
struct Kept {
    keeper: Keeper,
    round: u64,
}

impl SiloProgram for Kept {
    fn name(&self) -> &str {
        "north"
    }

    fn answer(&mut self, request: &Message) -> Result<Message> {
        let envelope = Envelope {
            run: "a".into(),
            began: 1,
            start: 0,
            round: self.round + 1,
            attempt: 1,
            accepted: self.round,
            kept: self.round,
            identity: "model".into(),
            silo: "north".into(),
            signature: None,
        };
        self.round += 1;
        Ok(self.keeper.answer(&envelope, request).unwrap())
    }
}

fn load(_: &Path, device: &Device) -> partita::flower::Result<RepeatedBinary> {
    Ok(RepeatedBinary::six_cities(&split(&six_cities(), 10)[4], device).map_err(partita::inference::Error::from)?)
}

#[test]
fn a_silo_that_is_stopped_writes_what_was_found_of_its_own_rows() {
    let (device, model, folder) = (Device::flex(), MixedLogistic::new(4), tempfile::tempdir().unwrap());
    let data = load(Path::new(""), &device).unwrap();
    let run = RunFile::parse("model = \"six-cities\"\nalgorithm = \"few-rounds\"\nsilos = [\"north\"]\nsteps = 30\n")
        .unwrap();
    let base = CompiledIn::SixCities.settings();
    let options = FitOptions { summary_draws: 10, trust_draws: Some(64), ..run.fit_options(&base).unwrap() };
    let silos = [("north".to_owned(), data.clone())];
    let mut alone = fit(&model, &silos, &device, &options, None).unwrap();
    let expected = LocalReport::of(&*alone.exchange.programs()[0], &model, &data, &device).unwrap();
    assert_eq!(expected.numbers.len(), data.rows());

    let text = format!(
        "name = \"north\"\nallow = [\"few\", \"trust\"]\ndata = \"\"\nstate = \"{0}/state\"\nown_rows = \"{0}/rows.json\"\nown_checks = \"{0}/checks.html\"\n\
         [engine]\naddress = \"127.0.0.1:1\"\npatience_seconds = 0\n",
        folder.path().display()
    );
    let path = folder.path().join("north.toml");
    std::fs::write(&path, text).unwrap();
    let file: SiloFile = read_toml(&path).unwrap();
    let names = ["north".to_owned()];
    let stopped = Arc::new(AtomicBool::new(true));
    let serve = || {
        let (said, heard) = std::sync::mpsc::channel();
        let log: Log = Arc::new(move |line| said.send(line.to_owned()).unwrap());
        let watch = Watch { stop: &stopped, log: &log };
        run_silo(&model, Planned { file: &run, base: &base }, &file, load, watch).unwrap();
        let mut lines: Vec<String> = heard.try_iter().collect();
        lines.split_off(lines.len() - 2)
    };
    // Nothing was asked yet.
    let lines = serve();
    assert!(
        lines[0].starts_with("no request was answered") && lines[1].starts_with("no predictive check"),
        "{lines:?}"
    );
    assert!(!folder.path().join("rows.json").exists());
    let (own, names_of, options_of) = (data.clone(), names.clone(), options.clone());
    let make = move || Ok(silo_program(&MixedLogistic::new(4), &names_of, 0, &own, &Device::flex(), &options_of)?.0);
    let keeper = Keeper::open(&file.state, Box::new(make)).unwrap();
    let mut exchange = InProcess::new(vec![Box::new(Kept { keeper, round: 0 })], 1).unwrap();
    let mut algorithm = coordinator(&model, &names, &[data.rows()], &device, &options).unwrap();
    fit_parties(&model, &device, &options, &mut *algorithm, &mut exchange, None).unwrap();
    // A folder serves one silo at a time.
    drop(exchange);
    assert!(serve()[0].ends_with("rows.json"));
    let found = std::fs::read_to_string(folder.path().join("rows.json")).unwrap();
    let found: LocalReport = serde_json::from_str(&found).unwrap();
    assert_eq!(found, expected);
}

#[test]
fn a_silo_behind_masks_has_no_rows_held_out_which_it_would_judge_without_them() {
    let folder = tempfile::tempdir().unwrap();
    let run = "model = \"six-cities\"\nalgorithm = \"sfvi\"\nsilos = [\"north\", \"south\"]\nsteps = 30\nsecure_sums = true\n";
    let text = format!(
        "name = \"north\"\nallow = [\"private\", \"evaluate\"]\ndata = \"\"\nheld_out = \"\"\nstate = \"{}/state\"\n\
         [engine]\naddress = \"127.0.0.1:1\"\npatience_seconds = 0\n",
        folder.path().display()
    );
    let path = folder.path().join("north.toml");
    std::fs::write(&path, text).unwrap();
    let (file, run): (SiloFile, _) = (read_toml(&path).unwrap(), RunFile::parse(run).unwrap());
    let (stopped, log): (_, Log) = (Arc::new(AtomicBool::new(true)), Arc::new(|_| ()));
    let (base, watch) = (CompiledIn::SixCities.settings(), Watch { stop: &stopped, log: &log });
    let planned = Planned { file: &run, base: &base };
    let refused = run_silo(&MixedLogistic::new(4), planned, &file, load, watch).unwrap_err().to_string();
    assert!(refused.contains("held_out") && refused.contains("secure_sums"), "{refused}");
}
