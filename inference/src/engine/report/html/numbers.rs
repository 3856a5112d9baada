//! Tables the posterior, corrected where that holds, and draws the marginal density of each number.

use maud::{Markup, html};
use serde::{Deserialize, Serialize};

use super::Page;
use super::chart::{Frame, Picture, Spacing, Span, at, line, text};
use super::words::{IN_JSON, cut, cut_note, grouped, in_digits, rounded, table};
use crate::engine::moments::mean_and_variance;
use crate::engine::report::density::Density;
use crate::engine::report::summary::NaturalDraws;
use crate::engine::report::{SiteSummary, number};
use crate::engine::trust::chains::ChainDiagnostics;
use crate::engine::trust::correction::Correction;

/// The most numbers in a table, and in pictures: those of a network are in the report's JSON.
const SHOWN: usize = 200;
const DRAWN: usize = 24;
/// The most numbers whose correlations are listed.
const CORRELATED: usize = 12;
/// The places at which a density is evaluated.
const PLACES: u32 = 120;

impl Page<'_> {
    pub(super) fn posterior(&self) -> Markup {
        let report = self.report;
        let corrected = report.trust.correction().filter(|correction| correction.is_trusted());
        let mut columns = vec!["Number", "Mean", "sd", "2.5 %", "50 %", "97.5 %"];
        if corrected.is_some() {
            columns.extend(["Uncorrected mean", "Uncorrected sd"]);
        }
        let chains = report.trust.chains();
        if chains.is_some() {
            columns.extend(ChainDiagnostics::COLUMNS);
        }
        let row = |(own, before): (&SiteSummary, &SiteSummary)| {
            let q = &own.quantiles;
            let beside = if corrected.is_some() { vec![before.mean, before.sd] } else { Vec::new() };
            let numbers = [own.mean, own.sd, q.p2_5, q.p50, q.p97_5].into_iter().chain(beside);
            let agreed = chains.map(|chains| chains.beside(&own.label)).into_iter().flatten();
            let numbers = numbers.map(|number| in_digits(number, own.sd));
            [own.label.clone()].into_iter().chain(numbers).chain(agreed).collect()
        };
        let rows: Vec<Vec<String>> = report.answer().into_iter().zip(&report.sites).take(SHOWN).map(row).collect();
        html! {
            p { (self.correction()) }
            @if rows.is_empty() { p { "No number of a site was summarised." } }
            @else {
                (table("Posterior of each number, as the model declares it: mean, standard deviation, quantiles", &columns, &rows))
            }
            @if let Some(note) = cut_note(SHOWN, report.sites.len(), "numbers") { p { (note) (IN_JSON) } }
            @if !report.theta.is_empty() {
                p { "The model has " (grouped(report.theta.len() as u64)) " trained parameters, which have no uncertainty." }
            }
            ul { @for family in &report.families { li { (family) } } }
        }
    }

    fn correction(&self) -> Markup {
        if let Some(chains) = self.report.trust.chains() {
            let columns =
                "R-hat says how far the chains agree, bulk and tail how many independent draws their own are worth.";
            return html! { "These numbers are of draws of the posterior itself: " (chains.line()) ". " (columns) };
        }
        let Some(own) = self.report.trust.correction() else {
            return html! { "These numbers are those of the approximation: they were not compared with the model itself." };
        };
        let Correction { draws, effective_sample_size, pareto_k, threshold, log_evidence, log_evidence_se, .. } = own;
        html! {
            @if own.is_trusted() { "Corrected from " }
            @else { "These numbers are those of the approximation. They cannot be corrected from " }
            (grouped(*draws as u64)) " draws around the posterior, which are worth " (format!("{effective_sample_size:.0}"))
            ": Pareto k " (rounded(*pareto_k, 1.0)) ", to be trusted below " (rounded(*threshold, 1.0)) ". "
            @if own.is_trusted() {
                "Log evidence " (rounded(*log_evidence, 1.0)) " nats, Monte Carlo standard error "
                (rounded(*log_evidence_se, *log_evidence_se)) "."
            }
        }
    }

    /// A panel for each number; nothing without draws.
    pub(super) fn marginals(&self) -> Option<Markup> {
        let is_corrected = self.report.trust.correction().is_some_and(Correction::is_trusted);
        let answer = self.report.answer();
        let panels = answer.iter().zip(&self.content.marginals).enumerate();
        let panels = panels.filter_map(|(index, (own, marginal))| Some(panel(index, own, marginal.as_ref()?)));
        let panels: Vec<Markup> = panels.collect();
        (!panels.is_empty()).then(|| {
            html! {
                p {
                    @match (self.report.trust.chains(), is_corrected) {
                        (Some(_), _) => "Density of the draws. The bar below is their 95 % interval, the dot their median.",
                        (None, is_corrected) => {
                            "Density of draws of the approximation. The bar below is the 95 % interval of the "
                            @if is_corrected { "corrected" } @else { "uncorrected" }
                            " numbers, the dot their median."
                        }
                    }
                    @if self.content.has_prior { " The dashed line is the density of the prior." }
                    @if let Some(note) = cut_note(DRAWN, self.content.numbers, "numbers") { " " (note) }
                }
                div.panels { @for own in panels { figure { (own) } } }
                @if self.content.numbers > 1 {
                    details { summary { "Correlations of pairs of numbers" } (self.correlations()) }
                }
            }
        })
    }

    fn correlations(&self) -> Markup {
        let names = self.content.correlations.iter().filter_map(|line| line.first()).map(String::as_str);
        let columns: Vec<&str> = ["Number"].into_iter().chain(names).collect();
        let caption = match self.report.trust.chains() {
            Some(_) => "Correlations of draws",
            None => "Correlations of draws of the approximation",
        };
        html! {
            @if let Some(note) = cut_note(CORRELATED, self.content.numbers, "numbers") { p { (note) } }
            (table(caption, &columns, &self.content.correlations))
        }
    }
}

/// The marginal density of a number, with that of its prior where it has one, at the same places.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Marginal {
    #[serde(with = "number::list")]
    places: Vec<f64>,
    #[serde(with = "number::list")]
    density: Vec<f64>,
    #[serde(with = "number::list")]
    prior: Vec<f64>,
}

impl Marginal {
    fn of(draws: &[f64], prior: Option<&[f64]>) -> Option<Self> {
        let density = Density::Draws(draws.to_vec());
        if !density.is_drawable() {
            return None;
        }
        let (low, high) = density.range();
        let places: Vec<f64> = (0..=PLACES).map(|k| low + (high - low) * f64::from(k) / f64::from(PLACES)).collect();
        let prior = prior.map(|draws| Density::Draws(draws.to_vec())).filter(Density::is_drawable);
        let prior = prior.map(|own| own.evaluate(&places)).unwrap_or_default();
        Some(Self { density: density.evaluate(&places), prior, places })
    }

    fn curve(&self, values: &[f64]) -> Vec<(f64, f64)> {
        self.places.iter().copied().zip(values.iter().copied()).collect()
    }
}

/// The densities of the first numbers, beside those of their prior.
pub(super) fn marginals(draws: &NaturalDraws, prior: &NaturalDraws) -> Vec<Option<Marginal>> {
    let of = |label: &str| prior.iter().find(|own| own.1 == label).map(|own| own.2.as_slice());
    draws.iter().take(DRAWN).map(|(_, label, own)| Marginal::of(own, of(label))).collect()
}

/// The lines of a table of the correlations of the first numbers.
pub(super) fn correlations(draws: &NaturalDraws) -> Vec<Vec<String>> {
    let shown = &draws[..draws.len().min(CORRELATED)];
    let row = |(place, (_, label, own)): (usize, &(String, String, Vec<f64>))| {
        let before = shown[..place].iter().map(|(_, _, other)| rounded(correlation(own, other), 1.0));
        let before = [label.clone()].into_iter().chain(before).chain(["1".into()]);
        before.chain(vec![String::new(); shown.len() - place - 1]).collect::<Vec<_>>()
    };
    shown.iter().enumerate().map(row).collect()
}

/// The correlation of two numbers over the same draws.
fn correlation(one: &[f64], other: &[f64]) -> f64 {
    let ((a, variance_a), (b, variance_b)) = (mean_and_variance(one), mean_and_variance(other));
    let products: Vec<f64> = one.iter().zip(other).map(|(x, y)| (x - a) * (y - b)).collect();
    mean_and_variance(&products).0 / (variance_a * variance_b).sqrt()
}

fn panel(index: usize, own: &SiteSummary, marginal: &Marginal) -> Markup {
    let [curve, before] = [&marginal.density, &marginal.prior].map(|values| marginal.curve(values));
    let [low, high] = [curve.first(), curve.last()].map(|point| point.map_or(f64::NAN, |point| point.0));
    let peak = curve.iter().chain(&before).map(|point| point.1).fold(0.0, f64::max);
    let q = &own.quantiles;
    let across = Span::of([low, high, q.p2_5, q.p97_5].into_iter(), Spacing::Linear);
    let up = Span { low: 0.0, high: 1.05 * peak, spacing: Spacing::Linear };
    let frame = Frame { left: 16.0, top: 26.0, width: 204.0, height: 90.0, across, up };
    let area = [(low, 0.0)].into_iter().chain(curve).chain([(high, 0.0)]).collect::<Vec<_>>();
    let [left, middle, right] = [q.p2_5, q.p50, q.p97_5].map(|value| frame.x(value));
    let bar = frame.top + frame.height + 10.0;
    let body = html! {
        path.density d=(frame.path(&area)) {}
        path.prior d=(frame.path(&before)) {}
        @if [left, middle, right].iter().all(|place| place.is_finite()) {
            (line("interval", [left, bar], [right, bar]))
            circle.middle cx=(at(middle)) cy=(at(bar)) r="4" {}
        }
        g transform="translate(0 20)" { (frame.lower_axis("", 4.0)) }
        g.strong { (text("start", [12.0, 14.0], &cut(&own.label, 28))) }
    };
    let [low, middle, high] = [q.p2_5, q.p50, q.p97_5].map(|value| in_digits(value, own.sd));
    let description = format!("Median {middle}, 95 % interval {low} to {high}.");
    let title = format!("Marginal density of {}", own.label);
    let (id, width, height) = (format!("marginal-{index}"), 240.0, 158.0);
    Picture { id: &id, title: &title, description: &description, width, height }.around(body)
}
