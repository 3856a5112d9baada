//! Finds rows that are alike: of those which take the same of the data, one is evaluated and counts for all.
//!
//! Children with the same visits, the same treatment and the same outcomes have the same integral at every draw of the
//! globals. In tables of categories they are most rows.

use partita_core::{Key, Minibatch, Noise, Purpose, SiteTable};

use super::{Conditionals, Integrand, Observation};

/// Which row of each block is evaluated in the place of each of its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Alike {
    /// One vector a block; empty where every row is evaluated.
    same: Vec<Vec<usize>>,
}

/// Rows that are looked at before all are. Of $`m`$ among so many that differ, $`m^2 / 2D`$ are expected to be alike: of
/// none, there are millions that differ.
const SAMPLE: usize = 4_096;
/// The part of the rows that must be left over for it to be worth while.
const WORTH: f64 = 0.8;
/// The places at which log densities of all rows are compared with those evaluated, and how far they are from a start.
pub(super) const PLACES: u64 = 3;
const APART: f64 = 0.5;
/// The relative difference at which log densities of rows that are alike are rounded alike.
const ROUNDING: f64 = 1e-9;

impl Alike {
    /// Every row is evaluated.
    pub(super) fn none(table: &SiteTable) -> Self {
        Self { same: vec![Vec::new(); table.blocks().len()] }
    }

    /// Those of a silo; none where the model does not let them be known.
    pub(super) fn find(integrand: &Integrand<'_>, globals: &[f64]) -> Self {
        let none = Self::none(integrand.table);
        let sampled = sample(integrand.table);
        let any_among = |rows: &[Minibatch]| Self::among(integrand, globals, rows).is_some_and(|own| own != none);
        if !sampled.is_empty() && !any_among(&sampled) {
            return none;
        }
        let found = Self::among(integrand, globals, &[]).filter(Self::is_worth_while);
        found.filter(|own| own.holds(integrand, globals)).unwrap_or(none)
    }

    /// Those among the rows of a minibatch, as places there; `None` where the model refuses.
    fn among(integrand: &Integrand<'_>, globals: &[f64], minibatch: &[Minibatch]) -> Option<Self> {
        let density = integrand.density(minibatch);
        let mut same = density.rows_alike(globals, integrand.data).ok()?;
        let blocks = integrand.table.blocks();
        for (block, own) in same.iter_mut().enumerate() {
            let is_silo = blocks[integrand.table.outermost(block)].plate.is_none();
            if is_silo || own.iter().enumerate().all(|(row, first)| row == *first) {
                own.clear();
            }
        }
        Some(Self { same })
    }

    /// Whether enough rows are left out.
    fn is_worth_while(&self) -> bool {
        self.same.iter().any(|own| {
            let evaluated = evaluated(own).count();
            #[expect(clippy::cast_precision_loss, reason = "rows are below 2^52")]
            let part = evaluated as f64 / own.len().max(1) as f64;
            !own.is_empty() && part <= WORTH
        })
    }

    /// Whether log densities are those of the rows evaluated, around `globals`: a model may read data by other means than
    /// `rows.take`, or make numbers of the place of a row.
    fn holds(&self, integrand: &Integrand<'_>, globals: &[f64]) -> bool {
        let minibatch = self.minibatch(integrand.table);
        (0..PLACES).all(|place| self.holds_at(integrand, &away(globals, place), &minibatch))
    }

    /// The same at one place.
    fn holds_at(&self, integrand: &Integrand<'_>, globals: &[f64], minibatch: &[Minibatch]) -> bool {
        let table = integrand.table;
        let read = |minibatch: &[Minibatch]| {
            let rows = |block: usize| {
                let own = table.rows_evaluated(block, minibatch).ok()?;
                Some(own.map_or(table.blocks()[block].rows, |own| own.len()))
            };
            // Not at zero, where products with latents vanish.
            let latents = |block: usize| {
                let width = table.blocks()[block].width;
                let place = |index: usize| if index.is_multiple_of(2) { 0.37 } else { -0.61 };
                Some((0..rows(block)? * width).map(|index| place(index % width)).collect())
            };
            let latents: Vec<Vec<f64>> = (0..table.blocks().len()).map(latents).collect::<Option<_>>()?;
            let density = integrand.density(minibatch);
            let found = density.level_values(globals, &[latents], integrand.data).ok()?;
            // Rows without latents stand outside all levels.
            let levels = (0..table.blocks().len()).map(Some).chain([None]);
            Some(levels.map(|block| found.rows(0, block).to_vec()).collect::<Vec<_>>())
        };
        let (Some(all), Some(few)) = (read(&[]), read(minibatch)) else { return false };
        let outside = all[table.blocks().len()].iter().zip(&few[table.blocks().len()]);
        outside.into_iter().all(|(all, few)| is_near(*few, *all))
            && (0..table.blocks().len()).all(|block| {
                let Ok(evaluated) = table.rows_evaluated(block, minibatch) else { return false };
                let own = |place: usize| evaluated.as_ref().map_or(place, |rows| rows[place]);
                let mut known = vec![f64::NAN; table.blocks()[block].rows];
                few[block].iter().enumerate().for_each(|(place, log)| known[own(place)] = *log);
                all[block].iter().enumerate().all(|(row, log)| is_near(known[self.evaluated(block, row)], *log))
            })
    }

    /// The row that is evaluated in the place of a row of a block.
    fn evaluated(&self, block: usize, row: usize) -> usize {
        self.same[block].get(row).copied().unwrap_or(row)
    }

    /// The rows that are evaluated of an outermost plate.
    pub(super) fn rows(&self, table: &SiteTable, block: usize) -> Vec<usize> {
        (0..table.blocks()[block].rows).filter(|row| self.evaluated(block, *row) == *row).collect()
    }

    /// The rows that are evaluated of plates of which not all are.
    pub(super) fn minibatch(&self, table: &SiteTable) -> Vec<Minibatch> {
        let some = (0..self.same.len()).filter(|block| !self.same[*block].is_empty());
        let outermost = some.filter(|block| table.outermost(*block) == *block);
        let rows = |block: usize| {
            let plate = table.blocks()[block].plate.as_deref()?;
            let (rows, times) = (self.rows(table, block), self.times(block)?);
            let own = rows.iter().map(|row| times[*row]).collect();
            Some(Minibatch::counted(plate, rows, own))
        };
        outermost.filter_map(rows).collect()
    }

    /// For how many rows each row of a block counts; `None` where each does for itself.
    pub(super) fn times(&self, block: usize) -> Option<Vec<f64>> {
        let own = &self.same[block];
        let mut times = vec![0.0; own.len()];
        own.iter().for_each(|row| times[*row] += 1.0);
        (!own.is_empty()).then_some(times)
    }

    /// What every row has, in the order of blocks and rows, from the rows evaluated with their blocks.
    pub(super) fn spread_rows(&self, table: &SiteTable, found: &[(usize, usize, f64)]) -> Vec<f64> {
        let mut all = Vec::new();
        for block in 0..self.same.len() {
            let mut own = vec![None; table.blocks()[block].rows];
            found.iter().filter(|(at, _, _)| *at == block).for_each(|(_, row, log)| own[*row] = Some(*log));
            all.extend((0..own.len()).filter_map(|row| own[self.evaluated(block, row)]));
        }
        all
    }

    /// Every observation, in the order of sites, rows and numbers in them, from those of the rows evaluated.
    pub(super) fn spread_observations(&self, table: &SiteTable, mut found: Vec<Observation>) -> Vec<Observation> {
        Observation::sort(&mut found);
        let mut all = Vec::with_capacity(found.len());
        for own in found.chunk_by(|a, b| a.site() == b.site()) {
            let site = &table.sites()[own[0].site()];
            let same = site.plate.as_ref().map_or(&[][..], |_| &self.same[site.block()]);
            let count = evaluated(same).count();
            if count == 0 {
                all.extend_from_slice(own);
                continue;
            }
            let width = own.len() / count;
            let mut place = vec![0; same.len()];
            evaluated(same).enumerate().for_each(|(at, row)| place[row] = at);
            for (row, first) in same.iter().enumerate() {
                let numbers = own[place[*first] * width..][..width].iter().enumerate();
                all.extend(numbers.map(|(number, own)| own.moved_to(row * width + number)));
            }
        }
        all
    }

    /// The latents of every row of each block, from those of the rows evaluated.
    pub(super) fn spread_conditionals(&self, table: &SiteTable, found: Vec<Conditionals>) -> Vec<Conditionals> {
        let spread = |own: Conditionals| {
            let (same, width) = (&self.same[own.block], table.blocks()[own.block].width);
            let (false, Some(evaluated)) = (same.is_empty(), &own.rows) else { return own };
            let mut place = vec![None; same.len()];
            evaluated.iter().enumerate().for_each(|(at, row)| place[*row] = Some(at));
            let mut all = Conditionals { rows: None, means: Vec::new(), variances: Vec::new(), ..own };
            let mut rows = Vec::new();
            for (row, first) in same.iter().enumerate() {
                let Some(at) = place[*first] else { continue };
                rows.push(row);
                all.means.extend_from_slice(&own.means[at * width..][..width]);
                all.variances.extend_from_slice(&own.variances[at * width..][..width]);
            }
            Conditionals { rows: Some(rows), ..all }
        };
        found.into_iter().map(spread).collect()
    }
}

/// Globals away from a start, where coefficients are zero and columns do not count.
pub(super) fn away(start: &[f64], place: u64) -> Vec<f64> {
    let mut there = vec![0.0; start.len()];
    Noise::new(0).stream(Key::new(Purpose::Check, place)).normal(&mut there);
    there.iter_mut().zip(start).for_each(|(slot, start)| *slot = start + APART * *slot);
    there
}

/// Whether two log densities are the same but for rounding.
pub(super) fn is_near(own: f64, log: f64) -> bool {
    (own - log).abs() <= ROUNDING * (1.0 + log.abs()) || own.to_bits() == log.to_bits()
}

/// The rows that are evaluated, of those of a block.
fn evaluated(same: &[usize]) -> impl Iterator<Item = usize> {
    same.iter().enumerate().filter(|(row, first)| row == *first).map(|(row, _)| row)
}

/// Some rows of plates with more than are looked at first, at equal distances.
fn sample(table: &SiteTable) -> Vec<Minibatch> {
    let blocks = table.blocks().iter().enumerate();
    let many = blocks.filter(|(index, block)| table.outermost(*index) == *index && block.rows > 2 * SAMPLE);
    let rows = |(_, block): (usize, &partita_core::LocalBlock)| {
        let every = block.rows / SAMPLE;
        Some(Minibatch::new(block.plate.as_deref()?, (0..block.rows).step_by(every).collect()))
    };
    many.filter_map(rows).collect()
}

#[cfg(test)]
mod tests {
    use partita_core::burn::module::Module;
    use partita_core::burn::tensor::Tensor;
    use partita_core::{AnyData, AnyModel, Bernoulli, Device, Groups, Model, Normal, Result, Scope, SiteTable};

    use super::super::{Integrand, RowIntegral};

    /// What rows read beside their outcomes.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Reads {
        Outcomes,
        /// A latent of the silo too, around all patients.
        Clinic,
        /// No latents of patients.
        Bare,
        /// No latents of patients, and one of the silo.
        BareClinic,
        /// A predictor that is computed of the globals before its rows are taken.
        Predictor,
        /// Their own indices.
        Indices,
        /// Outcomes that are not taken, but as they lie in the data.
        Whole,
        /// The place of a row among those evaluated, times the effect.
        Place,
        /// The same, without latents of patients.
        BarePlace,
    }

    /// Patients with visits: outcomes are yes or no, so that many patients are alike.
    #[derive(Module, Debug)]
    struct Patients {
        #[module(skip)]
        reads: Reads,
    }

    #[derive(Debug, Clone)]
    struct Data {
        visits: Groups,
        treated: Tensor<1>,
        y: Tensor<1>,
    }

    impl Model for Patients {
        type Globals = Tensor<1>;
        type Data = Data;

        fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
            scope.sample("effect", Normal::new(0.0, 1.0))
        }

        fn local(&self, scope: &mut Scope<'_>, effect: &Tensor<1>, data: &Data) -> Result<()> {
            let clinic = match self.reads {
                Reads::Clinic | Reads::BareClinic => Some(scope.sample("clinic", Normal::new(0.0, 0.7))?),
                _ => None,
            };
            scope.plate("patient", data.visits.groups(), |scope, rows| {
                let treated = match self.reads {
                    Reads::Place | Reads::BarePlace => {
                        #[expect(clippy::cast_precision_loss, reason = "patients are few")]
                        let places = (0..rows.len()).map(|place| place as f64 * 0.1).collect();
                        scope.device().tensor(places, [rows.len()]) * effect.clone() + rows.take(&data.treated)?
                    }
                    Reads::Predictor => rows.take(&(data.treated.clone() * effect.clone()))?,
                    _ => rows.take(&data.treated)? * effect.clone(),
                };
                if self.reads == Reads::Indices {
                    assert!(rows.indices().is_none_or(|rows| !rows.is_empty()));
                }
                let mut level = match self.reads {
                    Reads::Bare | Reads::BareClinic | Reads::BarePlace => treated,
                    _ => scope.sample("level", Normal::new(treated, 1.2))?,
                };
                if let Some(clinic) = &clinic {
                    level = level + rows.expand(clinic)?;
                }
                scope.plate("visit", &data.visits, |scope, rows| {
                    let y = match self.reads {
                        Reads::Whole => data.y.clone(),
                        _ => rows.take(&data.y)?,
                    };
                    scope.observe("y", Bernoulli::logits(rows.expand(&level)?), y)
                })
            })
        }
    }

    const PATIENTS: usize = 40;

    /// Patients of one to three visits, which do not lie together; `differ` gives each a dose of its own.
    fn data(device: &Device, differ: bool) -> Data {
        let (mut keys, mut y) = (Vec::new(), Vec::new());
        for visit in 0..3 {
            for patient in (0..PATIENTS).filter(|patient| patient % 3 >= visit) {
                keys.push(patient);
                y.push(f64::from(u8::from((patient * 7 + visit * 3) % 5 < 2)));
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "patients are few")]
        let treated = |patient: usize| if differ { patient as f64 * 0.01 } else { f64::from(u8::from(patient > 20)) };
        let count = y.len();
        Data {
            visits: Groups::new(keys, PATIENTS).unwrap(),
            treated: device.tensor((0..PATIENTS).map(treated).collect(), [PATIENTS]),
            y: device.tensor(y, [count]),
        }
    }

    /// The rows evaluated of patients, and the largest difference of anything an integral gives from one over all rows.
    fn compared(reads: Reads, differ: bool) -> (usize, f64) {
        let (device, model) = (Device::flex(), Patients { reads });
        let data = data(&device, differ);
        let table = SiteTable::of(&model, &device, &data).unwrap();
        let (model, data) = (AnyModel::new(&model), AnyData::new(&data));
        let integrand = Integrand { model: &model, data: &data, device: &device, table: &table };
        // At a start of zero the effect does not count.
        let few = RowIntegral::of(&integrand, &[0.0]).unwrap();
        let all = RowIntegral::over_all(&table).unwrap();
        let mut apart = 0.0_f64;
        let mut compare = |a: &[f64], b: &[f64]| {
            assert_eq!(a.len(), b.len());
            a.iter().zip(b).for_each(|(a, b)| apart = apart.max((a - b).abs()));
        };
        let found = [&few, &all].map(|integral| integral.gradient(&integrand, &[0.8], &mut integral.start()).unwrap());
        compare(&[found[0].value, found[0].globals[0]], &[found[1].value, found[1].globals[0]]);
        let found = [&few, &all].map(|integral| integral.rows(&integrand, &[0.8], &mut integral.start()).unwrap());
        compare(&found[0], &found[1]);
        let found = [&few, &all].map(|integral| {
            let found = integral.observations(&integrand, &[0.8], &mut integral.start()).unwrap();
            found.iter().flat_map(|own| [own.left_out, own.seen]).collect::<Vec<_>>()
        });
        compare(&found[0], &found[1]);
        let found = [&few, &all].map(|integral| {
            let found = integral.conditionals(&integrand, &[0.8], &mut integral.start()).unwrap();
            let mut patients = vec![0.0; 2 * PATIENTS];
            for own in found.iter().filter(|own| table.blocks()[own.block].plate.as_deref() == Some("patient")) {
                for at in 0..own.means.len() {
                    let row = own.rows.as_ref().map_or(at, |rows| rows[at]);
                    (patients[row], patients[PATIENTS + row]) = (own.means[at], own.variances[at]);
                }
            }
            patients
        });
        compare(&found[0], &found[1]);
        let patients = table.blocks().iter().position(|block| block.plate.as_deref() == Some("patient")).unwrap();
        (few.alike.rows(&table, patients).len(), apart)
    }

    #[test]
    fn rows_that_are_alike_are_evaluated_once_and_count_for_all() {
        for reads in [Reads::Outcomes, Reads::Clinic, Reads::Bare, Reads::BareClinic] {
            let (evaluated, apart) = compared(reads, false);
            // Two treatments, and two, four and eight outcomes of one to three visits: no more than 28 are possible.
            assert!(evaluated < 25, "{evaluated}");
            assert!(apart < 1e-11, "{reads:?} {apart}");
        }
    }

    #[test]
    fn rows_that_differ_or_cannot_be_compared_are_all_evaluated() {
        for reads in [Reads::Predictor, Reads::Indices, Reads::Whole, Reads::Place, Reads::BarePlace] {
            let (evaluated, apart) = compared(reads, false);
            assert!(evaluated == PATIENTS && apart < 1e-11, "{reads:?}: {evaluated} evaluated, {apart} apart");
        }
        let (evaluated, apart) = compared(Reads::Outcomes, true);
        assert!(evaluated == PATIENTS && apart < 1e-11, "{evaluated} evaluated, {apart} apart");
    }
}
