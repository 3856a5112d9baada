//! Compares the silos of a model with the same rows in one place, which may be pooled to test the model.

use partita_core::{AnyData, AnyModel, Device, Latents, LogDensity, Model, SiteTable};

use super::{CheckReport, Checked, check_any, gradient_discrepancy, local_point, relative};
use crate::engine::error::{Error, Result};
use crate::engine::estimator::add;
use crate::engine::panic::{COORDINATOR, caught};

/// Checks `model` against the data of `silos`, as [`super::check`] does, and against the same rows `pooled` in the same order.
///
/// At one random point of all latents the sum of the silos' log densities has to be that of the pooled rows, and so has
/// its gradient by the globals. It is not where a silo counts what belongs to all: a factor of the globals in
/// `Model::local` is there once a silo, and a normalisation by the silo's own rows is another one. Simulated data will
/// do.
///
/// # Errors
/// As for [`super::check`]; [`Error::Setting`] if the plates of `pooled` have not the rows of all silos, or the model has a latent
/// of the silo itself, of which pooled data have one.
///
/// # Example
/// ```
/// use partita_core::{Device, Model, Normal, Result, Scope, burn};
/// use burn::{module::Module, tensor::Tensor};
///
#[doc = include_str!("../../../doc/mean.md")]
///
/// let device = Device::flex();
/// let silos = [("a".to_owned(), device.tensor(vec![1.0, 2.0], [2])), ("b".to_owned(), device.tensor(vec![3.0], [1]))];
/// let report = partita_inference::check_pooled(&Mean {}, &silos, &device.tensor(vec![1.0, 2.0, 3.0], [3]), &device)?;
/// assert!(report.passed() && report.to_string().contains("2 silos = pooled rows"));
/// # Ok::<(), partita_inference::Error>(())
/// ```
pub fn check_pooled<M: Model>(
    model: &M,
    silos: &[(String, M::Data)],
    pooled: &M::Data,
    device: &Device,
) -> Result<CheckReport> {
    check_pooled_any(&AnyModel::new(model), &AnyData::of_silos(silos), &AnyData::new(pooled), device)
}

fn check_pooled_any(
    model: &AnyModel,
    silos: &[(String, AnyData)],
    pooled: &AnyData,
    device: &Device,
) -> Result<CheckReport> {
    let mut report = check_any(model, silos, device)?;
    caught(COORDINATOR, || compare(model, silos, pooled, device, &mut report))?;
    Ok(report)
}

fn compare(
    model: &AnyModel,
    silos: &[(String, AnyData)],
    pooled: &AnyData,
    device: &Device,
    report: &mut CheckReport,
) -> Result<()> {
    let Checked { bound, noise, globals, .. } = Checked::new(model, device)?;
    let table = SiteTable::of(model, device, pooled)?;
    let mut locals = vec![Vec::new(); table.blocks().len()];
    let (mut value, mut gradient) = (0.0, vec![0.0; globals.len()]);
    for ((_, own), ((_, data), index)) in report.tables.iter().zip(silos.iter().zip(0_u32..)) {
        let point = local_point(own, &noise, index);
        let share = LogDensity::new(model, device, own).local(Latents { globals: &globals, locals: &point }, data)?;
        value += share.value;
        add(&mut gradient, &share.globals);
        locals.iter_mut().zip(point).for_each(|(all, own)| all.extend(own));
    }
    for (index, block) in table.blocks().iter().enumerate() {
        let of_silos: usize =
            report.tables.iter().map(|(_, own)| own.blocks().get(index).map_or(0, |own| own.rows)).sum();
        match &block.plate {
            None if block.width > 0 && silos.len() > 1 => {
                return Err(Error::Setting {
                    setting: "pooled",
                    found: "a model with a latent of the silo itself".into(),
                    expected: "a model whose local latents all stand in plates: pooled rows have one such latent, silos one each",
                });
            }
            Some(plate) if block.rows != of_silos => {
                return Err(Error::Setting {
                    setting: "pooled",
                    found: format!("{} rows of `{plate}`, where all silos have {of_silos}", block.rows),
                    expected: "the rows of all silos, in the order of the silos",
                });
            }
            _ => {}
        }
    }
    let all = LogDensity::new(model, device, &table).local(Latents { globals: &globals, locals: &locals }, pooled)?;
    let silos = if silos.len() == 1 { "1 silo".to_owned() } else { format!("{} silos", silos.len()) };
    let discrepancy = gradient_discrepancy(&gradient, &all.globals);
    report.checks.push((format!("log density: {silos} = pooled rows"), relative(value, all.value, 1.0), bound));
    report.checks.push((format!("gradient by globals: {silos} = pooled rows"), discrepancy, bound));
    Ok(())
}
