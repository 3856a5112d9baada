//! States what a family chosen for sites is: over so many numbers a `Family`, and the forms in which methods take it.

use std::any::Any;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Delta, DiagonalGaussian, Family, FullRankGaussian, IsotropicGaussian, LowRankGaussian, RowOptions};
use crate::engine::error::{Error, Result};
use crate::engine::natural::CovarianceForm;
use crate::engine::plug::plug;

/// The family chosen for some sites, as a [`crate::FamilyPlan`] takes it: over so many unconstrained numbers a
/// [`Family`].
///
/// [`Gaussian`] and [`PointMass`] come with the crate. One of a user's own serves global latents; the methods that need
/// more of a family than draws ask for it by the provided methods, and refuse a family without.
///
/// # Laws
/// Those of the families that it makes: `laws::family`.
pub trait SiteFamily: Any + fmt::Debug + Send + Sync {
    /// The family over so many numbers.
    ///
    /// # Errors
    /// [`Error::Setting`] for constants with which it is not defined.
    fn over(&self, numbers: usize) -> Result<Box<dyn Family>>;

    /// What reports call it.
    fn name(&self) -> String {
        format!("{self:?}")
    }

    /// The form of its covariance, if its members are normal densities of which products and quotients are members too:
    /// PVI takes such families alone.
    fn covariance_form(&self) -> Option<CovarianceForm> {
        None
    }

    /// What it is to so many numbers of each row of a plate, if it may be chosen for local latents.
    fn in_row(&self, _numbers: usize) -> Option<RowOptions> {
        None
    }
}

plug! {
    SiteFamily, "a family",
    names { Delta: PointMass },
    values { Gaussian: Gaussian }
}

/// A point at which all mass stands: maximum a posteriori estimation for the sites that it is chosen for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PointMass;

impl SiteFamily for PointMass {
    fn over(&self, numbers: usize) -> Result<Box<dyn Family>> {
        Ok(Box::new(Delta::new(numbers)))
    }

    fn name(&self) -> String {
        "point mass".to_owned()
    }

    fn in_row(&self, numbers: usize) -> Option<RowOptions> {
        Some(RowOptions { delta: vec![true; numbers], ..RowOptions::independent(numbers) })
    }
}

/// A Gaussian family in words.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gaussian {
    covariance: Covariance,
    given_globals: bool,
    scale_given_globals: bool,
    #[serde(default)]
    given_outer: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Covariance {
    Diagonal,
    Isotropic,
    FullRank,
    LowRank(usize),
}

impl Gaussian {
    /// Independent components.
    #[must_use]
    pub fn diagonal() -> Self {
        Self { covariance: Covariance::Diagonal, given_globals: false, scale_given_globals: false, given_outer: false }
    }

    /// Independent components that share one standard deviation: all globals that are not named apart, or all numbers
    /// of the site that it is chosen for. For global latents only.
    #[must_use]
    pub fn isotropic() -> Self {
        Self { covariance: Covariance::Isotropic, ..Self::diagonal() }
    }

    /// Any covariance; for local latents, any covariance within a row.
    #[must_use]
    pub fn full_rank() -> Self {
        Self { covariance: Covariance::FullRank, ..Self::diagonal() }
    }

    /// A diagonal plus `rank` directions of correlation; for global latents only.
    #[must_use]
    pub fn low_rank(rank: usize) -> Self {
        Self { covariance: Covariance::LowRank(rank), ..Self::diagonal() }
    }

    /// For local latents: the mean is linear in the globals.
    #[must_use]
    pub fn given_globals(self) -> Self {
        Self { given_globals: true, ..self }
    }

    /// For local latents: the log-scale is linear in the globals.
    #[must_use]
    pub fn scale_given_globals(self) -> Self {
        Self { scale_given_globals: true, ..self }
    }

    /// For local latents of a plate inside another, or inside a silo with latents of its own: the mean is linear in the
    /// latents of the row that a row belongs to. It changes nothing for latents that belong to none.
    ///
    /// # Example
    /// ```
    /// use partita_inference::{FamilyPlan, Gaussian};
    /// let plan = FamilyPlan::new().local(Gaussian::full_rank().given_globals().given_outer());
    /// assert!(format!("{plan:?}").contains("full_rank.given_globals.given_outer"));
    /// ```
    #[must_use]
    pub fn given_outer(self) -> Self {
        Self { given_outer: true, ..self }
    }
}

/// Near to how it is written in code: `Gaussian::low_rank(2)`, `Gaussian::full_rank.given_globals`.
impl fmt::Debug for Gaussian {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.covariance {
            Covariance::Diagonal => formatter.write_str("Gaussian::diagonal")?,
            Covariance::Isotropic => formatter.write_str("Gaussian::isotropic")?,
            Covariance::FullRank => formatter.write_str("Gaussian::full_rank")?,
            Covariance::LowRank(rank) => write!(formatter, "Gaussian::low_rank({rank})")?,
        }
        formatter.write_str(if self.given_globals { ".given_globals" } else { "" })?;
        formatter.write_str(if self.scale_given_globals { ".scale_given_globals" } else { "" })?;
        formatter.write_str(if self.given_outer { ".given_outer" } else { "" })
    }
}

impl SiteFamily for Gaussian {
    fn over(&self, numbers: usize) -> Result<Box<dyn Family>> {
        Ok(match self.covariance {
            Covariance::Diagonal => Box::new(DiagonalGaussian::new(numbers)),
            Covariance::Isotropic => Box::new(IsotropicGaussian::new(numbers)),
            Covariance::FullRank => Box::new(FullRankGaussian::new(numbers)),
            Covariance::LowRank(0) => {
                return Err(Error::Setting {
                    setting: "low_rank",
                    found: "0".into(),
                    expected: "a rank of at least 1; for none use diagonal",
                });
            }
            Covariance::LowRank(rank) => Box::new(LowRankGaussian::new(numbers, rank)),
        })
    }

    fn name(&self) -> String {
        match self.covariance {
            Covariance::Diagonal => "Gaussian, diagonal covariance".to_owned(),
            Covariance::Isotropic => "Gaussian, one standard deviation".to_owned(),
            Covariance::FullRank => "Gaussian, full covariance".to_owned(),
            Covariance::LowRank(rank) => format!("Gaussian, covariance diagonal plus rank {rank}"),
        }
    }

    fn covariance_form(&self) -> Option<CovarianceForm> {
        match self.covariance {
            Covariance::Diagonal => Some(CovarianceForm::Diagonal),
            Covariance::Isotropic => Some(CovarianceForm::Isotropic),
            Covariance::FullRank => Some(CovarianceForm::Full),
            Covariance::LowRank(_) => None,
        }
    }

    fn in_row(&self, numbers: usize) -> Option<RowOptions> {
        let dense = match self.covariance {
            Covariance::Diagonal => false,
            Covariance::FullRank => true,
            Covariance::Isotropic | Covariance::LowRank(_) => return None,
        };
        Some(RowOptions {
            dense: vec![dense; numbers],
            given_globals: vec![self.given_globals; numbers],
            scale_given_globals: vec![self.scale_given_globals; numbers],
            given_outer: vec![self.given_outer; numbers],
            delta: vec![false; numbers],
        })
    }
}
