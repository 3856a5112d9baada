//! Lets a user choose the family of each site in words, and turns the choice into families for a site table.

use std::collections::BTreeMap;
use std::fmt;

use partita_core::{Key, LocalBlock, Noise, Part, Purpose, Site, SiteTable};

use super::{
    Blocks, Delta, DiagonalGaussian, Family, FullRankGaussian, IsotropicGaussian, LowRankGaussian, RowGaussian,
    RowOptions,
};
use crate::engine::error::{Error, Result};
use crate::engine::natural::{CovarianceForm, NormalFamily};

/// A Gaussian family in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Gaussian {
    covariance: Covariance,
    given_globals: bool,
    scale_given_globals: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
enum Covariance {
    Diagonal,
    Isotropic,
    FullRank,
    LowRank(usize),
}

impl Gaussian {
    /// Independent components.
    #[must_use]
    pub fn diagonal() -> Self {
        Self { covariance: Covariance::Diagonal, given_globals: false, scale_given_globals: false }
    }

    /// Independent components that share one standard deviation: all globals that are not named apart, or all numbers
    /// of the site that it is chosen for. For global latents only.
    #[must_use]
    pub fn isotropic() -> Self {
        Self { covariance: Covariance::Isotropic, ..Self::diagonal() }
    }

    /// Any covariance; for local latents, any covariance within a row.
    #[must_use]
    pub fn full_rank() -> Self {
        Self { covariance: Covariance::FullRank, ..Self::diagonal() }
    }

    /// A diagonal plus `rank` directions of correlation; for global latents only.
    #[must_use]
    pub fn low_rank(rank: usize) -> Self {
        Self { covariance: Covariance::LowRank(rank), ..Self::diagonal() }
    }

    /// For local latents: the mean is linear in the globals.
    #[must_use]
    pub fn given_globals(self) -> Self {
        Self { given_globals: true, ..self }
    }

    /// For local latents: the log-scale is linear in the globals.
    #[must_use]
    pub fn scale_given_globals(self) -> Self {
        Self { scale_given_globals: true, ..self }
    }
}

/// The family chosen for a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub enum Choice {
    /// A Gaussian.
    Gaussian(Gaussian),
    /// A point mass.
    Delta,
}

/// A family that has a device form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeviceKind {
    Delta,
    Diagonal,
    FullRank,
}

impl Choice {
    /// The device form of this choice.
    ///
    /// # Errors
    /// [`Error::Setting`] for an isotropic or a low-rank Gaussian.
    pub(crate) fn on_device(self) -> Result<DeviceKind> {
        let refuse = |found: &str| {
            Err(Error::Setting {
                setting: "family of globals",
                found: format!("{found} with OnDevice"),
                expected: "diagonal, full_rank or a point mass, which have a device form; or the algorithm Central",
            })
        };
        match self {
            Self::Delta => Ok(DeviceKind::Delta),
            Self::Gaussian(Gaussian { covariance: Covariance::Diagonal, .. }) => Ok(DeviceKind::Diagonal),
            Self::Gaussian(Gaussian { covariance: Covariance::FullRank, .. }) => Ok(DeviceKind::FullRank),
            Self::Gaussian(Gaussian { covariance: Covariance::Isotropic, .. }) => refuse("isotropic"),
            Self::Gaussian(Gaussian { covariance: Covariance::LowRank(_), .. }) => refuse("low_rank"),
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delta => formatter.write_str("point mass"),
            Self::Gaussian(Gaussian { covariance, .. }) => match covariance {
                Covariance::Diagonal => formatter.write_str("Gaussian, diagonal covariance"),
                Covariance::Isotropic => formatter.write_str("Gaussian, one standard deviation"),
                Covariance::FullRank => formatter.write_str("Gaussian, full covariance"),
                Covariance::LowRank(rank) => write!(formatter, "Gaussian, covariance diagonal plus rank {rank}"),
            },
        }
    }
}

impl From<Gaussian> for Choice {
    fn from(gaussian: Gaussian) -> Self {
        Self::Gaussian(gaussian)
    }
}

/// Which family every site has.
///
/// The default needs no thought: full rank over the globals up to 64 numbers, diagonal beyond; for local latents a full
/// covariance within each row up to 8 numbers, with mean and log-scale linear in the globals up to 64 globals.
///
/// # Example
/// ```
/// use partita_inference::{FamilyPlan, Gaussian};
/// let plan = FamilyPlan::new().global(Gaussian::full_rank()).local(Gaussian::diagonal().given_globals());
/// assert_ne!(plan, FamilyPlan::new());
/// ```
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct FamilyPlan {
    global: Option<Choice>,
    local: Option<Choice>,
    sites: BTreeMap<String, Choice>,
    initial_scale: f64,
    /// How far the global means are scattered at the start, and the seed of that.
    scatter: Option<(f64, u64)>,
}

impl Default for FamilyPlan {
    fn default() -> Self {
        Self::new()
    }
}

const FULL_RANK_GLOBALS: usize = 64;
const FULL_RANK_ROW: usize = 8;

impl FamilyPlan {
    /// The default plan.
    #[must_use]
    pub fn new() -> Self {
        Self { global: None, local: None, sites: BTreeMap::new(), initial_scale: 0.1, scatter: None }
    }

    /// Chooses the family of the global latents not named in [`FamilyPlan::site`], taken together.
    #[must_use]
    pub fn global(mut self, choice: impl Into<Choice>) -> Self {
        self.global = Some(choice.into());
        self
    }

    /// Chooses the family of the local latents not named in [`FamilyPlan::site`].
    #[must_use]
    pub fn local(mut self, choice: impl Into<Choice>) -> Self {
        self.local = Some(choice.into());
        self
    }

    /// Chooses the family of one site, independent of the other sites.
    #[must_use]
    pub fn site(mut self, name: &str, choice: impl Into<Choice>) -> Self {
        self.sites.insert(name.to_owned(), choice.into());
        self
    }

    /// Makes every global latent a point mass, whatever was chosen before; where the points start stays as it is.
    #[must_use]
    pub fn point_masses(self) -> Self {
        Self { global: Some(Choice::Delta), sites: BTreeMap::new(), ..self }
    }

    /// Starts every standard deviation at `scale` on the unconstrained scale.
    #[must_use]
    pub fn initial_scale(mut self, scale: f64) -> Self {
        self.initial_scale = scale;
        self
    }

    /// Scatters the starting means of the global latents by normal numbers times `deviation`, on the unconstrained
    /// scale.
    ///
    /// Where latents may be exchanged (topics, components, hidden units) all parties have to break the symmetry alike:
    /// with rounds of local steps from a symmetric start every silo breaks it in its own way, and the average blurs.
    #[must_use]
    pub fn scattered(mut self, deviation: f64, seed: u64) -> Self {
        self.scatter = Some((deviation, seed));
        self
    }

    /// The standard deviation every family starts at.
    #[must_use]
    pub fn scale(&self) -> f64 {
        self.initial_scale
    }

    /// The parameters at which a global family starts: its means where the model says ([`SiteTable::start`]), scattered
    /// where the plan says.
    #[must_use]
    pub fn start(&self, family: &dyn Family, table: &SiteTable) -> Vec<f64> {
        let mut parameters = family.initial(self.initial_scale);
        let mut means = table.start();
        if let Some((deviation, seed)) = self.scatter {
            let mut noise = vec![0.0; means.len()];
            Noise::new(seed).stream(Key::new(Purpose::Initial, 0)).normal(&mut noise);
            partita_core::kernel::add_scaled(&mut means, deviation, &noise);
        }
        family.set_mean(&mut parameters, &means);
        parameters
    }

    /// Refuses names that are no latent site, and scales that are not positive.
    ///
    /// # Errors
    /// [`Error::UnknownSite`], [`Error::Setting`].
    pub fn check(&self, table: &SiteTable) -> Result<()> {
        if !(self.initial_scale > 0.0 && self.initial_scale.is_finite()) {
            return Err(Error::Setting {
                setting: "initial_scale",
                found: self.initial_scale.to_string(),
                expected: "a finite number > 0, such as 0.1",
            });
        }
        if let Some((deviation, _)) =
            self.scatter.filter(|(deviation, _)| !(deviation.is_finite() && *deviation >= 0.0))
        {
            return Err(Error::Setting {
                setting: "scattered",
                found: deviation.to_string(),
                expected: "a finite standard deviation >= 0, such as 0.5",
            });
        }
        let known = |name: &str| {
            [Part::Global, Part::Local].into_iter().flat_map(|part| table.latents(part)).any(|site| site.name == name)
        };
        match self.sites.keys().find(|name| !known(name)) {
            None => Ok(()),
            Some(name) => Err(Error::UnknownSite {
                site: name.clone(),
                operation: "the family plan".into(),
                known: table.sites().iter().map(|site| site.name.clone()).collect::<Vec<_>>().join(", "),
            }),
        }
    }

    /// The family over the global vector of `table`.
    ///
    /// # Errors
    /// [`Error::Setting`] for a low rank of 0.
    pub fn global_family(&self, table: &SiteTable) -> Result<Box<dyn Family>> {
        let components = |sites: Vec<&Site>| -> Vec<usize> {
            sites.iter().flat_map(|site| site.offset()..site.offset() + site.width()).collect()
        };
        let parts = self.parts(table).into_iter().map(|(sites, choice)| (components(sites), choice));
        let parts = parts.map(|(components, choice)| over(choice, components.len()).map(|family| (components, family)));
        let mut parts = parts.collect::<Result<Vec<_>>>()?;
        match (parts.len(), parts.pop()) {
            (1, Some((_, family))) => Ok(family),
            (_, last) => Ok(Box::new(Blocks::new(parts.into_iter().chain(last).collect()))),
        }
    }

    /// The global family as normal densities in natural parameters, for algorithms that multiply and divide them.
    ///
    /// # Errors
    /// [`Error::Setting`] for point masses and low-rank covariances, which are closed under neither.
    pub fn natural_family(&self, table: &SiteTable) -> Result<NormalFamily> {
        let mut parts = Vec::new();
        for (sites, choice) in self.parts(table) {
            let form = match choice {
                Choice::Gaussian(Gaussian { covariance: Covariance::Diagonal, .. }) => CovarianceForm::Diagonal,
                Choice::Gaussian(Gaussian { covariance: Covariance::Isotropic, .. }) => CovarianceForm::Isotropic,
                Choice::Gaussian(Gaussian { covariance: Covariance::FullRank, .. }) => CovarianceForm::Full,
                other => {
                    let names = sites.iter().map(|site| site.name.as_str()).collect::<Vec<_>>().join(", ");
                    return Err(Error::Setting {
                        setting: "family of globals",
                        found: format!("{other:?} for {names}"),
                        expected: "diagonal, isotropic or full_rank, of which products and quotients are of the same form",
                    });
                }
            };
            let components = sites.iter().flat_map(|site| site.offset()..site.offset() + site.width());
            parts.push((components.collect::<Vec<_>>(), form));
        }
        parts.retain(|(components, _)| !components.is_empty());
        NormalFamily::of_parts(parts)
    }

    /// The global sites that share a family: first those not named, together, then each that is.
    pub(crate) fn parts<'a>(&self, table: &'a SiteTable) -> Vec<(Vec<&'a Site>, Choice)> {
        let (named, joint): (Vec<_>, Vec<_>) =
            table.latents(Part::Global).partition(|site| self.sites.contains_key(&site.name));
        let numbers: usize = joint.iter().map(|site| site.width()).sum();
        let default = if numbers <= FULL_RANK_GLOBALS { Gaussian::full_rank() } else { Gaussian::diagonal() };
        let named = named.into_iter().filter_map(|site| Some((vec![site], *self.sites.get(&site.name)?)));
        std::iter::once((joint, self.global.unwrap_or(default.into()))).chain(named).collect()
    }

    /// The family of one block of local latents.
    ///
    /// # Errors
    /// [`Error::Setting`] for an isotropic or a low-rank choice, which rows do not have.
    pub fn row_family(&self, table: &SiteTable, index: usize, block: &LocalBlock) -> Result<RowGaussian> {
        let few = table.global_len() <= FULL_RANK_GLOBALS;
        let covariance = if block.width <= FULL_RANK_ROW { Covariance::FullRank } else { Covariance::Diagonal };
        let default = Gaussian { covariance, given_globals: few, scale_given_globals: few };
        let mut options = RowOptions {
            dense: vec![false; block.width],
            given_globals: vec![false; block.width],
            scale_given_globals: vec![false; block.width],
            delta: vec![false; block.width],
        };
        let refuse = |site: &Site, found: &str| {
            Err(Error::Setting {
                setting: "family of local latents",
                found: format!("{found} for site `{}`", site.name),
                expected: "diagonal or full_rank (within a row): rows are independent given the globals, each with scales of its own; isotropic and low_rank are for global latents",
            })
        };
        let in_block = |site: &&Site| site.block() == index;
        for site in table.latents(Part::Local).filter(in_block) {
            let named = self.sites.get(&site.name);
            let choice = named.copied().or(self.local).unwrap_or(default.into());
            for column in site.offset()..site.offset() + site.width() {
                match choice {
                    Choice::Delta => options.delta[column] = true,
                    Choice::Gaussian(Gaussian { covariance: Covariance::Isotropic, .. }) => {
                        return refuse(site, "isotropic");
                    }
                    Choice::Gaussian(Gaussian { covariance: Covariance::LowRank(_), .. }) => {
                        return refuse(site, "low_rank");
                    }
                    Choice::Gaussian(gaussian) => {
                        options.dense[column] = gaussian.covariance == Covariance::FullRank;
                        options.given_globals[column] = gaussian.given_globals;
                        options.scale_given_globals[column] = gaussian.scale_given_globals;
                    }
                }
            }
        }
        Ok(RowGaussian::new(block.rows, block.width, table.global_len(), options))
    }

    /// The family of one block of local latents whose rows an encoder serves: diagonal, independent of the globals.
    ///
    /// # Errors
    /// [`Error::Setting`] if a family is chosen for one of its sites.
    pub fn encoded_family(&self, table: &SiteTable, index: usize, block: &LocalBlock) -> Result<RowGaussian> {
        let expected =
            "no choice for sites of a plate with an encoder: the encoder decides (a diagonal Gaussian for each row)";
        let mut own = table.latents(Part::Local).filter(|site| site.block() == index);
        if let Some(site) = own.find(|site| self.sites.contains_key(&site.name)) {
            let found =
                format!("a choice for site `{}` of plate `{}`", site.name, block.plate.as_deref().unwrap_or("-"));
            return Err(Error::Setting { setting: "family", found, expected });
        }
        // A choice for all local latents is for the other plates; without one it would be passed over in silence.
        if self.local.is_some()
            && table.blocks().iter().enumerate().all(|(other, own)| other == index || own.width == 0)
        {
            let found = "a choice for all local latents".into();
            return Err(Error::Setting { setting: "family", found, expected });
        }
        let none = vec![false; block.width];
        let options = RowOptions {
            dense: none.clone(),
            given_globals: none.clone(),
            scale_given_globals: none.clone(),
            delta: none,
        };
        Ok(RowGaussian::new(block.rows, block.width, table.global_len(), options))
    }
}

fn over(choice: Choice, len: usize) -> Result<Box<dyn Family>> {
    Ok(match choice {
        Choice::Delta => Box::new(Delta::new(len)),
        Choice::Gaussian(Gaussian { covariance: Covariance::Diagonal, .. }) => Box::new(DiagonalGaussian::new(len)),
        Choice::Gaussian(Gaussian { covariance: Covariance::Isotropic, .. }) => Box::new(IsotropicGaussian::new(len)),
        Choice::Gaussian(Gaussian { covariance: Covariance::FullRank, .. }) => Box::new(FullRankGaussian::new(len)),
        Choice::Gaussian(Gaussian { covariance: Covariance::LowRank(0), .. }) => {
            return Err(Error::Setting {
                setting: "low_rank",
                found: "0".into(),
                expected: "a rank of at least 1; for none use diagonal",
            });
        }
        Choice::Gaussian(Gaussian { covariance: Covariance::LowRank(rank), .. }) => {
            Box::new(LowRankGaussian::new(len, rank))
        }
    })
}
