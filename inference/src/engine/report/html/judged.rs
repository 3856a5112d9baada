//! Says how well the model expects the rows of silos: leave-one-out, and posterior predictive checks with their p-values.

use maud::{Markup, html};

use super::Page;
use super::chart::{Frame, Picture, Spacing, Span, at, line, text};
use super::words::{IN_JSON, cut, cut_note, grouped, rounded, table};
use crate::engine::trust::left_out_rows::LeaveOneOutOfSilos;
use crate::engine::trust::predictive::PredictiveChecks;

/// The most silos in a table.
const SHOWN: usize = 100;
/// The height of a line.
const LINE: f64 = 26.0;

impl Page<'_> {
    pub(super) fn left_out(&self) -> Option<Markup> {
        let found = self.report.leave_one_out.as_ref()?;
        Some(html! {
            p {
                "How probable each row is to a fit without it, in logarithms, summed in its silo: of two models of the "
                "same rows, the one with the higher sum expects new rows better. No number of a single row leaves a silo."
            }
            (sums(found, "Leave-one-out", ["Rows", "Rows that are not known"]))
            @if let Some(own) = found.by_observation() {
                p { "The same for single observations, each given the others of its row." }
                (sums(&own, "Leave-one-out of observations", ["Observations", "Observations that are not known"]))
            }
            @if let Some(note) = cut_note(SHOWN, found.silos.len(), "silos") { p { (note) (IN_JSON) } }
        })
    }

    pub(super) fn checks(&self) -> Option<Markup> {
        let found = self.report.checks.as_ref()?;
        let names = found.checks.iter().map(ToString::to_string).collect::<Vec<_>>();
        let columns: Vec<&str> = ["Silo"].into_iter().chain(names.iter().map(String::as_str)).collect();
        let row = |own: &crate::engine::trust::predictive::SiloChecks| {
            [own.silo.clone()].into_iter().chain(own.p_values.iter().map(|p_value| format!("{p_value:.4}"))).collect()
        };
        let rows: Vec<Vec<String>> = found.silos.iter().take(SHOWN).map(row).collect();
        Some(html! {
            p {
                "In each silo, how often one of " (grouped(found.draws)) " data sets that the fitted model makes up has a "
                "larger number than the data: near 0 or 1 the data do not look like the model. "
                @match found.failed().count() {
                    0 => "No check fails.",
                    count => { (count) " of " (found.checks.len() * found.silos.len()) " checks fail." }
                }
            }
            figure tabindex="0" { (strips(found, &names)) }
            details {
                summary { "The same numbers as a table" }
                (table("Posterior predictive p-values", &columns, &rows))
                @if let Some(note) = cut_note(SHOWN, found.silos.len(), "silos") { p { (note) (IN_JSON) } }
            }
        })
    }
}

/// A line a silo, and one for all.
fn sums(found: &LeaveOneOutOfSilos, caption: &str, counts: [&str; 2]) -> Markup {
    let row = |name: &str, own: [f64; 3], rows: [u64; 2]| {
        let [sum, error, parameters] = own.map(|number| rounded(number, own[1]));
        vec![name.to_owned(), sum, error, parameters, grouped(rows[0]), grouped(rows[1])]
    };
    let each =
        found.silos.iter().take(SHOWN).map(|own| {
            row(&own.silo, [own.sum, own.standard_error, own.effective_parameters], [own.rows, own.unknown])
        });
    let all = [found.sum(), found.standard_error(), found.effective_parameters()];
    let rows: Vec<_> = each.chain([row("all silos", all, [found.rows(), found.unknown()])]).collect();
    let columns = ["Silo", "Sum (nats)", "Standard error", "Effective parameters", counts[0], counts[1]];
    table(caption, &columns, &rows)
}

/// A line a check with a circle a silo; failed ones are filled and named.
fn strips(found: &PredictiveChecks, names: &[String]) -> Markup {
    let height = LINE * names.len() as f64;
    let across = Span { low: 0.0, high: 1.0, spacing: Spacing::Linear };
    let frame = Frame { left: 220.0, top: 12.0, width: 500.0, height, across, up: across };
    let failed: Vec<String> = found.failed().map(|(check, silo, _)| format!("{check} in {silo}")).collect();
    let description = match failed.as_slice() {
        [] => "Every circle is a silo; none lies so near an end that its check fails.".to_owned(),
        failed => format!("Every circle is a silo. These fail: {}.", failed.join("; ")),
    };
    let body = html! {
        (line("none", [frame.x(0.5), frame.top], [frame.x(0.5), frame.top + height]))
        @for (place, name) in names.iter().enumerate() {
            @let middle = frame.top + LINE * (f64::from(u32::try_from(place).unwrap_or(u32::MAX)) + 0.5);
            (line("rule", [frame.left, middle], [frame.left + frame.width, middle]))
            (text("end", [frame.left - 10.0, middle + 4.0], &cut(name, 28)))
            @for own in &found.silos {
                @let p_value = own.p_values.get(place).copied().unwrap_or(f64::NAN);
                circle.(if found.fails(p_value) { "middle" } else { "hollow" }) cx=(at(frame.x(p_value))) cy=(at(middle)) r="4.5" {
                    title { (own.silo) ": " (format!("{p_value:.4}")) }
                }
            }
        }
        (frame.lower_axis("part of the model's own data sets with a larger number", 5.0))
    };
    let title = "Posterior predictive checks";
    Picture { id: "checks-strips", title, description: &description, width: 760.0, height: height + 56.0 }.around(body)
}

impl LeaveOneOutOfSilos {
    /// The line of a report on rows or observations.
    pub(in crate::engine::report) fn line(&self, what: &str) -> String {
        format!(
            "leave-one-out over {} {what}: {:.2} nats (standard error {:.2}), {:.2} effective parameters; {} {what} are not known",
            self.rows(),
            self.sum(),
            self.standard_error(),
            self.effective_parameters(),
            self.unknown()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::trust::predictive::SiloChecks;
    use crate::engine::trust::statistic::{PredictiveCheck, Statistic};

    #[test]
    fn a_failed_check_is_filled_and_named_and_others_are_not() {
        let check = PredictiveCheck { statistic: Statistic::Zeros, site: "visits".into() };
        let silo = |silo: &str, p_value| SiloChecks { silo: silo.into(), p_values: vec![p_value] };
        let silos = vec![silo("north", 0.4), silo("south", 0.0)];
        let found = PredictiveChecks { checks: vec![check], silos, draws: 1_000 };
        let page = strips(&found, &["zeros of visits".into()]).into_string();
        assert_eq!((page.matches("\"middle\" cx").count(), page.matches("\"hollow\" cx").count()), (1, 1), "{page}");
        assert!(page.contains("These fail: zeros of visits in south."), "{page}");
        let found = PredictiveChecks { silos: vec![silo("west", f64::NAN)], ..found };
        let page = strips(&found, &["zeros of visits".into()]).into_string();
        assert!(page.contains("These fail: zeros of visits in west."), "{page}");
    }
}
