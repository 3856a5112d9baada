//! Claims that what is written for a deployment is what the program reads: files of parties, keys, units, manual pages.

use std::path::Path;
use std::process::Command;

use fixtures::visits::FORMULA;
use fixtures::{refused, said};
use partita::executables::{CoordinatorFile, SiloFile, StudyFile};
use partita::flower::{NodeKey, PartyKey, PartyPublicKey, read_toml};

#[test]
fn the_files_of_every_party_are_written_once_and_can_be_read() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let study = ["init", "study", FORMULA, "--family", "bernoulli", "--silo", "north", "--silo", "south"];
    said(folder, &study);
    let read = StudyFile::read(&folder.join("study.toml")).unwrap();
    assert_eq!((read.formula.as_str(), read.silos.len(), read.seed), (FORMULA, 2, 1));
    assert_eq!(read.asks().unwrap(), ["formula", "few", "trust"]);
    // Every line that is commented out is one that can be taken in.
    let text = std::fs::read_to_string(folder.join("study.toml")).unwrap();
    let all: Vec<&str> = text
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(rest) if rest.contains(" = ") || rest.starts_with('[') => rest,
            _ => line,
        })
        .collect();
    let all = StudyFile::parse(&all.join("\n")).unwrap();
    assert_eq!(all.priors.len(), 2);
    assert_eq!((all.checks.len(), all.leave_one_out_draws, all.declared.levels["sex"].len()), (2, 1000, 2));
    assert_eq!(all.asks.unwrap().len(), 6);

    said(folder, &["init", "silo", "north", "--data", "a \"b\".csv", "--link", "example.org:8000"]);
    let silo: SiloFile = read_toml(&folder.join("north.toml")).unwrap();
    assert_eq!((silo.name.as_str(), silo.data.to_str().unwrap()), ("north", "a \"b\".csv"));
    assert_eq!(silo.engine.key.unwrap(), Path::new("north.key"));
    assert!(NodeKey::read(&folder.join("north.pub")).is_ok());
    let own = PartyKey::read(&folder.join(silo.signs.unwrap())).unwrap().public();
    assert_eq!(PartyPublicKey::read(&folder.join("north-signs.pub")).unwrap(), own);
    said(folder, &["init", "coordinator", "--link", "example.org:8000", "--silo", "north"]);
    let coordinator: CoordinatorFile = read_toml(&folder.join("coordinator.toml")).unwrap();
    assert_eq!(coordinator.keys["north"], Path::new("north.pub"));
    assert_eq!(coordinator.signatures["north"], Path::new("north-signs.pub"));

    for again in [&study[..], &["keys", "silo", "north"], &["init", "coordinator", "--link", "l:1"]] {
        let wrong = refused(folder, again);
        assert!(wrong.contains("is there already"), "{wrong}");
    }
    let wrong = refused(folder, &["init", "study", "y ~ lgo(x)", "--family", "poisson", "--silo", "a"]);
    assert!(wrong.contains("Did you mean `log`?"));
}

#[test]
fn a_silo_whose_owner_allows_more_than_the_study_lists_does_not_start() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let study = "formula = \"y ~ x\"\nfamily = \"gaussian\"\nsilos = [\"north\"]\n";
    let silo = "name = \"north\"\ndata = \"north.csv\"\nstate = \"north-state\"\nallow = [\"formula\", \"few\", \"trust\", \"average\"]\n\
                [engine]\naddress = \"127.0.0.1:1\"\npatience_seconds = 0\n";
    std::fs::write(folder.join("north.toml"), silo).unwrap();
    let said = |more: &str| {
        std::fs::write(folder.join("study.toml"), format!("{study}{more}")).unwrap();
        refused(folder, &["silo", "--study", "study.toml", "--silo", "north.toml"])
    };
    let found = said("asks = [\"formula\", \"few\", \"trust\"]\n");
    assert!(
        found.contains("`average` in `allow` of the silo's file") && found.contains("`asks` of study.toml"),
        "{found}"
    );
    let found = said("asks = [\"formula\", \"few\"]\n");
    assert!(found.contains("study.toml") && found.contains("no `trust` among formula, few"), "{found}");
    // Without the entry it is started: its rows are missing.
    assert!(!said("").contains("`asks`"));
}

#[test]
fn keys_and_certificates_are_those_that_openssl_verifies() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    said(folder, &["keys", "link", "--host", "link.example.org", "--host", "10.0.0.1"]);
    let openssl = |arguments: &[&str]| Command::new("openssl").current_dir(folder).args(arguments).output();
    let Ok(verified) = openssl(&["verify", "-CAfile", "ca.pem", "-verify_hostname", "link.example.org", "link.pem"])
    else {
        fixtures::skip("engine", "openssl is not installed");
        return;
    };
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
    let other = openssl(&["verify", "-CAfile", "ca.pem", "-verify_hostname", "other.example.org", "link.pem"]).unwrap();
    assert!(!other.status.success());
    said(folder, &["keys", "silo", "north"]);
    let public = openssl(&["pkey", "-in", "north.key", "-pubout"]).unwrap();
    assert!(String::from_utf8_lossy(&public.stdout).contains("BEGIN PUBLIC KEY"));
}

#[test]
fn manual_pages_and_completions_name_every_task() {
    let scratch = tempfile::tempdir().unwrap();
    said(scratch.path(), &["manual", "pages"]);
    for task in ["fit", "check", "simulate", "calibrate", "report", "describe", "silo", "coordinator", "keys", "init"] {
        assert!(scratch.path().join("pages").join(format!("partita-{task}.1")).is_file(), "{task}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let text = said(scratch.path(), &["completions", shell]);
        assert!(text.contains("coordinator") && text.contains("keys"), "{shell}");
    }
}

#[test]
fn the_units_are_those_that_systemd_takes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging");
    let scratch = tempfile::tempdir().unwrap();
    let units = ["partita-silo@.service", "partita-coordinator.service"].map(|name| {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        let command = text.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/partita ")).unwrap();
        // What it starts is a command that the program has: the files alone are missing.
        let words: Vec<String> = command.split(' ').map(|word| word.replace("%i", "north")).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let done = fixtures::command(scratch.path(), &words);
        let wrong = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(wrong.contains(".toml: No such file"), "{name}: {wrong}");
        let path = scratch.path().join(name.replace("@.", "@north."));
        let built = fixtures::executable("partita");
        let text =
            text.replace("/usr/local/bin/partita", &built.display().to_string()).replace("User=partita", "User=root");
        std::fs::write(&path, text).unwrap();
        path
    });
    let Ok(verified) = Command::new("systemd-analyze").arg("verify").args(&units).output() else {
        fixtures::skip("systemd", "systemd-analyze is not installed");
        return;
    };
    let wrong = String::from_utf8_lossy(&verified.stderr).into_owned();
    assert!(verified.status.success() && !wrong.contains("partita-"), "{wrong}");
}

#[test]
fn the_units_name_every_file_that_their_party_must_have() {
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging");
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    said(folder, &["init", "silo", "north", "--data", "north.csv", "--link", "example.org:8000"]);
    said(folder, &["init", "coordinator", "--link", "example.org:8000", "--silo", "north"]);
    for (unit, file) in [("partita-silo@.service", "north.toml"), ("partita-coordinator.service", "coordinator.toml")] {
        let text = std::fs::read_to_string(packaging.join(unit)).unwrap().replace("%i", "north");
        let comment: Vec<&str> = text.lines().take_while(|line| line.starts_with('#')).collect();
        let comment = comment.join("\n");
        let is_of_name = |own: char| own.is_ascii_alphanumeric() || "-_.".contains(own);
        let named: Vec<&str> =
            comment.split(|own: char| !is_of_name(own)).map(|own| own.trim_end_matches('.')).collect();
        // What the party's own file names, less what stands there as an example.
        let written = std::fs::read_to_string(folder.join(file)).unwrap();
        let lines = written.lines().filter(|line| !line.starts_with('#'));
        let quoted = lines.flat_map(|line| line.split('"').skip(1).step_by(2));
        let endings = [".toml", ".key", ".pub", ".pem", ".csv"];
        let files = quoted.filter(|own| endings.iter().any(|ending| own.ends_with(ending)));
        let needed: Vec<&str> = files.chain([file, "study.toml"]).collect();
        assert!(needed.len() > 5, "{needed:?}");
        let missing: Vec<&&str> = needed.iter().filter(|own| !named.contains(own)).collect();
        assert!(missing.is_empty(), "{unit} does not name {missing:?}");
    }
}

#[test]
fn the_program_links_the_library_of_the_system_alone() {
    let program = fixtures::executable("partita");
    let Ok(done) = Command::new("ldd").arg(&program).output() else {
        fixtures::skip("ldd", "ldd is not there: this system's library is not glibc");
        return;
    };
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let linked: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(linked.iter().any(|own| own.starts_with("libc.so")), "{text}");
    // glibc in its parts, the loader, the kernel's page, and the unwinder of GCC, which Debian's glibc depends on itself.
    let parts = ["libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "libgcc_s.so", "linux-vdso.so"];
    let is_system = |own: &&&str| parts.iter().any(|part| own.starts_with(part)) || own.contains("/ld-linux");
    let others: Vec<&&str> = linked.iter().filter(|own| !is_system(own)).collect();
    assert!(others.is_empty(), "a machine that installs the program needs {others:?} too:\n{text}");
}

#[test]
fn the_container_file_builds_with_a_compiler_that_is_new_enough_and_starts_the_program() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = std::fs::read_to_string(folder.join("packaging/Containerfile")).unwrap();
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    let after = |text: &str, words: &str| -> String {
        let (_, rest) = text.split_once(words).unwrap_or_else(|| panic!("no {words}"));
        rest.chars().take_while(|letter| letter.is_ascii_digit() || *letter == '.').collect()
    };
    assert_eq!(after(&text, "FROM docker.io/library/rust:"), after(&manifest, "rust-version = \""));
    // The system of the build is that of the program, which links its library.
    for words in [
        "-slim-bookworm AS build",
        "debian:bookworm-slim",
        "--features cli ",
        "ENTRYPOINT [\"/usr/local/bin/partita\"]",
    ] {
        assert!(text.contains(words), "{words}");
    }
    // It copies the tree: without what is built, which is many gigabytes.
    let left_out = std::fs::read_to_string(folder.join(".dockerignore")).unwrap();
    assert!(["target", ".git"].iter().all(|own| left_out.lines().any(|line| line == *own)), "{left_out}");
}
