//! Claims about what is asked of a fit: predictions of known and new groups, contrasts, and outcomes from the prior.

use serde_json::Value;

use partita::formula::{Contrast, Contrasted, MissingCells, Prepared, Study, Whose};
use partita::inference::SiteSummary;
use partita::models::regression::Prior;
use partita::{Device, Fit, FitOptions, Settings, fit};

use super::{answer, fit_by, only, silo};

/// A study with its fit.
struct Fitted {
    study: Study,
    prepared: Prepared,
    fit: Fit,
    device: Device,
    folder: tempfile::TempDir,
}

fn fitted(formula: &str, family: &str, silos: &[(&str, &str)]) -> Fitted {
    fitted_study(Study::new(formula, family.parse().unwrap()).unwrap(), silos)
}

fn fitted_study(study: Study, silos: &[(&str, &str)]) -> Fitted {
    let (device, folder) = (Device::flex(), tempfile::tempdir().unwrap());
    let silos = super::silos(folder.path(), silos);
    let prepared = study.prepare(&silos, &device).unwrap_or_else(|error| panic!("{}: {error}", study.formula));
    let fit = fit_by(&prepared, Settings::default());
    Fitted { study, prepared, fit, device, folder }
}

impl Fitted {
    fn predict(&mut self, text: &str, whose: Whose) -> partita::formula::Prediction {
        let file = silo(self.folder.path(), "new", text);
        self.study.predict(&file, whose, &self.prepared, &mut self.fit, &self.device).unwrap()
    }

    fn contrast(&self, text: &str) -> Result<Contrasted, partita::formula::StudyError> {
        let draws = self.fit.answer_draws(&self.prepared.plan.model, &self.device).unwrap();
        self.study.contrast(&text.parse::<Contrast>()?, &draws, &self.prepared, &self.device).map(only)
    }
}

/// Twelve groups of five rows with means that are far apart, half of them in each silo.
fn groups() -> [String; 2] {
    [0, 6].map(|first| {
        let line = |place: usize| {
            let (group, row) = (first + place / 5, place % 5);
            let own = 3.0 * ((group * 7 % 12) as f64 - 5.5);
            let noise = ((group * 31 + row * 17) % 11) as f64 / 5.0 - 1.0;
            format!("{},{},g{group}\n", own + 0.5 * row as f64 + noise, row)
        };
        "y,x,g\n".to_owned() + &(0..30).map(line).collect::<String>()
    })
}

#[test]
fn known_groups_have_the_mean_that_shrinkage_gives_and_new_ones_that_of_all() {
    let [north, south] = groups();
    let mut own = fitted("y ~ x + (1 | g)", "gaussian", &[("north", &north), ("south", &south)]);
    let draws = own.fit.answer_draws(&own.prepared.plan.model, &own.device).unwrap();
    let of =
        |label: &str| draws.natural.iter().find(|(_, name, _)| name == label).map(|(.., own)| own.clone()).unwrap();
    let [intercept, slope, sd, sigma] = ["(Intercept)", "x", "sd((Intercept) | g)", "sigma"].map(of);
    // Given the globals the effect of a group is normal: its mean is the mean residual, shrunk.
    let rows: Vec<(f64, f64)> = north
        .lines()
        .skip(1)
        .filter(|line| line.ends_with(",g3"))
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            (cells[0].parse().unwrap(), cells[1].parse().unwrap())
        })
        .collect();
    assert_eq!(rows.len(), 5);
    let count = intercept.len() as f64;
    let exact = (0..intercept.len()).map(|at| {
        let residuals = rows.iter().map(|(y, x)| y - intercept[at] - slope[at] * x).sum::<f64>();
        let shrunk = residuals / (5.0 + (sigma[at] / sd[at]).powi(2));
        let variance = sigma[at].powi(2) / (5.0 + (sigma[at] / sd[at]).powi(2));
        (intercept[at] + 2.0 * slope[at] + shrunk, variance)
    });
    let (means, variances): (Vec<f64>, Vec<f64>) = exact.unzip();
    let mean = means.iter().sum::<f64>() / count;
    let spread = means.iter().map(|own| (own - mean).powi(2)).sum::<f64>() / count;
    let expected_sd = (spread + variances.iter().sum::<f64>() / count).sqrt();
    let found = own.predict("x,g\n2,g3\n2,unseen\n", Whose::Silo(0));
    assert_eq!(found.groups, ["g known", "g new"]);
    // A thousand draws: four standard errors, and four of a standard deviation.
    let error = 4.0 * expected_sd / 1_000.0_f64.sqrt();
    assert!((found.expected[0].mean - mean).abs() < error, "{} and {mean} ± {error}", found.expected[0].mean);
    assert!((found.expected[0].sd / expected_sd - 1.0).abs() < 0.1, "{} and {expected_sd}", found.expected[0].sd);
    // A new outcome varies by sigma more.
    let sigma_square = sigma.iter().map(|own| own * own).sum::<f64>() / count;
    let outcome = (expected_sd.powi(2) + sigma_square).sqrt();
    assert!((found.outcomes[0].sd / outcome - 1.0).abs() < 0.1, "{} and {outcome}", found.outcomes[0].sd);
    // A new group is around the line of all, with the deviation between groups.
    let line = (0..intercept.len()).map(|at| intercept[at] + 2.0 * slope[at]).sum::<f64>() / count;
    let between = (sd.iter().map(|own| own * own).sum::<f64>() / count).sqrt();
    assert!((found.expected[1].mean - line).abs() < 5.0 * between / 1_000.0_f64.sqrt());
    assert!((0.9..1.3).contains(&(found.expected[1].sd / between)), "{} and {between}", found.expected[1].sd);
    // The group is of the north: the south does not know it.
    assert_eq!(own.predict("x,g\n2,g3\n", Whose::Silo(1)).groups, ["g new"]);
    assert_eq!(own.predict("x,g\n2,g3\n", Whose::New).groups, ["g new"]);
    // The rows that were fitted are predicted as new rows of known groups are.
    let all = own.prepared.fitted(0, &mut own.fit, &own.device).unwrap();
    let row = north.lines().skip(1).position(|line| line.ends_with(",2,g3")).unwrap();
    assert!((all.expected[row].mean - mean).abs() < error && all.groups[row] == "g known");
}

#[test]
fn new_groups_of_a_grouping_over_silos_vary_by_the_deviations_of_their_effects() {
    // Eight groups with rows in both silos, of intercepts 12 apart and slopes of 2.
    let silo = |first: usize| {
        let line = |place: usize| {
            let (group, x) = (place / 4, (2 * (place % 4) + first) as f64);
            let [own, slope] = [12.0, 2.0].map(|unit| unit * ((group * 5 % 8) as f64 - 3.5));
            let noise = ((group * 31 + place * 17) % 11) as f64 / 5.0 - 1.0;
            format!("{},{x},g{group}\n", own + (1.0 + slope * if group % 2 == 0 { 1.0 } else { -1.0 }) * x + noise)
        };
        "y,x,g\n".to_owned() + &(0..32).map(line).collect::<String>()
    };
    let mut study = Study::new("y ~ x + (1 + x || g)", "gaussian".parse().unwrap()).unwrap();
    study.declared.groups_across_silos.insert("g".into());
    let mut own = fitted_study(study, &[("north", &silo(0)), ("south", &silo(1))]);
    let draws = own.fit.answer_draws(&own.prepared.plan.model, &own.device).unwrap();
    let of =
        |label: &str| draws.natural.iter().find(|(_, name, _)| name == label).map(|(.., own)| own.clone()).unwrap();
    let [intercept, slope, sd, sd_of_slope] = ["(Intercept)", "x", "sd((Intercept) | g)", "sd(x | g)"].map(of);
    for whose in [Whose::New, Whose::Silo(1)] {
        let found = own.predict("x,g\n0,unseen\n3,unseen\n3,g3\n", whose);
        assert_eq!(found.groups, ["g new", "g new", "g known"]);
        for (row, x) in [(0, 0.0), (1, 3.0)] {
            let count = intercept.len() as f64;
            let line: Vec<f64> = (0..intercept.len()).map(|at| intercept[at] + x * slope[at]).collect();
            let mean = line.iter().sum::<f64>() / count;
            let of_line = line.iter().map(|own| (own - mean).powi(2)).sum::<f64>() / count;
            let between = (0..sd.len()).map(|at| sd[at].powi(2) + (x * sd_of_slope[at]).powi(2)).sum::<f64>() / count;
            let expected = (of_line + between).sqrt();
            // A thousand draws: five standard errors, and a tenth of a standard deviation with a heavy tail.
            let (mean_of_row, sd_of_row) = (found.expected[row].mean, found.expected[row].sd);
            assert!((mean_of_row - mean).abs() < 5.0 * expected / 1_000.0_f64.sqrt(), "{mean_of_row} and {mean}");
            assert!((sd_of_row / expected - 1.0).abs() < 0.1, "{sd_of_row} and {expected}");
        }
        // Of a group with rows the effect is known.
        assert!(found.expected[2].sd < 2.0, "{}", found.expected[2].sd);
    }
}

#[test]
fn contrasts_of_variables_of_a_parameter_are_of_its_linear_predictor_or_of_expected_outcomes() {
    // Of four rows of z = 1 three are zero beside those of the counts, of z = 0 none.
    let line = |row: usize| {
        let (x, z) = (row % 2, row / 2 % 2);
        let count = [3, 5, 4, 6, 2, 7][row / 4 % 6] + 3 * x;
        format!("{},{x},{z}\n", if z == 1 && !(row / 4).is_multiple_of(4) { 0 } else { count })
    };
    let text = "y,x,z\n".to_owned() + &(0..240).map(line).collect::<String>();
    let study = Study::new("y ~ x", "zero_inflated_poisson".parse().unwrap()).unwrap();
    let own = fitted_study(study.with_parameter("zi ~ z").unwrap(), &[("all", &text)]);
    let found = own.contrast("z: 1 - 0").unwrap();
    let [mean, _] = answer(&own.fit, "zi_z");
    assert!((found.difference.mean - mean).abs() < 1e-9 && found.ratio == Some("odds ratio of zi"), "{found}");
    let averaged = own.contrast("z: 1 - 0 averaged").unwrap();
    // Three quarters of means of 4.5 and 7.5.
    assert!((averaged.difference.mean + 4.5).abs() < 0.4 && averaged.ratio.is_none(), "{averaged}");
    let study = Study::new("y ~ x", "gaussian".parse().unwrap()).unwrap();
    let own = fitted_study(study.with_parameter("sigma ~ z * x").unwrap(), &[("all", &text)]);
    let found = own.contrast("z: 1 - 0 at x = 1").unwrap();
    assert!(found.ratio == Some("ratio of sigma") && found.difference.mean > 0.0, "{found}");
    for (text, words) in [
        ("z: 1 - 0 averaged", "`z` is in the formula of sigma alone, expected a variable that the expected outcome"),
        ("z: 1 - 0", "Write `z: 1 - 0 at x = VALUE`."),
        ("q: 1 - 0", "expected one of x"),
    ] {
        let error = own.contrast(text).unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
}

#[test]
fn expected_outcomes_are_on_the_scale_of_the_outcome() {
    let text = "y,x\n".to_owned()
        + &(0..60).map(|row| format!("{},{}\n", u8::from(row % 3 == 0), row % 2)).collect::<String>();
    let mut own = fitted("y ~ x", "bernoulli", &[("all", &text)]);
    let found = own.predict("x\n0\n1\n", Whose::New);
    for own in &found.expected {
        assert!((own.mean - 1.0 / 3.0).abs() < 0.05 && own.quantiles.p2_5 > 0.1, "{own:?}");
    }
    let ends = |own: &SiteSummary| [own.quantiles.p2_5, own.quantiles.p97_5].map(f64::to_bits);
    assert!(found.outcomes.iter().all(|own| ends(own) == [0.0, 1.0].map(f64::to_bits)));
    // Without other columns an average over rows is the difference of the two expected outcomes.
    let averaged = own.contrast("x: 1 - 0 averaged").unwrap();
    let difference = found.expected[1].mean - found.expected[0].mean;
    assert!((averaged.difference.mean - difference).abs() < 0.02 && averaged.ratio.is_none(), "{averaged}");
    let ratio = own.contrast("x: 1 - 0").unwrap();
    assert!(ratio.ratio == Some("odds ratio") && ratio.to_string().contains("; odds ratio "), "{ratio}");
    let csv = partita::formula::Prediction::csv(&[("new.csv".into(), found)]);
    assert!(csv.starts_with("file,row,groups,mean,sd,p2_5,p50,p97_5,new_mean,") && csv.lines().count() == 3, "{csv}");
}

#[test]
fn rows_of_predictions_are_those_of_the_file_where_some_are_left_out() {
    let text = "y,x\n1,0\nNA,1\n3,2\n4,\n5,4\n6,5\n7,6\n";
    let (device, folder) = (Device::flex(), tempfile::tempdir().unwrap());
    let mut study = Study::new("y ~ x", "gaussian".parse().unwrap()).unwrap();
    study.missing = MissingCells::Drop;
    let silo = silo(folder.path(), "all", text);
    let prepared = study.prepare(std::slice::from_ref(&silo), &device).unwrap();
    let options = FitOptions { trust_draws: Some(0), ..FitOptions::default() };
    let fit = fit(&prepared.plan.model, &prepared.silos, &device, &options, None).unwrap();
    let mut own = Fitted { study, prepared, fit, device, folder };
    let found = own.prepared.fitted(0, &mut own.fit, &own.device).unwrap();
    assert_eq!(found.rows, [1, 3, 5, 6, 7]);
    let new = own.predict("x\nNA\n4\n", Whose::New);
    let csv = partita::formula::Prediction::csv(&[("new".into(), new)]);
    assert!(csv.lines().nth(1).unwrap().starts_with("new,2,"), "{csv}");
}

#[test]
fn averaged_contrasts_count_a_row_as_often_as_its_weight_says() {
    let rows = [(0, 0, 9), (0, 1, 3), (1, 0, 2), (1, 1, 8), (2, 0, 30), (2, 1, 20)];
    let weighted: String = rows.iter().map(|(x, y, w)| format!("{y},{},{},{w}\n", x % 2, x / 2)).collect();
    let single = |(x, y, w): &(usize, usize, usize)| format!("{y},{},{},1\n", x % 2, x / 2).repeat(*w);
    let single: String = rows.iter().map(single).collect();
    let contrast = |text: String| {
        let own = fitted("y | weights(w) ~ x + z", "bernoulli", &[("all", &format!("y,x,z,w\n{text}"))]);
        own.contrast("z: 1 - 0 averaged").unwrap().difference.mean
    };
    let [weighted, single] = [contrast(weighted), contrast(single)];
    // The same posterior but for priors, which know columns by their rows. Five errors of a difference of two means over 500
    // draws, whose deviation is 0.13.
    assert!((weighted - single).abs() < 5.0 * 0.13 * (2.0_f64 / 500.0).sqrt(), "{weighted} and {single}");
}

#[test]
fn levels_in_the_place_of_an_intercept_are_no_ratios() {
    let text = "y,g,x\n".to_owned()
        + &(0..60).map(|row| format!("{},{},{}\n", row % 5, ["a", "b", "c"][row % 3], row % 2)).collect::<String>();
    let (device, folder) = (Device::flex(), tempfile::tempdir().unwrap());
    let silo = silo(folder.path(), "all", &text);
    let named = |formula: &str| {
        let study = Study::new(formula, "poisson".parse().unwrap()).unwrap();
        let prepared = study.prepare(std::slice::from_ref(&silo), &device).unwrap();
        prepared.plan.effects.iter().map(|own| own.label.clone()).collect::<Vec<_>>()
    };
    assert_eq!(named("y ~ 0 + g + x"), ["x"]);
    assert_eq!(named("y ~ 0 + x + g"), ["x"]);
    assert_eq!(named("y ~ g + x"), ["gb", "gc", "x"]);
}

#[test]
fn the_usual_prior_of_a_deviation_of_intercepts_does_not_hang_on_the_unit_of_a_slope() {
    let text = |unit: f64| {
        let line = |row: usize| format!("{},{},c{}\n", (row * 7 % 11) as f64, (row % 13) as f64 * unit, row % 4);
        "y,x,g\n".to_owned() + &(0..120).map(line).collect::<String>()
    };
    let (device, folder) = (Device::flex(), tempfile::tempdir().unwrap());
    let priors = |unit: f64| {
        let silo = silo(folder.path(), "all", &text(unit));
        let study = Study::new("y ~ x + (x || g)", "gaussian".parse().unwrap()).unwrap();
        let plan = study.prepare(&[silo], &device).unwrap().plan;
        let line = |name: &str| plan.priors.iter().find(|own| own.name == name).unwrap().prior.clone();
        ["sd((Intercept) | g)", "sd(x | g)"].map(line)
    };
    let [[intercept, slope], [of_small, slope_of_small]] = [1.0, 0.01].map(priors);
    assert_eq!(intercept, of_small);
    assert_ne!(slope, slope_of_small);
}

#[test]
fn slopes_of_silos_have_an_answer() {
    let silo = |name: usize| {
        let line = |row: usize| {
            let x = (row % 8) as f64 - 3.5;
            format!("{},{x}\n", 3.0 * name as f64 + (0.5 + 0.4 * name as f64) * x + ((row * 7) % 5) as f64 / 2.0)
        };
        "y,x\n".to_owned() + &(0..40).map(line).collect::<String>()
    };
    let texts: Vec<String> = (0..6).map(silo).collect();
    let names = ["a", "b", "c", "d", "e", "f"];
    let silos: Vec<(&str, &str)> = names.into_iter().zip(texts.iter().map(String::as_str)).collect();
    let mut own = fitted("y ~ x + (x || silo)", "gaussian", &silos);
    assert_ne!(own.fit.report.verdict, partita::inference::Verdict::DoNotTrust, "{}", own.fit.report);
    // Slopes rise by .4 from silo to silo, so that they scatter by .75.
    let slope = answer(&own.fit, "sd(x | silo)")[0];
    assert!((0.5..1.3).contains(&slope), "{}", own.fit.report);
    let at = |own: &mut Fitted, place| own.predict("x\n1\n0\n", Whose::Silo(place)).expected;
    let [first, last] = [0, 5].map(|place| at(&mut own, place)).map(|own| own[0].mean - own[1].mean);
    assert!((last - first - 2.0).abs() < 0.3, "{first} {last}");
}

#[test]
fn fitted_rows_have_the_fitted_values_of_lmer() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("../golden/fitted_groups.json")).unwrap();
    for case in cases {
        let [formula, file] = ["formula", "file"].map(|key| case[key].as_str().unwrap());
        let mut own = fitted(formula, "gaussian", &[("all", file)]);
        let found = own.prepared.fitted(0, &mut own.fit, &own.device).unwrap();
        for (row, (own, other)) in found.expected.iter().zip(case["fitted"].as_array().unwrap()).enumerate() {
            // Estimates of deviations and their posterior shrink a little differently: a fifth of a standard deviation.
            let apart = (own.mean - other.as_f64().unwrap()) / own.sd;
            assert!(apart.abs() < 0.2, "{formula}, row {row}: {} and R's {other}, sd {}", own.mean, own.sd);
        }
        assert!(found.groups.iter().all(|own| !own.contains("new")));
    }
}

#[test]
fn effects_of_silos_are_known_in_their_silos_alone() {
    let silo = |middle: f64| {
        let line = |row: usize| format!("{},{}\n", middle + ((row * 7) % 5) as f64 / 2.0, row % 4);
        "y,x\n".to_owned() + &(0..40).map(line).collect::<String>()
    };
    let [low, middle, high] = [-20.0, 0.0, 20.0].map(silo);
    let mut own = fitted("y ~ x + (1 | silo)", "gaussian", &[("low", &low), ("middle", &middle), ("high", &high)]);
    let at = [Whose::Silo(0), Whose::Silo(2), Whose::New].map(|whose| own.predict("x\n1\n", whose));
    let [low, high, new] = [0, 1, 2].map(|place| &at[place].expected[0]);
    assert!((low.mean + 19.0).abs() < 0.5 && (high.mean - 21.0).abs() < 0.5, "{low:?} {high:?}");
    assert!(low.sd < 1.0 && new.sd > 10.0, "{low:?} {new:?}");
    assert_eq!([0, 2].map(|place| at[place].groups[0].as_str()), ["silo known", "silo new"]);
}

#[test]
fn rows_that_are_no_rows_of_the_fit_are_refused_with_words() {
    let text = "y,x,s\n1,2,a\n2,3,b\n4,1,a\n3,3,b\n";
    let mut own = fitted("y ~ x + s", "gaussian", &[("all", text)]);
    for (new, words) in [
        ("x,s\n1,c\n", "the level \"c\" in line 2, expected one of a, b"),
        ("x,s\none,a\n", "`x` of new holds text, expected numbers"),
        ("x,t\n1,a\n", "`s`"),
        ("x,s\n,a\n", "missing"),
    ] {
        let file = silo(own.folder.path(), "new", new);
        let error = own.study.predict(&file, Whose::New, &own.prepared, &mut own.fit, &own.device).unwrap_err();
        assert!(error.to_string().contains(words), "{words}: {error}");
    }
}

#[test]
fn contrasts_are_the_sums_of_coefficients_that_they_stand_for() {
    let text = "y,x,s,z\n".to_owned()
        + &(0..60)
            .map(|row| {
                let (x, s, z) = (row % 5, ["a", "b", "c d"][row % 3], (row * 7 % 11) as f64 / 3.0);
                format!("{},{x},{s},{z}\n", row as f64 / 10.0 + 0.3 * (row % 3 * x) as f64)
            })
            .collect::<String>();
    let own = fitted("y ~ x * s + log(z + 1)", "gaussian", &[("all", &text)]);
    let mean = |label: &str| answer(&own.fit, label)[0];
    let cases = [
        ("x: 3 - 1 at s = b", 2.0 * (mean("x") + mean("x:sb"))),
        ("x: 3 - 1 at s = a", 2.0 * mean("x")),
        ("s: \"c d\" - b at x = 2", mean("sc d") - mean("sb") + 2.0 * (mean("x:sc d") - mean("x:sb"))),
        ("z: 2 - 0", 3.0_f64.ln() * mean("log(z + 1)")),
        // The identity link: an average of differences is the difference at the average.
        ("z: 2 - 0 averaged", 3.0_f64.ln() * mean("log(z + 1)")),
    ];
    for (text, expected) in cases {
        let found = own.contrast(text).unwrap();
        // Averages take a part of the draws.
        let most = if found.contrast.is_averaged { 0.2 * found.difference.sd } else { 1e-9 };
        assert!((found.difference.mean - expected).abs() < most, "{text}: {} and {expected}", found.difference.mean);
        assert!(found.ratio.is_none() && (0.0..=1.0).contains(&found.above));
    }
    for (text, words) in [
        ("x: 3 - 1", "Write `x: 3 - 1 at s = VALUE`."),
        ("q: 3 - 1", "expected one of x, s, z"),
        ("s: d - a at x = 0", "the level \"d\""),
        ("x: three - 1 at s = a", "line 2: \"three\""),
        ("x 3 - 1", "`NAME: VALUE - VALUE`"),
        ("x: 3-1 at s = a", "spaces around `-`"),
        ("z: 2 - 0 at w = 1", "`w`"),
    ] {
        let error = own.contrast(text).unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
}

#[test]
fn outcomes_from_the_prior_have_its_mean_and_spread() {
    let folder = tempfile::tempdir().unwrap();
    let silos = [("north", "y,x\n1,0\n2,0\n"), ("south", "y,x\n1,0\n5,1\n")];
    let silos = super::silos(folder.path(), &silos);
    let mut study = Study::new("y ~ x", "gaussian".parse().unwrap()).unwrap();
    let stated = [("(Intercept)", "normal(3, 2)"), ("x", "normal(0, 1)"), ("sigma", "half_normal(0.001)")];
    study.priors = stated.iter().map(|(name, prior)| ((*name).to_owned(), prior.parse().unwrap())).collect();
    let prepared = study.prepare(&silos, &Device::flex()).unwrap();
    assert_eq!(prepared.plan.model.plan().coefficients[1].1, Prior::Normal { mean: 0.0, sd: 1.0 });
    let drawn = prepared.prior_predictive(2_000, 7, &Device::flex()).unwrap();
    let of = |silo: usize, row: usize| {
        let all: Vec<f64> = drawn.data_sets.iter().map(|own| own[silo][row]).collect();
        let mean = all.iter().sum::<f64>() / 2_000.0;
        (mean, (all.iter().map(|own| (own - mean).powi(2)).sum::<f64>() / 2_000.0).sqrt())
    };
    // Silos share the globals of a draw; four standard errors of means and of standard deviations.
    let same = drawn.data_sets.iter().all(|own| (own[0][0] - own[1][0]).abs() < 0.01);
    assert!(same, "the intercept of a data set is that of all silos");
    for ((mean, sd), expected) in [(of(0, 0), 2.0), (of(1, 1), 5.0_f64.sqrt())] {
        assert!((mean - 3.0).abs() < 4.0 * expected / 2_000.0_f64.sqrt() && (sd / expected - 1.0).abs() < 0.07);
    }
    let text = drawn.to_string();
    assert!(text.starts_with("2000 data sets from the prior: in 95 % of them the mean of `y` is between "), "{text}");
    assert_eq!(drawn.csv().lines().count(), 1 + 2_000 * 4);
}

#[test]
fn levels_of_an_outcome_have_the_probabilities_of_their_counts() {
    // Per hundred rows of each `s`: how many have the levels 1, 2 and 3.
    let counts = [("a", [20_u16, 30, 50]), ("b", [60, 25, 15])];
    let mut text = "y,s\n".to_owned();
    for (s, all) in counts {
        for (level, count) in all.iter().enumerate() {
            text += &format!("{},{s}\n", level + 1).repeat(4 * usize::from(*count));
        }
    }
    for family in ["categorical", "cumulative"] {
        let mut own = fitted("y ~ s", family, &[("all", &text)]);
        let found = own.predict("s\na\nb\n", Whose::New);
        assert!(found.expected.is_empty() && found.outcomes.is_empty(), "{family}");
        for (row, (_, all)) in counts.iter().enumerate() {
            let total: f64 = found.levels.iter().map(|(_, own)| own[row].mean).sum();
            assert!((total - 1.0).abs() < 1e-9, "{family}: {total}");
            // A table of its own is fitted by categories; proportional odds are near it.
            let error = if family == "categorical" { 0.01 } else { 0.04 };
            for (level, (count, (name, own))) in all.iter().zip(&found.levels).enumerate() {
                assert_eq!(*name, (level + 1).to_string());
                let expected = f64::from(*count) / 100.0;
                assert!((own[row].mean - expected).abs() < error, "{family}, row {row}, {name}: {}", own[row].mean);
                assert!((0.01..0.03).contains(&own[row].sd), "{family}: {}", own[row].sd);
            }
        }
        let csv = partita::formula::Prediction::csv(&[("new.csv".into(), found)]);
        assert!(csv.starts_with("file,row,groups,level,probability,sd,") && csv.lines().count() == 7, "{csv}");
        // A row that counts three times has the chances of one row.
        let lines: Vec<String> = text.lines().skip(1).step_by(4).map(|line| format!("{line},3\n")).collect();
        let thrice = "y,s,w\n".to_owned() + &lines.concat();
        let mut own = fitted("y | weights(w) ~ s", family, &[("all", &thrice)]);
        let found = own.prepared.fitted(0, &mut own.fit, &own.device).unwrap();
        for row in 0..lines.len() {
            let total: f64 = found.levels.iter().map(|(_, own)| own[row].mean).sum();
            assert!((total - 1.0).abs() < 1e-9, "{family}, row {row}: {total}");
        }
    }
}
