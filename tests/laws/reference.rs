//! Makes the book's reference of distributions from the densities themselves, and fails where the book is stale.

use partita_core::{
    Bernoulli, Beta, BetaBinomial, Binomial, Categorical, Cauchy, Density, Device, Dirichlet, Exponential, Flat, Gamma,
    Geometric, Gradient, HalfCauchy, HalfNormal, HalfStudentT, InverseGamma, InverseGaussian, Laplace, LkjCholesky,
    LogNormal, Multinomial, MultivariateNormal, MultivariateStudentT, NegativeBinomial, Normal, OrderedLogistic,
    OrderedProbit, PiecewiseExponential, Poisson, SkewNormal, StudentT, SymmetricDirichlet, Term, Uniform, VonMises,
    Weibull, WishartCholesky,
};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/src/reference-distributions.md");

/// A density with one event: the value and the parameters.
type Row = (&'static dyn Density, &'static [f64], [&'static [f64]; 3]);

const FACTOR: &[f64] = &[1.0, 0.0, 0.6, 0.8];

const ROWS: [Row; 35] = [
    (&Bernoulli, &[1.0], [&[0.3], &[], &[]]),
    (&Beta, &[0.4], [&[2.0], &[3.0], &[]]),
    (&BetaBinomial, &[2.0], [&[4.0], &[2.0], &[3.0]]),
    (&Binomial, &[2.0], [&[4.0], &[0.3], &[]]),
    (&Categorical, &[1.0], [&[0.3, 0.1], &[], &[]]),
    (&Cauchy, &[0.4], [&[0.0], &[1.0], &[]]),
    (&Dirichlet, &[0.4, 0.6], [&[1.0, 2.0], &[], &[]]),
    (&Exponential, &[0.4], [&[2.0], &[], &[]]),
    (&Flat, &[0.4], [&[], &[], &[]]),
    (&Gamma, &[0.4], [&[2.0], &[3.0], &[]]),
    (&Geometric, &[2.0], [&[0.3], &[], &[]]),
    (&HalfCauchy, &[0.4], [&[2.0], &[], &[]]),
    (&HalfNormal, &[0.4], [&[2.0], &[], &[]]),
    (&HalfStudentT, &[0.4], [&[5.0], &[2.0], &[]]),
    (&InverseGamma, &[0.4], [&[3.0], &[2.0], &[]]),
    (&InverseGaussian, &[0.4], [&[1.0], &[2.0], &[]]),
    (&Laplace, &[0.4], [&[0.0], &[1.0], &[]]),
    (&LkjCholesky, FACTOR, [&[2.0], &[], &[]]),
    (&LogNormal, &[0.4], [&[0.0], &[1.0], &[]]),
    (&Multinomial, &[2.0, 1.0], [&[3.0], &[0.3, 0.1], &[]]),
    (&MultivariateNormal, &[0.4, 0.6], [&[0.0, 0.0], FACTOR, &[]]),
    (&MultivariateStudentT, &[0.4, 0.6], [&[5.0], &[0.0, 0.0], FACTOR]),
    (&NegativeBinomial, &[2.0], [&[2.0], &[0.3], &[]]),
    (&Normal, &[0.4], [&[0.0], &[1.0], &[]]),
    (&OrderedLogistic, &[1.0], [&[0.3], &[-1.0, 1.0], &[]]),
    (&OrderedProbit, &[1.0], [&[0.3], &[-1.0, 1.0], &[]]),
    (&PiecewiseExponential, &[0.4], [&[0.3], &[0.1, -1.0], &[2.0]]),
    (&Poisson, &[2.0], [&[0.3], &[], &[]]),
    (&SkewNormal, &[0.4], [&[0.0], &[1.0], &[2.0]]),
    (&StudentT, &[0.4], [&[5.0], &[0.0], &[1.0]]),
    (&SymmetricDirichlet, &[0.4, 0.6], [&[2.0], &[], &[]]),
    (&Uniform, &[0.4], [&[0.0], &[1.0], &[]]),
    (&VonMises, &[0.4], [&[0.0], &[2.0], &[]]),
    (&Weibull, &[0.4], [&[2.0], &[1.0], &[]]),
    (&WishartCholesky, FACTOR, [&[3.0], FACTOR, &[]]),
];

/// Every density of the library.
pub(super) fn densities() -> impl Iterator<Item = &'static dyn Density> {
    ROWS.into_iter().map(|(density, ..)| density)
}

/// The word of a device form: for all parameters, for numbers alone, or none.
fn device_form((density, value, parameters): &Row) -> &'static str {
    let device = Device::flex();
    let tensor = |numbers: &[f64]| Term::Tensor(device.tensor(numbers.to_vec(), [1, numbers.len()]));
    let given = parameters.map(|numbers| if numbers.is_empty() { Term::Number(0.0) } else { tensor(numbers) });
    let numbers = parameters.map(|numbers| Term::Number(numbers.first().copied().unwrap_or_default()));
    if density.on_device(tensor(value), given).is_some() {
        "yes"
    } else if parameters.iter().all(|numbers| numbers.len() < 2) && density.on_device(tensor(value), numbers).is_some()
    {
        "number parameters"
    } else {
        "no"
    }
}

fn row(row: &Row) -> String {
    const RANKS: [&str; 3] = ["", "vector ", "matrix "];
    let (density, value, parameters) = *row;
    let yes = |known: bool| if known { "yes" } else { "no" };
    let rules = density.parameters().iter();
    let list: Vec<String> = rules
        .map(|rule| {
            let domain = rule.domain.describe();
            let domain = if rule.event_rank == 1 {
                domain.replacen("a finite number", "finite numbers", 1)
            } else {
                domain.into()
            };
            let rank = if domain.contains("matrix") { "" } else { RANKS[rule.event_rank] };
            format!("`{}` ({rank}{})", rule.name, if rank.is_empty() { domain } else { format!("of {domain}") })
        })
        .collect();
    let note = if density.is_improper() { " (improper)" } else { "" };
    let log_cdf = density.log_cdf(value[0], parameters, &mut Gradient::default()).is_some();
    let log_survival = density.log_survival(value[0], parameters, &mut Gradient::default()).is_some();
    assert_eq!(log_cdf, log_survival, "{}", density.name());
    format!(
        "| `{}`{note} | {} | {} | {} | {} | {} | {} |\n",
        density.name(),
        if list.is_empty() { "none".into() } else { list.join(", ") },
        density.support(parameters).describe(),
        yes(density.mean(parameters).is_some()),
        yes(density.variance(parameters).is_some()),
        yes(log_cdf),
        device_form(row),
    )
}

fn page() -> String {
    let mut page = "# Distributions\n\nMade from the densities by `tests/laws/reference.rs`; \
        `PARTITA_BLESS=1 cargo test -p partita-tests --test laws reference` writes it anew.\n\
        The support is that of an example (a total of 4, two classes or categories, bounds 0 and 1). Mean and variance are\n\
        given where they exist and do not need the length of an event. A distribution function is given with its complement,\n\
        both in logarithms and with derivatives (`log_cdf`, `log_survival`). A distribution without a device form is\n\
        evaluated on the host, by every algorithm but `OnDevice`.\n\n\
        `Normal::new(0.0, 1.0).iid([k]).ordered()` restricts `k` equal real or positive numbers to increasing order.\n\n\
        | distribution | parameters | support | mean | variance | distribution function | device form |\n\
        |---|---|---|---|---|---|---|\n"
        .to_owned();
    page.extend(ROWS.iter().map(row));
    page
}

#[test]
fn the_book_lists_every_distribution_as_the_code_has_it() {
    let expected = page();
    if std::env::var_os("PARTITA_BLESS").is_some() {
        std::fs::write(PATH, &expected).unwrap();
    }
    let found = std::fs::read_to_string(PATH).unwrap_or_default();
    assert!(found == expected, "run `PARTITA_BLESS=1 cargo test -p partita-tests --test laws reference`");
}

#[test]
fn no_density_of_the_library_is_missing_from_the_list() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../core/src/distribution");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    // A folder holds composites, which are made of the densities of these files.
    let files = paths.filter(|path| path.is_file()).map(|path| std::fs::read_to_string(path).unwrap());
    let library: Vec<String> = files.map(|text| text.split("#[cfg(test)]").next().unwrap().to_owned()).collect();
    let named = library.iter().flat_map(|text| text.split("\nimpl Density for ").skip(1));
    let names: Vec<&str> = named.filter_map(|rest| rest.split([' ', '<']).next()).collect();
    assert!(names.len() > 30, "the densities were not found: {names:?}");
    for name in names {
        assert!(ROWS.iter().any(|(density, ..)| density.name() == name), "{name} has no row");
    }
}
