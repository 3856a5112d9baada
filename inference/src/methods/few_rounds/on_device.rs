//! Evaluates the rows of a silo at all draws of a round on its device, and reads what they give once.

use burn::tensor::Tensor;
use partita_core::{AnyData, AnyModel, Device, Handle, LogDensity, SiteTable};

use super::silo::{Counted, FewRoundsSilo, Sums};
use super::step::Share;
use crate::engine::error::Result;
use crate::engine::integral::{Centres, DeviceRows, Until};
use crate::engine::normal::Normal;
use crate::engine::on_device::by_site;
use crate::engine::terms::particles::Worker;

impl FewRoundsSilo {
    /// The sum over the silo's rows at the draws of a round; `None` where rules need other points, or the host computes.
    pub(super) fn round_on_device(&mut self, at: &Normal, until: Until) -> Result<Option<Share>> {
        if !self.options.on_device || self.rows.integral.is_empty() {
            return Ok(None);
        }
        let centres = self.rows.centres.clone();
        let Some(sums) = self.integrals_on_device(at, Counted::Rows, &centres, Some(until))? else { return Ok(None) };
        let (share, moved) = self.shared(at, sums)?;
        self.rows.centres = moved;
        Ok(Some(share))
    }

    /// The sums at each draw and where rules end.
    pub(super) fn sums_on_device(&mut self, at: &Normal, counted: Counted<'_>, centres: &[Centres]) -> Result<Sums> {
        if self.rows.integral.is_empty() {
            return Ok((self.observed_on_device(at, counted)?, centres.to_vec()));
        }
        match self.integrals_on_device(at, counted, centres, None)? {
            Some(sums) => Ok(sums),
            // Nothing was compared.
            None => self.sums(at, counted, centres),
        }
    }

    /// The sums at each draw of rows without latents: no rule stands anywhere there.
    fn observed_on_device(&self, at: &Normal, counted: Counted<'_>) -> Result<Vec<(f64, Vec<f64>)>> {
        let (Worker { model, data }, device, table) = (&self.rows.workers[0], &self.rows.device, &self.rows.table);
        let prior = if counted.has_prior() { 1.0 } else { 0.0 };
        let density = LogDensity::new(model, device, table).weight(counted.times()).prior(prior);
        let globals = self.globals(at);
        let mut sums = at_all(&density, data, (table, device), &globals)?;
        for ((value, gradient), globals) in sums.iter_mut().zip(&globals) {
            counted.add_others(globals, value, gradient);
        }
        Ok(sums)
    }

    /// The sums at each draw, with rows integrated out, and where rules end; `None` if rules are to have other points. Draws at
    /// which the device has no number are computed on the host.
    fn integrals_on_device(
        &mut self,
        at: &Normal,
        counted: Counted<'_>,
        centres: &[Centres],
        until: Option<Until>,
    ) -> Result<Option<Sums>> {
        let globals = self.globals(at);
        let DeviceRows::AtDraws(found) = self.rows.on_device(&globals, centres, until)? else { return Ok(None) };
        let left: Vec<usize> = (0..found.len()).filter(|index| found[*index].is_none()).collect();
        let mut on_host = self.integrals(at, counted, centres, &left)?.into_iter();
        let (mut sums, mut moved) = (Vec::with_capacity(found.len()), Vec::with_capacity(found.len()));
        let Worker { model, .. } = &self.rows.workers[0];
        let density = LogDensity::new(model, &self.rows.device, &self.rows.table);
        for (found, globals) in found.into_iter().zip(&globals) {
            let own = match found {
                Some((mut found, own)) => {
                    counted.complete(&density, globals, &mut found)?;
                    Some((found, own))
                }
                None => on_host.next(),
            };
            let Some((found, own)) = own else { unreachable!("invariant: the host has the draws that are left") };
            sums.push((found.value, found.globals));
            moved.push(own);
        }
        Ok(Some((sums, moved)))
    }

    /// The globals of each draw.
    fn globals(&self, at: &Normal) -> Vec<Vec<f64>> {
        let draws = &self.rows.draws;
        (0..draws.len()).map(|index| at.draw(draws.get(index))).collect()
    }
}

/// A log density and its gradient by the globals, at each of `globals`, in one read.
///
/// # Errors
/// What the model refuses, such as [`partita_core::Error::NoDeviceForm`].
fn at_all(
    density: &LogDensity<'_, AnyModel>,
    data: &AnyData,
    (table, device): (&SiteTable, &Device),
    globals: &[Vec<f64>],
) -> Result<Vec<(f64, Vec<f64>)>> {
    let mut all: Vec<Tensor<1>> = Vec::new();
    for own in globals {
        let found = density.on_device(&by_site(own, table, device), data)?;
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
