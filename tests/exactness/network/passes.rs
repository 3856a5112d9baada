//! Holds networks whose layers are passed several times to their particles one by one.

use super::*;

/// One layer passed twice by constant rows, by rows computed from them and by its own outputs, and with other weights.
#[derive(Module, Debug)]
struct ManyPasses {
    #[module(skip)]
    layer: BayesianLinear,
}

struct Twofold;

impl ModuleMapper for Twofold {
    fn map_float<const D: usize>(&mut self, parameter: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let value = parameter.val() * 2.0;
        Param::initialized(parameter.id, value)
    }
}

impl Model for ManyPasses {
    type Globals = BayesianLinear;
    type Data = Tensor<2>;
    fn global(&self, scope: &mut Scope<'_>) -> Result<BayesianLinear> {
        scope.linear("layer", &self.layer, Normal::new(0.0, 1.0))
    }
    fn local(&self, scope: &mut Scope<'_>, layer: &BayesianLinear, x: &Tensor<2>) -> Result<()> {
        scope.plate("row", x.dims()[0], |scope, rows| {
            let constant = layer.forward(rows.take(x)?);
            let again = layer.forward(rows.take(x)?);
            let computed = layer.forward(rows.take(x)? * 0.5);
            let own = layer.forward(constant.clone().tanh());
            let other = layer.clone().map(&mut Twofold).forward(rows.take(x)?);
            scope.observe("y", Normal::new(constant * again + computed + own * other, 1.0), rows.take(x)?)
        })
    }
}

/// The sum over particles on one tape against the particles on tapes of their own: the largest relative difference of
/// the value and of the gradients by means and variances.
fn apart<M: Model>(model: &M, data: &M::Data, minibatch: &[Minibatch], particles: &[u32]) -> f64 {
    let device = Device::flex();
    let table = SiteTable::of(model, &device, data).unwrap();
    let values = parameters(table.global_len(), 0.3);
    let (means, log_scales) = values.split_at(table.global_len());
    let variances: Vec<f64> = log_scales.iter().map(|log_scale| (2.0 * log_scale).exp()).collect();
    let at = |particle: u32| {
        let key = Key::new(Purpose::Fit, 4).silo(2).particle(particle);
        let moments = Moments { means, variances: &variances, noise: Noise::new(3), key };
        LogDensity::new(model, &device, &table).minibatch(minibatch).weight(0.7).moments(moments)
    };
    let joined = at(99).local_sum(means, data, particles).unwrap();
    let joined: Vec<f64> = [vec![joined.value], joined.means, joined.variances].concat();
    let mut sum = vec![0.0; joined.len()];
    for particle in particles {
        let latents = partita::core::Latents { globals: means, locals: &[Vec::new()] };
        let own = at(*particle).local(latents, data).unwrap();
        let own = [vec![own.value], own.means, own.variances].concat();
        sum.iter_mut().zip(own).for_each(|(slot, own)| *slot += own);
    }
    assert!(sum.iter().filter(|number| **number != 0.0).count() > sum.len() / 2);
    let size = sum.iter().fold(0.0, |size: f64, own| size.max(own.abs()));
    fixtures::largest(joined.iter().zip(&sum).map(|(a, b)| (a - b).abs() / size))
}

#[test]
fn particles_on_one_tape_sum_to_the_particles_one_by_one() {
    // Sums of a few dozen terms in another order.
    const TOLERANCE: f64 = 1e-12;
    let device = Device::flex();
    let (model, data) = classifier(&device);
    let some = [Minibatch::new("row", vec![7, 0, 3, 11])];
    for minibatch in [&[], some.as_slice()] {
        let found = apart(&model, &data, minibatch, &[0, 1, 2, 5, 9]);
        assert!(found < TOLERANCE, "{found:e}");
    }
    let layer =
        BayesianLinear::new(device.tensor(vec![0.5, -0.3, 0.2, 0.8], [2, 2]), device.tensor(vec![0.1, 0.0], [2]));
    let (model, x) = (ManyPasses { layer }, device.tensor(numbers(24, 0), [12, 2]));
    for minibatch in [&[], some.as_slice()] {
        let found = apart(&model, &x, minibatch, &[0, 1, 2, 5, 9]);
        assert!(found < TOLERANCE, "{found:e}");
    }
}

#[test]
fn particles_do_not_join_without_moments_or_with_local_latents() {
    let device = Device::flex();
    let refused = |outcome: Result<partita::core::ValueAndGradient>, words: &str| {
        let text = outcome.unwrap_err().to_string();
        assert!(text.contains(words), "{text}");
    };
    let (model, data) = classifier(&device);
    let table = SiteTable::of(&model, &device, &data).unwrap();
    let zeros = vec![0.0; table.global_len()];
    let density = LogDensity::new(&model, &device, &table);
    refused(density.local_sum(&zeros, &data, &[0]), "no moments");
    let layer = BayesianLinear::new(device.tensor(vec![0.5], [1, 1]), device.tensor(vec![0.0], [1]));
    let (model, x) = (LatentRows { layer }, device.tensor(numbers(4, 0), [4, 1]));
    let table = SiteTable::of(&model, &device, &x).unwrap();
    let key = Key::new(Purpose::Fit, 0);
    let moments = Moments { means: &[0.0; 2], variances: &[1.0; 2], noise: Noise::new(3), key };
    let density = LogDensity::new(&model, &device, &table).moments(moments);
    refused(density.local_sum(&[0.0; 2], &x, &[0]), "local latents");
}
