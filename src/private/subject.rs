//! Hashes what the sums of a silo are about: the study, the model, and the silo's rows.

use hmac_sha256::Hash;
use partita_core::{Device, Latents, Model, SiteTable, pointwise_log_likelihood};
use partita_inference::Result;

/// Points at which rows tell what they hold.
const POINTS: usize = 2;
/// The distance of a number from its start, where the model says none.
const APART: f64 = 0.05;

/// A SHA-256 of the study alone.
pub(super) fn study_alone(study: &str) -> [u8; 32] {
    let mut hash = Hash::new();
    hash.update(study);
    hash.finalize()
}

/// A SHA-256 of the study, of the sites of its model, and of the log likelihood of each observation of the silo at fixed
/// points: rows that differ in a number which the model reads have another one, and so does another model.
///
/// Two studies that ask for the same bytes ask for different sums; a stored reply to one is none to the other. The hash
/// stays in the silo.
pub(super) fn subject<M: Model>(study: &str, model: &M, data: &M::Data, device: &Device) -> Result<[u8; 32]> {
    let table = SiteTable::of(model, device, data)?;
    let mut hash = Hash::new();
    let mut text = |part: &str| {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    };
    text(study);
    text(std::any::type_name::<M>());
    for site in table.sites() {
        text(&format!(
            "{} {:?} {:?} {} {:?} {:?}",
            site.name, site.role, site.part, site.distribution, site.plate, site.shape
        ));
    }
    let scales = table.start_scales(APART).unwrap_or_else(|| vec![APART; table.global_len()]);
    for point in 0..POINTS {
        let mut place = 7 * point;
        let mut apart = || {
            place += 1;
            ((place as f64) * std::f64::consts::SQRT_2).fract() - 0.5
        };
        let globals: Vec<f64> = table.start().iter().zip(&scales).map(|(at, scale)| at + scale * apart()).collect();
        let blocks = table.blocks().iter().map(|block| block.rows * block.width);
        let locals: Vec<Vec<f64>> = blocks.map(|count| (0..count).map(|_| apart()).collect()).collect();
        let latents = Latents { globals: &globals, locals: &locals };
        for (name, found) in pointwise_log_likelihood(model, device, &table, data, latents)? {
            hash.update(name);
            found.values.iter().for_each(|value| hash.update(value.to_bits().to_le_bytes()));
        }
    }
    Ok(hash.finalize())
}
