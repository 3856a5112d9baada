//! Joins families over parts of one vector into one family, so that each site may have its own.

use super::{CovarianceMatrix, Family, FamilyDraw, MomentGradient};
use crate::engine::error::Result;

/// A family made of independent families over disjoint components of the vector.
#[derive(Debug)]
pub(crate) struct Blocks {
    parts: Vec<(Vec<usize>, Box<dyn Family>)>,
    len: usize,
}

impl Blocks {
    /// Joins `parts`: each a list of components with the family over them; together they cover `0..len` once.
    pub(crate) fn new(parts: Vec<(Vec<usize>, Box<dyn Family>)>) -> Self {
        let len = parts.iter().map(|(components, _)| components.len()).sum();
        Self { parts, len }
    }

    fn total(&self, of: impl Fn(&dyn Family) -> usize) -> usize {
        self.parts.iter().map(|(_, family)| of(family.as_ref())).sum()
    }
}

fn pick(values: &[f64], components: &[usize]) -> Vec<f64> {
    components.iter().map(|&component| values[component]).collect()
}

fn put(out: &mut [f64], components: &[usize], values: &[f64]) {
    components.iter().zip(values).for_each(|(&component, value)| out[component] = *value);
}

impl Family for Blocks {
    fn len(&self) -> usize {
        self.len
    }

    fn parameter_len(&self) -> usize {
        self.total(|family| family.parameter_len())
    }

    fn noise_len(&self) -> usize {
        self.total(|family| family.noise_len())
    }

    fn initial(&self, scale: f64) -> Vec<f64> {
        self.parts.iter().flat_map(|(_, family)| family.initial(scale)).collect()
    }

    fn draw(&self, parameters: &[f64], noise: &[f64]) -> FamilyDraw {
        let zeros = vec![0.0; self.len];
        let mut joint = FamilyDraw { latent: zeros.clone(), deviation: zeros.clone(), log_density: 0.0, score: zeros };
        let (mut parameters, mut noise) = (parameters, noise);
        for (components, family) in &self.parts {
            let draw =
                family.draw(front(&mut parameters, family.parameter_len()), front(&mut noise, family.noise_len()));
            put(&mut joint.latent, components, &draw.latent);
            put(&mut joint.deviation, components, &draw.deviation);
            put(&mut joint.score, components, &draw.score);
            joint.log_density += draw.log_density;
        }
        joint
    }

    fn vjp(&self, parameters: &[f64], noise: &[f64], grad_mean: &[f64], grad_offset: &[f64], out: &mut [f64]) {
        let (mut parameters, mut noise, mut out) = (parameters, noise, out);
        for (components, family) in &self.parts {
            let (own, rest) = out.split_at_mut(family.parameter_len());
            out = rest;
            family.vjp(
                front(&mut parameters, family.parameter_len()),
                front(&mut noise, family.noise_len()),
                &pick(grad_mean, components),
                &pick(grad_offset, components),
                own,
            );
        }
    }

    fn vjp_variance(&self, parameters: &[f64], gradient: &[f64], out: &mut [f64]) -> Result<()> {
        let (mut parameters, mut out) = (parameters, out);
        for (components, family) in &self.parts {
            let (own, rest) = out.split_at_mut(family.parameter_len());
            out = rest;
            let parameters = front(&mut parameters, family.parameter_len());
            family.vjp_variance(parameters, &pick(gradient, components), own)?;
        }
        Ok(())
    }

    fn vjp_moments(&self, parameters: &[f64], gradient: &MomentGradient, out: &mut [f64]) {
        let (mut parameters, mut out) = (parameters, out);
        for (components, family) in &self.parts {
            let (own, rest) = out.split_at_mut(family.parameter_len());
            out = rest;
            let parameters = front(&mut parameters, family.parameter_len());
            family.vjp_moments(parameters, &gradient.part(components), own);
        }
    }

    fn set_mean(&self, parameters: &mut [f64], mean: &[f64]) {
        let mut parameters = parameters;
        for (components, family) in &self.parts {
            let (own, rest) = parameters.split_at_mut(family.parameter_len());
            parameters = rest;
            family.set_mean(own, &pick(mean, components));
        }
    }

    fn log_scales(&self) -> Vec<Option<usize>> {
        let (mut all, mut before) = (vec![None; self.len], 0);
        for (components, family) in &self.parts {
            let own = family.log_scales().into_iter();
            components.iter().zip(own).for_each(|(component, place)| all[*component] = place.map(|at| before + at));
            before += family.parameter_len();
        }
        all
    }

    fn entropy(&self, parameters: &[f64]) -> f64 {
        let mut parameters = parameters;
        self.parts.iter().map(|(_, family)| family.entropy(front(&mut parameters, family.parameter_len()))).sum()
    }

    fn add_entropy_gradient(&self, parameters: &[f64], out: &mut [f64]) {
        let (mut parameters, mut out) = (parameters, out);
        for (_, family) in &self.parts {
            let (own, rest) = out.split_at_mut(family.parameter_len());
            out = rest;
            family.add_entropy_gradient(front(&mut parameters, family.parameter_len()), own);
        }
    }

    fn covariance_matrix(&self, parameters: &[f64]) -> CovarianceMatrix {
        let mut parameters = parameters;
        let own = |(components, family): &(Vec<usize>, Box<dyn Family>)| {
            (components.clone(), family.covariance_matrix(front(&mut parameters, family.parameter_len())))
        };
        CovarianceMatrix::join(self.parts.iter().map(own).collect(), self.len)
    }

    fn deviations(&self, parameters: &[f64]) -> Vec<f64> {
        let (mut all, mut parameters) = (vec![0.0; self.len], parameters);
        for (components, family) in &self.parts {
            put(&mut all, components, &family.deviations(front(&mut parameters, family.parameter_len())));
        }
        all
    }

    fn with_moments(&self, mean: &[f64], spread: &CovarianceMatrix) -> Result<Vec<f64>> {
        let mut all = Vec::new();
        for (components, family) in &self.parts {
            all.extend(family.with_moments(&pick(mean, components), &spread.part(components))?);
        }
        Ok(all)
    }
}

/// Takes the first `count` numbers off a slice.
fn front<'a>(values: &mut &'a [f64], count: usize) -> &'a [f64] {
    let (own, rest) = values.split_at(count);
    *values = rest;
    own
}
