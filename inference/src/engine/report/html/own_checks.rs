//! Shows the owner of rows what they are beside data that the fitted model makes up, statistic by statistic.

use std::path::Path;

use maud::{Markup, html};
use serde::{Deserialize, Serialize};

use super::chart::{Frame, Picture, Spacing, Span, at, line, text};
use super::document;
use super::words::{rounded, table};
use crate::engine::checkpoint::{write_atomically, write_json};
use crate::engine::error::Result;
use crate::engine::moments::mean_and_variance;
use crate::engine::trust::predictive::Replicated;

/// Posterior predictive checks of one silo with all replicates.
///
/// It holds numbers of the data: give it to the owner of the rows only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OwnChecks {
    /// The silo.
    pub silo: String,
    /// The checks.
    pub checks: Vec<Replicated>,
}

/// The bars of a histogram.
const BARS: u32 = 30;

impl OwnChecks {
    /// Writes them as one page of HTML with a histogram each, atomically.
    ///
    /// # Errors
    /// [`crate::Error::File`].
    pub fn write_html(&self, path: &Path) -> Result<()> {
        let title = format!("Predictive checks of {}", self.silo);
        write_atomically(path, document(&title, &title, &self.markup()).into_string().as_bytes())
    }

    /// Writes them as JSON, atomically.
    ///
    /// # Errors
    /// [`crate::Error::File`].
    pub fn write_json(&self, path: &Path) -> Result<()> {
        write_json(self, path)
    }

    fn markup(&self) -> Markup {
        let row = |own: &Replicated| {
            let (mean, variance) = mean_and_variance(&own.replicates);
            let numbers = [own.observed, mean, variance.sqrt()].map(|number| rounded(number, variance.sqrt()));
            [own.check.to_string()].into_iter().chain(numbers).chain([format!("{:.4}", own.p_value())]).collect()
        };
        let rows: Vec<Vec<String>> = self.checks.iter().map(row).collect();
        let columns = ["Check", "Data", "Mean of replicates", "sd of replicates", "p-value"];
        html! {
            p {
                "Each replicate is a data set that the fitted model makes up for the rows of this silo, with rows' own "
                "latents drawn anew. The line is the number of the data; the p-value is the part of replicates with a "
                "larger one. This page is for the owner of the rows."
            }
            (table("Data beside replicates", &columns, &rows))
            div.panels { @for (index, own) in self.checks.iter().enumerate() { figure { (histogram(index, own)) } } }
        }
    }
}

/// The replicates as bars, and the data as a line.
fn histogram(index: usize, own: &Replicated) -> Markup {
    let across = Span::of(own.replicates.iter().copied().chain([own.observed]), Spacing::Linear);
    let width = (across.high - across.low) / f64::from(BARS);
    let edge = |bar: u32| across.low + width * f64::from(bar);
    let count = |bar: u32| {
        let holds = |value: &&f64| (edge(bar)..edge(bar + 1)).contains(*value);
        u32::try_from(own.replicates.iter().filter(holds).count()).unwrap_or(u32::MAX)
    };
    let counts: Vec<u32> = (0..BARS).map(count).collect();
    let most = f64::from(counts.iter().copied().max().unwrap_or(1).max(1));
    let up = Span { low: 0.0, high: 1.05 * most, spacing: Spacing::Linear };
    let frame = Frame { left: 12.0, top: 26.0, width: 216.0, height: 110.0, across, up };
    let (id, title) = (format!("check-{index}"), own.check.to_string());
    let description = format!("The p-value is {:.4}.", own.p_value());
    let body = html! {
        (text("start", [12.0, 14.0], &super::words::cut(&title, 34)))
        @for (bar, count) in (0..BARS).zip(counts) {
            @let (left, top) = (frame.x(edge(bar)), frame.y(f64::from(count)));
            rect.density x=(at(left)) y=(at(top)) width=(at(frame.x(edge(bar + 1)) - left)) height=(at(136.0 - top)) {}
        }
        (line("interval", [frame.x(own.observed), 22.0], [frame.x(own.observed), 136.0]))
        (frame.lower_axis("", 4.0))
    };
    Picture { id: &id, title: &title, description: &description, width: 240.0, height: 160.0 }.around(body)
}
