//! Claims that groups which all silos know, declared or because they cross others, have the effects that lmer gives them.

use serde_json::Value;

use partita::formula::{DesignSummary, Prepared, SiloTable, Study};
use partita::{Device, Fit, Settings};

use super::{fit_by, silo};

const FORMULA: &str = "diameter ~ 1 + (1 | plate) + (1 | sample)";

fn golden() -> Value {
    serde_json::from_str(include_str!("../golden/crossed_groups.json")).unwrap()
}

/// The rows of the plates of each part, of so many parts.
fn files(golden: &Value, parts: usize) -> Vec<String> {
    let mut files = vec!["diameter,plate,sample\n".to_owned(); parts];
    for (row, diameter) in golden["diameter"].as_array().unwrap().iter().enumerate() {
        let [plate, sample] = ["plate", "sample"].map(|name| golden[name][row].as_str().unwrap());
        files[row / 6 % parts] += &format!("{diameter},{plate},{sample}\n");
    }
    files
}

fn fitted(files: &[String], across: &[&str]) -> (Prepared, Fit) {
    let folder = tempfile::tempdir().unwrap();
    let silos: Vec<SiloTable> =
        files.iter().enumerate().map(|(place, text)| silo(folder.path(), &format!("silo {place}"), text)).collect();
    let mut study = Study::new(FORMULA, "gaussian".parse().unwrap()).unwrap();
    study.declared.groups_across_silos.extend(across.iter().map(|own| String::from(*own)));
    let prepared = study.prepare(&silos, &Device::flex()).unwrap();
    let fit = fit_by(&prepared, Settings::default());
    (prepared, fit)
}

#[test]
fn crossed_groups_have_the_effects_of_lmer_and_three_silos_those_of_their_pooled_file() {
    let golden = golden();
    let (prepared, pooled) = fitted(&files(&golden, 1), &[]);
    let note = "`sample` and `plate` cross: the 6 groups of `sample` are effects that all silos know";
    assert!(prepared.notes.iter().any(|own| own.starts_with(note)), "{:?}", prepared.notes);
    let of = |fit: &Fit, label: &str| {
        let all = fit.report.answer();
        let own = all.iter().find(|own| own.label == label).unwrap_or_else(|| panic!("{label}: {}", fit.report));
        (own.mean, own.sd, own.quantiles)
    };
    let names = golden["names"].as_array().unwrap();
    for (name, effect) in names.iter().zip(golden["samples"].as_array().unwrap()) {
        let label = format!("effect((Intercept) | sample = {})", name.as_str().unwrap());
        let (mean, sd, _) = of(&pooled, &label);
        // The effects hang together with the intercept, whose posterior is wide: a fifth of their own deviation.
        assert!((mean - effect.as_f64().unwrap()).abs() < 0.2 * sd, "{label}: {mean} and {effect}, sd {sd}");
    }
    for (label, name) in
        [("sd((Intercept) | plate)", "plate"), ("sd((Intercept) | sample)", "sample"), ("sigma", "Residual")]
    {
        let (_, _, quantiles) = of(&pooled, label);
        let sd = golden["sds"][name].as_f64().unwrap();
        assert!((quantiles.p2_5..quantiles.p97_5).contains(&sd), "{label}: {quantiles:?} and {sd}");
    }
    let (intercept, sd, _) = of(&pooled, "(Intercept)");
    assert!((intercept - golden["intercept"].as_f64().unwrap()).abs() < 0.3 * sd, "{intercept}");
    // Plates lie in silos: samples cross within each, and have their rows in all.
    for across in [&[] as &[&str], &["sample"]] {
        let (_, split) = fitted(&files(&golden, 3), across);
        for (one, other) in pooled.report.answer().iter().zip(split.report.answer()) {
            assert_eq!(one.label, other.label);
            let apart = fixtures::largest([(one.mean - other.mean) / one.sd, one.sd / other.sd - 1.0].map(f64::abs));
            assert!(apart < 0.1, "{}: {one:?} and {other:?}", one.label);
        }
    }
}

#[test]
fn over_an_engine_a_crossing_is_named_with_what_to_declare_and_no_group_is() {
    // What each silo says, and no rows: what the coordinator of a study has.
    let (folder, golden) = (tempfile::tempdir().unwrap(), golden());
    let said = |across: &str| {
        let mut study = Study::new(FORMULA, "gaussian".parse().unwrap()).unwrap();
        study.declared.groups_across_silos.extend([across.to_owned()].into_iter().filter(|own| !own.is_empty()));
        let columns = files(&golden, 3)
            .into_iter()
            .enumerate()
            .map(|(place, text)| study.columns(&silo(folder.path(), &format!("silo {place}"), &text)).unwrap());
        let columns: Vec<_> = columns.collect();
        let profiles: Vec<_> = columns.iter().map(|own| study.profile(own).unwrap()).collect();
        let agreement = study.agree(&profiles).unwrap();
        let each = columns.iter().map(|own| DesignSummary::of(&study.design(own, &agreement).unwrap()));
        let each: Vec<DesignSummary> = each.collect();
        let text = serde_json::to_string(&(&profiles, &each)).unwrap();
        (study.plan(&DesignSummary::merge(&each).unwrap()).map_err(|error| error.to_string()), text)
    };
    let (plan, text) = said("");
    let error = plan.unwrap_err();
    fixtures::says(
        &error,
        &["`sample` and `plate`, which cross in silo 0", "groups_across_silos = [\"sample\"]", "(18, counted"],
    );
    // The names of samples are letters, of which none stands by itself in what was said.
    assert!(!text.contains("\"A\"") && !error.contains("`A`"), "{text}");
    let (plan, text) = said("sample");
    assert!(plan.is_ok() && text.contains("\"A\""), "{plan:?}");
}

#[test]
fn crossings_of_many_groups_and_correlated_effects_over_silos_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let line = |row: usize| format!("{},a{},b{},{}\n", row % 7, row % 60, row * 7 % 61, row % 3);
    let all = silo(folder.path(), "all", &("y,a,b,x\n".to_owned() + &(0..400).map(line).collect::<String>()));
    let cases = [
        ("y ~ 1 + (1 | a) + (1 | b)", "", "which cross in all"),
        ("y ~ x + (1 + x | a)", "a", "(1 + x || group)"),
        ("y ~ x + (1 | a)", "c", "`c`"),
    ];
    for (formula, across, words) in cases {
        let mut study = Study::new(formula, "gaussian".parse().unwrap()).unwrap();
        study.declared.groups_across_silos.extend([across.to_owned()].into_iter().filter(|own| !own.is_empty()));
        let error = study.prepare(std::slice::from_ref(&all), &Device::flex()).unwrap_err().to_string();
        assert!(error.contains(words), "{formula}: {error}");
    }
}

#[test]
fn correlations_of_three_effects_are_correlations_by_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let number = |place: usize| (place as f64 * 1.7).sin() * 2.0;
    let line = |row: usize| format!("{},g{},{},{}\n", number(row), row % 5, number(row + 50), number(3 * row + 7));
    let all = silo(folder.path(), "all", &("y,g,a,b\n".to_owned() + &(0..20).map(line).collect::<String>()));
    let (_, fit) = super::fitted("y ~ 1 + (1 + a + b | g)", "gaussian", &[all.path]);
    let all = fit.report.answer();
    let mean = |label: &str| all.iter().find(|own| own.label == label).unwrap_or_else(|| panic!("{label}")).mean;
    let labels: Vec<&str> = all.iter().map(|own| own.label.as_str()).collect();
    let pairs = ["(Intercept), a", "(Intercept), b", "a, b"].map(|pair| format!("cor({pair} | g)"));
    let deviations = ["(Intercept)", "a", "b"].map(|own| format!("sd({own} | g)"));
    let expected = [["(Intercept)".to_owned()].as_slice(), &deviations, &pairs, &["sigma".into()]].concat();
    assert_eq!(labels, expected);
    assert!(pairs.iter().all(|pair| mean(pair).abs() < 1.0));
}
