//! Finds how wide each global begins in a private run, from its prior: nothing of the rows decides on it.

use std::collections::BTreeMap;

use faer::Mat;
use partita_core::{AnyModel, Device, LogDensity, Part, Site, SiteTable, Support};

use crate::engine::error::Result;

/// Parts of its prior's scale that a global begins with.
const SHARE: f64 = 0.8;
/// The standard deviation at the start of the logarithm of a number above zero.
const OF_LOGARITHM: f64 = 0.5;
/// By how many nats a log density is lower one scale from its middle, as a normal one is.
const FALL: f64 = 0.5;
/// The part of the variance of an intercept that is its own, at least, where coefficients explain the rest to rounding.
const LEAST: f64 = 1e-4;
/// The most halvings or doublings of a scale.
const LONGEST: usize = 200;
/// The halvings between two neighbouring powers of two.
const HALVINGS: usize = 10;

/// For the site of an intercept, the middle of the column of each site that is a coefficient.
pub(crate) type Middles = BTreeMap<String, BTreeMap<String, f64>>;

/// How wide the globals of a private run begin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StartWidth<'a> {
    /// The most that the standard deviation of a global is, of whose scale the model says nothing.
    pub(crate) most: f64,
    /// Where predictors are in the middle of their range.
    pub(crate) middles: &'a Middles,
}

impl StartWidth<'_> {
    /// The covariance of the unconstrained globals around `start`: they are independent, but for intercepts, which are what
    /// is expected at the middle of the columns, less what the coefficients say there. Columns far from zero then begin as
    /// wide as others.
    pub(crate) fn covariance(&self, of: (&AnyModel, &Device, &SiteTable), start: &[f64]) -> Result<Mat<f64>> {
        let (table, len) = (of.2, start.len());
        let mut scales = self.scales(of, start)?;
        let place = |name: &str| table.site(name).filter(|site| site.width() == 1).map(Site::offset);
        let mut shifts = Mat::<f64>::identity(len, len);
        for (intercept, columns) in self.middles {
            let Some(own) = place(intercept) else { continue };
            let mut explained = 0.0;
            for (coefficient, middle) in columns {
                let Some(other) = place(coefficient) else { continue };
                shifts[(own, other)] = -middle;
                explained += (middle * scales[other]).powi(2);
            }
            // Usual priors of an intercept are as wide as what is expected at zero; stated ones may be narrower.
            let whole = scales[own].powi(2);
            let left = whole - explained;
            if left > LEAST * whole {
                scales[own] = left.sqrt();
            } else if left > -LEAST * whole {
                scales[own] *= LEAST.sqrt();
            }
        }
        let factor = Mat::from_fn(len, len, |row, column| shifts[(row, column)] * scales[column]);
        Ok(&factor * factor.transpose())
    }

    /// The standard deviations: half a unit for the logarithms of numbers above zero; for others 0.8 of the scale of their
    /// prior, which is the distance at which its log density is half a nat lower, and at most `most` where the model says
    /// nothing of the scale of a site ([`partita_core::Distribution::start_scale`]).
    fn scales(&self, (model, device, table): (&AnyModel, &Device, &SiteTable), start: &[f64]) -> Result<Vec<f64>> {
        let density = LogDensity::new(model, device, table);
        let middle = density.global(start)?.value;
        let declared = table.start_scales(f64::NAN);
        let mut scales = vec![self.most; start.len()];
        for site in table.latents(Part::Global) {
            for place in site.offset()..site.offset() + site.width() {
                if matches!(site.support, Some(Support::Positive | Support::NonNegative)) {
                    scales[place] = OF_LOGARITHM;
                    continue;
                }
                let mut at = start.to_vec();
                let mut falls = |distance: f64| {
                    at[place] = start[place] + distance;
                    let lower = density.global(&at)?.value - (middle - FALL);
                    // What has no density there has fallen.
                    Ok(lower <= 0.0 || lower.is_nan())
                };
                let sides = [reach(&mut falls)?, reach(|distance| falls(-distance))?];
                let is_declared = declared.as_ref().is_some_and(|all| all[place].is_finite());
                let most = if is_declared { f64::INFINITY } else { self.most };
                if let Some(reach) = sides.into_iter().flatten().min_by(f64::total_cmp) {
                    scales[place] = (SHARE * reach).min(most);
                }
            }
        }
        Ok(scales)
    }
}

/// The distance from which on `falls` is true, to a thousandth; `None` for none.
fn reach(mut falls: impl FnMut(f64) -> Result<bool>) -> Result<Option<f64>> {
    let mut far = 1.0;
    let is_near = falls(far)?;
    let step: f64 = if is_near { 0.5 } else { 2.0 };
    let mut steps = 0;
    while falls(far)? == is_near {
        (far, steps) = (far * step, steps + 1);
        if steps > LONGEST {
            return Ok(None);
        }
    }
    let (mut low, mut high) = if is_near { (far, 2.0 * far) } else { (far / 2.0, far) };
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        *(if falls(middle)? { &mut high } else { &mut low }) = middle;
    }
    Ok(Some(high))
}

#[cfg(test)]
mod tests {
    use partita_core::{Cauchy, HalfNormal, Model, Normal, Scope, burn};

    use super::*;
    use burn::module::Module;

    #[derive(Module, Debug)]
    struct Several {}

    impl Model for Several {
        type Globals = ();
        type Data = ();

        fn global(&self, scope: &mut Scope<'_>) -> partita_core::Result<()> {
            scope.sample("wide", Normal::new(0.0, 50.0))?;
            scope.sample("narrow", Normal::new(0.0, 1e-6))?;
            scope.sample("in_units", Normal::new(1_000.0, 50.0).start(1_000.0).start_scale(0.05))?;
            scope.sample("heavy", Cauchy::new(0.0, 1.0))?;
            scope.sample("above", HalfNormal::new(1e5).start(4e4))?;
            Ok(())
        }

        fn local(&self, _: &mut Scope<'_>, (): &(), (): &()) -> partita_core::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_global_begins_in_units_of_its_prior_where_the_model_says_its_scale() {
        let (model, device) = (Several {}, Device::flex());
        let table = SiteTable::globals(&model, &device).unwrap();
        let middles = [("in_units".to_owned(), [("narrow".to_owned(), 3e7)].into())].into();
        let width = StartWidth { most: 2.0, middles: &middles };
        let covariance = width.covariance((&AnyModel::new(&model), &device, &table), &table.start()).unwrap();
        let found: Vec<f64> = (0..5).map(|place| covariance[(place, place)].sqrt()).collect();
        // The density of a Cauchy is lower by half a nat at √(√e - 1).
        let cauchy = 0.8 * (0.5_f64.exp() - 1.0).sqrt();
        for (found, expected) in found.iter().zip([2.0, 0.8e-6, 40.0, cauchy, 0.5]) {
            assert!((found / expected - 1.0).abs() < 2e-3, "{found} of {expected}");
        }
        // Of 40, 0.8e-6 times the middle is 24: where the column is in its middle, the other 32 are the intercept's own.
        let at_middle = covariance[(2, 2)] + 2.0 * 3e7 * covariance[(2, 1)] + 9e14 * covariance[(1, 1)];
        assert!((at_middle.sqrt() / 32.0 - 1.0).abs() < 5e-3, "{at_middle}");
    }
}
