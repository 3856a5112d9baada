//! Holds the tree to its stated shape: crate arrows, forbidden words and names, sizes, and paths in documents.
#![allow(clippy::print_stderr, reason = "counts are shown with the test")]
#![expect(clippy::unwrap_used, reason = "an unreadable source tree fails the claim that reads it")]

use std::fs;
use std::path::{Path, PathBuf};

const CRATES: [&str; 9] = ["core", "models", "datasets", "inference", "laws", "gpu", "flower", "formula", "privacy"];

/// The packages that test the libraries.
const PROOFS: [&str; 3] = ["studies", "tests", "benches"];

/// The longest source file, in lines; tests, benches and examples may be longer.
const CEILING: usize = 500;
const TEST_CEILING: usize = 800;

/// File names that do not describe the content.
const NAMELESS: [&str; 8] = ["base", "utils", "util", "common", "helpers", "misc", "types", "manager"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every Rust file below `folder`, as a path relative to the root; none if there is no such folder.
fn rust_files(folder: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(root().join(folder)) else { return Vec::new() };
    let mut files = Vec::new();
    for entry in entries {
        let path: PathBuf = entry.unwrap().path();
        let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            files.extend(rust_files(&name));
        } else if name.ends_with(".rs") {
            files.push(name);
        }
    }
    files.sort();
    files
}

/// The files of the libraries: the facade and every crate.
fn sources() -> Vec<String> {
    let folders = CRATES.iter().map(|name| format!("{name}/src")).chain(["src".to_owned()]);
    let files: Vec<String> = folders.flat_map(|folder| rust_files(&folder)).collect();
    assert!(files.len() > CRATES.len(), "the source tree was not found: {files:?}");
    files
}

/// The files of tests, benches and examples.
fn proofs() -> Vec<String> {
    let inner = CRATES.iter().flat_map(|name| ["tests", "benches", "examples"].map(|kind| format!("{name}/{kind}")));
    let outer = ["tests", "benches", "examples"].map(str::to_owned);
    inner.chain(outer).flat_map(|folder| rust_files(&folder)).collect()
}

/// The lines of a source file up to its unit tests, without comments.
fn code(path: &str) -> Vec<String> {
    let text = read(path);
    let library = text.split("#[cfg(test)]").next().unwrap_or_default();
    library.lines().filter(|line| !line.trim_start().starts_with("//")).map(str::to_owned).collect()
}

/// Whether `word` occurs in `line` other than as the end of a longer name.
fn has_word(line: &str, word: &str) -> bool {
    let longer = |before: &str| before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| !longer(&line[..at]))
}

/// Asserts that no library file but those `allowed` contains any of `words` in its code.
fn assert_absent(words: &[&str], allowed: &[&str], reason: &str) {
    let mut broken = Vec::new();
    for path in sources().iter().filter(|path| !allowed.contains(&path.as_str())) {
        let lines = code(path);
        let found = words.iter().filter(|word| lines.iter().any(|line| has_word(line, word)));
        broken.extend(found.map(|word| format!("{path} has `{word}`")));
    }
    assert_none(&broken, reason);
}

/// Asserts that `broken` is empty; otherwise names all of it at once and what to do about it.
fn assert_none(broken: &[String], remedy: &str) {
    assert!(broken.is_empty(), "{}\n{remedy}", broken.join("\n"));
}

/// Our own crates among the `[dependencies]` of a crate's manifest.
fn arrows(name: &str) -> Vec<String> {
    let manifest = read(&format!("{name}/Cargo.toml"));
    let section = manifest.split("\n[").find(|section| section.starts_with("dependencies]")).unwrap_or_default();
    let ours = section.lines().filter_map(|line| line.strip_prefix("partita-"));
    ours.map(|line| line.split([' ', '=', '.']).next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn crates_depend_on_each_other_as_drawn_and_no_further() {
    for name in ["core", "privacy"] {
        assert!(arrows(name).is_empty(), "arrows out of {name}");
    }
    for name in ["models", "datasets", "inference", "formula", "gpu"] {
        assert_eq!(arrows(name), ["core"], "arrows out of {name}");
    }
    assert_eq!(arrows("flower"), ["inference"]);
    assert_eq!(arrows("laws"), ["core", "inference"]);
}

#[test]
fn the_engine_names_neither_method_nor_fit_and_a_method_no_other() {
    let engine = rust_files("inference/src/engine");
    let methods = rust_files("inference/src/methods");
    assert!(engine.len() > 50 && methods.len() > 30, "the rooms of inference were not found");
    let room =
        |path: &str| path.trim_start_matches("inference/src/methods/").split(['/', '.']).next().unwrap().to_owned();
    let mut broken = Vec::new();
    for path in engine.iter().chain(&methods) {
        let own = if path.contains("/methods/") { room(path) } else { String::new() };
        for line in code(path) {
            let named = line.split("crate::methods::").skip(1).filter_map(|rest| rest.split([':', ';']).next());
            broken.extend(named.filter(|name| *name != own).map(|name| format!("{path} names methods::{name}")));
        }
    }
    for path in &engine {
        // What the crate hands out at its root is of methods and fits too.
        let outside = |line: &String| line.split("crate::").skip(1).any(|rest| !rest.starts_with("engine::"));
        broken.extend(code(path).iter().filter(|line| outside(line)).map(|line| format!("{path} has `{line}`")));
    }
    assert_none(&broken, "move what both need into the engine, and what is of a fit out of it");
}

#[test]
fn the_engine_and_the_methods_are_compiled_once_and_not_once_a_model() {
    // A function of a trait and its call of a user may have a type of model; what a fit keeps has none.
    let mut broken = Vec::new();
    for path in rust_files("inference/src/engine").iter().chain(&rust_files("inference/src/methods")) {
        let keeps = |line: &String| {
            let words = line.trim_start().trim_start_matches("pub").trim_start_matches("(crate)");
            let words = words.trim_start_matches("(super)").trim_start();
            (words.starts_with("struct ") || words.starts_with("impl<")) && line.contains(": Model")
        };
        broken.extend(code(path).into_iter().filter(keeps).map(|line| format!("{path} has `{line}`")));
    }
    assert_none(&broken, "take `AnyModel` and `AnyData`, which the public functions of `inference` make of a user's");
}

/// The first sentence of every library file, by folder, in the book's format.
fn list_of_files() -> String {
    let mut out = "# Files\n\nMade from the first line of each file by `tests/architecture/main.rs`; \
        `PARTITA_BLESS=1 cargo test --test architecture` writes it anew.\n"
        .to_owned();
    let mut folder = String::new();
    for path in sources() {
        let (above, file) = path.rsplit_once('/').unwrap();
        if above != folder {
            folder = above.to_owned();
            out += &format!("\n## `{folder}`\n\n| file | what it does |\n|---|---|\n");
        }
        let text = read(&path);
        let sentence = text.lines().next().and_then(|line| line.strip_prefix("//! ")).unwrap_or_default();
        out += &format!("| `{file}` | {} |\n", sentence.replace('|', "\\|"));
    }
    out
}

#[test]
fn the_book_lists_every_file_as_its_first_line_says() {
    let expected = list_of_files();
    if std::env::var_os("PARTITA_BLESS").is_some() {
        fs::write(root().join("docs/src/reference-files.md"), &expected).unwrap();
    }
    assert!(read("docs/src/reference-files.md") == expected, "run `PARTITA_BLESS=1 cargo test --test architecture`");
}

/// The names that a crate's `lib.rs` exports by `pub use`, `pub mod` and so on; names behind a glob are not counted.
fn public_names(path: &str) -> Vec<String> {
    let text = code(path).join("\n");
    let uses = text.split("pub use ").skip(1).filter_map(|rest| rest.split(';').next());
    let listed = uses.flat_map(|tree| {
        let inner = tree.split('{').next_back().unwrap_or_default().trim_end_matches(['}', '\n', ' ']);
        inner.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect::<Vec<_>>()
    });
    let modules = text.split("pub mod ").skip(1).filter_map(|rest| rest.split([';', ' ']).next()).map(str::to_owned);
    listed.chain(modules).filter(|name| !name.ends_with('*')).collect()
}

#[test]
fn the_surface_does_not_grow_unseen() {
    // The prelude has at most sixty names; the other exports of crates are to shrink, and must not grow by accident.
    let library = code("src/lib.rs").join("\n");
    let prelude =
        library.split("pub use partita_").skip(1).filter(|rest| rest.split(';').next().unwrap().contains("::"));
    let prelude: usize = prelude
        .map(|rest| rest.split(';').next().unwrap())
        .filter(|tree| tree.contains('{'))
        .map(|tree| {
            tree.split('{')
                .next_back()
                .unwrap()
                .split(',')
                .filter(|name| !name.trim_matches(['}', '\n', ' ']).is_empty())
                .count()
        })
        .sum();
    assert!((40..=60).contains(&prelude), "the prelude has {prelude} names, at most 60 are allowed");
    let ceilings = [
        ("core", 126),
        ("models", 50),
        ("datasets", 35),
        ("inference", 255),
        ("laws", 41),
        ("gpu", 5),
        ("flower", 36),
        ("formula", 39),
        ("privacy", 27),
    ];
    let mut broken = Vec::new();
    for (name, ceiling) in ceilings {
        let count = public_names(&format!("{name}/src/lib.rs")).len();
        eprintln!("{name}: {count} public names in its list, {ceiling} allowed");
        if count > ceiling || count == 0 {
            broken.push(format!("{name} has {count} public names, {ceiling} are allowed"));
        }
    }
    assert_none(&broken, "make private what only tests use, or say in the commit why the surface grows");
}

#[test]
fn the_papers_of_the_house_fit_on_a_page() {
    for paper in ["README.md", "ARCHITECTURE.md"] {
        let lines = read(paper).lines().count();
        assert!(lines <= 120, "{paper} has {lines} lines, 120 are allowed");
    }
}

#[test]
fn every_crate_of_the_workspace_is_checked_here() {
    let manifest = read("Cargo.toml");
    let members = manifest.lines().find_map(|line| line.strip_prefix("members = ")).unwrap();
    let all: Vec<&str> = CRATES.into_iter().chain(PROOFS).collect();
    assert_eq!(members, format!("{all:?}"));
}

#[test]
fn only_the_downloader_and_the_engine_s_connection_open_sockets() {
    let words = ["std::net", "ureq", "TcpStream", "UdpSocket"];
    assert_absent(
        &words,
        &["datasets/src/download.rs", "flower/src/connection.rs"],
        "data leave or enter through the exchange and the downloader alone",
    );
}

#[test]
fn random_numbers_come_from_one_file() {
    let words = ["rand::", "rand_chacha::", "rand_distr::", "nuts_rand", "sobol_burley", "Tensor::random"];
    // Sobol points belong to the noise; the sampler gives its own crate a generator with a keyed seed.
    // Signatures of a node take the system's own.
    let allowed = [
        "core/src/noise.rs",
        "core/src/noise/kind.rs",
        "flower/src/node_signer.rs",
        "inference/src/methods/nuts/chain.rs",
    ];
    assert_absent(&words, &allowed, "draw from a keyed stream of core/src/noise.rs");
}

#[test]
fn bits_of_the_system_are_for_noise_and_keys_and_the_ledger_is_the_one_file_of_privacy() {
    let keys = ["flower/src/seal.rs", "flower/src/signature.rs"];
    // Pauses are spread by chance, and nothing follows from them.
    let allowed = [&keys[..], &["privacy/src/entropy.rs", "flower/src/jitter.rs"]].concat();
    assert_absent(
        &["getrandom::"],
        &allowed,
        "take them from privacy/src/entropy.rs, so that tests can give their own",
    );
    let room: Vec<String> =
        rust_files("privacy/src").into_iter().filter(|path| !path.ends_with("/ledger.rs")).collect();
    let touches = |path: &&String| code(path).iter().any(|line| line.contains("std::fs") || line.contains("std::io"));
    let broken: Vec<String> = room.iter().filter(touches).cloned().collect();
    assert_none(&broken, "privacy has no input or output but the ledger");
}

#[test]
fn libraries_do_not_print() {
    let studies = rust_files("studies/src");
    // A macro panics where the reader has left: commands write through `src/commands/say.rs`.
    let allowed: Vec<&str> = studies.iter().map(String::as_str).collect();
    assert_absent(&["println!", "print!", "dbg!"], &allowed, "return it or report it through the progress reporter");
}

#[test]
fn every_file_opens_with_one_sentence_that_says_why_it_exists() {
    let mut broken = Vec::new();
    for path in sources().iter().chain(&proofs()) {
        let text = read(path);
        let sentence = text.lines().next().and_then(|line| line.strip_prefix("//! ")).unwrap_or_default();
        let length = sentence.chars().count();
        if !(40..=140).contains(&length) || !sentence.ends_with(['.', ':']) {
            broken.push(format!("{path}: {length} characters after `//! `: {sentence}"));
        }
    }
    assert_none(&broken, "open the file with `//!` and one whole sentence of 40 to 140 characters");
}

#[test]
fn every_public_trait_states_its_laws() {
    let mut broken = Vec::new();
    for path in sources() {
        let text = read(&path);
        let mut documentation = Vec::new();
        for line in text.lines() {
            if line.starts_with("pub trait ") && !documentation.contains(&"/// # Laws") {
                broken.push(format!("{path}: {line}"));
            }
            // An attribute, and the lines of a long one, stand between a docstring and its item.
            match line.starts_with("///") || line.starts_with(['#', ' ', ')']) {
                true => documentation.push(line),
                false => documentation.clear(),
            }
        }
    }
    assert_none(&broken, "say under `# Laws` what always holds, and which test holds it");
}

#[test]
fn every_file_of_tests_is_in_a_binary() {
    // A module is named by the file above it, a binary by a manifest.
    let manifests = read("Cargo.toml") + &read("tests/Cargo.toml");
    let mut broken = Vec::new();
    for path in rust_files("tests") {
        let (folder, file) = path.rsplit_once('/').unwrap();
        let name = file.strip_suffix(".rs").unwrap();
        let above = [format!("{folder}/main.rs"), format!("{folder}/lib.rs"), format!("{folder}.rs")];
        let names = |above: &&String| root().join(above).exists() && read(above).contains(&format!("mod {name};"));
        let is_root = manifests.contains(&format!("path = \"{}\"", path.trim_start_matches("tests/")))
            || manifests.contains(&format!("path = \"{path}\""));
        if !is_root && above.iter().find(names).is_none() {
            broken.push(path);
        }
    }
    assert_none(&broken, "name it as a module of the binary it belongs to, or in tests/Cargo.toml");
}

#[test]
fn no_file_outgrows_its_ceiling() {
    let mut broken = Vec::new();
    for (files, ceiling) in [(sources(), CEILING), (proofs(), TEST_CEILING)] {
        for path in files {
            let lines = read(&path).lines().count();
            if lines > ceiling {
                broken.push(format!("{path}: {lines} lines, the ceiling is {ceiling}"));
            }
        }
    }
    assert_none(&broken, "split the file by what it does");
}

#[test]
fn no_file_or_folder_has_a_name_that_says_nothing() {
    let mut files = sources();
    files.extend(proofs());
    let nameless = |path: &Path| path.iter().any(|part| NAMELESS.iter().any(|name| *name == part));
    files.retain(|path| nameless(&Path::new(path).with_extension("")));
    assert_none(&files, "name a file or folder after what it does");
}

#[test]
fn every_path_that_a_document_names_exists() {
    for document in ["ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let text = read(document);
        let quoted = text.split('`').skip(1).step_by(2);
        let linked = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        let missing = quoted.chain(linked).filter(|name| is_path(name) && !root().join(name).exists());
        let missing: Vec<String> = missing.map(str::to_owned).collect();
        assert_none(&missing, &format!("{document} names these, and they do not exist"));
    }
}

/// Whether a word of a document is meant as a path in this repository.
fn is_path(word: &str) -> bool {
    let plain = !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c));
    let ending = [".rs", ".md", ".toml", ".json", ".py", ".html"].iter().any(|ending| word.ends_with(ending));
    let rooted = word.split('/').next().is_some_and(|first| root().join(first).is_dir());
    plain && (ending || (word.contains('/') && rooted))
}

#[test]
fn the_changelog_opens_with_the_version_of_the_workspace() {
    let manifest = read("Cargo.toml");
    let package = manifest.split("[workspace.package]").nth(1).unwrap();
    let version =
        package.lines().find_map(|line| line.strip_prefix("version = ")).unwrap().trim_matches('"').to_owned();
    let changelog = read("CHANGELOG.md");
    let heading = changelog.lines().find(|line| line.starts_with("## ")).unwrap();
    assert!(heading.contains(&version), "CHANGELOG.md opens with `{heading}`, the workspace is at {version}");
}

#[test]
fn the_reference_and_the_book_render_formulas_alike() {
    assert_eq!(read("docs/katex-header.html"), read("docs/theme/head.hbs"));
}
