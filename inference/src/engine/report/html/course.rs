//! Says how the fit went and what it cost, and how to repeat it.

use maud::{Markup, html};

use super::Page;
use super::chart::{Frame, Picture, Spacing, Span, at, text};
use super::words::{grouped, rounded, table};
use crate::engine::algorithm::Ending;
use crate::engine::report::algorithm_name;
use crate::engine::report::course::Course;
use crate::engine::report::number::Number;
use crate::engine::trust::chains::{ChainDiagnostics, ChainSummary};

/// The most points of a trace that have a dot each.
const DOTS: usize = 60;

impl Page<'_> {
    pub(super) fn course(&self) -> Markup {
        let report = self.report;
        if let Some(chains) = report.trust.chains() {
            return of_chains(chains);
        }
        let ending = match report.ending {
            Ending::Completed => "all steps were done",
            Ending::Converged => "it had converged",
            Ending::NotConverged => "it did not converge",
            Ending::Interrupted => "it was interrupted",
        };
        html! {
            p { strong { "Settled: " (report.settled_in_words()) } ". The run ended because " (ending) "." }
            @if report.tells_bound() {
                p {
                    (report.objective) " " (rounded(report.elbo, 1.0)) " nats, Monte Carlo standard error "
                    (rounded(report.elbo_se, report.elbo_se)) " from " (grouped(report.elbo_draws as u64)) " draws."
                    @if let Some(line) = &report.single_precision { " " (line) }
                }
            }
            @if let Some(trace) = self.trace() { figure tabindex="0" { (trace) } }
        }
    }

    fn trace(&self) -> Option<Markup> {
        let trace = self.content.trace.iter();
        let points: Vec<(f64, f64)> = trace.map(|(step, Number(value))| (*step as f64, *value)).collect();
        let Course { steps, frame, curves: [raw, smooth], unseen } = Course::of(&points)?;
        let across = Span { low: steps.start, high: steps.end, spacing: Spacing::Linear };
        let up = Span { low: frame.start, high: frame.end, spacing: Spacing::Linear };
        let frame = Frame { left: 78.0, top: 28.0, width: 650.0, height: 250.0, across, up };
        let settled = self.report.settled_in_words();
        let title = format!("Trace of the bound. Settled: {settled}{unseen}");
        let end = smooth.last().map_or_else(String::new, |(_, value)| rounded(*value, 1.0));
        let description = format!(
            "From step {} to step {} the bound reaches {end} nats.",
            rounded(steps.start, f64::NAN).trim_end_matches(".00"),
            rounded(steps.end, f64::NAN).trim_end_matches(".00")
        );
        let body = html! {
            (frame.left_axis("bound, nats", 6.0))
            @if raw.len() <= DOTS {
                path.smooth d=(frame.path(&raw)) {}
                @for (step, value) in &raw { circle.middle cx=(at(frame.x(*step))) cy=(at(frame.y(*value))) r="3.5" {} }
            } @else {
                path.raw d=(frame.path(&raw)) {}
                path.smooth d=(frame.path(&smooth)) {}
            }
            (frame.lower_axis("step", (steps.end - steps.start).min(8.0)))
            (text("end", [728.0, 18.0], &format!("settled: {settled}{unseen}")))
        };
        Some(
            Picture { id: "trace", title: &title, description: &description, width: 760.0, height: 322.0 }.around(body),
        )
    }

    pub(super) fn cost(&self) -> Markup {
        let report = self.report;
        let counts = [
            ("Rounds: exchanges with all silos", report.rounds),
            ("Messages, both ways", report.messages),
            ("Bytes, both ways", report.bytes),
            ("Bytes that left silos", report.bytes_from_silos),
            ("Steps of the globals", report.gradient_steps),
            ("Steps of all silos together", report.silo_steps),
            ("Steps whose gradient was clipped", report.clipped_steps),
        ];
        let counts = counts.into_iter().map(|(what, count)| vec![what.to_owned(), grouped(count)]);
        let method = report.method.iter().flat_map(|own| &own.counts).filter(|count| count.number > 0);
        let method = method.map(|count| vec![count.meaning.to_string(), grouped(count.number)]);
        let rest = [
            vec!["Seconds".to_owned(), rounded(report.seconds, report.seconds)],
            vec!["Device".into(), report.device.clone()],
        ];
        // A sampler exchanges nothing.
        let counts = counts.filter(|_| report.trust.chains().is_none());
        table("What the fit took", &["What", "How much"], &counts.chain(method).chain(rest).collect::<Vec<_>>())
    }

    pub(super) fn repeat(&self) -> Markup {
        let report = self.report;
        let json = |value: serde_json::Result<String>| value.unwrap_or_default();
        html! {
            p {
                "The same data, model, settings and seed give the same numbers. To cite: Partita "
                (env!("CARGO_PKG_VERSION")) ", algorithm "
                (algorithm_name(&report.algorithm).unwrap_or("of its own"))
                ", seed " (report.seed) ", device " (report.device) "."
            }
            details { summary { "Algorithm" } pre tabindex="0" { (json(serde_json::to_string_pretty(&report.algorithm))) } }
            @if report.trust.chains().is_none() { details { summary { "Settings" } pre tabindex="0" { (json(serde_json::to_string_pretty(&report.options))) } } }
        }
    }
}

/// How chains went, as a table.
fn of_chains(chains: &ChainDiagnostics) -> Markup {
    let row = |(place, own): (usize, &ChainSummary)| {
        let counts = [own.divergences as u64, own.at_max_depth as u64, own.gradients, own.warmup_gradients];
        let [diverged, cut, gradients, before] = counts.map(grouped);
        let [depth, step] = [own.mean_depth, own.step_size].map(|own| rounded(own, own));
        vec![(place + 1).to_string(), diverged, cut, depth, step, gradients, before]
    };
    let columns =
        ["Chain", "Divergences", "Cut at the largest depth", "Mean depth", "Step size", "Gradients", "In warm-up"];
    html! {
        p { (chains.line()) "." }
        (table("How each chain went", &columns, &chains.chains.iter().enumerate().map(row).collect::<Vec<_>>()))
        @let locals: Vec<Vec<String>> = chains.locals().map(|(name, own)| [vec![name], own.to_vec()].concat()).collect();
        @if !locals.is_empty() {
            @let columns: Vec<&str> = ["Local site"].into_iter().chain(ChainDiagnostics::COLUMNS).collect();
            (table("Agreement of the chains on the worst number of each local site", &columns, &locals))
        }
    }
}
