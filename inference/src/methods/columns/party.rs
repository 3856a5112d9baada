//! Gives a party's side of vertical inference: its posterior, its draws, and the way back with the noise of the draw.

use partita_core::kernel::add_scaled;
use partita_core::vertical::{Contributed, Labels, LikelihoodAt, Party};
use partita_core::{Device, Key, Noise, Precision, Purpose, SiteTable};

use crate::engine::algorithm::{Posterior, movable};
use crate::engine::error::{Error, Result};
use crate::engine::family::Family;
use crate::engine::report::SiteSummary;
use crate::engine::report::summary::{NaturalDraws, natural_draws_of, summarise};
use crate::engine::settings::Settings;
use crate::engine::trainer::{Descent, Moved, Trainer};
use crate::methods::columns::auxiliary::{Ascent, Auxiliary, Given, Sample, Upstream, gather};
use crate::methods::columns::terms::Terms;
use crate::methods::columns::unknowns::{Draws, Unknowns};
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
#[derive(Debug)]
pub struct VerticalParty {
    pub(super) party: Party,
    pub(super) index: u32,
    pub(super) device: Device,
    pub(super) settings: Settings,
    pub(super) options: VerticalOptions,
    pub(super) table: SiteTable,
    /// The posterior of the latents, then the point parameters of the contribution, then those of an amortising network.
    pub(super) trainer: Trainer,
    /// How many point parameters the contribution has.
    points: usize,
    pub(super) auxiliary: Auxiliary,
    /// Numbers in the contribution of a row.
    pub(super) outputs: usize,
    pub(super) labels: Option<(Labels, SiteTable)>,
    /// What the auxiliary family knows of the labels, `[rows, outputs]`; empty for nothing.
    features: Vec<f64>,
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

/// A step that waits for its gradient.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) step: u64,
    pub(super) rows: Option<Vec<usize>>,
    /// Gradients of the party's own factor of a power likelihood by its contributions, all draws one after another.
    pub(super) by_predictor: Vec<f64>,
    /// The draws with their tapes; empty after a restart: the same noise makes them again.
    pub(super) draws: Vec<Drawn>,
}

/// One draw of all of a party's unknowns.
#[derive(Debug)]
pub(super) struct Drawn {
    unknowns: Unknowns,
    pub(super) contributed: Contributed,
    feature: Vec<f64>,
    auxiliary_noise: Vec<f64>,
    pub(super) sample: Sample,
}

impl Drawn {
    pub(super) fn contribution(&self) -> &[f64] {
        &self.contributed.outputs().values
    }

    fn given(&self) -> Given<'_> {
        Given { contribution: self.contribution(), feature: &self.feature, noise: &self.auxiliary_noise }
    }
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
        settings: &Settings,
        options: &VerticalOptions,
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
        let auxiliary = Auxiliary::new(options, [party.rows(), outputs], settings, device);
        let shared = [theta.as_slice(), &auxiliary.initial(&noise, index)].concat();
        Ok(Self {
            index,
            device: device.clone(),
            settings: settings.clone(),
            options: *options,
            trainer: Trainer::new(family, parameters, &shared, Descent::new(settings, device)),
            points: theta.len(),
            auxiliary,
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
        &*self.trainer.family
    }

    /// The parameters of that family.
    #[must_use]
    pub fn parameters(&self) -> &[f64] {
        self.trainer.parameters()
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
        let [found, expected] =
            [[latents, auxiliary], [self.parameters(), self.auxiliary_parameters()]].map(|both| both.map(<[f64]>::len));
        let problem = format_args!("{found:?} parameters given, the party has {expected:?}");
        Error::well_formed(found == expected, "parameters of a party", problem)?;
        self.trainer.set_parameters(latents);
        match self.auxiliary.own_parameters() {
            Some(own) => own.copy_from_slice(auxiliary),
            None => self.trainer.set_theta(&[self.theta(), auxiliary].concat()),
        }
        self.pending = None;
        Ok(())
    }

    /// The point parameters of the contribution.
    pub(super) fn theta(&self) -> &[f64] {
        &self.trainer.theta()[..self.points]
    }

    /// The parameters of an amortising network.
    fn network(&self) -> &[f64] {
        &self.trainer.theta()[self.points..]
    }

    /// Gives the party the columns of rows never seen in training, for predictions.
    pub fn hold_out(&mut self, rows: Party) {
        self.held_out = Some(rows);
    }

    /// The parameters of the auxiliary variables: means then log scales of all rows, those of the network, or none.
    #[must_use]
    pub fn auxiliary_parameters(&self) -> &[f64] {
        match &self.auxiliary {
            Auxiliary::MeanField { parameters, .. } => parameters,
            _ => self.network(),
        }
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
        let posterior = Posterior { family: self.family(), parameters: self.parameters(), theta: self.theta() };
        let key = Key::new(Purpose::Report, 0).silo(self.index).block(2);
        let natural = |latent: &[f64]| Ok(self.party.natural(&self.device, &self.table, latent)?);
        natural_draws_of(posterior, self.noise, key, count, natural)
    }

    /// Draws of latents, contributions and auxiliary variables of some rows (all for `None`).
    pub(super) fn draws(&self, draws: Draws, rows: Option<&[usize]>) -> Result<Vec<Drawn>> {
        draws.keys().map(|key| self.draw(key.silo(self.index), rows)).collect()
    }

    fn draw(&self, key: Key, rows: Option<&[usize]>) -> Result<Drawn> {
        let unknowns = Unknowns::draw(&self.trainer, &self.noise, key);
        let contributed = self.party.contribute(&self.device, &self.table, &unknowns.draw.latent, rows)?;
        let feature = gather(&self.features, rows.filter(|_| !self.features.is_empty()), self.outputs);
        let numbers = match &self.auxiliary {
            Auxiliary::None => 0,
            _ => contributed.outputs().values.len(),
        };
        let mut auxiliary_noise = vec![0.0; numbers];
        self.noise.normal(key.block(1), &mut auxiliary_noise);
        let mut drawn = Drawn { unknowns, contributed, feature, auxiliary_noise, sample: Sample::default() };
        let terms = self.terms(drawn.contribution());
        drawn.sample = self.auxiliary.sample(self.network(), rows, &drawn.given(), &terms);
        Ok(drawn)
    }

    /// What the terms of all auxiliary variables have in common at these contributions.
    fn terms(&self, contribution: &[f64]) -> Terms {
        #[expect(clippy::cast_precision_loss, reason = "row counts are far below 2^52")]
        let weight = (self.party.rows() * self.outputs) as f64 / contribution.len() as f64;
        let (estimator, rho) = (self.settings.estimator, self.options.augmentation.rho());
        Terms { estimator, rho, weight, precision: self.device.precision() }
    }

    /// $`\hat L_j`$: what the party's own unknowns add to the bound.
    pub(super) fn bound(&self, drawn: &Drawn) -> f64 {
        let log_prior = drawn.contributed.log_prior();
        drawn.unknowns.term(&self.trainer, self.settings.estimator, log_prior) + drawn.sample.bound
    }

    /// Adds the gradient by the party's parameters, from that by $`z_j`$ and, in a power likelihood, that of the party's
    /// own factor by its contribution.
    pub(super) fn vjp(
        &self,
        drawn: Drawn,
        by_value: &[f64],
        by_predictor: Option<&[f64]>,
        out: &mut Ascent,
    ) -> Result<()> {
        out.shared.resize(self.trainer.values().len(), 0.0);
        let (given, terms) = (drawn.given(), self.terms(drawn.contribution()));
        let upstream = Upstream { sample: &drawn.sample, given: &given, terms: &terms, by_value };
        let mut by_contribution = self.auxiliary.vjp(self.network(), &upstream, out);
        if let Some(more) = by_predictor {
            add_scaled(&mut by_contribution, 1.0, more);
        }
        let density = drawn.contributed.vjp(by_contribution)?;
        drawn.unknowns.vjp(&self.trainer, self.settings.estimator, density, &mut out.shared);
        Ok(())
    }

    /// Moves all parameters of the party up the mean gradient of so many draws; true where it was clipped. As
    /// everywhere, parameters of single rows are not clipped.
    pub(super) fn ascend(&mut self, mut sum: Ascent, draws: usize, rows: Option<&[usize]>, step: u64) -> Result<bool> {
        #[expect(clippy::cast_precision_loss, reason = "particle counts are far below 2^52")]
        let share = 1.0 / draws as f64;
        sum.shared.iter_mut().chain(&mut sum.by_row).for_each(|g| *g *= share);
        let by_auxiliary = |index: usize| format!("the gradient by its auxiliary variable {index}");
        movable(self.party.name(), step, None, by_auxiliary, &sum.by_row)?;
        let moved = self.ascend_shared(sum.shared, step)?;
        self.auxiliary.ascend(moved.rate, rows, sum.by_row);
        Ok(moved.is_clipped)
    }

    /// Moves what the trainer moves, and shows the contribution its point parameters.
    fn ascend_shared(&mut self, mut gradient: Vec<f64>, step: u64) -> Result<Moved> {
        let quantity = |index: usize| format!("the gradient by its parameter {index}");
        let norm = movable(self.party.name(), step, self.settings.clip, quantity, &gradient)?;
        // The optimisers descend; the bound is to ascend.
        gradient.iter_mut().for_each(|g| *g = -*g);
        let moved = self.trainer.step(step, f64::NAN, &mut gradient, norm);
        self.show_theta()?;
        Ok(moved)
    }

    /// Computes in this precision from here on. Draws that wait for their gradient are made again by the same noise.
    pub(super) fn recast(&mut self, precision: Precision) -> Result<()> {
        self.device = self.device.clone().with_precision(precision);
        self.pending.iter_mut().for_each(|pending| pending.draws.clear());
        self.show_theta()
    }

    /// Lets the contribution see its point parameters.
    pub(super) fn show_theta(&mut self) -> Result<()> {
        if self.points > 0 {
            self.party.set_theta(&self.trainer.theta()[..self.points], &self.device)?;
        }
        Ok(())
    }

    /// One step of latents and point parameters alone, with auxiliary variables where they are: their mean field enters
    /// the bound through $`E_q \log N(z \mid g, \rho^2)`$, whose gradient by $`g`$ is $`(\mu - g)/\rho^2`$. True where
    /// the gradient was clipped.
    pub(super) fn local_step(&mut self, step: u64, number: u32, rows: Option<&[usize]>) -> Result<bool> {
        let key = Key::new(Purpose::Fit, step).silo(self.index).block(2 + number);
        let unknowns = Unknowns::draw(&self.trainer, &self.noise, key);
        let contributed = self.party.contribute(&self.device, &self.table, &unknowns.draw.latent, rows)?;
        let contribution = &contributed.outputs().values;
        let Terms { rho, weight, .. } = self.terms(contribution);
        let precision = weight * rho.powi(-2);
        let means = self.auxiliary.means(rows);
        let pull: Vec<f64> = means.iter().zip(contribution).map(|(mean, g)| precision * (mean - g)).collect();
        let mut gradient = vec![0.0; self.trainer.values().len()];
        unknowns.vjp(&self.trainer, self.settings.estimator, contributed.vjp(pull)?, &mut gradient);
        Ok(self.ascend_shared(gradient, step)?.is_clipped)
    }
}

/// What an amortising network is told of the labels: their score $`\partial\log p(y_i \mid \eta_i)/\partial\eta_i`$ at
/// a predictor of zero, with mean 0 and variance 1 over the rows, `[rows, outputs]`.
fn label_features(labels: &Labels, table: &SiteTable, device: &Device) -> Result<Vec<f64>> {
    let (rows, outputs) = (labels.rows(), labels.outputs());
    let zeros = vec![0.0; rows * outputs];
    let unknowns = vec![0.0; table.global_len()];
    let at = LikelihoodAt { latents: &unknowns, eta: &zeros, rows: None, weight: 1.0 };
    let mut scores = labels.likelihood(device, table, at)?.eta;
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
