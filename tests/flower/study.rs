//! Claims that a study over a real engine finds what one process finds, to the bit, and tells every silo.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use fixtures::arviz::{opened, python};
use fixtures::engine::{Deployment, Running, free_ports, installed};
use fixtures::executable;
use fixtures::proxy::{Action, Proxy};
use fixtures::visits::{FORMULA, visits};
use partita::formula::{SiloTable, Study};
use partita::inference::{ArvizOptions, FewRoundsOptions, OwnChecks};
use partita::models::six_cities;
use partita::{AlgorithmChoice, Device, FitOptions, fit};
use serde_json::Value;

const NAMES: [&str; 3] = ["north", "south", "west"];

/// Starts a party of a study in its folder.
pub(super) fn start(folder: &Path, task: &str, name: &str) -> Running {
    start_with(folder, task, name, &[])
}

/// The same with more arguments.
pub(super) fn start_with(folder: &Path, task: &str, name: &str, more: &[&str]) -> Running {
    let log = std::fs::File::options().create(true).append(true).open(folder.join(format!("{name}.log"))).unwrap();
    let mut command = Command::new(executable("partita"));
    command.arg(task).current_dir(folder);
    if task == "silo" {
        command.args(["--silo", &format!("{name}.toml")]);
    }
    Running::spawn(command.args(more).stdout(log.try_clone().unwrap()).stderr(log))
}

pub(super) fn wait(running: &mut Running) {
    while !running.is_over() {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

pub(super) fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap_or_default()
}

/// The files of all parties: the silos' children are dealt in turn from every so many-th, `own` stands in the file of each
/// silo with its name for NAME, and `how` in that of the coordinator.
pub(super) fn write_parties(
    folder: &Path,
    deployment: &Deployment,
    (silos, every): (&[&str], usize),
    [study, own, how]: [&str; 3],
) {
    std::fs::create_dir_all(folder).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("study.toml", study);
    for (place, name) in silos.iter().enumerate() {
        let children: Vec<_> = six_cities().into_iter().skip(place).step_by(every * silos.len()).collect();
        write(&format!("{name}.csv"), &visits(&children));
        let engine = format!("[engine]\naddress = \"{}\"\npatience_seconds = 60\n", deployment.silo(place).address);
        write(
            &format!("{name}.toml"),
            &format!(
                "name = \"{name}\"\ndata = \"{name}.csv\"\nstate = \"{name}-state\"\noutput = \"{name}-report\"\n{}\n{engine}",
                own.replace("NAME", name)
            ),
        );
    }
    let engine = format!("[engine]\naddress = \"{}\"\npatience_seconds = 60\n", deployment.coordinator().address);
    write("coordinator.toml", &format!("state = \"state\"\noutput = \"output\"\n{how}\n{engine}"));
}

fn write_files(folder: &Path, deployment: &Deployment, study: &str, own: &str) {
    write_parties(folder, deployment, (&NAMES, 1), [study, own, ""]);
}

fn study(checks: &str) -> String {
    format!("formula = \"{FORMULA}\"\nfamily = \"bernoulli\"\nsilos = [\"north\", \"south\", \"west\"]\n{checks}\n")
}

#[test]
fn a_study_over_an_engine_has_the_bits_of_one_process_and_every_silo_has_the_report() {
    let Some((scratch, deployment)) = Deployment::capped(NAMES.len()) else { return };
    let folder = scratch.path();
    write_files(
        folder,
        &deployment,
        &study("checks = [\"zeros of y\"]"),
        "own_rows = \"own.csv\"\nown_checks = \"NAME-checks.json\"\nrefuse = [\"products\"]",
    );
    let silos: Vec<Running> = NAMES.iter().map(|name| start(folder, "silo", name)).collect();
    let mut coordinator = start_with(folder, "coordinator", "coordinator", &["--arviz"]);
    wait(&mut coordinator);
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
    // Whoever has the report writes its page anew.
    for name in ["output", "west-report"] {
        fixtures::said(folder, &["report", name, "--html", "again.html"]);
        assert!(read(folder, "again.html") == read(folder, "output/report.html"), "{name}");
        assert!(read(folder, "again.html").contains("Marginal density of smoke"));
    }
    if let Some(python) = python() {
        // ArviZ opens the coordinator's file, which is that of one process without rows.
        let [afar, here] = ["output/draws.zarr", "here.zarr"].map(|name| folder.join(name));
        own.write_arviz(&here, &prepared.plan.model, &device, &ArvizOptions::default()).unwrap();
        let all = opened(&python, &[afar.clone(), here.clone()]);
        let [found, expected] = [afar, here].map(|path| all[path.to_str().unwrap()].clone());
        assert!(found["groups"].get("/round_of_trust/sample_stats").is_some(), "{found:#}");
        for group in ["/observed_data", "/posterior_predictive", "/log_likelihood", "/round_of_trust/log_likelihood"] {
            assert!(found["groups"].get(group).is_none(), "{group}: {found:#}");
        }
        assert!(found["summary"]["smoke"][0].is_number(), "{found:#}");
        for entry in ["groups", "attributes", "summary", "prior"] {
            assert_eq!(found[entry], expected[entry], "{entry}");
        }
    }
    drop(silos);
    assert!(read(folder, "own.csv").lines().count() > 100, "{}", read(folder, "west.log"));
    for silo in &prepared.silos {
        let expected = own.predictive_checks(&prepared.plan.model, silo, &device, &options.checks).unwrap();
        let found: OwnChecks = serde_json::from_str(&read(folder, &format!("{}-checks.json", silo.0))).unwrap();
        assert_eq!(found, expected);
    }
}

#[test]
fn an_interrupted_study_tells_silos_nothing_and_goes_on_where_it_was() {
    let Some((scratch, deployment)) = Deployment::capped(NAMES.len()) else { return };
    let folder = scratch.path();
    write_files(folder, &deployment, &study("[run]\nalgorithm = \"sfvi\"\nsteps = 12"), "");
    let mut silos: Vec<Running> = NAMES.iter().map(|name| start_with(folder, "silo", name, &["--once"])).collect();
    let mut coordinator = start(folder, "coordinator", "coordinator");
    let steps = || read(folder, "output/metrics.jsonl").lines().count();
    while steps() < 4 {
        assert!(!coordinator.is_over(), "{}", read(folder, "coordinator.log"));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    Command::new("kill").args(["-INT", &coordinator.id().to_string()]).status().unwrap();
    wait(&mut coordinator);
    let said = read(folder, "coordinator.log");
    assert!(said.contains("interrupted while waiting for the end of the fit") && !said.contains("verdict"), "{said}");
    assert!(!folder.join("output/result.json").exists() && !folder.join("north-report/result.json").exists());
    assert!(silos.iter_mut().all(|silo| !silo.is_over()), "{}", read(folder, "north.log"));

    // A silo that comes back with other rows refuses to go on with what it began.
    drop(silos.pop());
    let rows = read(folder, "west.csv");
    std::fs::write(folder.join("west.csv"), rows.lines().take(500).collect::<Vec<_>>().join("\n") + "\n").unwrap();
    let mut other = start_with(folder, "silo", "west", &["--once"]);
    let before = steps();
    let mut resumed = start_with(folder, "coordinator", "resumed", &["--resume"]);
    wait(&mut other);
    let said = read(folder, "west.log");
    assert!(said.contains("`data` has other rows now (499) than when this silo began it (716)"), "{said}");
    assert!(steps() <= before && !folder.join("output/result.json").exists(), "{}", read(folder, "resumed.log"));

    // With its own rows the study ends, and every silo with it.
    std::fs::write(folder.join("west.csv"), rows).unwrap();
    silos.push(start_with(folder, "silo", "west", &["--once"]));
    wait(&mut resumed);
    silos.iter_mut().for_each(wait);
    assert_eq!(steps(), 12, "{}", read(folder, "resumed.log"));
    for name in NAMES {
        assert_eq!(read(folder, &format!("{name}-report/result.json")), read(folder, "output/result.json"));
    }
}

#[test]
fn questions_to_a_study_over_an_engine_have_the_answers_of_one_process_and_rows_stay() {
    let Some((scratch, deployment)) = Deployment::capped(NAMES.len()) else { return };
    let folder = scratch.path();
    let averaged = "contrasts = [\"smoke: 1 - 0 averaged\"]";
    write_files(folder, &deployment, &study(averaged), "fitted = \"NAME-fitted.csv\"");
    std::fs::write(folder.join("new.csv"), "child,smoke,age\nc1,1,0\nstranger,0,1\n").unwrap();
    let silos: Vec<Running> = NAMES.iter().map(|name| start(folder, "silo", name)).collect();
    // A mistake in a question ends the run before the fit.
    for (more, words) in [
        (["--contrast", "smok: 1 - 0 at age = 0"], "Did you mean `smoke`?"),
        (["--contrast", "age: 1 - 0 averaged"], "Write `contrasts = [\"age: 1 - 0 averaged\"]` there."),
        (["--predict", "nowhere.csv"], "nowhere.csv"),
    ] {
        wait(&mut start_with(folder, "coordinator", "mistaken", &more));
        let said = read(folder, "mistaken.log");
        assert!(said.contains(words) && !said.contains("verdict"), "{words}: {said}");
    }
    wait(&mut start_with(folder, "coordinator", "prior", &["--predict", "new.csv", "--prior-predictive", "20"]));
    let said = read(folder, "prior.log");
    assert!(said.contains("20 data sets from the prior: in 95 % of them the mean of `wheeze`"), "{said}");
    assert_eq!(read(folder, "output/prior_predictive.csv").lines().count(), 1 + 20 * 2, "{said}");
    assert!(!folder.join("output/result.json").exists(), "it fitted: {said}");

    let asked = ["--contrast", "smoke: 1 - 0 at age = 0", "--predict", "new.csv"];
    wait(&mut start_with(folder, "coordinator", "coordinator", &asked));
    drop(silos);
    let said = read(folder, "coordinator.log");
    for words in
        ["contrast smoke: 1 - 0 averaged: ", "contrast smoke: 1 - 0 at age = 0: ", "predicted.csv are in output"]
    {
        assert!(said.contains(words), "{words}: {said}\n{}", read(folder, "north.log"));
    }
    // The same study in one process.
    in_one_process(folder, &NAMES, &[&["--fitted"], &asked[..]].concat());
    for name in ["posterior.csv", "contrasts.csv", "predicted.csv"] {
        let [own, expected] = ["output", "one"].map(|at| read(folder, &format!("{at}/{name}")));
        assert!(own.lines().count() > 2 && own == expected, "{name}: {own}\n{expected}");
    }
    // Every silo has what is expected of its own rows, and it left none of them.
    let all = NAMES.map(|name| read(folder, &format!("{name}-fitted.csv")));
    let mut lines: Vec<&str> = vec![all[0].lines().next().unwrap()];
    lines.extend(all.iter().flat_map(|own| own.lines().skip(1)));
    assert_eq!(lines.join("\n") + "\n", read(folder, "one/fitted.csv"));
    assert!(
        !folder.join("output/fitted.csv").exists() && read(folder, "output/report.html").contains("averaged contrast")
    );
    // What the silo was told shows the report anew.
    assert!(fixtures::said(folder, &["report", "north-report"]).contains("odds ratio"));
}

/// The study of a folder in one process, with more arguments, and its files in the folder `one`.
pub(super) fn in_one_process(folder: &Path, names: &[&str], more: &[&str]) {
    let files: Vec<String> = names.iter().map(|name| format!("{name}.csv")).collect();
    let silos = files.iter().flat_map(|file| ["--silo", file.as_str()]);
    let fit = ["fit", "--study", "study.toml", "--output", "one"].into_iter().chain(silos);
    fixtures::said(folder, &fit.chain(more.iter().copied()).collect::<Vec<_>>());
}

#[test]
fn a_study_whose_coordinator_was_killed_is_resumed_and_has_the_bits_of_one_process() {
    let Some((scratch, deployment)) = Deployment::capped(NAMES.len()) else { return };
    let folder = scratch.path();
    write_files(folder, &deployment, &study(""), "");
    let (path, behind) = (folder.join("north.toml"), Proxy::before(&deployment.silo(0).address));
    let own = read(folder, "north.toml").replace(&deployment.silo(0).address, &behind.engine().address);
    std::fs::write(path, own).unwrap();
    // The answers before: hello, profile, design, model, and those of two rounds.
    let hold = behind.hold("push-messages", 7);
    let silos: Vec<Running> = NAMES.iter().map(|name| start(folder, "silo", name)).collect();
    let mut coordinator = start(folder, "coordinator", "killed");
    hold.wait();
    coordinator.kill();
    hold.lose();
    assert!(folder.join("state/announced.json").exists() && !folder.join("output/result.json").exists());
    wait(&mut start_with(folder, "coordinator", "coordinator", &["--resume"]));
    drop(silos);
    let said = read(folder, "coordinator.log");
    assert!(said.contains("verdict: trust these numbers\n"), "{said}\n{}", read(folder, "north.log"));
    in_one_process(folder, &NAMES, &[]);
    let [found, expected] = ["output", "one"].map(|at| read(folder, &format!("{at}/posterior.csv")));
    assert!(found.lines().count() > 1_000 && found == expected, "{said}");
    for name in NAMES {
        assert_eq!(read(folder, &format!("{name}-report/result.json")), read(folder, "output/result.json"));
    }
    // Without what silos agreed on, it asks them nothing.
    std::fs::remove_file(folder.join("state/announced.json")).unwrap();
    let silos: Vec<Running> = NAMES.iter().map(|name| start(folder, "silo", name)).collect();
    wait(&mut start_with(folder, "coordinator", "without", &["--resume"]));
    drop(silos);
    let said = read(folder, "without.log");
    assert!(said.contains("found no state/announced.json") && said.contains("`--restart`"), "{said}");
}

#[test]
fn an_owner_who_allows_no_averages_keeps_them_and_the_report_arrives() {
    let Some((scratch, deployment)) = Deployment::capped(NAMES.len()) else { return };
    let folder = scratch.path();
    let averaged = "contrasts = [\"smoke: 1 - 0 averaged\"]";
    write_files(folder, &deployment, &study(averaged), "allow = [\"formula\", \"few\", \"trust\"]");
    let silos: Vec<Running> = NAMES.iter().map(|name| start(folder, "silo", name)).collect();
    wait(&mut start(folder, "coordinator", "coordinator"));
    drop(silos);
    let [said, silo] = ["coordinator.log", "north.log"].map(|name| read(folder, name));
    assert!(said.contains("north") && !said.contains("contrast smoke"), "{said}");
    assert!(silo.contains("average.contrast") && silo.contains("Add it to `allow`"), "{silo}");
    assert!(
        read(folder, "output/posterior.csv").lines().count() > 1_000 && !folder.join("output/contrasts.csv").exists()
    );
    for name in NAMES {
        assert_eq!(read(folder, &format!("{name}-report/result.json")), read(folder, "output/result.json"));
    }
}

/// The text of a page.
fn text_of(name: &str) -> String {
    std::fs::read_to_string(format!("{}/../docs/src/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// The blocks of shell commands of a page, less the one that installs.
fn page(name: &str) -> Vec<String> {
    let text = text_of(name);
    let blocks = text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap().to_owned());
    blocks.filter(|block| !block.contains("pip install")).collect()
}

/// Runs the commands of a page in a folder, and gives what they said and what was wrong.
pub(super) fn run_page(name: &str, expected_blocks: usize, folder: &Path, programs: &Path) -> [String; 2] {
    let blocks = page(name);
    assert_eq!(blocks.len(), expected_blocks);
    let port = free_ports(1)[0].to_string();
    let path = std::env::var("PATH").unwrap();
    let built = executable("partita");
    let path = format!("{}:{}:{path}", built.parent().unwrap().display(), programs.display());
    // What the page starts ends with the shell, whatever happens.
    let text = format!("set -euo pipefail\ntrap 'kill $(jobs -p)' EXIT\n{}", blocks.concat().replace("8000", &port));
    let mut command = Command::new("bash");
    command.args(["-c", &text]).current_dir(folder).env("PATH", path).stdin(std::process::Stdio::null());
    let done = command.output().unwrap();
    [&done.stdout, &done.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

#[test]
fn the_page_of_three_hospitals_leads_from_an_empty_folder_to_a_report_at_every_party() {
    let Some(programs) = installed() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let [said, wrong] = run_page("tutorial-three-hospitals.md", 8, folder, &programs);
    let place = folder.join("three-hospitals");
    let logs = ["north/north.log", "link/link.log"].map(|name| read(&place, name)).join("\n");
    assert!(said.contains("verdict: trust these numbers\n") && said.contains("odds ratio"), "{said}\n{wrong}\n{logs}");
    let report = read(&place, "coordinator/output/report.html");
    assert!(report.contains("Forest plot: odds ratio"));
    for name in NAMES {
        assert_eq!(read(&place, &format!("{name}/{name}-report/report.html")), report, "{name}");
        let log = read(&place, &format!("{name}/{name}.log"));
        assert!(log.contains("the report of the study is in") && log.contains(" bytes sent in "), "{log}");
        assert!(log.contains("run finished `"), "{log}");
    }
    #[cfg(unix)]
    for key in ["north/north.key", "link/ca.key", "link/link.key"] {
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(place.join(key)).unwrap().permissions());
        assert_eq!(mode & 0o077, 0, "{key}");
    }
}

/// The numbers that the table of a page has `now` for a party, in their order.
fn claimed(page: &str, party: &str, what: &str) -> Vec<usize> {
    let start = format!("| {party} | {what} | ");
    let line = page.lines().find(|line| line.starts_with(&start)).unwrap_or_else(|| panic!("no row `{start}`"));
    let now = line.trim_end_matches(" |").rsplit(" | ").next().unwrap();
    now.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// Who types a command of the page of three hospitals.
fn who_types(command: &str) -> &'static str {
    let words: Vec<&str> = command.split_whitespace().collect();
    match words.as_slice() {
        ["partita", "describe", ..] => "hospital, to look",
        ["partita", "init", "silo", ..] | ["partita", "silo", ..] => "hospital",
        ["partita", "init", "study" | "coordinator", ..] | ["partita", "coordinator", ..] => "coordinator",
        ["partita", "keys", "link", ..] | ["flower-superlink", ..] => "operator",
        ["flwr", "supernode", "register", ..] => "operator, for a hospital",
        // Who has rows deals none.
        ["partita", "init", "example", ..] => "whoever tries the page",
        _ => panic!("whose is `{command}`?"),
    }
}

#[test]
fn what_the_page_of_three_hospitals_counts_for_each_party_is_what_it_has_them_do() {
    let (text, blocks) = (text_of("tutorial-three-hospitals.md"), page("tutorial-three-hospitals.md").concat());
    // A command in a loop over hospitals is one of each.
    let joined = blocks.replace("\\\n", " ");
    let parts = joined.split(['\n', ';', '(', ')']).flat_map(|line| line.split("&&"));
    let parts = parts.map(|own| own.trim().trim_start_matches("do ").trim_start_matches("exec "));
    let programs = ["partita ", "flwr ", "flower-superlink "];
    let mut typed: BTreeMap<&str, usize> = BTreeMap::new();
    for command in parts.filter(|own| programs.iter().any(|program| own.starts_with(program))) {
        *typed.entry(who_types(command)).or_default() += 1;
    }
    let operator = "operator of the SuperLink";
    assert_eq!(claimed(&text, "hospital", "types"), [typed["hospital"], typed["hospital, to look"]], "{typed:?}");
    assert_eq!(claimed(&text, "coordinator", "types"), [typed["coordinator"]], "{typed:?}");
    assert_eq!(claimed(&text, operator, "types"), [typed["operator"], typed["operator, for a hospital"]], "{typed:?}");

    // What is written by hand is the operator's alone.
    let by_hand: Vec<&str> = blocks.split("cat > ").skip(1).filter_map(|rest| rest.lines().next()).collect();
    assert!(by_hand.iter().all(|line| line.contains("config.toml")), "{by_hand:?}");
    let written = |commands: &[&[&str]]| {
        let folder = tempfile::tempdir().unwrap();
        for arguments in commands {
            fixtures::said(folder.path(), arguments);
        }
        let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let (files, keys): (Vec<_>, Vec<_>) = names.partition(|path| path.extension().is_some_and(|own| own == "toml"));
        [files.len(), keys.len()]
    };
    let [files, keys] = written(&[&["init", "silo", "north", "--data", "north.csv", "--link", "127.0.0.1:8000"]]);
    assert_eq!(claimed(&text, "hospital", "writes"), [0, files, keys]);
    let [files, keys] = written(&[
        &["init", "study", FORMULA, "--family", "bernoulli", "--silo", "north"],
        &["init", "coordinator", "--link", "127.0.0.1:8000", "--silo", "north"],
    ]);
    assert_eq!(claimed(&text, "coordinator", "writes"), [0, files, keys]);
    let [files, keys] = written(&[&["keys", "link"]]);
    assert_eq!((claimed(&text, operator, "writes"), files), (vec![by_hand.len(), keys], 0));
}

/// Everything that the engine was given through this relay.
fn stored(relay: &Proxy) -> Arc<Mutex<Vec<Vec<u8>>>> {
    let all: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let kept = Arc::clone(&all);
    relay.rule(move |_, _, body| {
        kept.lock().unwrap().push(body.to_vec());
        Action::Pass
    });
    all
}

#[test]
fn the_report_that_silos_are_told_is_sealed_to_each_and_nothing_of_it_is_with_the_engine() {
    let Some((scratch, deployment)) = Deployment::capped(NAMES.len()) else { return };
    for is_sealed in [true, false] {
        let folder = &scratch.path().join(if is_sealed { "sealed" } else { "open" });
        std::fs::create_dir_all(folder).unwrap();
        let own = if is_sealed { "coordinator = \"coordinator.pub\"" } else { "" };
        write_files(folder, &deployment, &study(""), own);
        fixtures::said(folder, &["keys", "coordinator"]);
        let relay = Proxy::before(&deployment.coordinator().address);
        let text = read(folder, "coordinator.toml").replace(&deployment.coordinator().address, &relay.engine().address);
        std::fs::write(folder.join("coordinator.toml"), format!("key = \"coordinator.key\"\n{text}")).unwrap();
        let passed = stored(&relay);
        let _silos: Vec<Running> = NAMES.iter().map(|name| start(folder, "silo", name)).collect();
        wait(&mut start(folder, "coordinator", "coordinator"));
        let said = read(folder, "coordinator.log");
        assert!(said.contains("verdict"), "{said}");
        // Every silo has it, and the engine has it, or not a word of it.
        for name in NAMES {
            assert!(
                read(folder, &format!("{name}-report/result.json")) == read(folder, "output/result.json"),
                "{name}"
            );
        }
        let passed = passed.lock().unwrap();
        let has = |word: &[u8]| passed.iter().any(|bytes| bytes.windows(word.len()).any(|part| part == word));
        assert!(has(b"formula.model"), "what is no report is as it was");
        let found: Value = serde_json::from_str(&read(folder, "output/result.json")).unwrap();
        let mean = found["sites"][0]["mean"].to_string();
        for word in ["formula.report", "\"marginals\"", "\"verdict\"", &mean] {
            assert_eq!(has(word.as_bytes()), !is_sealed, "{word}");
        }
        assert_eq!(said.contains("the report is not sealed to north, south, west"), !is_sealed, "{said}");
    }
}
