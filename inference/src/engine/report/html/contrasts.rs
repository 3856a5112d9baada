//! Shows comparisons of two values of a variable: a forest plot of each unit, and the probability of each direction.

use maud::{Markup, html};
use serde::{Deserialize, Serialize};

use super::Page;
use super::effects::Scale;
use super::forest::{Interval, Line, Shown, forests};
use super::words::table;
use crate::engine::report::number;
use crate::engine::report::summary::Quantiles;

/// A comparison of two values of a variable, as a page shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShownContrast {
    /// What is compared, for readers.
    pub name: String,
    /// What is written along the axis, such as "odds ratio"; contrasts of one unit and scale share an axis.
    pub unit: String,
    /// The scale on which the difference is shown.
    pub scale: Scale,
    /// The difference, before it is on that scale.
    pub difference: Quantiles,
    /// The probability that the difference is above 0.
    #[serde(with = "number")]
    pub above: f64,
}

impl ShownContrast {
    fn shown(&self) -> Shown<'_> {
        let Self { name, unit, scale, difference, .. } = self;
        Shown { name, unit, scale: *scale, lines: vec![Line::of_all(Some(Interval::of(difference, *scale)))] }
    }
}

impl Page<'_> {
    /// A picture and a table for each unit, and the probabilities; nothing where nothing is compared.
    pub(super) fn contrasts(&self) -> Option<Markup> {
        let contrasts = &self.content.options.contrasts;
        if contrasts.is_empty() {
            return None;
        }
        let shown: Vec<Shown<'_>> = contrasts.iter().map(ShownContrast::shown).collect();
        let directions = |own: &ShownContrast| {
            vec![own.name.clone(), format!("{:.3}", own.above), format!("{:.3}", 1.0 - own.above)]
        };
        let directions: Vec<Vec<String>> = contrasts.iter().map(directions).collect();
        Some(html! {
            p { "Median and 95 % interval of what was compared." }
            (forests("contrast", "Contrast", &shown))
            (table("Probability of each direction", &["Contrast", "Increase", "Decrease"], &directions))
        })
    }
}
