//! Holds the five readings of one declaration to each other and to closed forms.

use fixtures::{ConjugateGaussian, conjugate, groups};
use partita::burn::module::Module;
use partita::burn::nn::{Linear, LinearConfig};
use partita::burn::tensor::Tensor;
use partita::core::{
    DrawNoise, Latents, LogDensity, Noise, Part, Predictive, Role, pointwise_log_likelihood, predictive_draw,
    prior_draw,
};
use partita::models::{EIGHT_SCHOOLS, EightSchools, Schools};
use partita::{Device, HalfNormal, Model, Normal, Result, Scope, SiteTable, burn};

fn noise(seed: u64, index: u64) -> DrawNoise {
    DrawNoise { noise: Noise::new(seed), index }
}

#[test]
fn site_table_lists_every_site_with_its_place() {
    let device = Device::flex();
    let table = SiteTable::of(&EightSchools {}, &device, &Schools::new(&EIGHT_SCHOOLS, &device)).unwrap();
    let names: Vec<&str> = table.sites().iter().map(|site| site.name.as_str()).collect();
    assert_eq!(names, ["mu", "tau", "theta", "y"]);
    assert_eq!((table.global_len(), table.blocks()[0].rows, table.blocks()[0].width), (2, 8, 1));
    let tau = table.site("tau").unwrap();
    assert_eq!((tau.part, tau.role, tau.offset()), (Part::Global, Role::Latent, 1));
    let text = table.to_string();
    assert!(text.contains("numbers > 0") && text.contains("school") && text.contains("latent (nc)"), "{text}");
}

#[test]
fn pointwise_log_likelihood_sums_to_the_likelihood_part_of_the_density() {
    let (device, model, groups) = (Device::flex(), conjugate(), groups(5, 3));
    let data = ConjugateGaussian::data(&groups, &device).unwrap();
    let table = SiteTable::of(&model, &device, &data).unwrap();
    let locals = vec![vec![0.2, -0.1, 1.4, 0.9, 2.2]];
    let latents = Latents { globals: &[0.7], locals: &locals };
    let pointwise = pointwise_log_likelihood(&model, &device, &table, &data, latents).unwrap();
    let [(site, values)] = pointwise.as_slice() else { panic!("one observed site") };
    assert_eq!((site.as_str(), values.shape.as_slice()), ("y", [5, 3].as_slice()));
    let normal =
        |x: f64, m: f64, s: f64| -0.5 * ((x - m) / s).powi(2) - s.ln() - 0.5 * (2.0 * std::f64::consts::PI).ln();
    for ((group, b), row) in groups.iter().zip(&locals[0]).zip(values.values.chunks(3)) {
        for (y, found) in group.iter().zip(row) {
            assert!((found - normal(*y, *b, 0.6)).abs() < 1e-12);
        }
    }
    let density = LogDensity::new(&model, &device, &table).local(latents, &data).unwrap();
    let prior: f64 = locals[0].iter().map(|b| normal(*b, 0.7, 0.8)).sum();
    assert!((density.value - prior - values.values.iter().sum::<f64>()).abs() < 1e-11);
}

#[test]
fn prior_draws_have_the_moments_of_the_prior() {
    let (device, model) = (Device::flex(), conjugate());
    let data = ConjugateGaussian::data(&groups(2, 1), &device).unwrap();
    let table = SiteTable::of(&model, &device, &data).unwrap();
    let draws: Vec<f64> = (0..4_000)
        .map(|index| prior_draw(&model, &device, &table, &data, noise(9, index)).unwrap().value("y").unwrap().values[0])
        .collect();
    // y ~ N(0.5, 2² + 0.8² + 0.6²) = N(0.5, 5): 5 standard errors at 4,000 draws.
    let mean = draws.iter().sum::<f64>() / 4_000.0;
    let variance = draws.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / 3_999.0;
    assert!((mean - 0.5).abs() < 5.0 * (5.0_f64 / 4_000.0).sqrt(), "mean {mean}");
    assert!((variance - 5.0).abs() < 5.0 * 5.0 * (2.0_f64 / 4_000.0).sqrt(), "variance {variance}");
}

#[test]
fn predictive_draws_with_unseen_rows_take_locals_from_their_prior() {
    let (device, model) = (Device::flex(), conjugate());
    let data = ConjugateGaussian::data(&groups(3, 2), &device).unwrap();
    let table = SiteTable::of(&model, &device, &data).unwrap();
    let known = vec![vec![100.0, 100.0, 100.0]];
    let of = |locals: Option<&[Vec<f64>]>| {
        let at = Predictive { globals: &[1.0], locals, noise: noise(2, 0) };
        let draw = predictive_draw(&model, &device, &table, &data, at).unwrap();
        draw.value("y").unwrap().values[0]
    };
    assert!((of(Some(&known)) - 100.0).abs() < 6.0 * 0.6);
    assert!((of(None) - 1.0).abs() < 6.0 * (0.8_f64.powi(2) + 0.6_f64.powi(2)).sqrt());
}

#[test]
fn equal_keys_give_equal_draws_and_other_keys_others() {
    let device = Device::flex();
    let data = Schools::new(&EIGHT_SCHOOLS, &device);
    let table = SiteTable::of(&EightSchools {}, &device, &data).unwrap();
    let draw = |index| prior_draw(&EightSchools {}, &device, &table, &data, noise(4, index)).unwrap();
    assert_eq!(draw(0), draw(0));
    assert_ne!(draw(0), draw(1));
}

/// A linear layer with latent weights, and the same model with its weights written as sites.
#[derive(Module, Debug)]
struct BayesianLayer {
    layer: Linear,
}

#[derive(Module, Debug)]
struct ByHand {}

type Regression = (Tensor<2>, Tensor<2>);

impl Model for BayesianLayer {
    type Globals = Linear;
    type Data = Regression;
    fn global(&self, scope: &mut Scope<'_>) -> Result<Linear> {
        scope.module("layer", &self.layer, Normal::new(0.0, 2.0))
    }
    fn local(&self, scope: &mut Scope<'_>, layer: &Linear, (x, y): &Regression) -> Result<()> {
        scope.plate("row", x.dims()[0], |scope, rows| {
            scope.observe("y", Normal::new(layer.forward(rows.take(x)?), 0.5), rows.take(y)?)
        })
    }
}

impl Model for ByHand {
    type Globals = (Tensor<2>, Tensor<1>);
    type Data = Regression;
    fn global(&self, scope: &mut Scope<'_>) -> Result<Self::Globals> {
        Ok((
            scope.sample("weight", Normal::new(0.0, 2.0).iid([3, 2]))?,
            scope.sample("bias", Normal::new(0.0, 2.0).iid([2]))?,
        ))
    }
    fn local(&self, scope: &mut Scope<'_>, (weight, bias): &Self::Globals, (x, y): &Regression) -> Result<()> {
        scope.plate("row", x.dims()[0], |scope, rows| {
            let mean = rows.take(x)?.matmul(weight.clone()) + bias.clone().unsqueeze::<2>();
            scope.observe("y", Normal::new(mean, 0.5), rows.take(y)?)
        })
    }
}

#[test]
fn a_burn_module_as_latents_equals_the_model_written_by_hand() {
    let device = Device::flex();
    let data = (
        device.tensor((0..12).map(|i| f64::from(i) * 0.3 - 1.5).collect(), [4, 3]),
        device.tensor((0..8).map(|i| f64::from(i) * 0.2).collect(), [4, 2]),
    );
    let layer = LinearConfig::new(3, 2).init(device.burn());
    let point: Vec<f64> = (0..8).map(|i| 0.1 * f64::from(i) - 0.3).collect();
    // The plate `row` has no latents: its block is empty.
    let no_locals: Vec<Vec<f64>> = vec![Vec::new()];
    let latents = Latents { globals: &point, locals: &no_locals };
    let module = BayesianLayer { layer };
    let table = SiteTable::of(&module, &device, &data).unwrap();
    assert_eq!(table.global_len(), 8);
    let found = LogDensity::new(&module, &device, &table).joint(latents, &data).unwrap();
    let table = SiteTable::of(&ByHand {}, &device, &data).unwrap();
    let expected = LogDensity::new(&ByHand {}, &device, &table).joint(latents, &data).unwrap();
    assert!((found.value - expected.value).abs() < 1e-12);
    found.globals.iter().zip(&expected.globals).for_each(|(a, b)| assert!((a - b).abs() < 1e-11, "{a} {b}"));
}

/// Sites of every statement: deterministic, factor, local latents outside any plate.
#[derive(Module, Debug)]
struct Everything {}

impl Model for Everything {
    type Globals = Tensor<1>;
    type Data = Tensor<1>;
    fn global(&self, scope: &mut Scope<'_>) -> Result<Tensor<1>> {
        let sigma = scope.sample("sigma", HalfNormal::new(1.0))?;
        scope.deterministic("variance", sigma.clone() * sigma.clone())?;
        Ok(sigma)
    }
    fn local(&self, scope: &mut Scope<'_>, sigma: &Tensor<1>, data: &Tensor<1>) -> Result<()> {
        let shift = scope.sample("shift", Normal::new(0.0, sigma.clone()))?;
        scope.factor("soft_bound", -(shift.clone() * shift.clone()) * 0.25)?;
        scope.plate("row", data.dims()[0], |scope, rows| {
            let centre = shift.clone().expand([rows.len()]);
            scope.observe("y", Normal::new(centre, 1.0), rows.take(data)?)
        })
    }
}

#[test]
fn factors_deterministic_sites_and_latents_outside_plates_enter_as_written() {
    let device = Device::flex();
    let data = device.tensor(vec![0.4, -0.2], [2]);
    let table = SiteTable::of(&Everything {}, &device, &data).unwrap();
    assert_eq!(table.blocks().iter().map(|block| block.rows * block.width).collect::<Vec<_>>(), [1, 0]);
    let (u, shift) = (0.3_f64, 0.6_f64);
    let locals = vec![vec![shift], Vec::new()];
    let density = LogDensity::new(&Everything {}, &device, &table);
    let found = density.joint(Latents { globals: &[u], locals: &locals }, &data).unwrap();
    let sigma = u.exp();
    let normal =
        |x: f64, m: f64, s: f64| -0.5 * ((x - m) / s).powi(2) - s.ln() - 0.5 * (2.0 * std::f64::consts::PI).ln();
    let expected = (2.0_f64).ln() + normal(sigma, 0.0, 1.0) + u + normal(shift, 0.0, sigma) - 0.25 * shift * shift
        + normal(0.4, shift, 1.0)
        + normal(-0.2, shift, 1.0);
    assert!((found.value - expected).abs() < 1e-12, "{} against {expected}", found.value);
    let natural = table.natural_globals(&Everything {}, &device, &[u]).unwrap();
    assert_eq!(natural[1].0, "variance");
    assert!((natural[1].1.values[0] - sigma * sigma).abs() < 1e-12);
    assert!(partita::check(&Everything {}, &[("one".into(), data)], &device).unwrap().passed());
}
