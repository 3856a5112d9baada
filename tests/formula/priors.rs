//! Claims that stated priors are those of the model and those that are printed, and that other names are refused.

use partita::core::{Array, Latents, LogDensity, natural_values};
use partita::formula::{Prepared, StatedPrior, Study, StudyError};
use partita::{Device, SiteTable};

use super::{answer, silo};

const TABLE: &str = "y,x,z,g\n1,2,0,a\n2,1,1,a\n4,3,0,b\n3,5,1,b\n5,4,1,c\n1,3,0,c\n";

/// Names and priors.
type Stated<'a> = &'a [(&'a str, &'a str)];

fn prepared(formula: &str, family: &str, priors: Stated<'_>) -> Result<Prepared, StudyError> {
    let folder = tempfile::tempdir().unwrap();
    let mut study = Study::new(formula, family.parse().unwrap()).unwrap();
    study.priors = priors.iter().map(|(name, prior)| ((*name).to_owned(), prior.parse().unwrap())).collect();
    study.prepare(&[silo(folder.path(), "all", TABLE)], &Device::flex())
}

/// Of a model, the log density of its globals at one place, and what the printed priors say of that place.
fn densities(prepared: &Prepared) -> [f64; 2] {
    let (device, model, data) = (Device::flex(), &prepared.plan.model, &prepared.silos[0].1);
    let table = SiteTable::of(model, &device, data).unwrap();
    let globals: Vec<f64> = (0..table.global_len()).map(|place| 0.1_f64.mul_add(-(place as f64), 0.3)).collect();
    let locals: Vec<Vec<f64>> = table.blocks().iter().map(|block| vec![0.0; block.rows * block.width]).collect();
    let latents = Latents { globals: &globals, locals: &locals };
    let natural = natural_values(model, &device, &table, data, latents).unwrap();
    let printed = prepared.plan.priors.iter().map(|line| {
        let (_, value) = natural.iter().find(|(name, _)| *name == line.name).unwrap_or_else(|| panic!("{line}"));
        match line.prior.parse().unwrap() {
            StatedPrior::Number(prior) => {
                prior.distribution().log_prob_of(&Array { values: value.values.clone(), shape: vec![1] }).unwrap()
            }
            _ => -(2.0_f64.ln()),
        }
    });
    [LogDensity::new(model, &device, &table).global(&globals).unwrap().value, printed.sum()]
}

#[test]
fn the_model_has_the_priors_that_are_printed() {
    let cases: [(&str, &str, Stated<'_>); 6] = [
        (
            "y ~ x + z + (1 + x | g)",
            "student",
            &[("b", "cauchy(0, 2)"), ("z", "laplace(0.5, 1)"), ("sd", "normal(0, 3)")],
        ),
        ("y ~ x + z + (1 + x || g)", "student", &[("nu", "gamma(2, 0.3)"), ("sd(x | g)", "half-cauchy(1)")]),
        ("y ~ x + (1 | g)", "negbinomial", &[("Intercept", "student_t(4, 1, 2)"), ("shape", "inv_gamma(0.4, 0.3)")]),
        ("y ~ z + (1 | g)", "gamma", &[("sd((Intercept)|g)", "exponential(2)"), ("shape", "lognormal(0, 0.5)")]),
        ("y ~ z", "gaussian", &[("sigma", "student_t(4, 0, 2)"), ("(Intercept)", "normal(1, 2)")]),
        ("y ~ z + (1 + x | g)", "gaussian", &[("cor", "uniform(-1, 1)"), ("z", "normal(0, 0.1)")]),
    ];
    for (formula, family, priors) in cases {
        let usual = densities(&prepared(formula, family, &[]).unwrap());
        let stated = prepared(formula, family, priors).unwrap();
        for (name, _) in priors.iter().filter(|(name, _)| name.starts_with(|own: char| "xzn".contains(own))) {
            assert!(stated.plan.priors.iter().any(|line| line.name == *name), "{name}");
        }
        let stated = densities(&stated);
        // The maps to unconstrained numbers are the same, and cancel.
        let [found, expected] = [0, 1].map(|place| stated[place] - usual[place]);
        assert!((found - expected).abs() < 1e-9, "{formula}: {found}, printed {expected}");
        assert!(expected.abs() > 1e-3, "{formula}: the priors make no difference");
    }
}

#[test]
fn an_lkj_prior_of_two_effects_has_the_density_of_its_determinant() {
    let formula = "y ~ 1 + (1 + x | g)";
    let densities = ["lkj(2)", "lkj(4)"].map(|prior| {
        let prepared = prepared(formula, "gaussian", &[("cor", prior)]).unwrap();
        assert!(
            prepared.plan.priors.iter().any(|line| line.to_string() == format!("cor((Intercept), x | g) ~ {prior}"))
        );
        let (device, model) = (Device::flex(), &prepared.plan.model);
        let table = SiteTable::of(model, &device, &prepared.silos[0].1).unwrap();
        // At a correlation of 0 the densities are those of a beta distribution's middle, over 2.
        let globals = vec![0.0; table.global_len()];
        LogDensity::new(model, &device, &table).global(&globals).unwrap().value
    });
    // Γ(2η) / Γ(η)² 2^(1 - 2η) is 3/4 for η = 2 and 35/32 for η = 4.
    assert!((densities[1] - densities[0] - (35.0_f64 / 32.0 / 0.75).ln()).abs() < 1e-9, "{densities:?}");
}

#[test]
fn priors_of_unknown_numbers_and_of_the_wrong_kind_are_refused_with_what_to_write() {
    let cases = [
        ("smok", "normal(0, 1)", "found a prior of `smok`"),
        ("zz", "normal(0, 1)", "Did you mean `z`?"),
        ("sigma", "normal(1, 1)", "numbers above 0"),
        ("b", "exponential(1)", "below and above 0"),
        ("cor", "normal(0, 1)", "lkj"),
        ("phi", "exponential(1)", "one of (Intercept), b, cor, cor((Intercept), x | g), correlation(g), sd, sd("),
    ];
    for (name, prior, words) in cases {
        let error = prepared("y ~ z + (1 + x | g)", "gaussian", &[(name, prior)]).unwrap_err().to_string();
        assert!(error.contains(words), "{name} ~ {prior}: {error}");
    }
    for (text, words) in [
        ("smoke normal(0, 1)", "`NAME ~ PRIOR`"),
        ("smoke ~ norml(0, 1)", "normal(mean, sd)"),
        ("smoke ~ normal(0)", "as many numbers as it has"),
        ("smoke ~ normal(0, -1)", "whose scale is -1 for `smoke`, expected"),
        ("smoke ~ normal(0, x)", "Write its numbers"),
    ] {
        let error = StatedPrior::parse_named(text).unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
}

#[test]
fn interactions_and_squares_of_columns_far_from_zero_are_those_of_centred_ones() {
    let folder = tempfile::tempdir().unwrap();
    // Body temperatures, and an effect of them in one sex alone; sodium, with a square.
    let row = |k: u32| {
        let (temperature, sodium) = (35.2 + f64::from(k * 37 % 101) * 0.035, 125.0 + f64::from(k * 29 % 113) * 0.25);
        let man = f64::from(k % 2);
        let odds = -1.0 + 0.8 * man * (temperature - 36.9) + 0.012 * (sodium - 139.0).powi(2);
        let dead = ((f64::from(k) + 0.5) * 2.0_f64.sqrt()).fract() < 1.0 / (1.0 + (-odds).exp());
        format!("{},{temperature:.3},{man},{sodium}\n", u8::from(dead))
    };
    let text = "dead,temp,man,na\n".to_owned() + &(0..2_000).map(row).collect::<String>();
    let file = silo(folder.path(), "north", &text).path;
    let fitted = |formula: &str| super::fitted(formula, "bernoulli", std::slice::from_ref(&file));
    let raw = fitted("dead ~ temp * man + na + I(na^2)").1;
    let centred = fitted("dead ~ I(temp - 36.9) * man + I(na - 139) + I((na - 139)^2)").1;
    for (name, other) in
        [("temp:man", "I(temp - 36.9):man"), ("temp", "I(temp - 36.9)"), ("I(na^2)", "I((na - 139)^2)")]
    {
        let ([mean, sd], [expected, other]) = (answer(&raw, name), answer(&centred, other));
        assert!((mean - expected).abs() < 0.2 * other, "{name}: {mean}, {expected} of centred columns, {other}");
        assert!((sd / other - 1.0).abs() < 0.1, "{name}: {sd}, {other} of centred columns");
    }
}

#[test]
fn a_usual_prior_that_decides_a_number_is_told_of_and_a_stated_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    // All events are in one group: the odds between them have no end without a prior.
    let text: String = (0..40).map(|k| format!("{},{}\n", u8::from(k % 2 == 1 && k > 5), k % 2)).collect();
    std::fs::write(folder.path().join("north.csv"), "y,x\n".to_owned() + &text).unwrap();
    let said = |more: &[&str]| {
        let fit = ["fit", "y ~ x", "--family", "bernoulli", "--silo", "north.csv"];
        fixtures::said(folder.path(), &[&fit[..], more].concat())
    };
    let usual = said(&[]);
    assert!(
        usual.contains("with the limits below") && usual.contains("which was not stated, decides a part"),
        "{usual}"
    );
    let stated = said(&["--prior", "x ~ normal(0, 3)", "--prior", "(Intercept) ~ normal(0, 4)"]);
    assert!(!stated.contains("which was not stated"), "{stated}");
}
