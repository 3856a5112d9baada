//! Serves rows never seen in training: their local posteriors and their ELBO term, from a trained encoder.

use partita_core::{AnyData, AnyModel, Device, Encoded, Model, SiteTable, with_shared_theta};

use crate::engine::algorithm::Posterior;
use crate::engine::error::{Error, Result};
use crate::engine::settings::{DRAWS_A_REQUEST, Settings};
use crate::engine::terms::Silo;
use crate::engine::trust::estimate::ElboEstimate;

/// The index that keys the noise of rows no silo of a run has.
const HELD_OUT: u32 = u32::MAX - 1;

/// Local posteriors of a plate's rows on the unconstrained scale, independent over rows and columns.
///
/// # Shapes
/// `mean`, `sd`: `[rows, width]`, row-major, with the columns of the plate's block in the site table.
#[derive(Debug, Clone, PartialEq)]
pub struct EncodedRows {
    /// The plate.
    pub plate: String,
    /// Rows and latents in a row.
    pub shape: [usize; 2],
    /// Posterior means.
    pub mean: Vec<f64>,
    /// Posterior standard deviations.
    pub sd: Vec<f64>,
}

/// The local posteriors that `model`'s encoder gives the rows of `data`, plate by plate; plates without one are left
/// out.
///
/// `model` holds the θ to use: after a fit that is [`crate::Fit::model`]. Nothing is trained.
///
/// # Errors
/// What the model refuses of the data, and the encoder.
pub fn encoded_posterior<M: Model>(model: &M, device: &Device, data: &M::Data) -> Result<Vec<EncodedRows>> {
    let model = &AnyModel::new(model);
    let data = &AnyData::new(data);
    let table = SiteTable::of(model, device, data)?;
    let mut all = Vec::new();
    for (index, block) in table.blocks().iter().enumerate() {
        let Some(encoded) = Encoded::of(model, &table, index, data, None)? else { continue };
        let (mean, log_scale) = encoded.parameters().split_at(block.rows * block.width);
        all.push(EncodedRows {
            plate: block.plate.clone().unwrap_or_default(),
            shape: [block.rows, block.width],
            mean: mean.to_vec(),
            sd: log_scale.iter().map(|log_scale| log_scale.exp()).collect(),
        });
    }
    Ok(all)
}

/// The ELBO term of rows never seen in training, at a fitted posterior and without training anything.
///
/// ```math
/// \hat L_j = E_q[\log p_\theta(y_j, Z_{L_j} \mid Z_G) - \log q(Z_{L_j})]
/// ```
/// with $`y_j`$ = `data`, $`Z_G`$ drawn from `posterior`, $`\theta`$ that of `posterior`, and $`Z_{L_j}`$ from the
/// encoder of `model`. It is the term that these rows would add to the bound as a further silo. A private encoder is
/// the one `model` holds. With a minibatch in `settings` the rows are evaluated in parts of that size.
///
/// # Errors
/// [`Error::Setting`] for no draws, or if rows have latents that no encoder serves; otherwise what the model refuses.
pub fn held_out_bound<M: Model>(
    model: &M,
    device: &Device,
    settings: &Settings,
    posterior: Posterior<'_>,
    data: &M::Data,
    draws: usize,
) -> Result<ElboEstimate> {
    let model = &AnyModel::new(model);
    let data = &AnyData::new(data);
    Error::unless(draws > 0, "draws", draws, "at least 1")?;
    let model = with_shared_theta(model, posterior.theta, device)?;
    let mut silo = Silo::new("the held-out rows", HELD_OUT, &model, data, device, settings)?;
    if let Some(plate) = silo.locals.without_encoder() {
        return Err(Error::Setting {
            setting: "model",
            found: format!("latents in `{plate}` with parameters of their own"),
            expected: "an encoder for all local latents (`Amortised`); rows without one must be trained, in a silo of a fit",
        });
    }
    let mut elbos = Vec::with_capacity(draws);
    for offset in 0_u64.. {
        let count = DRAWS_A_REQUEST.min(draws - elbos.len());
        if count == 0 {
            break;
        }
        let shares = silo.report_elbo_terms(posterior.parameters, offset, count)?;
        elbos.extend(shares.iter().map(|share| share.elbo));
    }
    Ok(ElboEstimate::of(&elbos, None))
}
