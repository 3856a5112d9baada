//! Gives the global posterior of a fit on a device: point masses, diagonal and full-rank Gaussians, one or many.

use burn::tensor::Tensor;
use partita_core::kernel::on_device::{DiagonalNoise, DrawGradients, DrawTensors, over_draws};
use partita_core::{Device, Part, Site, SiteTable, ordered_sum};

use super::{Cavity, CavityPart, Moving, ParticleNoise, Update, plus};
use crate::engine::error::{Error, Result};
use crate::engine::estimator::Estimator;
use crate::engine::family::{FamilyPlan, Gaussian, HALF_LOG_TWO_PI, PointMass, SiteFamily};
use crate::engine::natural::CovarianceForm;
use crate::engine::plug::Plug;

/// The global posterior: independent parts, in the order of the host family's parameters.
#[derive(Debug, Clone)]
pub(crate) struct Globals {
    parts: Vec<GlobalPart>,
    /// For each global site in the order of declaration where it lies.
    sites: Vec<SitePlace>,
}

/// Where a site lies.
#[derive(Debug, Clone, Copy, Default)]
struct SitePlace {
    part: usize,
    /// Its first component there.
    start: usize,
    width: usize,
}

/// A Gaussian or a point mass over some sites taken together, as `[1, n]` vectors.
#[derive(Debug, Clone)]
struct GlobalPart {
    mean: Moving<2>,
    /// `None` for a point mass.
    log_scale: Option<Moving<2>>,
    /// The strict lower triangle of $L$, zeros elsewhere; `None` for independent components.
    lower: Option<(Moving<2>, Triangle)>,
}

/// Constants of a full-rank part.
#[derive(Debug, Clone)]
struct Triangle {
    /// Ones below the diagonal.
    mask: Tensor<2>,
    identity: Tensor<2>,
    /// For each block size $s = 1, 2, 4, \dots$ ones below the diagonal, in one block of $2s$ and in two of $s$.
    levels: Vec<Tensor<2>>,
}

impl Triangle {
    fn new(len: usize, device: &Device) -> Self {
        let square = |entry: &dyn Fn(usize, usize) -> bool| {
            let cells = (0..len * len).map(|cell| f64::from(u8::from(entry(cell / len, cell % len))));
            device.tensor(cells.collect(), [len, len])
        };
        let level =
            |size: usize| square(&|row, column| row / size > column / size && row / (2 * size) == column / (2 * size));
        let sizes = std::iter::successors(Some(1_usize), |size| Some(*size * 2)).take_while(|size| *size < len);
        Self {
            mask: square(&|row, column| column < row),
            identity: square(&|row, column| column == row),
            levels: sizes.map(level).collect(),
        }
    }

    /// $(I + N)^{-1}$ for the strict lower triangle $N$, by blocks that double: those on the diagonal of a block are
    /// inverted before it, and $C$ between $A$ and $B$ becomes $-B^{-1}CA^{-1}$.
    fn inverse(&self, lower: &Tensor<2>) -> Tensor<2> {
        self.levels.iter().fold(self.identity.clone(), |inverse, level| {
            let between = lower.clone() * level.clone();
            inverse.clone() - inverse.clone().matmul(between).matmul(inverse)
        })
    }
}

/// What does not depend on the particle: $\sigma$, $L^{-1}$ of a full-rank part, and what stands in place of a prior.
#[derive(Debug)]
pub(crate) struct Ready {
    scale: Option<Tensor<2>>,
    inverse: Option<Tensor<2>>,
    cavity: Option<CavityPart>,
}

/// A draw of all parts, or several, each a row.
#[derive(Debug)]
pub(crate) struct GlobalsDraw {
    parts: Vec<PartDraw>,
    /// The latents of each site in the order of declaration.
    pub(crate) sites: Vec<Tensor<2>>,
    /// $Z - \mu$ in the order of the global vector.
    pub(crate) deviation: Tensor<2>,
}

#[derive(Debug)]
struct PartDraw {
    /// $\varepsilon$ and $L\varepsilon$; `None` for a point mass.
    noise: Option<[Tensor<2>; 2]>,
}

/// Gradients by the parameters, summed over particles.
#[derive(Debug, Default)]
pub(crate) struct GlobalsGradient {
    parts: Vec<[Option<Tensor<2>>; 3]>,
}

/// Units of the parameters of all parts, in the shapes of these.
#[derive(Debug)]
pub(crate) struct GlobalUnits {
    parts: Vec<[Option<Tensor<2>>; 3]>,
}

/// The families that have a device form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeviceForm {
    PointMass,
    Diagonal,
    FullRank,
}

/// The device form of the family of some sites, which those of a user's own do not have.
fn form_of(choice: &Plug<dyn SiteFamily>, sites: &[&Site]) -> Result<DeviceForm> {
    let form = choice.get::<Gaussian>().and_then(SiteFamily::covariance_form);
    match (choice.get::<PointMass>(), form) {
        (Some(PointMass), _) => Ok(DeviceForm::PointMass),
        (_, Some(CovarianceForm::Diagonal)) => Ok(DeviceForm::Diagonal),
        (_, Some(CovarianceForm::Full)) => Ok(DeviceForm::FullRank),
        _ => Err(Error::Setting {
            setting: "family of globals",
            found: format!(
                "{choice:?} for `{}` with OnDevice",
                sites.iter().map(|site| site.name.as_str()).collect::<Vec<_>>().join("`, `")
            ),
            expected: "diagonal, full_rank or a point mass, which have a device form; or the algorithm Central",
        }),
    }
}

impl GlobalsGradient {
    /// All gradients as flat tensors.
    pub(crate) fn flat(self) -> impl Iterator<Item = Tensor<1>> {
        self.parts.into_iter().flatten().flatten().map(flat)
    }
}

impl Globals {
    /// The posterior that `plan` chooses for the globals of `table`, at these parameters of the host family.
    ///
    /// # Errors
    /// [`Error::Setting`] for a family that has no device form.
    pub(crate) fn new(plan: &FamilyPlan, table: &SiteTable, parameters: &[f64], device: &Device) -> Result<Self> {
        let mut parameters = parameters.iter().copied();
        let declared: Vec<&Site> = table.latents(Part::Global).collect();
        let mut sites = vec![SitePlace::default(); declared.len()];
        let mut parts = Vec::new();
        for (names, choice) in plan.parts(table) {
            let mut len = 0;
            for site in &names {
                if let Some(place) = declared.iter().position(|other| other.name == site.name) {
                    sites[place] = SitePlace { part: parts.len(), start: len, width: site.width() };
                }
                len += site.width();
            }
            if len > 0 {
                parts.push(GlobalPart::new(form_of(&choice, &names)?, len, &mut parameters, device));
            }
        }
        Ok(Self { parts, sites })
    }

    /// What draws have in common, with a factor in place of a prior where there is one.
    pub(crate) fn ready(&self, cavity: Option<&Cavity>) -> Vec<Ready> {
        let own = |(index, part): (usize, &GlobalPart)| part.ready(cavity.map(|cavity| &cavity.parts[index]));
        self.parts.iter().enumerate().map(own).collect()
    }

    /// Draws with noise of one row a draw.
    pub(crate) fn draw(&self, ready: &[Ready], noise: &ParticleNoise, device: &Device) -> GlobalsDraw {
        let (mut parts, mut latents, mut deviations) = (Vec::new(), Vec::new(), Vec::new());
        let mut taken = 0;
        for (part, ready) in self.parts.iter().zip(ready) {
            let mean = part.mean.value();
            let len = mean.dims()[1];
            let (Some(scale), Some(all)) = (&ready.scale, &noise.globals) else {
                let mean = mean.expand([noise.particles, len]);
                deviations.push(mean.zeros_like());
                latents.push(mean);
                parts.push(PartDraw { noise: None });
                continue;
            };
            let e = if all.dims()[1] == len { all.clone() } else { all.clone().narrow(1, taken, len) };
            taken += len;
            let spread = match &part.lower {
                Some((lower, _)) => e.clone() + e.clone().matmul(lower.value().transpose()),
                None => e.clone(),
            };
            let DrawTensors { latent, deviation } = DiagonalNoise { scale, noise: &spread }.draw(&mean);
            latents.push(latent);
            deviations.push(deviation);
            parts.push(PartDraw { noise: Some([e, spread]) });
        }
        GlobalsDraw { parts, sites: self.by_site(&latents), deviation: self.in_order(&deviations, device) }
    }

    fn by_site(&self, parts: &[Tensor<2>]) -> Vec<Tensor<2>> {
        let slice = |SitePlace { part, start, width }| {
            let whole: Tensor<2> = parts[part].clone();
            if whole.dims()[1] == width { whole } else { whole.narrow(1, start, width) }
        };
        self.sites.iter().copied().map(slice).collect()
    }

    /// Puts vectors of the parts into the order of the global vector.
    fn in_order(&self, parts: &[Tensor<2>], device: &Device) -> Tensor<2> {
        match parts {
            // A model without globals: nothing depends on this one zero.
            [] => device.tensor(vec![0.0], [1, 1]),
            [whole] => whole.clone(),
            parts => Tensor::cat(self.by_site(parts), 1),
        }
    }

    /// Puts one vector of all globals, in their order, into those of the parts.
    fn by_part(&self, whole: &Tensor<2>) -> Vec<Tensor<2>> {
        if self.parts.len() == 1 {
            return vec![whole.clone()];
        }
        let mut offset = 0;
        let mut pieces: Vec<Vec<(usize, Tensor<2>)>> = self.parts.iter().map(|_| Vec::new()).collect();
        for SitePlace { part, start, width } in &self.sites {
            pieces[*part].push((*start, whole.clone().narrow(1, offset, *width)));
            offset += width;
        }
        let join = |mut pieces: Vec<(usize, Tensor<2>)>| {
            pieces.sort_by_key(|(start, _)| *start);
            Tensor::cat(pieces.into_iter().map(|(_, piece)| piece).collect(), 1)
        };
        pieces.into_iter().map(join).collect()
    }

    /// Adds to `into` the gradients that reach location and deviation, each in the order of the global vector, one row a
    /// draw.
    pub(crate) fn vjp(
        &self,
        ready: &[Ready],
        draw: &GlobalsDraw,
        location: &Tensor<2>,
        deviation: &Tensor<2>,
        estimator: Estimator,
        into: &mut GlobalsGradient,
    ) {
        into.parts.resize_with(self.parts.len(), Default::default);
        let gradients = self.by_part(location).into_iter().zip(self.by_part(deviation));
        let parts = self.parts.iter().zip(ready).zip(&draw.parts).zip(&mut into.parts);
        for ((((part, ready), own), into), (mut location, mut deviation)) in parts.zip(gradients) {
            let (Some(scale), Some([e, spread])) = (&ready.scale, &own.noise) else {
                plus(&mut into[0], over_draws(location));
                continue;
            };
            match &ready.cavity {
                Some(cavity) if estimator == Estimator::ClosedFormEntropy => {
                    part.add_expected(cavity, scale, location.dims()[0], into);
                }
                Some(cavity) => {
                    let score = cavity.score(part.mean.value() + scale.clone() * spread.clone());
                    location = location + score.clone();
                    deviation = deviation + score;
                }
                None => {}
            }
            let mut adds_score = estimator == Estimator::StickingTheLanding;
            if let (Some((_, triangle)), Some(inverse)) = (&part.lower, &ready.inverse) {
                if adds_score {
                    // Minus the score is ε'L⁻¹/σ, which is of all components.
                    let minus_score = e.clone().matmul(inverse.clone()) / scale.clone();
                    location = location + minus_score.clone();
                    deviation = deviation + minus_score;
                    adds_score = false;
                }
                let weighted = deviation.clone() * scale.clone();
                plus(&mut into[2], weighted.transpose().matmul(e.clone()) * triangle.mask.clone());
            }
            let gradients = DrawGradients { location: &location, deviation: &deviation, adds_score };
            let gradient = DiagonalNoise { scale, noise: spread }.pull_back(gradients);
            plus(&mut into[0], gradient.mean);
            plus(&mut into[1], gradient.log_scale);
        }
    }

    /// $\sum\log\sigma$ over all parts that are no point masses: the part of the entropy that moves.
    pub(crate) fn log_scales(&self) -> Option<Tensor<1>> {
        let mut sum = None;
        for log_scale in self.parts.iter().filter_map(|part| part.log_scale.as_ref()) {
            plus(&mut sum, ordered_sum(log_scale.value()));
        }
        sum
    }

    /// The entropy without $\sum\log\sigma$.
    pub(crate) fn entropy_constant(&self) -> f64 {
        let own = |part: &GlobalPart| part.log_scale.as_ref().map_or(0, |log_scale| log_scale.value().dims()[1]);
        self.parts.iter().map(own).sum::<usize>() as f64 * (0.5 + HALF_LOG_TWO_PI)
    }

    /// Moves all parameters up the gradients, divided by `particles`; returns the squared norm of that mean.
    ///
    /// The gradient of the entropy is added once, where the estimator adds it. `pull` is how strongly they are drawn to others.
    pub(crate) fn ascend(
        &mut self,
        gradient: GlobalsGradient,
        particles: f64,
        estimator: Estimator,
        (update, units): (&Update, Option<&GlobalUnits>),
        pull: Option<(f64, &Self)>,
    ) -> Option<Tensor<1>> {
        let (mut norm, entropy) = (None, estimator.adds_entropy_gradient());
        for (index, (part, [mean, log_scale, lower])) in self.parts.iter_mut().zip(gradient.parts).enumerate() {
            let log_scale = log_scale.map(|gradient| if entropy { gradient + particles } else { gradient });
            let movers = part.vectors_mut().into_iter().zip([mean, log_scale, lower]);
            for (place, (mover, gradient)) in movers.enumerate() {
                let (Some(mover), Some(gradient)) = (mover, gradient) else { continue };
                let mut gradient = gradient * (-1.0 / particles);
                if let Some((strength, to)) = pull
                    && let Some(to) = to.parts[index].vectors()[place]
                {
                    gradient = mover.pulled(gradient, strength, to);
                }
                plus(&mut norm, ordered_sum(gradient.clone() * gradient.clone()));
                mover.step(gradient, update, units.and_then(|units| units.parts[index][place].as_ref()));
            }
        }
        norm
    }

    /// All parameters as flat tensors, to be read as one; [`Globals::parameters`] makes the host family's of them.
    pub(crate) fn flat(&self) -> Vec<Tensor<1>> {
        self.tensors().into_iter().map(flat).collect()
    }

    fn tensors(&self) -> Vec<Tensor<2>> {
        self.parts.iter().flat_map(GlobalPart::vectors).flatten().map(Moving::value).collect()
    }

    /// The parameters in the layout of the host family, from the numbers of [`Globals::flat`] at the front of
    /// `numbers`.
    pub(crate) fn parameters(&self, numbers: &mut impl Iterator<Item = f64>) -> Vec<f64> {
        let mut parameters = Vec::new();
        for part in &self.parts {
            let len = part.mean.value().dims()[1];
            let vectors = if part.log_scale.is_some() { 2 } else { 1 };
            parameters.extend(numbers.by_ref().take(vectors * len));
            if part.lower.is_some() {
                let square: Vec<f64> = numbers.by_ref().take(len * len).collect();
                parameters.extend(square.chunks_exact(len).enumerate().flat_map(|(row, own)| &own[..row]));
            }
        }
        parameters
    }

    /// Replaces the parameters by those of the host family; their running means stay.
    pub(crate) fn set(&mut self, parameters: &[f64], device: &Device) {
        let mut parameters = parameters.iter().copied();
        for part in &mut self.parts {
            let values = part.shaped(&mut parameters, 0.0, device);
            for (mover, value) in part.vectors_mut().into_iter().zip(values) {
                if let (Some(mover), Some(value)) = (mover, value) {
                    mover.set(value);
                }
            }
        }
    }

    /// Units of the parameters, in the order of the host family's at the front of `units`, as tensors of their shapes.
    pub(crate) fn units(&self, units: &mut impl Iterator<Item = f64>, device: &Device) -> GlobalUnits {
        GlobalUnits { parts: self.parts.iter().map(|part| part.shaped(units, 1.0, device)).collect() }
    }

    /// Lets the rule forget what it has seen.
    pub(crate) fn restart(&mut self) {
        self.movers().for_each(|(_, mover)| mover.restart());
    }

    fn movers(&mut self) -> impl Iterator<Item = (String, &mut Moving<2>)> {
        self.parts.iter_mut().enumerate().flat_map(|(index, part)| {
            let named = ["mean", "log_scale", "lower"].into_iter().zip(part.vectors_mut());
            named.filter_map(move |(name, mover)| Some((format!("global.{index}.{name}"), mover?)))
        })
    }

    /// Everything as named vectors.
    pub(crate) fn save(&mut self) -> Result<Vec<(String, Vec<f64>)>> {
        Ok(self.movers().map(|(name, mover)| mover.save(&name)).collect::<Result<Vec<_>>>()?.concat())
    }

    /// Restores what [`Globals::save`] gave; false if it does not fit.
    pub(crate) fn load(&mut self, state: &[(String, Vec<f64>)], device: &Device) -> bool {
        self.movers().all(|(name, mover)| mover.load(&name, state, device))
    }
}

/// Numbers below the diagonal, row by row, of a square with `rest` elsewhere.
fn triangle(len: usize, numbers: &mut impl Iterator<Item = f64>, rest: f64, device: &Device) -> Tensor<2> {
    let entry = |cell: usize| if cell % len < cell / len { numbers.next().unwrap_or(rest) } else { rest };
    device.tensor((0..len * len).map(entry).collect(), [len, len])
}

/// A tensor as one vector.
fn flat(tensor: Tensor<2>) -> Tensor<1> {
    let numbers = tensor.dims().iter().product::<usize>();
    tensor.reshape([numbers])
}

impl GlobalPart {
    fn new(kind: DeviceForm, len: usize, parameters: &mut impl Iterator<Item = f64>, device: &Device) -> Self {
        let mut vector = || Moving::new(device.tensor(parameters.by_ref().take(len).collect(), [1, len]));
        let mean = vector();
        let log_scale = (kind != DeviceForm::PointMass).then(vector);
        let lower = (kind == DeviceForm::FullRank && len > 1)
            .then(|| (Moving::new(triangle(len, parameters, 0.0, device)), Triangle::new(len, device)));
        Self { mean, log_scale, lower }
    }

    /// Numbers in the order of the host family's parameters as tensors of the shapes of these, with `rest` on and above
    /// the diagonal of a triangle.
    fn shaped(&self, numbers: &mut impl Iterator<Item = f64>, rest: f64, device: &Device) -> [Option<Tensor<2>>; 3] {
        let len = self.mean.value().dims()[1];
        let mut vector = || device.tensor(numbers.by_ref().take(len).collect(), [1, len]);
        let (mean, log_scale) = (vector(), self.log_scale.is_some().then(&mut vector));
        let lower = self.lower.is_some().then(|| triangle(len, numbers, rest, device));
        [Some(mean), log_scale, lower]
    }

    /// Mean, log-scale and triangle.
    fn vectors(&self) -> [Option<&Moving<2>>; 3] {
        [Some(&self.mean), self.log_scale.as_ref(), self.lower.as_ref().map(|(lower, _)| lower)]
    }

    /// The same, to move.
    fn vectors_mut(&mut self) -> [Option<&mut Moving<2>>; 3] {
        [Some(&mut self.mean), self.log_scale.as_mut(), self.lower.as_mut().map(|(lower, _)| lower)]
    }

    fn ready(&self, cavity: Option<&CavityPart>) -> Ready {
        let scale = self.log_scale.as_ref().map(|log_scale| log_scale.value().exp());
        let inverse = self.lower.as_ref().map(|(lower, triangle)| triangle.inverse(&lower.value()));
        Ready { scale, inverse, cavity: cavity.cloned() }
    }

    /// Adds to `into` the gradients of the expectation of a factor, once for each of so many draws.
    fn add_expected(&self, cavity: &CavityPart, scale: &Tensor<2>, draws: usize, into: &mut [Option<Tensor<2>>; 3]) {
        let factor = self.lower.as_ref().map(|(lower, triangle)| triangle.identity.clone() + lower.value());
        let [mean, log_scale, lower] = cavity.expected(self.mean.value(), scale, factor);
        let lower = lower.zip(self.lower.as_ref()).map(|(own, (_, triangle))| own * triangle.mask.clone());
        for (slot, own) in into.iter_mut().zip([mean, log_scale, lower]) {
            if let Some(own) = own {
                plus(slot, own * draws as f64);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use partita_core::Handle;

    use super::*;

    #[test]
    fn the_inverse_of_a_large_triangle_is_one() {
        // The powers of such a triangle reach 1e17 before they vanish.
        for len in [2, 7, 64] {
            let device = Device::flex();
            let lower = triangle(len, &mut std::iter::repeat(0.99), 0.0, &device);
            let constants = Triangle::new(len, &device);
            let inverse = constants.inverse(&lower);
            let product = (constants.identity.clone() + lower).matmul(inverse) - constants.identity;
            let off = Handle::from(product).read().unwrap().values;
            assert_eq!(off.len(), len * len);
            assert!(off.iter().all(|off| off.abs() < 1e-12), "{len}: {off:?}");
        }
    }
}
