//! Shows named effects with their 95 % intervals, from all silos together and without each of them.

use maud::{Markup, html};
use serde::{Deserialize, Serialize};

use super::Page;
use super::chart::Spacing;
use super::forest::{Interval, Line, Shown, forests};
use super::silos::LEFT_OUT;
use super::words::{IN_JSON, cut_note};
use crate::engine::error::{Error, Result};
use crate::engine::trust::left_out::LeftOut;

/// A number of a site with the name and the scale that readers know it by.
///
/// # Example
/// ```
/// use partita_inference::{Effect, Scale};
/// let smoking =
///     Effect { label: "beta[1]".into(), name: "Mother smokes".into(), unit: "odds ratio".into(), scale: Scale::Exponential };
/// assert_eq!(smoking.scale.no_effect(), Some(1.0));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// The number, as in [`crate::SiteSummary::label`].
    pub label: String,
    /// What it is, for readers.
    pub name: String,
    /// What is written along the axis, such as "odds ratio"; effects of one unit and scale share an axis.
    pub unit: String,
    /// The scale on which it is shown.
    pub scale: Scale,
}

/// What a number is turned into before it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scale {
    /// Nothing: differences, whose line of no effect is 0.
    Identity,
    /// Its exponential: ratios of odds, rates and hazards, whose line of no effect is 1.
    Exponential,
    /// The exponential of its negative: a standard deviation that the model has as minus its logarithm.
    ExponentialOfMinus,
}

impl Scale {
    /// The value that says that there is no effect; `None` on a scale that has none.
    #[must_use]
    pub fn no_effect(self) -> Option<f64> {
        match self {
            Self::Identity => Some(0.0),
            Self::Exponential => Some(1.0),
            Self::ExponentialOfMinus => None,
        }
    }

    /// The ends of an interval around its middle on this scale, the low one first.
    pub(in crate::engine::report) fn interval(self, [low, middle, high]: [f64; 3]) -> [f64; 3] {
        match self {
            Self::Identity => [low, middle, high],
            Self::Exponential => [low, middle, high].map(f64::exp),
            Self::ExponentialOfMinus => [-high, -middle, -low].map(f64::exp),
        }
    }

    pub(super) fn spacing(self) -> Spacing {
        if self == Self::Exponential { Spacing::Logarithmic } else { Spacing::Linear }
    }
}

/// The most silos that are left out in a picture: those that move the answer most.
const SHOWN_SILOS: usize = 10;

impl Page<'_> {
    /// Refuses effects that the report does not have.
    pub(super) fn check_effects(&self) -> Result<()> {
        match self.content.options.effects.iter().find(|effect| self.report.site(&effect.label).is_none()) {
            None => Ok(()),
            Some(effect) => Err(Error::Setting {
                setting: "effects",
                found: effect.label.clone(),
                expected: "the label of a number in `Report::sites`",
            }),
        }
    }

    /// A picture and a table for each unit and scale; nothing where no effect is named.
    pub(super) fn effects(&self) -> Option<Markup> {
        let effects = &self.content.options.effects;
        let has_left_out = self.lines(effects.first()?).len() > 1;
        let shown: Vec<Shown<'_>> = effects.iter().map(|own| self.shown(own)).collect();
        Some(html! {
            p {
                "Median and 95 % interval of each effect: of all silos together (square)"
                @if has_left_out {
                    ", and what the others say without one of them (circle). "
                    "Where a circle lies far from its square, that silo decides the answer"
                }
                ". An arrow goes on beyond the axis."
                @if let Some(note) = cut_note(SHOWN_SILOS, self.by_influence().len(), LEFT_OUT) { " " (note) (IN_JSON) }
            }
            (forests("forest", "Effect", &shown))
        })
    }

    fn shown<'a>(&self, effect: &'a Effect) -> Shown<'a> {
        let Effect { name, unit, scale, .. } = effect;
        Shown { name, unit, scale: *scale, lines: self.lines(effect) }
    }

    fn lines(&self, effect: &Effect) -> Vec<Line> {
        let Some(place) = self.report.sites.iter().position(|site| site.label == effect.label) else {
            return Vec::new();
        };
        let all = self.report.answer().get(place).map(|site| Interval::of(&site.quantiles, effect.scale));
        let all = Line::of_all(all);
        let without = |own: &&LeftOut| Line {
            who: format!("without {}", own.silo.as_deref().unwrap_or("the prior")),
            interval: own
                .sites
                .get(place)
                .filter(|_| own.is_trusted())
                .map(|own| Interval::of(&own.quantiles, effect.scale))
                .filter(Interval::is_finite),
        };
        [all].into_iter().chain(self.by_influence().iter().take(SHOWN_SILOS).map(without)).collect()
    }
}
