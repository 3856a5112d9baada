//! Gives a party's side of vertical inference: its posterior, its draws, and the pull-back with the noise of the draw.

use partita_core::kernel::add_scaled;
use partita_core::vertical::{Contributed, Labels, LikelihoodAt, Party};
use partita_core::{Device, Key, Noise, Purpose, SiteTable, ValueAndGradient};

use crate::engine::algorithm::finite;
use crate::engine::error::{Error, Result};
use crate::engine::estimator::Estimator;
use crate::engine::family::{Family, FamilyDraw};
use crate::engine::report::SiteSummary;
use crate::engine::report::summary::{NaturalDraws, natural_draws_of, summarise};
use crate::engine::settings::Settings;
use crate::engine::trainer::Descent;
use crate::methods::columns::auxiliary::{Auxiliary, ByRow, Given, Sample, gather};
use crate::methods::columns::terms::Terms;
use crate::methods::columns::{AuxiliaryFamily, VerticalOptions};

/// One party of a vertical fit: its columns, its posterior, and the answers it gives.
///
/// Columns, latents and point parameters stay here; what leaves is listed in [`crate::Algorithm::manifest`]. A draw of
/// the auxiliary variables is sent, and its gradient comes back with the next request: the party takes it back to its
/// own parameters with the noise that made the draw. With fresh noise, as Algorithm 1 of the paper reads, the gradient
/// of a structured family would be biased.
///
/// # References
/// Hassan, Sutton, Mira and Mengersen (2024), Algorithms 1 and 2, eqs. 11 to 17.
pub struct VerticalParty {
    pub(super) party: Party,
    pub(super) index: u32,
    pub(super) device: Device,
    pub(super) settings: Settings,
    pub(super) options: VerticalOptions,
    pub(super) table: SiteTable,
    pub(super) family: Box<dyn Family>,
    pub(super) parameters: Vec<f64>,
    /// Point parameters of the contribution.
    pub(super) theta: Vec<f64>,
    pub(super) auxiliary: Auxiliary,
    pub(super) descent: Descent,
    /// Numbers in the contribution of a row.
    pub(super) outputs: usize,
    pub(super) labels: Option<(Labels, SiteTable)>,
    /// What the auxiliary family knows of the labels, `[rows, outputs]`; empty for nothing.
    pub(super) features: Vec<f64>,
    /// Of draws; its seed may be private.
    pub(super) noise: Noise,
    /// Steps taken.
    pub(super) step: u64,
    /// How often the gradient was clipped in the last of them, local steps included.
    pub(super) clipped: u64,
    pub(super) pending: Option<Pending>,
    /// The same contribution with rows never seen in training.
    pub(super) held_out: Option<Party>,
}

impl std::fmt::Debug for VerticalParty {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("VerticalParty");
        shown.field("name", &self.party.name()).field("step", &self.step).finish_non_exhaustive()
    }
}

/// A step that waits for its gradient.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) step: u64,
    pub(super) rows: Option<Vec<usize>>,
    /// Gradients by the contributions of the party's own share of a power likelihood, one vector a particle.
    pub(super) shares: Vec<Vec<f64>>,
    /// The draws with their tapes; empty after a restart: the same noise makes them again.
    pub(super) draws: Vec<Drawn>,
}

/// One draw of all of a party's unknowns.
#[derive(Debug)]
pub(super) struct Drawn {
    noise: Vec<f64>,
    draw: FamilyDraw,
    pub(super) contributed: Contributed,
    feature: Vec<f64>,
    auxiliary_noise: Vec<f64>,
    pub(super) sample: Sample,
}

impl Drawn {
    fn given(&self) -> Given<'_> {
        let contribution = &self.contributed.outputs().values;
        Given { contribution, feature: &self.feature, noise: &self.auxiliary_noise }
    }
}

/// The gradient of a party's parameters.
#[derive(Debug, Default)]
pub(super) struct Ascent {
    /// By the parameters of the family, then point parameters, then those of an amortising network.
    shared: Vec<f64>,
    by_row: ByRow,
}

impl VerticalParty {
    /// The `index`-th party of a fit; `labels` where [`VerticalOptions::shares_labels`].
    ///
    /// # Errors
    /// [`Error::Setting`], what the declared prior and contribution refuse.
    pub fn new(
        party: &Party,
        index: u32,
        labels: Option<&Labels>,
        device: &Device,
        (settings, options): (&Settings, &VerticalOptions),
    ) -> Result<Self> {
        options.check(settings)?;
        let mut party = party.clone();
        let theta = party.theta()?;
        party.set_theta(&theta, device)?;
        let table = party.table(device)?;
        settings.family.check(&table)?;
        let family = settings.family.global_family(&table)?;
        let parameters = settings.family.start(&*family, &table);
        let first = party.contribute(device, &table, &table.start(), Some(&[0]))?;
        let outputs = first.outputs().values.len();
        let labels = match labels.filter(|_| options.shares_labels()) {
            Some(labels) if labels.rows() != party.rows() => {
                let problem = format!("it got {} labels for {} rows", labels.rows(), party.rows());
                return Err(Error::Message { kind: "labels".into(), problem });
            }
            Some(labels) => Some((labels.clone(), labels.table(device)?)),
            None if options.shares_labels() => {
                let expected = "labels at every party, or an algorithm that leaves them with their holder";
                return Err(Error::Setting { setting: "labels", found: "none".into(), expected });
            }
            None => None,
        };
        let features = match (&labels, options.auxiliary) {
            (Some((labels, table)), AuxiliaryFamily::Amortised { .. }) => label_features(labels, table, device)?,
            _ => Vec::new(),
        };
        let noise = Noise::new(settings.seed).kind(settings.noise);
        let auxiliary = Auxiliary::new(options, [party.rows(), outputs], (settings, device, &noise), index);
        Ok(Self {
            index,
            device: device.clone(),
            settings: settings.clone(),
            options: *options,
            family,
            parameters,
            theta,
            auxiliary,
            descent: Descent::new(settings, device),
            outputs,
            labels,
            features,
            noise,
            step: 0,
            clipped: 0,
            pending: None,
            held_out: None,
            table,
            party,
        })
    }

    /// Draws noise from a seed of the party's own, which no other party knows.
    ///
    /// Without it the noise comes from the seed of the run, which the coordinator has too: right for a simulation that
    /// is to be repeated, but then whoever holds that seed can take the noise off every $`z_j`$ but its scale.
    #[must_use]
    pub fn private_seed(mut self, seed: u64) -> Self {
        self.noise = self.noise.reseeded(seed);
        self
    }

    /// The sites of the party's prior.
    #[must_use]
    pub fn table(&self) -> &SiteTable {
        &self.table
    }

    /// The family of the party's latents.
    #[must_use]
    pub fn family(&self) -> &dyn Family {
        &*self.family
    }

    /// The parameters of that family.
    #[must_use]
    pub fn parameters(&self) -> &[f64] {
        &self.parameters
    }

    /// The numbers of a row's contribution.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Replaces the parameters of the latents and of the auxiliary variables: a warm start.
    ///
    /// # Errors
    /// [`Error::Message`] if a length differs.
    pub fn set_parameters(&mut self, latents: &[f64], auxiliary: &[f64]) -> Result<()> {
        if latents.len() != self.parameters.len() || !self.auxiliary.set_parameters(auxiliary) {
            let (found, expected) =
                (latents.len() + auxiliary.len(), self.parameters.len() + self.auxiliary.parameters().len());
            let problem = format!("{found} parameters given, the party has {expected}");
            return Err(Error::Message { kind: "parameters of a party".into(), problem });
        }
        self.parameters.copy_from_slice(latents);
        self.pending = None;
        Ok(())
    }

    /// The parameters of the family, the point parameters, and those of an amortising network, one after another.
    fn moving(&self) -> Vec<f64> {
        [&self.parameters, &self.theta, self.auxiliary.shared_parameters()].concat()
    }

    /// Gives the party the columns of rows never seen in training, for predictions.
    pub fn hold_out(&mut self, rows: Party) {
        self.held_out = Some(rows);
    }

    /// The parameters of the auxiliary variables: means then log scales of all rows, those of the network, or none.
    #[must_use]
    pub fn auxiliary_parameters(&self) -> &[f64] {
        self.auxiliary.parameters()
    }

    /// What the party found about its own unknowns, from so many draws on their natural scale. For the party's owner.
    ///
    /// # Errors
    /// What the prior refuses.
    pub fn summary(&self, draws: u32) -> Result<Vec<SiteSummary>> {
        Ok(summarise(&self.natural_draws(draws.max(2))?))
    }

    /// Draws of every latent of the party on its natural scale: site, label, draws. For the party's owner.
    ///
    /// # Errors
    /// What the prior refuses.
    pub(crate) fn natural_draws(&self, count: u32) -> Result<NaturalDraws> {
        let posterior = crate::engine::algorithm::Posterior {
            family: &*self.family,
            parameters: &self.parameters,
            theta: &self.theta,
        };
        let key = Key::new(Purpose::Report, 0).silo(self.index).block(2);
        let natural = |latent: &[f64]| self.party.natural(&self.device, &self.table, latent);
        natural_draws_of(posterior, self.noise, key, count, natural)
    }

    /// One draw of latents, contribution and auxiliary variables.
    pub(super) fn draw(&self, purpose: Purpose, step: u64, particle: u32, rows: Option<&[usize]>) -> Result<Drawn> {
        let key = Key::new(purpose, step).silo(self.index).particle(particle);
        let mut noise = vec![0.0; self.family.noise_len()];
        self.noise.normal(key, &mut noise);
        let draw = self.family.draw(&self.parameters, &noise);
        let contributed = self.party.contribute(&self.device, &self.table, &draw.latent, rows)?;
        let feature = gather(&self.features, rows.filter(|_| !self.features.is_empty()), self.outputs);
        let numbers = match &self.auxiliary {
            Auxiliary::None => 0,
            _ => contributed.outputs().values.len(),
        };
        let mut auxiliary_noise = vec![0.0; numbers];
        self.noise.normal(key.block(1), &mut auxiliary_noise);
        let mut drawn = Drawn { noise, draw, contributed, feature, auxiliary_noise, sample: Sample::default() };
        drawn.sample = self.auxiliary.sample(rows, &drawn.given(), &self.terms(&drawn));
        Ok(drawn)
    }

    fn terms(&self, drawn: &Drawn) -> Terms {
        #[expect(clippy::cast_precision_loss, reason = "row counts are far below 2^52")]
        let weight = (self.party.rows() * self.outputs) as f64 / drawn.contributed.outputs().values.len() as f64;
        Terms { estimator: self.settings.estimator, rho: self.options.augmentation.rho(), weight }
    }

    /// $`\hat L_j`$: what the party's own unknowns add to the bound.
    pub(super) fn bound(&self, drawn: &Drawn) -> f64 {
        let prior = drawn.contributed.log_prior();
        let own = match self.settings.estimator {
            Estimator::ClosedFormEntropy => prior + self.family.entropy(&self.parameters),
            _ => prior - drawn.draw.log_density,
        };
        own + drawn.sample.bound
    }

    /// The gradient by the party's parameters, from that by $`z_j`$ and, in a power likelihood, that of the party's own
    /// share by its contribution.
    pub(super) fn vjp(&self, drawn: Drawn, by_value: &[f64], by_share: Option<&[f64]>) -> Result<Ascent> {
        let theta = self.parameters.len();
        let network = theta + self.theta.len();
        let mut shared = vec![0.0; network + self.auxiliary.shared_parameters().len()];
        let (of, why) = ((&drawn.sample, &drawn.given()), (&self.terms(&drawn), by_value));
        let (mut by_contribution, by_row) = self.auxiliary.vjp(of, why, &mut shared[network..]);
        if let Some(share) = by_share {
            add_scaled(&mut by_contribution, 1.0, share);
        }
        let Drawn { contributed, draw, noise, .. } = drawn;
        self.take_back(contributed.vjp(&by_contribution)?, (&draw, &noise), &mut shared[..network]);
        Ok(Ascent { shared, by_row })
    }

    /// Adds the gradient by the family's and the point parameters to `out`.
    fn take_back(&self, assessment: ValueAndGradient, (draw, noise): (&FamilyDraw, &[f64]), out: &mut [f64]) {
        let estimator = self.settings.estimator;
        let (_, location, theta) = estimator.global_terms(assessment, &*self.family, &self.parameters, draw);
        let (family, point) = out.split_at_mut(self.parameters.len());
        self.family.vjp(&self.parameters, noise, &location, &location, family);
        if estimator.adds_entropy_gradient() {
            self.family.add_entropy_gradient(&self.parameters, family);
        }
        add_scaled(point, 1.0, &theta);
    }

    /// The mean gradient over the particles of a step.
    pub(super) fn mean_ascent(&self, mut ascents: Vec<Ascent>) -> Ascent {
        if ascents.len() == 1 {
            return ascents.swap_remove(0);
        }
        #[expect(clippy::cast_precision_loss, reason = "particle counts are far below 2^52")]
        let share = 1.0 / ascents.len() as f64;
        let mut sum = Ascent::default();
        for own in ascents {
            for (slot, values) in [
                (&mut sum.shared, &own.shared),
                (&mut sum.by_row.mean, &own.by_row.mean),
                (&mut sum.by_row.log_scale, &own.by_row.log_scale),
            ] {
                slot.resize(values.len(), 0.0);
                add_scaled(slot, share, values);
            }
        }
        sum
    }

    /// Refuses a gradient that is not finite.
    pub(super) fn check(&self, ascent: &Ascent, step: u64) -> Result<()> {
        let who = self.party.name();
        finite(who, step, |index| format!("the gradient by its parameter {index}"), &ascent.shared)?;
        let by_auxiliary = |index: usize| format!("the gradient by its auxiliary variable {index}");
        finite(who, step, by_auxiliary, &ascent.by_row.mean)?;
        finite(who, step, by_auxiliary, &ascent.by_row.log_scale)
    }

    /// Moves all parameters of the party; true where the gradient was clipped. As everywhere, parameters of single rows
    /// are not clipped.
    pub(super) fn ascend(&mut self, mut ascent: Ascent, rows: Option<&[usize]>, step: u64) -> Result<bool> {
        ascent.shared.iter_mut().for_each(|g| *g = -*g);
        let mut all = self.moving();
        let moved = self.descent.step(step, &mut all, &mut ascent.shared);
        self.auxiliary.ascend(moved.rate, rows, &ascent.by_row);
        let (family, rest) = all.split_at(self.parameters.len());
        let (theta, network) = rest.split_at(self.theta.len());
        self.parameters.copy_from_slice(family);
        self.auxiliary.set_shared_parameters(network);
        if !theta.is_empty() {
            self.theta.copy_from_slice(theta);
            self.party.set_theta(theta, &self.device)?;
        }
        Ok(moved.is_clipped)
    }

    /// One step of latents and point parameters alone, with auxiliary variables where they are: their mean field enters
    /// the bound through $`E_q \log N(z \mid g, \rho^2)`$, whose gradient by $`g`$ is $`(\mu - g)/\rho^2`$. True where
    /// the gradient was clipped.
    pub(super) fn local_step(&mut self, step: u64, number: u32, rows: Option<&[usize]>) -> Result<bool> {
        let key = Key::new(Purpose::Fit, step).silo(self.index).block(2 + number);
        let mut noise = vec![0.0; self.family.noise_len()];
        self.noise.normal(key, &mut noise);
        let draw = self.family.draw(&self.parameters, &noise);
        let contributed = self.party.contribute(&self.device, &self.table, &draw.latent, rows)?;
        let contribution = &contributed.outputs().values;
        let means = self.auxiliary.means(rows);
        #[expect(clippy::cast_precision_loss, reason = "row counts are far below 2^52")]
        let weight = (self.party.rows() * self.outputs) as f64 / contribution.len() as f64;
        let precision = weight * self.options.augmentation.rho().powi(-2);
        let pull: Vec<f64> = means.iter().zip(contribution).map(|(mean, g)| precision * (mean - g)).collect();
        let mut shared = vec![0.0; self.parameters.len() + self.theta.len()];
        self.take_back(contributed.vjp(&pull)?, (&draw, &noise), &mut shared);
        let ascent = Ascent { shared, by_row: ByRow::default() };
        self.check(&ascent, step)?;
        let mut all = [self.parameters.as_slice(), &self.theta].concat();
        let mut gradient: Vec<f64> = ascent.shared.iter().map(|g| -g).collect();
        let moved = self.descent.step(step, &mut all, &mut gradient);
        self.theta = all.split_off(self.parameters.len());
        self.parameters = all;
        if !self.theta.is_empty() {
            self.party.set_theta(&self.theta, &self.device)?;
        }
        Ok(moved.is_clipped)
    }
}

/// What an amortising network is told of the labels: their score $`\partial\log p(y_i \mid \eta_i)/\partial\eta_i`$ at
/// a predictor of zero, with mean 0 and variance 1 over the rows, `[rows, outputs]`.
fn label_features(labels: &Labels, table: &SiteTable, device: &Device) -> Result<Vec<f64>> {
    let (rows, outputs) = (labels.rows(), labels.outputs());
    let zeros = vec![0.0; rows * outputs];
    let unknowns = vec![0.0; table.global_len()];
    let mut scores = labels
        .likelihood(device, table, LikelihoodAt { latents: &unknowns, eta: &zeros, rows: None, weight: 1.0 })?
        .eta;
    #[expect(clippy::cast_precision_loss, reason = "row counts are far below 2^52")]
    let count = rows as f64;
    for output in 0..outputs {
        let own = || (output..rows * outputs).step_by(outputs);
        let mean = own().map(|at| scores[at]).sum::<f64>() / count;
        let variance = own().map(|at| (scores[at] - mean).powi(2)).sum::<f64>() / count;
        let scale = if variance > 0.0 { variance.sqrt().recip() } else { 1.0 };
        own().for_each(|at| scores[at] = (scores[at] - mean) * scale);
    }
    Ok(scores)
}
