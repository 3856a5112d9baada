//! Evaluates the rows of a silo at all draws of a round on its device, where rows have no latents, and reads their sums once.

use burn::tensor::Tensor;
use partita_core::{AnyData, AnyModel, Device, Handle, LogDensity, Part, SiteTable};

use super::options::FewRoundsOptions;
use crate::engine::error::{Error, Result};

/// Refuses rows with latents, whose integrals have no device form.
pub(super) fn check(options: &FewRoundsOptions, table: &SiteTable) -> Result<()> {
    let Some(site) = table.latents(Part::Local).next().filter(|_| options.on_device) else { return Ok(()) };
    Err(Error::Setting {
        setting: "on_device",
        found: format!("true for few rounds of a model whose site `{}` is latent in each silo", site.name),
        expected: "a model whose latents are all global, or false: rows with latents are integrated on the host",
    })
}

/// A log density and its gradient by the globals, at each of `globals`, in one read.
///
/// # Errors
/// What the model refuses, such as [`partita_core::Error::NoDeviceForm`].
pub(super) fn at_all(
    density: &LogDensity<'_, AnyModel>,
    data: &AnyData,
    (table, device): (&SiteTable, &Device),
    globals: &[Vec<f64>],
) -> Result<Vec<(f64, Vec<f64>)>> {
    let mut all: Vec<Tensor<1>> = Vec::new();
    for own in globals {
        let latents: Vec<Tensor<2>> = table
            .latents(Part::Global)
            .map(|site| device.tensor(own[site.offset()..][..site.width()].to_vec(), [1, site.width()]))
            .collect();
        let found = density.on_device(&latents, data)?;
        all.push(found.value);
        all.extend(found.latents.into_iter().map(|gradient| {
            let [_, width] = gradient.dims();
            gradient.reshape([width])
        }));
    }
    let numbers = Handle::from(Tensor::cat(all, 0)).read()?.values;
    let one = |own: &[f64]| (own[0], own[1..].to_vec());
    Ok(numbers.chunks_exact(1 + table.global_len()).map(one).collect())
}
