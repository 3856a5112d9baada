//! Puts the tested code of the cookbook into its pages, and fails where a page shows other code.

use std::path::{Path, PathBuf};

/// The line before a block of code in a page says where the code is from: a file of the tests and an anchor in it.
const MARK: &str = "<!-- tests/";

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

pub(super) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The lines between the two comments of an anchor, as far to the left as they go.
pub(super) fn anchored(file: &str, anchor: &str) -> String {
    let source = read(&root().join("tests").join(file));
    let lines = source.lines().skip_while(|line| line.trim() != format!("// ANCHOR: {anchor}")).skip(1);
    let lines: Vec<&str> = lines.take_while(|line| line.trim() != format!("// ANCHOR_END: {anchor}")).collect();
    assert!(!lines.is_empty(), "{file} has no anchor `{anchor}`");
    let indent = lines[0].len() - lines[0].trim_start().len();
    lines.iter().map(|line| format!("{}\n", line.get(indent..).unwrap_or_default())).collect()
}

/// A page with the code that its marks name.
fn with_code(page: &str) -> String {
    let mut parts = page.split(MARK);
    let mut out = parts.next().unwrap().to_owned();
    for part in parts {
        let (mark, rest) = part.split_once(" -->\n```rust,ignore\n").unwrap();
        let (file, anchor) = mark.split_once(": ").unwrap();
        let (_, after) = rest.split_once("```\n").unwrap();
        out += &format!("{MARK}{mark} -->\n```rust,ignore\n{}```\n{after}", anchored(file, anchor));
    }
    out
}

/// Holds a page to what it should be, or writes it if asked to.
pub(super) fn bless(path: &Path, expected: &str) {
    if std::env::var_os("PARTITA_BLESS").is_some() {
        std::fs::write(path, expected).unwrap();
    }
    let is_current = path.exists() && read(path) == expected;
    let how = "run `PARTITA_BLESS=1 cargo test --workspace --test exactness cookbook::`";
    assert!(is_current, "{} shows old code: {how}", path.display());
}

#[test]
fn pages_show_the_code_that_is_tested() {
    let mut count = 0;
    for entry in std::fs::read_dir(root().join("docs/src")).unwrap() {
        let path = entry.unwrap().path();
        let page = if path.extension().is_some_and(|ending| ending == "md") { read(&path) } else { continue };
        let expected = with_code(&page);
        count += usize::from(page.contains(MARK));
        bless(&path, &expected);
    }
    assert_eq!(count, super::PAGES, "pages of the cookbook");
}
