//! States what a user may choose of few rounds; the defaults serve.

use serde::{Deserialize, Serialize};

use crate::engine::error::{Error, Result};
use crate::engine::whitened::Draws;

/// The options of few rounds. The defaults serve every model that the method takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FewRoundsOptions {
    /// Draws of the globals in a round, an even number of at least twice one more than there are globals; `None` for
    /// the smallest power of two from 16 on that is enough.
    pub draws: Option<usize>,
    /// What is left to gain, in nats, at which a run ends: the last step, which gains it, is taken without another round. After seven
    /// rounds, and in single precision, it is at least 0.001.
    pub tolerance: f64,
    /// The error, in nats summed over rows, up to which points of a rule over rows are added.
    pub quadrature_tolerance: f64,
    /// The fewest rows of a silo that answers: a sum over few rows says much about each.
    pub least_rows: usize,
    /// Rows are evaluated at the draws of a round on each silo's device, of which one read is made: for models without local
    /// latents, or with at most three a row of one outermost plate.
    #[serde(default)]
    pub on_device: bool,
}

impl Default for FewRoundsOptions {
    fn default() -> Self {
        Self { draws: None, tolerance: 1e-4, quadrature_tolerance: 1e-3, least_rows: 1, on_device: false }
    }
}

/// The most globals: a round takes half their square in numbers.
pub(crate) const MOST_GLOBALS: usize = 200;

impl FewRoundsOptions {
    /// The number of draws for so many globals.
    ///
    /// # Errors
    /// [`Error::Setting`] for too few draws, for too many globals, and for tolerances that are not positive.
    pub(crate) fn draws_for(&self, globals: usize) -> Result<usize> {
        let found = format_args!("FewRounds with {globals} globals");
        let expected = "at most 200 globals, whose full covariance a round sends; use Sfvi";
        Error::unless(globals <= MOST_GLOBALS, "algorithm", found, expected)?;
        for (setting, value) in [("tolerance", self.tolerance), ("quadrature_tolerance", self.quadrature_tolerance)] {
            Error::unless(value > 0.0 && value.is_finite(), setting, value, "a finite number > 0, in nats")?;
        }
        let least = Draws::least(globals);
        match self.draws {
            None => Ok(Draws::usual(globals)),
            Some(draws) if draws >= least && draws.is_multiple_of(2) => Ok(draws),
            Some(draws) => {
                let found = format!("{draws} for {globals} globals");
                let expected = "an even number, at least twice one more than there are globals; or None";
                Err(Error::Setting { setting: "draws", found, expected })
            }
        }
    }
}
