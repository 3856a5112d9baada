//! Holds formulas whose numbers would have one name to a message that names the column and what to write, and that helps.

use partita::Device;
use partita::formula::Study;

/// What is said of a formula over a file with columns that are called as numbers of models are.
fn said(formula: &str, family: &str, parameter: Option<&str>) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let header = "price,count,y,sigma,shape,zi,threshold,x,x1,grade,sigma_x1,class,school,f,fb,row\n";
    let row = |k: u32| {
        let [y, sigma, shape, zi, threshold, x1] = [3, 5, 7, 11, 13, 17].map(|by| k * by % 19);
        format!(
            "{}.5,{},{y},{sigma},{shape},{zi},{threshold},{},{x1},{},{},c{},s{},{},{},r{}\n",
            k * 7 % 23,
            k % 5,
            k * 29 % 31 % 2,
            k % 3,
            k * 23 % 29,
            k % 12 / 2,
            k % 12 / 4,
            ["a", "b"][k as usize % 2],
            k * 19 % 37,
            k % 12
        )
    };
    let all = super::silo(folder.path(), "all", &(header.to_owned() + &(1..40).map(row).collect::<String>()));
    let mut study = Study::new(formula, family.parse().unwrap()).unwrap();
    if let Some(parameter) = parameter {
        study = study.with_parameter(parameter).unwrap();
    }
    let device = Device::flex();
    let prepared = study.prepare(&[all], &device).map_err(|error| error.to_string())?;
    let table = partita::SiteTable::of(&prepared.plan.model, &device, &prepared.silos[0].1);
    table.map(drop).map_err(|error| error.to_string())
}

#[test]
fn a_column_that_is_called_as_a_number_of_the_model_is_named_and_works_as_the_message_says() {
    let cases = [
        ("price ~ x + y", "gaussian", None, "`y`, the name of a column and of the outcome", "price ~ x + I(y)"),
        ("price ~ sigma", "gaussian", None, "`sigma`, the name of a column and of a parameter", "price ~ I(sigma)"),
        ("count ~ shape", "negbinomial", None, "`shape`, the name of", "count ~ I(shape)"),
        ("count ~ zi", "zero_inflated_poisson", None, "`zi`, the name of", "count ~ I(zi)"),
        ("grade ~ threshold", "cumulative", None, "`threshold`, the name of", "grade ~ I(threshold)"),
        ("price ~ f + fb", "gaussian", None, "`fb`, the name of a column and of another column", "price ~ f + I(fb)"),
        ("price ~ sigma_x1", "gaussian", Some("sigma ~ x1"), "`sigma_x1`, the name of", "price ~ I(sigma_x1)"),
        (
            "price ~ x + (1 | school/class) + (1 | school)",
            "gaussian",
            None,
            "two intercepts for the groups of `school`, in `(1 | school)` and `(1 | school)`, expected one. Leave `(1 | school)` out",
            "price ~ x + (1 | school/class)",
        ),
        (
            "price ~ x + (1 + x | school) + (1 | school)",
            "gaussian",
            None,
            "Leave `(1 | school)` out",
            "price ~ x + (1 + x | school)",
        ),
        (
            "price ~ x + (1 + x | school) + (1 + x1 || school)",
            "gaussian",
            None,
            "Write `0 +` into one of them",
            "price ~ x + (1 + x | school) + (0 + x1 || school)",
        ),
        (
            "price ~ x + (0 + x | school) + (1 + x || school)",
            "gaussian",
            None,
            "two slopes of `x` for the groups of `school`",
            "price ~ x + (1 + x || school)",
        ),
        (
            "price ~ x + (1 + x | school) + (0 + y + x1 | school)",
            "gaussian",
            None,
            "two sets of correlations for the groups of `school`",
            "price ~ x + (1 + x | school) + (0 + y + x1 || school)",
        ),
        (
            "price ~ x + (1 | row)",
            "gaussian",
            None,
            "groups called `row`, as the model calls rows",
            "price ~ x + (1 | class)",
        ),
    ];
    for (formula, family, parameter, words, mended) in cases {
        let found = said(formula, family, parameter).unwrap_err();
        assert!(found.contains(words) && !found.contains("declared twice"), "{formula}: {found}");
        said(mended, family, parameter).unwrap_or_else(|error| panic!("{mended}: {error}"));
    }
}
