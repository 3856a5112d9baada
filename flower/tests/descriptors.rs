//! Compares every protobuf field that this crate declares with the descriptors of the installed engine.

#![allow(clippy::unwrap_used, reason = "a failure in a test is to be loud")]
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

#[path = "../../tests/fixtures/skip.rs"]
mod skip;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where a field stands, and what it is: message and number, then label, type and name.
type Fields = BTreeMap<(String, u32), [String; 3]>;

const DECLARATIONS: &str = include_str!("../src/wire.rs");

/// The engine's name of a message, where ours is another: theirs are taken, or nested.
fn engine_name(ours: &str) -> &str {
    match ours {
        "Head" => "Message",
        "EngineError" => "Error",
        other => other,
    }
}

/// The fields of our declarations, read from their source: `#[prost(type, label, tag = "n")]` above `name: Type`.
fn declared(source: &str) -> Fields {
    let mut fields = Fields::new();
    let mut message = String::new();
    let mut attribute = None;
    for line in source.lines().map(str::trim) {
        let words: Vec<&str> = line.split([' ', '{', '(', ':', ',']).filter(|word| !word.is_empty()).collect();
        if let Some(place) = words.iter().position(|word| *word == "struct") {
            words[place + 1].clone_into(&mut message);
        } else if let Some(inside) = line.strip_prefix("#[prost(").and_then(|rest| rest.strip_suffix(")]")) {
            attribute = Some(inside.to_owned());
        } else if let Some(attribute) = attribute.take() {
            let parts: Vec<&str> = attribute.split(", ").collect();
            let tag = parts.iter().find_map(|part| part.strip_prefix("tag = \"")).unwrap().trim_end_matches('"');
            let kind = parts[0].split(' ').next().unwrap();
            let label = if parts.contains(&"repeated") {
                "many"
            } else if parts.contains(&"optional") {
                "maybe"
            } else {
                "one"
            };
            let line = line.trim_start_matches("pub(crate) ").trim_start_matches("r#");
            let (name, rust) = line.split_once(':').unwrap();
            let rust = rust.trim_end_matches([',', '>', ')']).rsplit('<').next().unwrap().trim();
            let kind = if kind == "message" { engine_name(rust) } else { kind };
            let place = (engine_name(&message).to_owned(), tag.parse().unwrap());
            assert!(fields.insert(place, [label, kind, name].map(str::to_owned)).is_none(), "{message} {tag} twice");
        }
    }
    fields
}

/// The fields that differ from the engine's, each with both.
fn differences(ours: &Fields, theirs: &Fields) -> Vec<String> {
    let differs = |((message, number), field): (&(String, u32), &[String; 3])| {
        let mut field = field.clone();
        // A head's content travels beside it as objects, and stands in it empty.
        if message == "Message" && field[1] == "Empty" {
            "RecordDict".clone_into(&mut field[1]);
        }
        let found = theirs.get(&(message.clone(), *number));
        (found != Some(&field)).then(|| format!("{message} {number}: declared {field:?}, the engine has {found:?}"))
    };
    ours.iter().filter_map(differs).collect()
}

/// The descriptors of the installed engine; says so and gives none where there is no engine.
fn descriptors() -> Option<Fields> {
    let Some(programs) = std::env::var_os("PARTITA_FLOWER").map(PathBuf::from) else {
        skip::skip(
            "engine",
            "the engine is not installed: set PARTITA_FLOWER to the folder of flower-superlink (flwr 1.41)",
        );
        return None;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine/descriptors.py");
    let output = Command::new(programs.join("python")).arg(script).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let field = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [message, number, label, kind, name] = words[..] else { panic!("`{line}` has not five words") };
        ((message.to_owned(), number.parse().unwrap()), [label, kind, name].map(str::to_owned))
    };
    Some(String::from_utf8(output.stdout).unwrap().lines().map(field).collect())
}

#[test]
fn every_declaration_is_read_with_its_number_label_type_and_name() {
    let fields = declared(DECLARATIONS);
    assert_eq!(fields.len(), DECLARATIONS.matches("#[prost(").count());
    let field = |message: &str, number| fields[&(message.to_owned(), number)].clone();
    assert_eq!(field("Metadata", 10), ["maybe", "uint64", "src_task_id"]);
    assert_eq!(field("ObjectTree", 2), ["many", "ObjectTree", "children"]);
    assert_eq!(field("Error", 1), ["one", "sint64", "code"]);
    assert_eq!(field("PushObjectRequest", 4), ["one", "bytes", "object_content"]);
}

#[test]
fn declarations_are_those_of_the_installed_engine() {
    let Some(engine) = descriptors() else { return };
    assert_eq!(differences(&declared(DECLARATIONS), &engine), Vec::<String>::new());
}

#[test]
fn a_changed_number_type_or_label_is_noticed() {
    let Some(engine) = descriptors() else { return };
    for (right, wrong) in [
        (
            "#[prost(string, tag = \"3\")]\n    pub(crate) session_id",
            "#[prost(string, tag = \"4\")]\n    pub(crate) session_id",
        ),
        (
            "#[prost(double, tag = \"7\")]\n    pub(crate) ttl: f64",
            "#[prost(float, tag = \"7\")]\n    pub(crate) ttl: f32",
        ),
        ("#[prost(sint64, tag = \"1\")]", "#[prost(int64, tag = \"1\")]"),
        ("#[prost(uint64, optional, tag = \"10\")]", "#[prost(uint64, tag = \"10\")]"),
    ] {
        let changed = DECLARATIONS.replacen(right, wrong, 1);
        assert_ne!(changed, DECLARATIONS);
        assert_eq!(differences(&declared(&changed), &engine).len(), 1, "{wrong}");
    }
}
