//! Asks fits with zeros, levels and formulas of parameters for priors by name and for predictions.

use partita::formula::{SiloTable, Study, Whose};
use partita::{Device, FitOptions, fit};

use super::silo;

/// Counts of which every third is zero by its kind, with a covariate.
fn file(folder: &std::path::Path) -> SiloTable {
    let row = |at: usize| {
        let (x, t) = ((at % 7) as f64 - 3.0, (at * 13 % 29) as f64 / 4.0 + 0.5);
        let y = if at.is_multiple_of(3) { 0 } else { 1 + (at * at / 5) % 6 };
        format!("{y},{x},{t},{},{}\n", u8::from(!at.is_multiple_of(4)), 1 + at % 3)
    };
    silo(folder, "north", &("y,x,t,s,grade\n".to_owned() + &(0..90).map(row).collect::<String>()))
}

/// A prior that is stated by its name.
struct Stated {
    formula: &'static str,
    family: &'static str,
    parameter: Option<&'static str>,
    prior: [&'static str; 2],
}

impl Stated {
    /// The priors that are printed.
    fn lines(&self, silo: &SiloTable) -> Result<Vec<String>, String> {
        let mut study = Study::new(self.formula, self.family.parse().unwrap()).unwrap();
        if let Some(formula) = self.parameter {
            study = study.with_parameter(formula).unwrap();
        }
        study.priors.insert(self.prior[0].into(), self.prior[1].parse().unwrap());
        let prepared = study.prepare(std::slice::from_ref(silo), &Device::flex()).map_err(|error| error.to_string())?;
        Ok(prepared.plan.priors.iter().map(ToString::to_string).collect())
    }
}

#[test]
fn priors_of_every_kind_of_number_are_stated_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let silo = file(folder.path());
    let of = |formula, family, parameter, prior| Stated { formula, family, parameter, prior };
    let cases = [
        (of("y ~ x", "hurdle_poisson", None, ["hu", "beta(2, 5)"]), "hu ~ beta(2, 5)"),
        (of("grade ~ x", "cumulative", None, ["threshold", "normal(0, 3)"]), "threshold ~ normal(0, 3), increasing"),
        (
            of("surv(t, s) ~ x", "piecewise_exponential", None, ["log_hazard", "normal(-1, 2)"]),
            "log_hazard ~ normal(-1, 2)",
        ),
        (of("y ~ x", "gaussian", Some("sigma ~ x"), ["sigma_x", "normal(0, 0.5)"]), "sigma_x ~ normal(0, 0.5)"),
        (of("grade ~ x", "categorical", None, ["mu2_x", "normal(0, 0.7)"]), "mu2_x ~ normal(0, 0.7)"),
    ];
    for (stated, line) in cases {
        let found = stated.lines(&silo).unwrap();
        assert!(found.iter().any(|own| own == line), "{line}: {found:?}");
    }
    // The intercept of a category is none of the class `b`.
    let found = of("grade ~ x", "categorical", None, ["b", "normal(0, 0.7)"]).lines(&silo).unwrap();
    let changed: Vec<&String> = found.iter().filter(|own| own.ends_with("normal(0, 0.7)")).collect();
    assert_eq!(changed, ["mu2_x ~ normal(0, 0.7)", "mu3_x ~ normal(0, 0.7)"]);
}

#[test]
fn priors_and_formulas_that_a_family_does_not_have_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let silo = file(folder.path());
    let of = |formula, family, parameter, prior| Stated { formula, family, parameter, prior };
    let (any, groups) = (["b", "normal(0, 1)"], Some("sigma ~ x + (1 | grade)"));
    let refused = [
        (of("y ~ x", "hurdle_poisson", None, ["hu", "normal(0, 1)"]), "between 0 and 1"),
        (of("y ~ x", "gaussian", None, ["sigma", "beta(1, 1)"]), "numbers above 0"),
        (of("y ~ x", "gaussian", Some("phi ~ x"), any), "a formula of `phi`"),
        (of("y ~ x", "gaussian", groups, any), "fixed terms alone"),
        (of("grade ~ 0 + x", "cumulative", None, any), "Take `0 +` or `- 1` out"),
    ];
    for (stated, words) in refused {
        let said = stated.lines(&silo).unwrap_err();
        assert!(said.contains(words), "{}, {}: {said}", stated.formula, stated.family);
    }
}

#[test]
fn rows_are_predicted_with_the_formula_of_their_zeros_and_levels_have_no_mean() {
    let folder = tempfile::tempdir().unwrap();
    let (device, silos) = (Device::flex(), [file(folder.path())]);
    let new = silo(folder.path(), "new", "x\n-2\n3\n");
    let study = Study::new("y ~ x", "hurdle_poisson".parse().unwrap()).unwrap().with_parameter("hu ~ x").unwrap();
    let prepared = study.prepare(&silos, &device).unwrap();
    let mut own = fit(&prepared.plan.model, &prepared.silos, &device, &FitOptions::default(), None).unwrap();
    let predicted = study.predict(&new, Whose::New, &prepared, &mut own, &device).unwrap();
    let mean = |label: &str| super::answer(&own, label)[0];
    for (x, found) in [-2.0, 3.0].iter().zip(&predicted.expected) {
        let rate = (mean("(Intercept)") + mean("x") * x).exp();
        let zero = 1.0 / (1.0 + (-mean("hu_(Intercept)") - mean("hu_x") * x).exp());
        let expected = (1.0 - zero) * rate / -(-rate).exp_m1();
        // At the means of the coefficients, beside the mean over their draws.
        assert!((found.mean - expected).abs() < 0.3 * found.sd, "{x}: {found:?} {expected}");
    }
    let study = Study::new("grade ~ x", "cumulative".parse().unwrap()).unwrap();
    let prepared = study.prepare(&silos, &device).unwrap();
    let own = fit(&prepared.plan.model, &prepared.silos, &device, &FitOptions::default(), None).unwrap();
    let draws = own.answer_draws(&prepared.plan.model, &device).unwrap();
    // Of ordered levels a contrast is one of the predictor, and an averaged one has the chance of each level.
    let contrast = |text: &str| study.contrast(&text.parse().unwrap(), &draws, &prepared, &device).unwrap();
    let [averaged, plain] = ["x: 1 - 0 averaged", "x: 1 - 0"].map(contrast);
    assert!(plain.len() == 1 && plain[0].ratio == Some("odds ratio") && plain[0].level.is_none(), "{plain:?}");
    let levels: Vec<Option<&str>> = averaged.iter().map(|own| own.level.as_deref()).collect();
    assert_eq!(levels, ["1", "2", "3"].map(Some));
    let sum: f64 = averaged.iter().map(|own| own.difference.mean).sum();
    assert!(sum.abs() < 1e-12, "{sum}");
    // Larger predictors are higher levels: the highest gains what the predictor gains, in every draw.
    assert!((averaged[2].above - plain[0].above).abs() < 0.1, "{} {}", averaged[2].above, plain[0].above);
}
