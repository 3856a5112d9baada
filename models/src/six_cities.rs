//! Rebuilds the six-cities wheeze data from its published counts, with its two silos and its reference posterior.

use partita_core::{Error, Result};

/// The ages of the four observations, in years since nine: seven, eight, nine and ten.
pub const AGES: [f64; 4] = [-2.0, -1.0, 0.0, 1.0];

/// One child of Steubenville, Ohio: whether the mother smoked in the first year, and wheeze at each of [`AGES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Child {
    /// Whether the mother smoked in the first year of the study.
    pub smoke: bool,
    /// Whether the child wheezed, at each of [`AGES`].
    pub wheeze: [bool; 4],
}

/// Children by response pattern; the pattern's four bits are the answers at ages 7, 8, 9 and 10, age 7 first.
const NOT_SMOKING: [usize; 16] = [237, 10, 15, 4, 16, 2, 7, 3, 24, 3, 3, 2, 6, 2, 5, 11];

/// The same counts for children whose mother smoked.
const SMOKING: [usize; 16] = [118, 6, 8, 2, 11, 1, 6, 4, 7, 3, 3, 1, 4, 2, 4, 7];

/// The ids of silo A as bits, id 0 in the lowest bit of the first word.
const SILO_A: [u64; 9] = [
    0x91f9_f5f3_ddfd_1fde,
    0x4132_2d34_71ae_6ce2,
    0xff39_991c_a66b_7611,
    0x7bde_ebf5_4fbd_9de9,
    0xc531_e25d_f99a_043e,
    0x9d4a_f2b9_81bd_e275,
    0x71df_15d4_478f_18fa,
    0x0152_7751_3d35_3351,
    0x01d5_eb91,
];

/// The 537 children of the six-cities study, each observed four times.
///
/// A child's id is its index in the returned list: first the 350 children of mothers who did not smoke, then the other
/// 187, each group ordered by response pattern. This is the order of the data set `ohio` of the R package geepack.
///
/// # Example
/// ```
/// let children = partita_models::six_cities();
/// let wheezes: usize = children.iter().flat_map(|child| child.wheeze).filter(|&wheeze| wheeze).count();
/// assert_eq!((children.len(), wheezes), (537, 326));
/// ```
///
/// # References
/// Fitzmaurice and Laird (1993), A likelihood-based method for analysing longitudinal binary responses, Biometrika 80,
/// 141-151, table 1.
#[must_use]
pub fn six_cities() -> Vec<Child> {
    let group = |smoke: bool, counts: [usize; 16]| {
        counts.into_iter().enumerate().flat_map(move |(pattern, count)| {
            let wheeze = [8, 4, 2, 1].map(|bit| pattern & bit != 0);
            std::iter::repeat_n(Child { smoke, wheeze }, count)
        })
    };
    group(false, NOT_SMOKING).chain(group(true, SMOKING)).collect()
}

/// The children of silo A and of silo B, each in the order of their ids.
///
/// This is the split behind the posteriors of [`six_cities_reference`], which has the ids as
/// [`SixCitiesReference::silo_a`].
///
/// # Example
/// ```
/// let [a, b] = partita_models::six_cities_silos();
/// assert_eq!((a.len(), b.len()), (300, 237));
/// ```
#[must_use]
pub fn six_cities_silos() -> [Vec<Child>; 2] {
    let in_silo_a = |id: usize| SILO_A.get(id / 64).is_some_and(|word| word >> (id % 64) & 1 == 1);
    let (a, b): (Vec<_>, Vec<_>) = six_cities().into_iter().enumerate().partition(|&(id, _)| in_silo_a(id));
    [a, b].map(|silo| silo.into_iter().map(|(_, child)| child).collect())
}

/// Summaries of long runs of the no-U-turn sampler for the logistic mixed model of [`six_cities`].
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[non_exhaustive]
pub struct SixCitiesReference {
    /// The model, in words and formulas.
    pub what: String,
    /// The program, its version and its settings.
    pub made_by: String,
    /// How the two silos were drawn.
    pub split: String,
    /// The quantities: the four regression coefficients on the logit scale, and minus the log of the sd of the
    /// children's intercepts.
    pub names: [String; 5],
    /// The posteriors given all children, given silo A alone and given silo B alone.
    pub posteriors: [ReferencePosterior; 3],
    /// The ids of silo A, ascending.
    pub silo_a: Vec<usize>,
}

/// Summaries of one reference posterior; every list has one entry for each of [`SixCitiesReference::names`].
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[non_exhaustive]
pub struct ReferencePosterior {
    /// The children it is given.
    pub label: String,
    /// The number of these children.
    pub children: usize,
    /// The number of draws over all chains.
    pub draws: usize,
    /// Posterior means.
    pub mean: [f64; 5],
    /// Posterior standard deviations.
    pub sd: [f64; 5],
    /// Posterior quantiles, ascending in probability.
    pub quantiles: Vec<ReferenceQuantile>,
    /// Effective sample sizes: the standard error of a mean is its sd over the square root of this.
    pub ess: [f64; 5],
    /// Split R-hat of each quantity.
    pub rhat: [f64; 5],
    /// The number of divergent transitions.
    pub divergences: usize,
}

/// One quantile of every quantity.
#[derive(Debug, Clone, Copy, PartialEq, serde::Deserialize)]
#[non_exhaustive]
pub struct ReferenceQuantile {
    /// The probability of a value below the quantile.
    pub probability: f64,
    /// The quantile of each quantity.
    pub values: [f64; 5],
}

impl SixCitiesReference {
    /// The posterior given all 537 children.
    #[must_use]
    pub fn pooled(&self) -> &ReferencePosterior {
        &self.posteriors[0]
    }

    /// The posteriors given silo A alone and given silo B alone.
    #[must_use]
    pub fn silos(&self) -> [&ReferencePosterior; 2] {
        [&self.posteriors[1], &self.posteriors[2]]
    }
}

/// The reference posterior of the six-cities model, pooled and for each silo alone.
///
/// # Errors
/// [`Error::Argument`] if the table compiled into this crate is damaged, which a test excludes.
///
/// # Example
/// ```
/// let reference = partita_models::six_cities_reference()?;
/// assert!((reference.pooled().mean[0] + 3.162).abs() < 1e-3);
/// # Ok::<(), partita_core::Error>(())
/// ```
pub fn six_cities_reference() -> Result<SixCitiesReference> {
    serde_json::from_str(include_str!("reference/six_cities_nuts.json")).map_err(|error| Error::Argument {
        operation: "reference posterior of six cities".into(),
        argument: "the table compiled in",
        found: error.to_string(),
        expected: "the summaries named in SixCitiesReference",
    })
}
