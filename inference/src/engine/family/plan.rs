//! Lets a user choose the family of each site, and turns the choice into families for a site table.

use std::collections::BTreeMap;

use partita_core::{Key, LocalBlock, Noise, Part, Purpose, Site, SiteTable};

use super::diagonal::real;
use super::{Blocks, CovarianceMatrix, Family, Gaussian, PointMass, RowGaussian, RowOptions, SiteFamily};
use crate::engine::error::{Error, Result};
use crate::engine::natural::NormalFamily;
use crate::engine::plug::Plug;

/// Which family every site has.
///
/// The default needs no thought: full rank over the globals up to 64 numbers, diagonal beyond; for local latents a full
/// covariance within each row up to 8 numbers, with mean and log-scale linear in the globals up to 64 globals, and the
/// mean linear in the row that a row belongs to (a clinic's patient in its clinic) up to 64 latents of that row.
///
/// # Example
/// ```
/// use partita_inference::{FamilyPlan, Gaussian};
/// let plan = FamilyPlan::new().global(Gaussian::full_rank()).local(Gaussian::diagonal().given_globals());
/// assert_ne!(plan, FamilyPlan::new());
/// ```
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct FamilyPlan {
    global: Option<Plug<dyn SiteFamily>>,
    local: Option<Plug<dyn SiteFamily>>,
    sites: BTreeMap<String, Plug<dyn SiteFamily>>,
    initial_scale: f64,
    /// How far the global means are scattered at the start, and the seed of that.
    scatter: Option<(f64, u64)>,
    /// Which of several starts this is, where it is not the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    start: Option<NumberedStart>,
}

/// One of several overdispersed starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct NumberedStart {
    number: u32,
    seed: u64,
}

/// Starting standard deviations by which the means of several starts are scattered.
const OVERDISPERSION: f64 = 10.0;
/// Blocks of the noise of scattered means and of several starts, apart from those of a network's layers, which count
/// from 0, and from that of chains (`methods/nuts/chain.rs`).
const SCATTER_BLOCK: u32 = u32::MAX;
const STARTS_BLOCK: u32 = 2;

impl Default for FamilyPlan {
    fn default() -> Self {
        Self::new()
    }
}

const FULL_RANK_GLOBALS: usize = 64;
/// The most numbers of the rows of a silo that are taken without being asked for.
const MOST_BY_DEFAULT: usize = 1 << 26;
const FULL_RANK_ROW: usize = 8;
/// Latents of an outer row up to which rows depend on them unless a plan says otherwise.
const FEW_OUTER: usize = 64;

impl FamilyPlan {
    /// The default plan.
    #[must_use]
    pub fn new() -> Self {
        Self { global: None, local: None, sites: BTreeMap::new(), initial_scale: 0.1, scatter: None, start: None }
    }

    /// Chooses the family of the global latents not named in [`FamilyPlan::site`], taken together.
    #[must_use]
    pub fn global(mut self, choice: impl Into<Plug<dyn SiteFamily>>) -> Self {
        self.global = Some(choice.into());
        self
    }

    /// Chooses the family of the local latents not named in [`FamilyPlan::site`].
    #[must_use]
    pub fn local(mut self, choice: impl Into<Plug<dyn SiteFamily>>) -> Self {
        self.local = Some(choice.into());
        self
    }

    /// Chooses the family of one site, independent of the other sites.
    #[must_use]
    pub fn site(mut self, name: &str, choice: impl Into<Plug<dyn SiteFamily>>) -> Self {
        self.sites.insert(name.to_owned(), choice.into());
        self
    }

    /// Makes every global latent a point mass, whatever was chosen before; where the points start stays as it is.
    #[must_use]
    pub fn point_masses(self) -> Self {
        Self { global: Some(PointMass.into()), sites: BTreeMap::new(), ..self }
    }

    /// Gives all globals together one full covariance, whatever was chosen before.
    #[must_use]
    pub(crate) fn full_rank_globals(self) -> Self {
        Self { global: Some(Gaussian::full_rank().into()), sites: BTreeMap::new(), ..self }
    }

    /// Starts every standard deviation at `scale` on the unconstrained scale, but of sites that say another
    /// (`Distribution::start_scale`).
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

    /// The plan of one of several starts: the first is the plan's own, the others are scattered around it.
    pub(crate) fn numbered(self, number: u32, seed: u64) -> Self {
        Self { start: (number > 0).then_some(NumberedStart { number, seed }), ..self }
    }

    /// The standard deviation every family starts at.
    #[must_use]
    pub fn scale(&self) -> f64 {
        self.initial_scale
    }

    /// The parameters at which a global family starts: its means and standard deviations where the model says
    /// ([`SiteTable::start`], [`SiteTable::start_scales`]), means scattered where the plan says.
    #[must_use]
    pub fn start(&self, family: &dyn Family, table: &SiteTable) -> Vec<f64> {
        let mut parameters = family.initial(self.initial_scale);
        let mut means = table.start();
        if let Some((deviation, seed)) = self.scatter {
            let mut noise = vec![0.0; means.len()];
            Noise::new(seed).stream(Key::new(Purpose::Initial, 0).block(SCATTER_BLOCK)).normal(&mut noise);
            partita_core::kernel::add_scaled(&mut means, deviation, &noise);
        }
        let scales = table.start_scales(self.initial_scale);
        if let Some(NumberedStart { number, seed }) = self.start {
            let mut noise = vec![0.0; means.len()];
            let key = Key::new(Purpose::Initial, u64::from(number)).block(STARTS_BLOCK);
            Noise::new(seed).stream(key).normal(&mut noise);
            for (place, mean) in means.iter_mut().enumerate() {
                let scale = scales.as_ref().map_or(self.initial_scale, |scales| scales[place]);
                *mean += OVERDISPERSION * scale * noise[place];
            }
        }
        let scales = scales.map(CovarianceMatrix::Diagonal);
        match scales.and_then(|scales| family.with_moments(&means, &scales).ok()) {
            Some(parameters) => parameters,
            None => {
                family.set_mean(&mut parameters, &means);
                parameters
            }
        }
    }

    /// Refuses names that are no latent site, and scales that are not positive.
    ///
    /// # Errors
    /// [`Error::UnknownSite`], [`Error::Setting`].
    pub fn check(&self, table: &SiteTable) -> Result<()> {
        let scale = self.initial_scale;
        let is_scale = scale > 0.0 && scale.is_finite();
        Error::unless(is_scale, "initial_scale", scale, "a finite number > 0, such as 0.1")?;
        if let Some((deviation, _)) = self.scatter {
            let is_deviation = deviation.is_finite() && deviation >= 0.0;
            Error::unless(is_deviation, "scattered", deviation, "a finite standard deviation >= 0, such as 0.5")?;
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
        let parts = parts.map(|(components, choice)| choice.over(components.len()).map(|family| (components, family)));
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
            let Some(form) = choice.covariance_form() else {
                let names = sites.iter().map(|site| site.name.as_str()).collect::<Vec<_>>().join(", ");
                return Err(Error::Setting {
                    setting: "family of globals",
                    found: format!("{choice:?} for {names}"),
                    expected: "diagonal, isotropic or full_rank, of which products and quotients are of the same form",
                });
            };
            let components = sites.iter().flat_map(|site| site.offset()..site.offset() + site.width());
            parts.push((components.collect::<Vec<_>>(), form));
        }
        parts.retain(|(components, _)| !components.is_empty());
        NormalFamily::of_parts(parts)
    }

    /// The global sites that share a family: first those not named, together, then each that is.
    pub(crate) fn parts<'a>(&self, table: &'a SiteTable) -> Vec<(Vec<&'a Site>, Plug<dyn SiteFamily>)> {
        let (named, joint): (Vec<_>, Vec<_>) =
            table.latents(Part::Global).partition(|site| self.sites.contains_key(&site.name));
        let numbers: usize = joint.iter().map(|site| site.width()).sum();
        let default = if numbers <= FULL_RANK_GLOBALS { Gaussian::full_rank() } else { Gaussian::diagonal() };
        let named = named.into_iter().filter_map(|site| Some((vec![site], self.sites.get(&site.name)?.clone())));
        std::iter::once((joint, self.global.clone().unwrap_or(default.into()))).chain(named).collect()
    }

    /// The family of one block of local latents.
    ///
    /// # Errors
    /// [`Error::Setting`] for an isotropic or a low-rank choice, which rows do not have, and for so many rows that the
    /// default, which follows all globals, takes more than 67 million numbers: name a family.
    pub fn row_family(&self, table: &SiteTable, index: usize, block: &LocalBlock) -> Result<RowGaussian> {
        let few = table.global_len() <= FULL_RANK_GLOBALS;
        let default = if block.width <= FULL_RANK_ROW { Gaussian::full_rank() } else { Gaussian::diagonal() };
        let default = if few { default.given_globals().scale_given_globals() } else { default };
        let outer = block.parent.as_ref().map_or(0, |parent| table.blocks()[parent.block].width);
        let default = if (1..=FEW_OUTER).contains(&outer) { default.given_outer() } else { default };
        let default = Plug::from(default);
        let mut options = RowOptions::independent(block.width);
        for site in table.latents(Part::Local).filter(|site| site.block() == index) {
            let choice = self.sites.get(&site.name).or(self.local.as_ref()).unwrap_or(&default);
            let Some(chosen) = choice.in_row(site.width()) else {
                return Err(Error::Setting {
                    setting: "family of local latents",
                    found: format!("{choice:?} for site `{}`", site.name),
                    expected: "diagonal or full_rank (within a row): rows are independent given globals and outer rows, each with scales of its own; isotropic and low_rank are for global latents",
                });
            };
            options.place(site.offset(), &chosen);
        }
        let family = RowGaussian::new(block.rows, block.width, table.global_len(), options).inside(outer);
        let mut sites = table.latents(Part::Local).filter(|site| site.block() == index);
        let is_chosen = self.local.is_some() || sites.any(|site| self.sites.contains_key(&site.name));
        let found = format_args!(
            "the default, of {} numbers a row, for {} rows of plate `{}`: {:.1} GB with those of the optimiser",
            family.row_parameter_len(),
            block.rows,
            block.plate.as_deref().unwrap_or("-"),
            real(family.parameter_len()) * 24e-9
        );
        let expected = "at most 1.6 GB a silo by default: name `FamilyPlan::new().local(Gaussian::diagonal())`, which does not follow the globals, or this one by `Gaussian::full_rank().given_globals()`";
        let is_served = is_chosen || family.parameter_len() <= MOST_BY_DEFAULT;
        Error::unless(is_served, "family of local latents", found, expected)?;
        Ok(family)
    }

    /// The family of one block of local latents whose rows an encoder serves: diagonal, independent of globals and outer rows.
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
        let mut others = table.blocks().iter().enumerate().filter(|(other, own)| *other != index && own.width > 0);
        let is_used = self.local.is_none() || others.next().is_some();
        Error::unless(is_used, "family", "a choice for all local latents", expected)?;
        let options = RowOptions::independent(block.width);
        Ok(RowGaussian::new(block.rows, block.width, table.global_len(), options))
    }
}
