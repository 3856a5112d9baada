//! Writes a report as one page of HTML that needs no network and no script, for browsers, print and screen readers.

mod chart;
mod content;
mod contrasts;
mod course;
mod effects;
mod forest;
mod judged;
mod numbers;
mod own_checks;
mod silos;
mod verdict;
mod words;

pub use content::PageContent;
pub use contrasts::ShownContrast;
pub use effects::{Effect, Scale};
pub use own_checks::OwnChecks;

use std::path::Path;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde::{Deserialize, Serialize};

use super::{PriorLine, Report};
use words::table;

use crate::engine::checkpoint::write_atomically;
use crate::engine::error::Result;

const STYLE: &str = include_str!("html/style.css");

/// Nothing is loaded, whatever a name in the report holds.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/// What a page says beside the report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HtmlOptions {
    /// Its heading.
    pub title: String,
    /// The numbers that a forest plot shows, with the names that readers know; none for no such plot.
    pub effects: Vec<Effect>,
    /// What is compared; none for no such section.
    pub contrasts: Vec<ShownContrast>,
    /// Draws of numbers from their prior, which marginal densities are shown beside: site, label, draws. See
    /// [`crate::Fit::prior`].
    #[serde(skip)]
    pub prior: Vec<(String, String, Vec<f64>)>,
}

impl Default for HtmlOptions {
    fn default() -> Self {
        let title = "Report of a fit".into();
        Self { title, effects: Vec::new(), contrasts: Vec::new(), prior: Vec::new() }
    }
}

/// A report with what a fit holds beside it.
struct Page<'a> {
    report: &'a Report,
    content: &'a PageContent,
}

impl Report {
    /// Writes the report as one HTML file for people, atomically: verdict, posterior, effects, silos and cost.
    ///
    /// [`crate::Fit::write_html`] adds the marginal densities, the trace of the bound and the manifest.
    ///
    /// # Errors
    /// [`crate::Error::Setting`] for an effect that is no number of the report; [`crate::Error::File`].
    pub fn write_html(&self, path: &Path, options: &HtmlOptions) -> Result<()> {
        PageContent { options: options.clone(), ..PageContent::default() }.write_html(self, path)
    }

    /// Whether the posterior had stopped moving, in a word: "yes", "no" or "not known".
    #[must_use]
    pub fn settled_in_words(&self) -> &'static str {
        match self.settled {
            Some(true) => "yes",
            Some(false) => "no",
            None => "not known",
        }
    }
}

impl Page<'_> {
    fn write(&self, path: &Path) -> Result<()> {
        self.check_effects()?;
        write_atomically(path, self.markup().into_string().as_bytes())
    }

    fn markup(&self) -> Markup {
        let sections = [
            ("effects", "Effects", self.effects()),
            ("contrasts", "Contrasts", self.contrasts()),
            ("posterior", "Posterior", Some(self.posterior())),
            ("priors", "Priors", self.priors()),
            ("marginals", "Marginal densities", self.marginals()),
            ("silos", "What each silo does", self.is_apart().then(|| self.influence())),
            ("left-out", "Rows left out one at a time", self.left_out()),
            ("checks", "Predictive checks", self.checks()),
            ("course", "How the fit went", Some(self.course())),
            ("left", "What left each silo", self.is_apart().then(|| self.what_left())),
            ("cost", "What it cost", Some(self.cost())),
            ("repeat", "How to repeat and cite it", Some(self.repeat())),
        ];
        let sections = sections.map(|(id, heading, body)| body.map(|body| (id, heading, body)));
        let title = &self.content.options.title;
        let body = html! {
            (self.verdict())
            nav aria-label="Contents" {
                ul { @for (id, heading, _) in sections.iter().flatten() { li { a href={ "#" (id) } { (heading) } } } }
            }
            @for (id, heading, body) in sections.iter().flatten() {
                section id=(id) aria-labelledby={ (id) "-heading" } {
                    h2 id={ (id) "-heading" } { (heading) }
                    (body)
                }
            }
        };
        document(&format!("{title}: {}", self.report.verdict), title, &body)
    }
}

impl Page<'_> {
    /// Whether silos kept their rows: a sampler has them all.
    fn is_apart(&self) -> bool {
        self.report.trust.chains().is_none()
    }

    /// The prior of every number; nothing where none is said.
    fn priors(&self) -> Option<Markup> {
        let line = |own: &PriorLine| vec![own.name.clone(), own.prior.clone(), own.source.to_string()];
        let lines: Vec<Vec<String>> = self.report.priors.iter().map(line).collect();
        (!lines.is_empty()).then(|| table("What was known before the data", &["Number", "Prior", "Whose"], &lines))
    }
}

/// A page by itself: `name` in the browser, `heading` on the page.
fn document(name: &str, heading: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                link rel="icon" href="data:,";
                title { (name) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header { h1 { (heading) } }
                main { (body) }
                footer { "Written by Partita " (env!("CARGO_PKG_VERSION")) "." }
            }
        }
    }
}
