//! Asks fits for contrasts and predictions of values as files write them, and says what a ratio of a contrast is of.

use partita::formula::{Contrasted, Prepared, Study, StudyError, Whose};
use partita::inference::AnswerDraws;
use partita::{Device, Fit, FitOptions, fit};

use super::{only, silo, silos};

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
            let text = "sick,visits,smoke,ward\n".to_owned() + &(0..90).map(row).collect::<String>();
            silo(folder.path(), name, &text)
        });
        let device = Device::flex();
        let study = Study::new(formula, "bernoulli".parse().unwrap()).unwrap();
        let prepared = study.prepare(&silos, &device).unwrap();
        let fit = fit(&prepared.plan.model, &prepared.silos, &device, &FitOptions::default(), None).unwrap();
        let answer = fit.answer_draws(&prepared.plan.model, &device).unwrap();
        Self { _folder: folder, study, prepared, fit, answer }
    }

    fn contrast(&self, text: &str) -> Result<Contrasted, StudyError> {
        self.study.contrast(&text.parse().unwrap(), &self.answer, &self.prepared, &Device::flex()).map(only)
    }
}

const FORMULA: &str = "sick ~ visits + smoke + factor(ward)";

/// A contrast of two levels is the coefficient of the first, and the averaged difference of probabilities has its sign.
fn is_coefficient(asked: &Asked, text: &str, label: &str) {
    let expected = super::answer(&asked.fit, label)[0];
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
    let mut predicted = |rows: &str| {
        let new = silo(folder.path(), "new", &format!("visits,smoke,ward\n{rows}"));
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
    let row = |k: u32| format!("{}.5,{},{}\n", 1 + k * 7 % 23, k * 5 % 7 * (k % 3), k * 3 % 11);
    let text = "time,cost,x\n".to_owned() + &(0..40).map(row).collect::<String>();
    let silos = silos(folder.path(), &[("all", &text)]);
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

const GRADES: &str = "grade,smoke,age,ward,w";

/// Forty rows of grades without an order.
fn graded(first: usize) -> String {
    let row = |k: usize| {
        let grade = ["low", "mid", "very high"][(k * 7 % 11 + k % 2) % 3];
        format!("{grade},{},{},{},{}\n", k % 2, k % 5, ["a", "b"][k * 3 % 7 % 2], 1 + k % 3)
    };
    format!("{GRADES}\n{}", (first..first + 40).map(row).collect::<String>())
}

/// The chances of the grades at a draw, from their coefficients.
fn chances(answer: &AnswerDraws, draw: usize, [smoke, age, ward]: [f64; 3]) -> [f64; 3] {
    let of = |label: String| answer.natural.iter().find(|(_, own, _)| *own == label).unwrap().2[draw];
    let [mid, high] = ["mid", "very high"].map(|level| {
        let own = |name: &str| of(format!("mu{level}_{name}"));
        let slopes = (own("smoke") + own("smoke:age") * age) * smoke + own("age") * age + own("wardb") * ward;
        (own("(Intercept)") + slopes).exp()
    });
    [1.0, mid, high].map(|own| own / (1.0 + mid + high))
}

#[test]
fn chances_of_categories_differ_as_their_coefficients_say_and_silos_sum_them() {
    let (folder, device) = (tempfile::tempdir().unwrap(), Device::flex());
    let texts = [0, 40, 80].map(graded);
    let rows: Vec<&str> = texts.iter().flat_map(|own| own.lines().skip(1)).collect();
    let all = format!("{GRADES}\n{}\n", rows.join("\n"));
    let study = Study::new("grade | weights(w) ~ smoke * age + ward", "categorical".parse().unwrap()).unwrap();
    let prepared = |all: &[(&str, &str)]| study.prepare(&silos(folder.path(), all), &device).unwrap();
    let one = prepared(&[("all", &all)]);
    let three = prepared(&[("north", &texts[0]), ("south", &texts[1]), ("east", &texts[2])]);
    let fit = fit(&one.plan.model, &one.silos, &device, &FitOptions::default(), None).unwrap();
    let mut answer = fit.answer_draws(&one.plan.model, &device).unwrap();
    // Both forms then take all of them.
    answer.latents.truncate(100);
    let contrast = |text: &str, of: &Prepared| study.contrast(&text.parse().unwrap(), &answer, of, &device);
    let at = contrast("smoke: 1 - 0 at age = 2, ward = b", &one).unwrap();
    let averaged = contrast("smoke: 1 - 0 averaged", &one).unwrap();
    assert_eq!((at.len(), averaged.len()), (3, 3));
    let apart = |draw: usize, age: f64, ward: f64| {
        let [yes, no] = [1.0, 0.0].map(|smoke| chances(&answer, draw, [smoke, age, ward]));
        [0, 1, 2].map(|level| yes[level] - no[level])
    };
    let of_row = |row: &&str| {
        let cells: Vec<&str> = row.split(',').collect();
        let number = |place: usize| cells[place].parse::<f64>().unwrap();
        [number(2), f64::from(u8::from(cells[3] == "b")), number(4)]
    };
    let cells: Vec<[f64; 3]> = rows.iter().map(of_row).collect();
    let weight: f64 = cells.iter().map(|own| own[2]).sum();
    for (level, (at, averaged)) in at.iter().zip(&averaged).enumerate() {
        let mean = |of: &dyn Fn(usize) -> f64| (0..100).map(of).sum::<f64>() / 100.0;
        let expected = mean(&|draw| apart(draw, 2.0, 1.0)[level]);
        assert!((at.difference.mean - expected).abs() < 1e-9, "{at}: {expected}");
        let over_rows =
            |draw: usize| cells.iter().map(|[age, ward, w]| w * apart(draw, *age, *ward)[level]).sum::<f64>();
        let expected = mean(&over_rows) / weight;
        assert!((averaged.difference.mean - expected).abs() < 1e-9, "{averaged}: {expected}");
    }
    for all in [&at, &averaged] {
        let sum: f64 = all.iter().map(|own| own.difference.mean).sum();
        assert!(sum.abs() < 1e-12, "{sum}");
    }
    for (own, other) in averaged.iter().zip(contrast("smoke: 1 - 0 averaged", &three).unwrap()) {
        let [own, other] = [own, &other].map(|own| [own.difference.mean, own.difference.sd, own.above]);
        assert!(own.iter().zip(other).all(|(own, other)| (own - other).abs() < 1e-10), "{own:?} {other:?}");
    }

    let names: Vec<&str> = at.iter().map(|own| own.difference.label.as_str()).collect();
    let levels = ["low", "mid", "very high"];
    assert_eq!(names, levels.map(|own| format!("smoke: 1 - 0 at age = 2, ward = b, chance of \"{own}\"")));
    assert_eq!(at[2].shown().unit, "difference of chances");
    let csv = Contrasted::csv(&at);
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines[0], "contrast,mean,sd,p2_5,p50,p97_5,probability_above_0,read_as,read_p50,read_p2_5,read_p97_5");
    let name = "\"smoke: 1 - 0 at age = 2, ward = b, chance of \"\"very high\"\"\",";
    assert!(lines.len() == 4 && lines[3].starts_with(name) && lines[3].contains(",difference,"), "{csv}");

    for (text, words) in [
        ("smoke: 1 - 0", "`smoke: 1 - 0` of chances of categories, which depend on `age`, `ward` too"),
        ("smoke: 1 - 0", "Write `smoke: 1 - 0 at age = VALUE, ward = VALUE`, or `smoke: 1 - 0 averaged` for the mean"),
        ("smoke: 1 - 0 at age = 2", "Write `smoke: 1 - 0 at age = 2, ward = VALUE`, or"),
        ("smoke: 1 - 0 at age = 2, ward = c", "the level \"c\""),
        ("smoke: one - 0 averaged", "`one` as a value of `smoke`"),
        ("smok: 1 - 0 averaged", "Did you mean `smoke`?"),
    ] {
        let said = contrast(text, &one).unwrap_err().to_string();
        assert!(said.contains(words), "{text}: {said}");
    }
}

#[test]
fn two_categories_have_the_differences_of_chances_that_bernoulli_has() {
    let (folder, device) = (tempfile::tempdir().unwrap(), Device::flex());
    let row = |k: usize| format!("{},{},{}\n", u8::from(k * 7 % 10 > 4), k % 3, k * 5 % 4);
    let text = "sick,x,z\n".to_owned() + &(0..90).map(row).collect::<String>();
    let silos = silos(folder.path(), &[("all", &text)]);
    // Without other columns the difference is that of every row.
    for (formula, text) in [("sick ~ x + z", "x: 2 - 0 averaged"), ("sick ~ x", "x: 2 - 0")] {
        let of = |family: &str| {
            let study = Study::new(formula, family.parse().unwrap()).unwrap();
            let prepared = study.prepare(&silos, &device).unwrap();
            (study, prepared)
        };
        let ((binary, prepared), (study, of_categories)) = (of("bernoulli"), of("categorical"));
        let fit = fit(&prepared.plan.model, &prepared.silos, &device, &FitOptions::default(), None).unwrap();
        let mut answer = fit.answer_draws(&prepared.plan.model, &device).unwrap();
        answer.latents.truncate(300);
        let averaged = "x: 2 - 0 averaged".parse().unwrap();
        let expected = only(binary.contrast(&averaged, &answer, &prepared, &device).unwrap());
        let found = study.contrast(&text.parse().unwrap(), &answer, &of_categories, &device).unwrap();
        assert_eq!(found.iter().map(|own| own.level.as_deref()).collect::<Vec<_>>(), ["0", "1"].map(Some));
        let apart = [
            found[1].difference.mean - expected.difference.mean,
            found[0].difference.mean + expected.difference.mean,
            found[1].difference.sd - expected.difference.sd,
            found[1].above - expected.above,
        ];
        assert!(apart.iter().all(|own| own.abs() < 1e-12), "{formula}, {text}: {apart:?}");
    }
}
