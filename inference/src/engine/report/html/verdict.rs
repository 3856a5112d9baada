//! Opens the page: whether to trust the numbers, and every reason not to, with what was measured and what to do.

use maud::{Markup, html};

use super::Page;
use super::words::signed;
use crate::engine::report::{Severity, Warning, algorithm_name};
use crate::engine::trust::verdict::Verdict;

impl Page<'_> {
    pub(super) fn verdict(&self) -> Markup {
        let report = self.report;
        let class = match report.verdict {
            Verdict::Trust => "trust",
            Verdict::TrustWithLimits => "limits",
            Verdict::DoNotTrust => "doubt",
        };
        html! {
            p.verdict.(class) { "Verdict: " strong { (report.verdict) } "." }
            @if report.warnings.is_empty() {
                p { "There is no warning." }
            } @else {
                ul.warnings { @for own in &report.warnings { li { (warning(own)) } } }
            }
            @if let Some(privacy) = &report.privacy { p { "Privacy: " (privacy.promise()) "." } }
            p {
                @match report.silos.len() { 1 => "One silo", count => { (count) " silos" } }
                ", fitted by " (algorithm_name(&report.algorithm).unwrap_or("a method of its own"))
                @if let Some(reason) = &report.choice { ", chosen because " (reason) }
                "."
            }
        }
    }
}

fn warning(own: &Warning) -> Markup {
    let severity = match own.severity {
        Severity::Note => "Note",
        Severity::Limit => "Limit",
        Severity::Doubt => "Doubt",
    };
    let (number, threshold) = own.measures();
    html! {
        strong { (severity) ": " } (prose(&own.problem))
        @if let Some(number) = number { ": " strong { (signed(number)) } }
        "."
        @if own.site.is_some() || own.silo.is_some() || threshold.is_some() {
            dl {
                @if let Some(site) = &own.site { dt { "Site" } dd { (site) } }
                @if let Some(silo) = &own.silo { dt { "Silo" } dd { (silo) } }
                @if let Some(threshold) = threshold {
                    dt { "Threshold" }
                    dd { (signed(threshold)) @if let Some(source) = &own.source { ", " (source) } }
                }
            }
        }
        p { "What to do: " (prose(&own.remedy)) }
    }
}

/// A sentence whose words in backticks are code.
fn prose(sentence: &str) -> Markup {
    html! {
        @for (index, part) in sentence.split('`').enumerate() {
            @if index % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}
