//! Keeps what one party knows of its local latents: families, parameters, optimisers, and the rows of each step.

use partita_core::data::Minibatches;
use partita_core::{Device, Key, Minibatch, Noise, Purpose, SiteTable};

use crate::error::{Error, Result};
use crate::estimator::BlockDraw;
use crate::family::RowGaussian;
use crate::optimiser::UpdateRule;
use crate::settings::Settings;

/// The local blocks of one party.
pub(crate) struct Locals {
    blocks: Vec<Block>,
    silo: u32,
    /// Keys minibatches and local noise; private to the party.
    seed: u64,
}

struct Block {
    plate: Option<String>,
    family: RowGaussian,
    parameters: Vec<f64>,
    rule: Box<dyn UpdateRule>,
    minibatches: Option<Minibatches>,
}

/// The rows evaluated in one step, with their parameters.
#[derive(Debug, Default)]
pub(crate) struct StepRows {
    pub(crate) minibatch: Vec<Minibatch>,
    /// For each block the rows of its minibatch with their parameters and N/B; `None` for all rows.
    chosen: Vec<Option<Chosen>>,
}

/// The rows of one plate, each repeated for its inner draws.
#[derive(Debug)]
pub(crate) struct RepeatedRows {
    pub(crate) place: usize,
    pub(crate) minibatch: [Minibatch; 1],
    pub(crate) parameters: Vec<f64>,
}

#[derive(Debug)]
struct Chosen {
    rows: Vec<usize>,
    parameters: Vec<f64>,
    weight: f64,
}

impl Locals {
    pub(crate) fn new(table: &SiteTable, settings: &Settings, device: &Device, silo: u32) -> Result<Self> {
        let plates = || table.blocks().iter().filter_map(|block| block.plate.as_deref());
        if let Some(name) = settings.minibatch.keys().find(|name| plates().all(|plate| plate != name.as_str())) {
            return Err(Error::Setting {
                setting: "minibatch",
                found: format!("`{name}`, where the plates are: {}", plates().collect::<Vec<_>>().join(", ")),
                expected: "the name of a plate of the model",
            });
        }
        let mut blocks = Vec::new();
        for (index, block) in table.blocks().iter().enumerate() {
            let family = settings.family.row_family(table, index, block)?;
            let size = block.plate.as_ref().and_then(|plate| settings.minibatch.get(plate)).copied();
            let minibatches = match size.filter(|&size| size < block.rows) {
                Some(size) => Some(Minibatches::new(block.rows, size).map_err(|error| Error::Setting {
                    setting: "minibatch",
                    found: error.to_string(),
                    expected: "at least one row",
                })?),
                None => None,
            };
            let parameters = family.initial(settings.family.scale());
            let rule = settings.optimiser.start(device);
            blocks.push(Block { plate: block.plate.clone(), family, parameters, rule, minibatches });
        }
        Ok(Self { blocks, silo, seed: settings.seed })
    }

    /// The rows of `step`: of the minibatch, or all for `None`.
    pub(crate) fn rows(&self, step: Option<u64>) -> StepRows {
        let mut all = StepRows::default();
        for block in &self.blocks {
            let (Some(minibatches), Some(step), Some(plate)) = (&block.minibatches, step, &block.plate) else {
                all.chosen.push(None);
                continue;
            };
            let rows = minibatches.rows_at(step, &Noise::new(self.seed), self.silo);
            all.minibatch.push(Minibatch::new(plate, rows.clone()));
            let parameters = block.family.gather(&block.parameters, &rows);
            all.chosen.push(Some(Chosen { rows, parameters, weight: minibatches.scale_at(step) }));
        }
        all
    }

    /// The noise of one particle, one vector a block.
    pub(crate) fn noise(&self, rows: &StepRows, purpose: Purpose, step: u64, particle: u32) -> Vec<Vec<f64>> {
        let noise = Noise::new(self.seed);
        let key = Key::new(purpose, step).silo(self.silo).particle(particle);
        let blocks = self.blocks.iter().zip(&rows.chosen).zip(0_u32..);
        blocks
            .map(|((block, chosen), index)| {
                let count = chosen.as_ref().map_or(block.family.rows(), |chosen| chosen.rows.len());
                let mut values = vec![0.0; count * block.family.width()];
                noise.stream(key.block(index)).normal(&mut values);
                values
            })
            .collect()
    }

    /// Seed and key of the noise of one particle's pre-activations under local reparameterisation.
    pub(crate) fn layer_noise(&self, purpose: Purpose, step: u64, particle: u32) -> (Noise, Key) {
        (Noise::new(self.seed), Key::new(purpose, step).silo(self.silo).particle(particle))
    }

    /// The blocks as an estimator wants them.
    pub(crate) fn draws<'a>(&'a self, rows: &'a StepRows, noise: &'a [Vec<f64>]) -> Vec<BlockDraw<'a>> {
        let blocks = self.blocks.iter().zip(&rows.chosen).zip(noise);
        blocks
            .map(|((block, chosen), noise)| {
                let (parameters, weight) =
                    chosen.as_ref().map_or((&block.parameters, 1.0), |chosen| (&chosen.parameters, chosen.weight));
                BlockDraw { family: &block.family, parameters, noise, weight }
            })
            .collect()
    }

    /// The one plate whose latents a bound with inner draws repeats: its place, its name, and the rows of this step.
    ///
    /// # Errors
    /// [`Error::Setting`] if local latents stand outside that plate.
    pub(crate) fn repeated(&self, rows: &StepRows, inner: usize) -> Result<RepeatedRows> {
        let mut with_latents = self.blocks.iter().enumerate().filter(|(_, block)| block.family.width() > 0);
        let (Some((place, block)), None) = (with_latents.next(), with_latents.next()) else {
            return Err(Self::no_single_plate());
        };
        let Some(plate) = &block.plate else { return Err(Self::no_single_plate()) };
        let rows = match &rows.chosen[place] {
            Some(chosen) => chosen.rows.clone(),
            None => (0..block.family.rows()).collect(),
        };
        let minibatch = [Minibatch::repeated(plate, &rows, inner)];
        let parameters = block.family.gather(&block.parameters, &minibatch[0].rows);
        Ok(RepeatedRows { place, minibatch, parameters })
    }

    fn no_single_plate() -> Error {
        Error::Setting {
            setting: "estimator",
            found: "LocallyEnhanced".into(),
            expected: "a model whose local latents all stand in one plate; use StickingTheLanding for this one",
        }
    }

    /// The noise of repeated rows in one particle.
    pub(crate) fn repeated_noise(&self, rows: &RepeatedRows, key: (Purpose, u64, u32)) -> Vec<f64> {
        let (purpose, step, particle) = key;
        let block = u32::try_from(rows.place).unwrap_or(u32::MAX);
        let key = Key::new(purpose, step).silo(self.silo).particle(particle).block(block);
        let mut values = vec![0.0; rows.minibatch[0].rows.len() * self.blocks[rows.place].family.width()];
        Noise::new(self.seed).stream(key).normal(&mut values);
        values
    }

    /// The family and the number of blocks, for a share over repeated rows.
    pub(crate) fn family(&self, place: usize) -> (&RowGaussian, usize) {
        (&self.blocks[place].family, self.blocks.len())
    }

    /// Zeros of the shape of the parameters of the rows evaluated.
    pub(crate) fn zeros(&self, rows: &StepRows) -> Vec<Vec<f64>> {
        let length = |(block, chosen): (&Block, &Option<Chosen>)| {
            chosen.as_ref().map_or(block.parameters.len(), |chosen| chosen.parameters.len())
        };
        self.blocks.iter().zip(&rows.chosen).map(|pair| vec![0.0; length(pair)]).collect()
    }

    /// Moves the parameters of the rows evaluated down `gradient`, that of the negative bound.
    pub(crate) fn descend(&mut self, rows: &StepRows, gradient: Vec<Vec<f64>>, rate: f64) {
        for ((block, chosen), own) in self.blocks.iter_mut().zip(&rows.chosen).zip(gradient) {
            let gradient = match chosen {
                Some(chosen) => block.family.scatter(&own, &chosen.rows),
                None => own,
            };
            block.rule.step(rate, &mut block.parameters, &gradient);
        }
    }

    /// Draws minibatches and local noise from another seed, which no other party knows.
    pub(crate) fn set_seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// Whether any draw depends on the globals.
    pub(crate) fn depend_on_globals(&self) -> bool {
        self.blocks.iter().any(|block| block.family.depends_on_globals())
    }

    /// Means and standard deviations of each block's latents at the globals' mean, `[rows, width]`.
    pub(crate) fn moments(&self) -> Vec<(Vec<f64>, Vec<f64>)> {
        self.blocks.iter().map(|block| block.family.moments(&block.parameters)).collect()
    }

    /// The variational parameters of each block.
    pub(crate) fn parameters(&self) -> Vec<Vec<f64>> {
        self.blocks.iter().map(|block| block.parameters.clone()).collect()
    }

    /// Replaces the variational parameters; false if a length differs.
    pub(crate) fn set_parameters(&mut self, parameters: Vec<Vec<f64>>) -> bool {
        let fits = parameters.len() == self.blocks.len()
            && parameters.iter().zip(&self.blocks).all(|(own, block)| own.len() == block.parameters.len());
        if fits {
            self.blocks.iter_mut().zip(parameters).for_each(|(block, own)| block.parameters = own);
        }
        fits
    }

    /// Everything as named vectors.
    pub(crate) fn save(&self) -> Vec<(String, Vec<f64>)> {
        let mut state = Vec::new();
        for (index, block) in self.blocks.iter().enumerate() {
            state.push((format!("local.{index}.parameters"), block.parameters.clone()));
            state.extend(
                block.rule.save().into_iter().map(|(name, values)| (format!("local.{index}.rule.{name}"), values)),
            );
        }
        state
    }

    /// Restores what [`Locals::save`] gave; false if it does not fit.
    pub(crate) fn load(&mut self, state: &[(String, Vec<f64>)]) -> bool {
        let mut parameters = Vec::new();
        for index in 0..self.blocks.len() {
            let name = format!("local.{index}.parameters");
            parameters.extend(state.iter().find(|(known, _)| *known == name).map(|(_, values)| values.clone()));
            let prefix = format!("local.{index}.rule.");
            let rule = state
                .iter()
                .filter_map(|(known, values)| Some((known.strip_prefix(&prefix)?.to_owned(), values.clone())));
            if !self.blocks[index].rule.load(rule.collect()) {
                return false;
            }
        }
        self.set_parameters(parameters)
    }
}
