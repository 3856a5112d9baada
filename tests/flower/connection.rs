//! Plain HTTP, proxies, redirections and certificates: a party speaks to its engine, and to nothing else.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fixtures::engine::{free_ports, installed, spawn, wait_for};
use fixtures::table::{how, patience};
use partita::flower::{Engine, Error, Flower, Log, LostSilo};

/// The error of a coordinator at this engine.
fn refused(engine: Engine) -> Error {
    let how = how(Engine { patience_seconds: 0, ..engine }, &["north".to_owned()], 1, patience(5, LostSilo::Wait));
    Flower::connect(how, "a run of a test").unwrap_err()
}

/// A server that counts its visitors and answers each with this.
fn server(answer: impl Fn() -> String + Send + 'static) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, count) = (listener.local_addr().unwrap().to_string(), Arc::new(AtomicUsize::new(0)));
    let own = Arc::clone(&count);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            own.fetch_add(1, Ordering::Relaxed);
            let _ = stream.read(&mut [0; 4_096]);
            let _ = stream.write_all(answer().as_bytes());
        }
    });
    (address, count)
}

const NOTHING: &str = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

#[test]
fn a_connection_without_encryption_to_another_machine_needs_a_word_in_the_file() {
    // An address of this machine that need not be of this machine alone.
    let started = Instant::now();
    let elsewhere = Engine::insecure("0.0.0.0:9");
    let found = refused(elsewhere.clone()).to_string();
    assert!(found.contains("none to 0.0.0.0:9") && found.contains("insecure = true"), "{found}");
    assert!(started.elapsed() < Duration::from_secs(20));
    assert!(matches!(refused(Engine { insecure: true, ..elsewhere }), Error::Transport { .. }));
    for here in ["localhost:9", "127.0.0.9:9", "[::1]:9"] {
        assert!(matches!(refused(Engine::insecure(here)), Error::Transport { .. }), "{here}");
    }
    for not_here in ["127.0.0.1.example.org:9", "localhost.example.org:9"] {
        assert!(matches!(refused(Engine::insecure(not_here)), Error::Unwelcome { .. }), "{not_here}");
    }
}

#[test]
fn a_proxy_of_the_environment_is_not_asked_and_a_redirection_is_not_followed() {
    let (proxy, visitors) = server(|| NOTHING.into());
    let folder = tempfile::tempdir().unwrap();
    let run = "model = \"six-cities\"\nalgorithm = \"pvi\"\nsilos = [\"a\"]\nsteps = 20\nlocal_steps = 10\n";
    std::fs::write(folder.path().join("run.toml"), run).unwrap();
    let file = "state = \"s\"\noutput = \"o\"\n[engine]\naddress = \"127.0.0.1:1\"\npatience_seconds = 0\n";
    std::fs::write(folder.path().join("coordinator.toml"), file).unwrap();
    let mut command = Command::new(fixtures::executable("partita"));
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY"] {
        command.env(name, format!("http://{proxy}"));
    }
    let found = command.arg("coordinator").current_dir(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&found.stderr).into_owned();
    assert!(said.contains("starting a run at 127.0.0.1:1: no answer"), "{said}");
    assert_eq!(visitors.load(Ordering::Relaxed), 0);

    let (other, visitors) = server(|| NOTHING.into());
    let answer =
        format!("HTTP/1.1 307 Moved\r\nlocation: http://{other}/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    let (engine, asked) = server(move || answer.clone());
    let found = refused(Engine::insecure(&engine));
    assert!(matches!(found, Error::Refused { status: 307, .. }), "{found}");
    assert_eq!((asked.load(Ordering::Relaxed), visitors.load(Ordering::Relaxed)), (1, 0));
}

#[test]
fn every_authority_of_a_file_is_trusted_and_a_certificate_is_shown_to_an_engine_that_asks_for_one() {
    let Some(programs) = installed() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let script = |name: &str| format!("{}/engine/{name}", env!("CARGO_MANIFEST_DIR"));
    let python = || Command::new(programs.join("python"));
    assert!(python().arg(script("certificates.py")).arg(folder.path()).arg("0").status().unwrap().success());
    let port = free_ports(1)[0];
    let mut command = python();
    command.arg(script("asks_for_a_certificate.py")).arg(folder.path()).arg(port.to_string());
    let _server = spawn(command, folder.path(), "server");
    wait_for(port);

    let both = [std::fs::read(path("other.pem")).unwrap(), std::fs::read(path("ca.pem")).unwrap()].concat();
    std::fs::write(path("both.pem"), both).unwrap();
    let engine = |authorities: &str| Engine {
        certificate_authority: Some(path(authorities)),
        ..Engine::insecure(&format!("127.0.0.1:{port}"))
    };
    let shown = |authorities: &str| Engine {
        client_certificate: Some(path("client.pem")),
        client_key: Some(path("client.key")),
        ..engine(authorities)
    };
    assert!(matches!(refused(shown("other.pem")), Error::Untrusted { .. }));
    for authorities in ["ca.pem", "both.pem"] {
        // The server answers 418 once it has seen the certificate.
        let found = refused(shown(authorities));
        assert!(matches!(found, Error::Refused { status: 418, .. }), "{authorities}: {found}");
    }
    let found = refused(engine("ca.pem"));
    assert!(matches!(found, Error::Transport { .. } | Error::Untrusted { .. }), "{found}");
    let half = Engine { client_key: None, ..shown("ca.pem") };
    assert!(refused(half).to_string().contains("`client_key`"));
    // A private key among the authorities is in the wrong file.
    let found = refused(engine("client.key")).to_string();
    assert!(found.contains("client.key") && found.contains("private key"), "{found}");
}

/// An engine of a test: what it answers a call of this path with, and the paths it was called by.
fn engine_of(answers: fn(&str) -> &'static [u8]) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, called) = (listener.local_addr().unwrap().to_string(), Arc::new(Mutex::new(Vec::new())));
    let own = Arc::clone(&called);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(&stream);
            let head: Vec<String> =
                reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
            let length =
                head.iter().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            let _ = reader.read_exact(&mut vec![0; length.unwrap_or(0)]);
            let path = head.first().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
            let path = path.trim_start_matches("/v1/").to_owned();
            let answer = answers(&path);
            own.lock().unwrap().push(path);
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", answer.len());
            let _ = stream.write_all(&[head.as_bytes(), answer].concat());
        }
    });
    (address, called)
}

/// A coordinator at this engine that is interrupted after two seconds; how long it took, and what it said.
fn interrupted(address: &str) -> (Error, Duration, Vec<String>) {
    let how = how(Engine::insecure(address), &["north".to_owned()], 1, patience(300, LostSilo::Wait));
    let (interrupt, said) = (Arc::clone(&how.interrupt), Arc::new(Mutex::new(Vec::new())));
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(2));
        interrupt.store(true, Ordering::Relaxed);
    });
    let (began, own) = (Instant::now(), Arc::clone(&said));
    let log: Log = Arc::new(move |line| own.lock().unwrap().push(line.to_owned()));
    let error = Flower::connect_with(how, "a run of a test", log).unwrap_err();
    let said = said.lock().unwrap().clone();
    (error, began.elapsed(), said)
}

#[test]
fn a_coordinator_that_waits_for_its_task_says_so_and_hears_its_user() {
    // Run 7 is started, and has no task.
    let (address, _) = engine_of(|path| if path == "control/start-run" { &[8, 7] } else { &[] });
    let (error, took, said) = interrupted(&address);
    assert!(matches!(error, Error::Interrupted { .. }) && took < Duration::from_secs(10), "{error}, {took:?}");
    assert!(
        said.iter().any(|line| line.contains("waiting for the engine to give this coordinator its task")),
        "{said:?}"
    );
}

#[test]
fn a_coordinator_ends_no_run_of_another_that_starts_with_it() {
    // Run 7 is started, and the oldest task is that of run 6, whose coordinator is about to take it.
    let (address, called) = engine_of(|path| match path {
        "control/start-run" => &[8, 7],
        "runtime/send-task-heartbeat" => &[8, 1],
        "runtime/acquire-task" => &[10, 4, 8, 3, 24, 6, 18, 1, b't'],
        _ => &[],
    });
    let (error, _, _) = interrupted(&address);
    assert!(matches!(error, Error::Interrupted { .. }), "{error}");
    let called = called.lock().unwrap();
    let count = |path: &str| called.iter().filter(|own| own.as_str() == path).count();
    // It goes on with that task, and ends it once, when its user has given up.
    assert!(count("runtime/acquire-task") == 1 && count("runtime/push-task-output") == 1, "{called:?}");
}
