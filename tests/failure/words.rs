//! Holds compile errors of wrong models to words that name the mistake: one run of the compiler over all of them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// A function that does not compile, and the words that the compiler must say of it.
type Wrong = (&'static str, &'static [&'static str]);

const WRONG: [Wrong; 9] = [
    (
        r#"fn discrete(scope: &mut Scope<'_>) -> Result<Tensor<1>> { scope.sample("n", Poisson::log_rate(1.0)) }"#,
        &["a discrete distribution cannot be latent", "this may only be observed", "scope.factor(...)"],
    ),
    (
        r#"fn integers() { drop(Normal::new(0, 1)); }"#,
        &["`({integer}, {integer})` are no parameters of a distribution", "(`1.0`, not `1`)"],
    ),
    (
        r#"fn reference(mean: &Tensor<1>) { drop(Normal::new(mean, 1.0)); }"#,
        &["are no parameters of a distribution", "give a reference by `.clone()`"],
    ),
    (
        r#"fn ranks(mean: Tensor<3>, scale: Tensor<2>) { drop(Normal::new(mean, scale)); }"#,
        &["Tensor<3>, ", "Tensor<2>)` are no parameters of a distribution", "may stand beside rank 2, 3 or 4"],
    ),
    (
        r#"fn rows(scope: &mut Scope<'_>) -> Result<()> { scope.plate("row", "ten", |_, _| Ok(())) }"#,
        &["`&str` are no rows of a plate", "inside another plate it takes `&Groups`"],
    ),
    (
        r#"fn groups(scope: &mut Scope<'_>, g: Groups) -> Result<()> { scope.plate("row", g, |_, _| Ok(())) }"#,
        &["Groups` are no rows of a plate", "consider borrowing here"],
    ),
    (
        r#"fn model(device: &Device) { drop(SiteTable::of(&1.0_f64, device, &())); }"#,
        &["`f64` is no model", "derive `burn::module::Module` first"],
    ),
    (r#"fn columns() { fn of(_: impl Columns) {} of(vec![1.0]); }"#, &["are no columns of a party", "a `Design`"]),
    (
        r#"fn contribution() { fn of(_: impl Contribution) {} of(()); }"#,
        &["`()` is no contribution of a party", "`prior` samples its latents"],
    ),
];

/// The first line of the file; the functions follow, one a line.
const IMPORTS: &str = "use partita::{Device, Normal, Poisson, Result, Scope, SiteTable, burn::tensor::Tensor, \
    core::Groups, vertical::{Columns, Contribution}};\n";

/// The newest build of the facade beside this test.
fn facade(folder: &Path) -> PathBuf {
    let builds = fs::read_dir(folder).unwrap().filter_map(|entry| {
        let path = entry.unwrap().path();
        let name = path.file_name()?.to_str()?;
        let ours = name.starts_with("libpartita-") && name.ends_with(".rlib");
        let built = path.metadata().ok()?.modified().ok()?;
        ours.then_some((built, path))
    });
    builds.max().unwrap().1
}

#[test]
fn compile_errors_of_wrong_models_say_what_is_wrong() {
    let deps = env::current_exe().unwrap().parent().unwrap().to_path_buf();
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("wrong.rs");
    fs::write(&source, IMPORTS.to_owned() + &WRONG.map(|(function, _)| function).join("\n")).unwrap();
    let found = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args(["--edition=2024", "--crate-type=lib", "--emit=metadata", "--out-dir"])
        .arg(folder.path())
        .arg(format!("--extern=partita={}", facade(&deps).display()))
        .arg(format!("-Ldependency={}", deps.display()))
        .arg(&source)
        .output()
        .unwrap();
    let said = String::from_utf8(found.stderr).unwrap();
    for ((function, words), line) in WRONG.iter().zip(2..) {
        let errors = said.split("\nerror").filter(|error| error.contains(&format!("wrong.rs:{line}:")));
        let own = errors.collect::<String>();
        let missing: Vec<&str> = words.iter().copied().filter(|word| !own.contains(word)).collect();
        assert!(missing.is_empty(), "of {function}\nnot said: {missing:#?}\n{said}");
    }
}
