//! Asks fits for contrasts and predictions of values as files write them, and says what a ratio of a contrast is of.

use partita::formula::{Contrasted, Prepared, SiloTable, Study, StudyError, Whose};
use partita::inference::AnswerDraws;
use partita::{Device, Fit, FitOptions, fit};

/// A study of numbers of visits as text, smokers as TRUE and FALSE, and wards with zeros before their numbers.
struct Asked {
    _folder: tempfile::TempDir,
    study: Study,
    prepared: Prepared,
    fit: Fit,
    answer: AnswerDraws,
}

impl Asked {
    fn of(formula: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let silos = ["north", "south"].map(|name| {
            let wards = if name == "north" { ["007", "012"] } else { ["012", "100"] };
            let row = |k: usize| {
                let sick = u32::from(k * 7 % 10 > 4 || k % 11 == 3);
                let smoke = ["TRUE", "FALSE"][k % 5 / 3];
                format!("{sick},{},{smoke},{}\n", ["0", "1-2", "3+"][k * 5 % 3], wards[k / 3 % 2])
            };
            let path = folder.path().join(name);
            std::fs::write(&path, "sick,visits,smoke,ward\n".to_owned() + &(0..90).map(row).collect::<String>())
                .unwrap();
            SiloTable { name: name.into(), path }
        });
        let device = Device::flex();
        let study = Study::new(formula, "bernoulli".parse().unwrap()).unwrap();
        let prepared = study.prepare(&silos, &device).unwrap();
        let fit = fit(&prepared.plan.model, &prepared.silos, &device, &FitOptions::default(), None).unwrap();
        let answer = fit.answer_draws(&prepared.plan.model, &device).unwrap();
        Self { _folder: folder, study, prepared, fit, answer }
    }

    fn contrast(&self, text: &str) -> Result<Contrasted, StudyError> {
        self.study.contrast(&text.parse().unwrap(), &self.answer, &self.prepared, &Device::flex())
    }
}

const FORMULA: &str = "sick ~ visits + smoke + factor(ward)";

/// A contrast of two levels is the coefficient of the first, and the averaged difference of probabilities has its sign.
fn is_coefficient(asked: &Asked, text: &str, label: &str) {
    let expected = asked.fit.report.answer().into_iter().find(|own| own.label == label).unwrap().mean;
    let found = asked.contrast(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert!((found.difference.mean - expected).abs() < 1e-9, "{found}: {expected}");
    let averaged = asked.contrast(&format!("{text} averaged")).unwrap_or_else(|error| panic!("{text}: {error}"));
    // At most a quarter of the difference of log odds, but for the Monte Carlo error of both.
    let share = averaged.difference.mean / expected;
    assert!(share > 0.0 && share <= 0.3, "{averaged}: {expected}");
}

#[test]
fn levels_of_text_that_look_like_numbers_are_found_in_contrasts_and_in_a_few_new_rows() {
    let mut asked = Asked::of(FORMULA);
    is_coefficient(&asked, "visits: \"3+\" - 0", "visits3+");
    is_coefficient(&asked, "visits: 1-2 - 0", "visits1-2");
    let folder = tempfile::tempdir().unwrap();
    let new = SiloTable { name: "new".into(), path: folder.path().join("new.csv") };
    let mut predicted = |rows: &str| {
        std::fs::write(&new.path, format!("visits,smoke,ward\n{rows}")).unwrap();
        asked.study.predict(&new, Whose::New, &asked.prepared, &mut asked.fit, &Device::flex())
    };
    let found = predicted("0,TRUE,012\n0,FALSE,007\n").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(found.expected.len(), 2);
    let said = predicted("7,TRUE,012\n").unwrap_err().to_string();
    assert!(said.contains("`visits` is the level \"7\" in line 2, expected one of 0, 1-2, 3+"), "{said}");
}

#[test]
fn contrasts_of_true_and_false_refuse_other_words() {
    let asked = Asked::of(FORMULA);
    is_coefficient(&asked, "smoke: TRUE - FALSE", "smokeTRUE");
    let same = ["smoke: true - FALSE averaged", "smoke: TRUE - False averaged"];
    let [one, two] = same.map(|text| asked.contrast(text).unwrap().difference.mean);
    assert!((one - two).abs() < 1e-12, "{one} {two}");
    for text in ["smoke: yes - no averaged", "smoke: 1 - 0 averaged", "smoke: TRUE - no averaged", "smoke: 1 - 0"] {
        let said = asked.contrast(text).map(|found| found.to_string()).unwrap_err().to_string();
        assert!(said.contains("smoke") && said.contains("TRUE and FALSE"), "{text}: {said}");
    }
    // Where a formula computes with them no level is looked up.
    let asked = Asked::of("sick ~ visits + I(2 * smoke)");
    assert!(asked.contrast("smoke: TRUE - FALSE averaged").unwrap().difference.mean.abs() > 0.0);
    let said = asked.contrast("smoke: yes - no averaged").map(|found| found.to_string()).unwrap_err().to_string();
    assert!(said.contains("`yes` as a value of `smoke`, expected TRUE and FALSE"), "{said}");
}

#[test]
fn levels_with_zeros_before_their_digits_are_named_as_files_write_them() {
    let asked = Asked::of(FORMULA);
    is_coefficient(&asked, "ward: 012 - 007", "factor(ward)012");
    let said = asked.contrast("ward: 13 - 012 averaged").unwrap_err().to_string();
    assert!(said.contains("the level \"13\""), "{said}");
}

#[test]
fn ratios_are_of_what_the_exponential_of_a_coefficient_is_a_ratio_of() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("all.csv");
    let row = |k: u32| format!("{}.5,{},{}\n", 1 + k * 7 % 23, k * 5 % 7 * (k % 3), k * 3 % 11);
    std::fs::write(&path, "time,cost,x\n".to_owned() + &(0..40).map(row).collect::<String>()).unwrap();
    let silos = [SiloTable { name: "all".into(), path }];
    let unit = |formula: &str, family: &str, parameter: &str| {
        let study = Study::new(formula, family.parse().unwrap()).unwrap();
        let study = if parameter.is_empty() { study } else { study.with_parameter(parameter).unwrap() };
        study.prepare(&silos, &Device::flex()).unwrap().plan.effects[0].unit.clone()
    };
    for (formula, family, parameter, expected) in [
        ("time ~ x", "lognormal", "", "ratio of means"),
        ("time ~ x", "lognormal", "sigma ~ 1", "ratio of means"),
        ("time ~ x", "lognormal", "sigma ~ x", "ratio of medians"),
        ("cost ~ x", "hurdle_lognormal", "hu ~ x", "ratio of means above 0"),
        ("cost ~ x", "hurdle_lognormal", "sigma ~ x", "ratio of medians above 0"),
        ("cost ~ x", "hurdle_gamma", "", "ratio of means above 0"),
        ("time ~ x", "gamma", "shape ~ x", "ratio of means"),
        ("time ~ x", "weibull", "", "ratio of times"),
        ("time ~ x", "weibull", "shape ~ x", "ratio of scales"),
    ] {
        assert_eq!(unit(formula, family, parameter), expected, "{formula}, {family}, {parameter}");
    }
}
