//! Draws the results: weights as images, their uncertainty, and the calibration of predictions.

use partita::inference::Posterior;
use partita::inference::metrics::{Predictions, calibration};

use super::World;
use super::study::{Case, SHAPE};
use crate::harness::Result;
use crate::pictures::{Colours, SheetOptions, Tile, contact_sheet, reliability};

/// Writes `templates_CASE.png`, `uncertainty_CASE.png` and `calibration_CASE.svg`.
pub(crate) fn draw(world: &World, case: &Case, posterior: Posterior<'_>, predictions: &Predictions<'_>) -> Result<()> {
    let [pixels, classes] = SHAPE;
    let Posterior { family, parameters, theta } = posterior;
    // The latents are standardised: W is sigma_W times them.
    let sigma = theta[0].exp();
    let (mean, deviation) = (family.mean(parameters), family.covariance_matrix(parameters).deviations());
    let tiles = |values: &[f64]| -> Vec<Tile> {
        let of = |class: usize| (0..pixels).map(|pixel| sigma * values[pixel * classes + class]).collect();
        let tile =
            |class| Tile { title: format!("class {class}"), values: of(class), shape: world.images.train.shape() };
        (0..classes).map(tile).collect()
    };
    let file = |what: &str| world.session.file(&format!("{what}_{}", case.name));
    let options = SheetOptions { columns: 5, scale: 4, colours: Colours::Diverging };
    contact_sheet(&file("templates").with_extension("png"), &tiles(&mean), &options)?;
    let options = SheetOptions { colours: Colours::Grey, ..options };
    contact_sheet(&file("uncertainty").with_extension("png"), &tiles(&deviation), &options)?;
    let title = format!("SFVI, {} silos of {} images: 10,000 test images", case.silos, case.rows);
    let judged = [("SFVI".to_owned(), calibration(predictions))];
    reliability(&file("calibration").with_extension("svg"), &judged, &title)?;
    Ok(())
}
