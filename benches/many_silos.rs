//! Runs fifty silos, each a process, against one SuperLink, and prints memory, time and calls of the SuperLink.
//!
//! `cargo build --release --bins`, then `PARTITA_FLOWER=engine/bin cargo bench -p partita-benches --bench many_silos --
//! --silos 50 --rounds 20`. The six-cities study is dealt to the silos, which answer rounds of SFVI-Avg. Each silo is a node of
//! the SuperLink. With `--most-calls 460` it fails where the median of calls a round is above that. With `--supernodes` each has a
//! SuperNode, stock with its idle sleep of three seconds; these are forked from one process that has imported the engine, which
//! saves the memory of fifty interpreters.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench prints, and a failure in it is to be loud")]

use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fixtures::counting::Counting;
use fixtures::engine::{Deployment, Running, installed};
use fixtures::executable;
use partita::models::six_cities;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const LOCAL_STEPS: u64 = 20;

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let number = |name: &str, default: usize| {
        let place = words.iter().position(|word| word == name);
        place.map_or(default, |place| words[place + 1].parse().unwrap())
    };
    // `cargo test --benches` does not run it.
    if !words.iter().any(|word| word == "--bench" || word == "--silos") {
        return;
    }
    let Some(programs) = installed() else { return };
    let (silos, rounds) = (number("--silos", 50), number("--rounds", 20));
    let scratch = tempfile::tempdir().unwrap();
    let started = Instant::now();
    let nodes = if words.iter().any(|word| word == "--supernodes") { silos } else { 0 };
    let deployment = Deployment::forked(&programs, scratch.path(), nodes);
    println!("SuperLink and {nodes} SuperNodes after {:.0} s", started.elapsed().as_secs_f64());
    let door = Counting::before(&deployment.coordinator());
    deal(scratch.path(), (silos, rounds), &deployment, &door);

    let own = |index: usize| start(scratch.path(), "silo", &format!("silo-{index:02}"));
    let parties: Vec<Running> = (0..silos).map(own).collect();
    let mut coordinator = start(scratch.path(), "coordinator", "coordinator");
    let (mut seen, mut times, mut calls, mut names) = (0, Vec::new(), Vec::new(), Vec::new());
    let mut memory = Memory::default();
    while !coordinator.is_over() {
        let metrics = std::fs::read_to_string(scratch.path().join("output/metrics.jsonl")).unwrap_or_default();
        let now = metrics.lines().count();
        if now > seen {
            seen = now;
            times.push(started.elapsed().as_secs_f64());
            calls.push([door.calls(), door.looks()]);
            names.push(door.by_name());
            memory.look(&coordinator, &parties, &deployment);
        }
        assert!(started.elapsed() < Duration::from_secs(1_800), "it has not ended:\n{}", log(scratch.path()));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(seen, rounds, "rounds are missing:\n{}", log(scratch.path()));
    assert!(scratch.path().join("output/result.json").exists(), "there is no report:\n{}", log(scratch.path()));
    memory.say();
    let mut each: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    each.sort_by(f64::total_cmp);
    println!("a round: median {:.1} s, longest {:.1} s", each[each.len() / 2], each[each.len() - 1]);
    let mut medians = Vec::new();
    for (place, what) in ["calls", "of which looks of nodes for a message"].into_iter().enumerate() {
        let mut each: Vec<u64> = calls.windows(2).map(|pair| pair[1][place] - pair[0][place]).collect();
        each.sort_unstable();
        println!("a round, {what}: median {}, most {}", each[each.len() / 2], each[each.len() - 1]);
        medians.push(each[each.len() / 2]);
    }
    if let (Some(first), Some(last)) = (names.first(), names.last()) {
        for (name, count) in last {
            let each = (count - first.get(name).unwrap_or(&0)) as f64 / (rounds.max(2) - 1) as f64;
            println!("a round, {name}: {each:.1}");
        }
    }
    print!("{}", log(scratch.path()).lines().filter(|line| line.contains("crossed")).collect::<String>() + "\n");
    let most = number("--most-calls", usize::MAX) as u64;
    assert!(medians[0] <= most, "{} calls a round, at most {most} are allowed", medians[0]);
}

/// Deals the children of the study to the silos in turn and writes every party's files.
fn deal(folder: &Path, (silos, rounds): (usize, usize), deployment: &Deployment, door: &Counting) {
    let names: Vec<String> = (0..silos).map(|index| format!("silo-{index:02}")).collect();
    let run = format!(
        "model = \"six-cities\"\nalgorithm = \"sfvi-avg\"\nsilos = {names:?}\nsteps = {}\nlocal_steps = {LOCAL_STEPS}\n\
         elbo_draws = 50\n",
        rounds as u64 * LOCAL_STEPS
    );
    std::fs::write(folder.join("run.toml"), run).unwrap();
    let engine = |address: &str| format!("[engine]\naddress = \"{address}\"\npatience_seconds = 120\n");
    let through = door.engine().address;
    let children = six_cities();
    for (index, name) in names.iter().enumerate() {
        let mut table = "smoke,age_7,age_8,age_9,age_10\n".to_owned();
        for child in children.iter().skip(index).step_by(silos) {
            let numbers = [child.smoke].into_iter().chain(child.wheeze).map(|yes| u8::from(yes).to_string());
            writeln!(table, "{}", numbers.collect::<Vec<_>>().join(",")).unwrap();
        }
        std::fs::write(folder.join(format!("{name}.csv")), table).unwrap();
        let own = match deployment.has_nodes() {
            true => engine(&deployment.silo(index).address),
            false => {
                let made =
                    Command::new(executable("partita")).args(["keys", "silo", name]).current_dir(folder).output();
                assert!(made.unwrap().status.success(), "{name} has no key");
                engine(&through) + &format!("key = \"{name}.key\"\n")
            }
        };
        let own = format!(
            "name = \"{name}\"\nallow = [\"avg\", \"sfvi\"]\ndata = \"{name}.csv\"\nstate = \"{name}-state\"\n{own}"
        );
        std::fs::write(folder.join(format!("{name}.toml")), own).unwrap();
    }
    let own = format!(
        "state = \"state\"\noutput = \"output\"\nappear_seconds = 900\ndeadline_seconds = 600\n{}",
        engine(&through)
    );
    std::fs::write(folder.join("coordinator.toml"), own).unwrap();
}

fn start(folder: &Path, task: &str, name: &str) -> Running {
    let log = File::create(folder.join(format!("{name}.log"))).unwrap();
    let mut command = Command::new(executable("partita"));
    command.arg(task);
    if name != "coordinator" {
        command.args(["--silo", &format!("{name}.toml")]);
    }
    command.current_dir(folder).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    Running::spawn(&mut command)
}

fn log(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("coordinator.log")).unwrap_or_default()
}

/// The most memory that each party has used, in MB.
#[derive(Debug, Default)]
struct Memory {
    coordinator: f64,
    silos: Vec<f64>,
    link: f64,
    nodes: f64,
}

impl Memory {
    fn look(&mut self, coordinator: &Running, silos: &[Running], deployment: &Deployment) {
        self.coordinator = self.coordinator.max(of(coordinator.id(), "VmHWM"));
        self.silos = silos.iter().map(|silo| of(silo.id(), "VmHWM")).collect();
        self.link = self.link.max(of(deployment.link.id(), "VmHWM"));
        // What the nodes have shared since the fork counts once.
        let shares = |id: u32| proportional(id);
        self.nodes = self.nodes.max(deployment.nodes.iter().flat_map(|node| family(node.id())).map(shares).sum());
    }

    fn say(&self) {
        let count = self.silos.len() as f64;
        let most = self.silos.iter().copied().fold(0.0, f64::max);
        println!("coordinator: {:.0} MB", self.coordinator);
        println!("silos: {most:.0} MB at most, {:.1} MB on average", self.silos.iter().sum::<f64>() / count);
        println!("SuperLink: {:.0} MB; all SuperNodes together: {:.0} MB", self.link, self.nodes);
    }
}

/// An entry of a process's status, in MB.
fn of(id: u32, entry: &str) -> f64 {
    kilobytes(&std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default(), entry)
}

/// A process's memory in MB, with each shared page divided among the processes that share it.
fn proportional(id: u32) -> f64 {
    kilobytes(&std::fs::read_to_string(format!("/proc/{id}/smaps_rollup")).unwrap_or_default(), "Pss")
}

fn kilobytes(text: &str, entry: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(entry)?.strip_prefix(':'));
    line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok()).unwrap_or(0.0) / 1_024.0
}

/// A process and its children.
fn family(id: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    std::iter::once(id).chain(children.split_whitespace().filter_map(|child| child.parse().ok())).collect()
}
