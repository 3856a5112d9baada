//! Counts the lines of cookbook models and of the same models in Stan, and holds the book's table and listings to them.

use super::pages::{anchored, bless, read, root};

/// Cookbook pages with a Stan program: the page's title, the page, the file of the model, the Stan program.
const MODELS: [[&str; 4]; 9] = [
    [
        "Patients with unequal numbers of visits",
        "how-to-unequal-groups.md",
        "exactness/cookbook/unequal_groups.rs",
        "unequal_groups",
    ],
    ["Three levels", "how-to-levels.md", "exactness/cookbook/levels.rs", "levels"],
    ["Survival times", "how-to-survival.md", "exactness/cookbook/survival.rs", "survival"],
    ["Grades in order", "how-to-ordinal.md", "exactness/cookbook/ordinal.rs", "ordinal"],
    ["Counts with many zeros", "how-to-zeros.md", "exactness/cookbook/zeros.rs", "zeros"],
    ["A mixture", "how-to-mixture.md", "exactness/cookbook/mixture.rs", "mixture"],
    ["Outliers", "how-to-robust.md", "exactness/cookbook/robust.rs", "robust"],
    ["A curve", "how-to-process.md", "exactness/cookbook/process.rs", "process"],
    ["A differential equation", "how-to-ode.md", "ode/growth.rs", "ode"],
];

/// What a model's lines may be of those of the same model in Stan.
const MOST: f64 = 1.3;

const INTRODUCTION: &str = "# Models beside Stan

Nine models of the [cookbook](how-to-cookbook.md) in lines of code, beside the same model in Stan: same priors, same
likelihood. Lines that are empty or only a comment are not counted. Both are laid out by their own formatter, at 120
columns: `rustfmt`, and `stanc --auto-format` of Stan 2.35, which accepts all nine. A Partita model counts with its
imports and the types of its data; what makes these data from columns is counted on neither side. The Stan programs
were compiled by `stanc` and not run.

A Partita model also draws predictions and gives pointwise log likelihoods, for which Stan needs the block `generated
quantities`. The program with this block does the same work, and is the one that models are held to: at most 1.3 times
its lines. The ratio to the program without it stands beside.

";

/// The lines of code: neither empty nor only a comment.
fn count<'t>(lines: impl Iterator<Item = &'t str>) -> usize {
    lines.map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}

fn ratio(own: usize, other: usize) -> f64 {
    own as f64 / other as f64
}

/// A ratio with its verdict.
fn shown(own: usize, other: usize) -> String {
    let ratio = ratio(own, other);
    if ratio <= MOST { format!("{ratio:.2}") } else { format!("{ratio:.2}, more than 1.3") }
}

fn page() -> String {
    let mut table = "| model | Partita | Stan | ratio | Stan without predictions | ratio |\n\
        |---|---:|---:|---:|---:|---:|\n"
        .to_owned();
    let mut listings = String::new();
    let mut missed = Vec::new();
    for [title, page, model, stan] in MODELS {
        let stan_path = format!("tests/golden/stan/{stan}.stan");
        let program = read(&root().join(&stan_path));
        let own = count(anchored(model, "model").lines());
        let whole = count(program.lines());
        let alone = count(program.lines().take_while(|line| !line.starts_with("generated quantities")));
        assert!(ratio(own, whole) <= MOST, "{title}: {own} lines, Stan has {whole}");
        if ratio(own, alone) > MOST {
            missed.push(title);
        }
        let ratios = [shown(own, whole), shown(own, alone)];
        table += &format!("| [{title}]({page}) | {own} | {whole} | {} | {alone} | {} |\n", ratios[0], ratios[1]);
        listings += &format!("\n## {title} in Stan\n\n`{stan_path}`; [in Partita]({page}).\n\n```stan\n{program}```\n");
    }
    let verdict = format!(
        "\nAll {} are within 1.3 of the program that does the same. Against the program without predictions {} are not:\n{}.\n",
        MODELS.len(),
        missed.len(),
        missed.join(", ")
    );
    format!("{INTRODUCTION}{table}{verdict}{listings}")
}

#[test]
fn models_are_as_short_as_in_stan_and_the_book_says_so() {
    bless(&root().join("docs/src/reference-lines.md"), &page());
}
