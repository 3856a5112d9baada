//! Claims that a study over a real engine finds what one process finds, to the bit, and tells every silo.
#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]

use std::path::Path;
use std::process::Command;

use fixtures::engine::{Deployment, Pace, Running, free_ports, installed};
use fixtures::executable;
use fixtures::visits::{FORMULA, visits};
use partita::formula::{SiloTable, Study};
use partita::inference::FewRoundsOptions;
use partita::models::six_cities;
use partita::{AlgorithmChoice, Device, FitOptions, fit};
use serde_json::Value;

const NAMES: [&str; 3] = ["north", "south", "west"];

/// A silo's own file beyond name, data and engine.
type Own<'a> = &'a str;

/// Starts a party of a study in its folder.
fn start(folder: &Path, task: &str, name: &str) -> Running {
    let log = std::fs::File::options().create(true).append(true).open(folder.join(format!("{name}.log"))).unwrap();
    let mut command = Command::new(executable("partita"));
    command.arg(task).current_dir(folder);
    if task == "silo" {
        command.args(["--silo", &format!("{name}.toml")]);
    }
    Running::spawn(command.stdout(log.try_clone().unwrap()).stderr(log))
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap_or_default()
}

/// The files of all parties; the children are dealt to the silos in turn.
fn write_files(folder: &Path, deployment: &Deployment, study: &str, own: Own<'_>) {
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("study.toml", study);
    for (place, name) in NAMES.iter().enumerate() {
        let children: Vec<_> = six_cities().into_iter().skip(place).step_by(NAMES.len()).collect();
        write(&format!("{name}.csv"), &visits(&children));
        let engine = format!("[engine]\naddress = \"{}\"\npatience_seconds = 60\n", deployment.silo(place).address);
        write(
            &format!("{name}.toml"),
            &format!(
                "name = \"{name}\"\ndata = \"{name}.csv\"\nstate = \"{name}-state\"\noutput = \"{name}-report\"\n{own}\n{engine}"
            ),
        );
    }
    let engine = format!("[engine]\naddress = \"{}\"\npatience_seconds = 60\n", deployment.coordinator().address);
    write("coordinator.toml", &format!("state = \"state\"\noutput = \"output\"\n{engine}"));
}

fn study(checks: &str) -> String {
    format!("formula = \"{FORMULA}\"\nfamily = \"bernoulli\"\nsilos = [\"north\", \"south\", \"west\"]\n{checks}\n")
}

#[test]
fn a_study_over_an_engine_has_the_bits_of_one_process_and_every_silo_has_the_report() {
    let Some(programs) = installed() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let deployment = Deployment::start(&programs, folder, NAMES.len(), Pace::Capped);
    write_files(folder, &deployment, &study("checks = [\"zeros of y\"]"), "own_rows = \"own.csv\"");
    let silos: Vec<Running> = NAMES.iter().map(|name| start(folder, "silo", name)).collect();
    let mut coordinator = start(folder, "coordinator", "coordinator");
    while !coordinator.is_over() {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let said = read(folder, "coordinator.log");
    for words in ["prior: smoke ~ normal(0, ", "verdict: trust these numbers\n", "odds ratio", "north has 716 rows"] {
        assert!(said.contains(words), "{words}: {said}\n{}", read(folder, "north.log"));
    }
    let found: Value = serde_json::from_str(&read(folder, "output/result.json")).unwrap();

    let device = Device::flex();
    let tables: Vec<SiloTable> =
        NAMES.iter().map(|name| SiloTable { name: (*name).into(), path: folder.join(format!("{name}.csv")) }).collect();
    let prepared = Study::new(FORMULA, "bernoulli".parse().unwrap()).unwrap().prepare(&tables, &device).unwrap();
    let algorithm = AlgorithmChoice::FewRounds(FewRoundsOptions::default());
    let checks = vec!["zeros of y".parse().unwrap()];
    let options = FitOptions { algorithm, checks, ..FitOptions::default() };
    let own = fit(&prepared.plan.model, &prepared.silos, &device, &options, None).unwrap();
    let expected = serde_json::to_value(&own.report).unwrap();
    for entry in ["sites", "elbo", "checks", "verdict"] {
        assert_eq!(found[entry], expected[entry], "{entry}");
    }
    // Every silo has the same report, and knows of its own rows.
    for name in NAMES {
        assert_eq!(read(folder, &format!("{name}-report/result.json")), read(folder, "output/result.json"));
        assert_eq!(read(folder, &format!("{name}-report/report.html")), read(folder, "output/report.html"));
    }
    assert!(read(folder, "output/report.html").contains("what the formula needs to know of the rows"));
    drop(silos);
    assert!(read(folder, "own.csv").lines().count() > 100, "{}", read(folder, "west.log"));
}

/// The blocks of shell commands of the page, less the one that installs.
fn page() -> String {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/src/tutorial-three-hospitals.md"));
    let text = text.unwrap();
    let blocks = text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let (install, rest): (Vec<&str>, Vec<&str>) = blocks.partition(|block| block.contains("pip install"));
    assert_eq!((install.len(), rest.len()), (1, 8));
    rest.concat()
}

#[test]
fn the_page_of_three_hospitals_leads_from_an_empty_folder_to_a_report_at_every_party() {
    let Some(programs) = installed() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let port = free_ports(1)[0].to_string();
    let path = std::env::var("PATH").unwrap();
    let built = executable("partita");
    let path = format!("{}:{}:{path}", built.parent().unwrap().display(), programs.display());
    // What the page starts ends with the shell, whatever happens.
    let text = format!("set -euo pipefail\ntrap 'kill $(jobs -p)' EXIT\n{}", page().replace("8000", &port));
    let mut command = Command::new("bash");
    command.args(["-c", &text]).current_dir(folder).env("PATH", path).stdin(std::process::Stdio::null());
    let done = command.output().unwrap();
    let [said, wrong] = [&done.stdout, &done.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let place = folder.join("three-hospitals");
    let logs = ["north/north.log", "link/link.log"].map(|name| read(&place, name)).join("\n");
    assert!(said.contains("verdict: trust these numbers\n") && said.contains("odds ratio"), "{said}\n{wrong}\n{logs}");
    let report = read(&place, "coordinator/output/report.html");
    assert!(report.contains("Forest plot: odds ratio"));
    for name in NAMES {
        assert_eq!(read(&place, &format!("{name}/{name}-report/report.html")), report, "{name}");
        let log = read(&place, &format!("{name}/{name}.log"));
        assert!(log.contains("the report of the study is in"), "{log}");
    }
    #[cfg(unix)]
    for key in ["north/north.key", "link/ca.key", "link/link.key"] {
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(place.join(key)).unwrap().permissions());
        assert_eq!(mode & 0o077, 0, "{key}");
    }
}
