//! Reads the configuration files of the executables: misspelt and invalid entries are refused by name.

use partita::executables::{CoordinatorFile, SiloFile};
use partita::flower::{LostSilo, read_toml};

#[test]
fn a_misspelt_entry_of_a_configuration_file_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file.toml");
    let honest = "state = \"s\"\noutput = \"o\"\ndeadline_seconds = 7\n";
    let engine = "[engine]\naddress = \"127.0.0.1:1\"\n";
    std::fs::write(&path, format!("{honest}{engine}")).unwrap();
    let file: CoordinatorFile = read_toml(&path).unwrap();
    assert_eq!((file.patience.deadline_seconds, file.patience.attempts), (7, 10));
    std::fs::write(&path, format!("{honest}deadline_second = 7\n{engine}")).unwrap();
    let found = read_toml::<CoordinatorFile>(&path).unwrap_err();
    assert!(found.to_string().contains("deadline_second"), "{found}");
    // The error names the wrong key, not the key that is missing because of it.
    std::fs::write(&path, format!("{}{engine}", honest.replace("output", "outptu"))).unwrap();
    let found = read_toml::<CoordinatorFile>(&path).unwrap_err().to_string();
    assert!(found.contains("unknown field `outptu`") && found.contains("line 2"), "{found}");
    let bounded = "largest_request = 5000000\n";
    let silo = "name = \"north\"\nallow = [\"avg\"]\ndata = \"example:1\"\nstate = \"s\"\n";
    std::fs::write(&path, format!("{silo}{engine}")).unwrap();
    assert_eq!(read_toml::<SiloFile>(&path).unwrap().largest_request, None);
    std::fs::write(&path, format!("{silo}{bounded}{engine}")).unwrap();
    let file: SiloFile = read_toml(&path).unwrap();
    assert_eq!((&*file.name, file.largest_request), ("north", Some(5_000_000)));
    std::fs::write(&path, format!("{silo}allowed = []\n{engine}")).unwrap();
    let found = read_toml::<SiloFile>(&path).unwrap_err();
    assert!(found.to_string().contains("allowed"), "{found}");
}

#[test]
fn a_policy_for_lost_silos_or_a_key_that_cannot_be_is_refused_before_the_engine_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let run = |algorithm: &str| {
        format!(
            "model = \"six-cities\"\nalgorithm = \"{algorithm}\"\nsilos = [\"a\", \"b\"]\nsteps = 20\nlocal_steps = 10\n"
        )
    };
    fixtures::said(folder.path(), &["keys", "silo", "a"]);
    // Nothing listens there, and no party waits for it.
    let engine = "state = \"s\"\noutput = \"o\"\n[engine]\naddress = \"127.0.0.1:1\"\npatience_seconds = 0\n";
    for (algorithm, policy, expected) in [
        ("sfvi-avg", "lost_silo = \"go-on\"\nquorum = 1\n", "expected `pvi`"),
        ("pvi", "lost_silo = \"go-on\"\n", "`go-on` without a quorum"),
        ("pvi", "lost_silo = \"go-on\"\nquorum = 3\n", "the quorum: found 3, expected 1 to 2"),
        ("pvi", "quorum = 2\n", "a quorum of 2 with `wait`"),
        ("pvi", "keys = { c = \"c.pub\" }\n", "a name among the keys: found `c`, expected one of a, b"),
        ("pvi", "keys = { a = \"run.toml\" }\n", "its kind is none of ecdsa-sha2-nistp256"),
        ("pvi", "keys = { a = \"a.pub\", b = \"a.pub\" }\n", "a key under `[keys]`: found the same for `a` and `b`"),
        (
            "pvi",
            "signatures = { a = \"a-signs.pub\", b = \"a-signs.pub\" }\n",
            "`[signatures]`: found the same for `a` and",
        ),
        ("pvi", "lost_silo = \"maybe\"\n", "`wait`, `go-on`, `fail`"),
        ("pvi", "lost_silo = \"go-on\"\nquorum = 1\n", "starting a run at 127.0.0.1:1: no answer"),
    ] {
        write("run.toml", &run(algorithm));
        write("coordinator.toml", &format!("{policy}{engine}"));
        let said = fixtures::refused(folder.path(), &["coordinator"]);
        assert!(said.contains(expected), "{algorithm} {policy}: {said}");
    }
    for address in ["https://127.0.0.1:1", "127.0.0.1", "127.0.0.1:1/"] {
        write("coordinator.toml", &engine.replace("127.0.0.1:1", address));
        let said = fixtures::refused(folder.path(), &["coordinator"]);
        let expected = format!("the address of the engine: found `{address}`, expected `host:port`");
        assert!(said.contains(&expected), "{said}");
    }
    write("coordinator.toml", &format!("lost_silo = \"fail\"\n{engine}"));
    let file: CoordinatorFile = read_toml(&folder.path().join("coordinator.toml")).unwrap();
    assert_eq!(file.patience.lost_silo, LostSilo::Fail);
}

#[test]
fn a_run_of_days_is_refused_before_the_engine_is_asked_unless_its_owner_wants_it() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("run.toml", "model = \"six-cities\"\nalgorithm = \"sfvi\"\nsilos = [\"a\"]\nsteps = 120000\n");
    // Nothing listens there, and no party waits for it.
    let engine = "state = \"s\"\noutput = \"o\"\n[engine]\naddress = \"127.0.0.1:1\"\npatience_seconds = 0\n";
    let said = |file: &str, arguments: &[&str]| {
        write("coordinator.toml", file);
        fixtures::refused(folder.path(), &[&["coordinator"], arguments].concat())
    };
    let refused = said(engine, &[]);
    assert!(refused.contains("120000 rounds of about 1 s each: 1.4 days") && refused.contains("--long"), "{refused}");
    for said in [said(engine, &["--long"]), said(&format!("round_seconds = 0.1\n{engine}"), &[])] {
        assert!(said.contains("This run is long") && said.contains("no answer"), "{said}");
    }
}
