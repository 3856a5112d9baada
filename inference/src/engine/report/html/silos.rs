//! Says what each silo does to the answer, and what left it.

use maud::{Markup, html};

use super::Page;
use super::content::listed;
use super::words::{IN_JSON, cut_note, grouped, in_digits, rounded, table};
use crate::engine::trust::correction::Correction;
use crate::engine::trust::left_out::{LeftOut, WithoutIt};
use crate::engine::trust::left_out_rows::LeftOutRows;
use crate::engine::trust::predictive::Checked;
use crate::engine::wire::manifest::Field;

/// The most silos in a table.
const SHOWN: usize = 100;
/// The most numbers of each silo, and the most silos with their numbers.
const SHOWN_NUMBERS: usize = 20;
/// What is cut after so many, in their order.
pub(super) const LEFT_OUT: &str = "that are left out, those first that move the answer most";

impl Page<'_> {
    /// What is left out in turn, by its influence; nothing without a correction that holds.
    pub(super) fn by_influence(&self) -> Vec<&LeftOut> {
        let correction = self.report.trust.correction().filter(|own| own.is_trusted() && !self.report.sites.is_empty());
        correction.map(Correction::by_influence).unwrap_or_default()
    }

    pub(super) fn influence(&self) -> Markup {
        let all = self.by_influence();
        let name = |own: &LeftOut| own.silo.clone().unwrap_or_else(|| "the prior".into());
        let label = |place: usize| self.report.sites[place].label.clone();
        let row = |own: &&LeftOut| {
            let conflict =
                own.sites.iter().map(|own| own.conflict.abs()).filter(|own| own.is_finite()).max_by(f64::total_cmp);
            let moves = own.farthest().filter(|_| own.is_trusted());
            vec![
                name(own),
                moves.map_or_else(|| "not known from this fit".into(), |(place, _)| label(place)),
                moves.map_or_else(|| "–".into(), |(_, moves)| rounded(moves, 1.0)),
                conflict.filter(|_| own.is_trusted()).map_or_else(|| "–".into(), |own| rounded(own, 1.0)),
                rounded(own.pareto_k, 1.0),
                format!("{:.0}", own.effective_sample_size),
            ]
        };
        let columns = ["Left out", "Moves most", "By (sd)", "Disagrees (sd)", "Pareto k", "Draws worth"];
        let numbers = |own: &&LeftOut| {
            let each = own.sites.iter().take(SHOWN_NUMBERS).enumerate();
            let row = |(place, number): (usize, &WithoutIt)| {
                let [mean, sd] = [number.mean, number.sd].map(|own| in_digits(own, number.sd));
                vec![label(place), mean, sd, rounded(number.moves, 1.0), rounded(number.conflict, 1.0)]
            };
            each.map(row).collect::<Vec<_>>()
        };
        html! {
            @if all.is_empty() {
                p { "What each silo does to the answer is known only where the numbers can be corrected." }
            } @else {
                p {
                    "How far each moves the mean of the number that it moves most, in standard deviations, and how far it "
                    "disagrees with all others together. Without it the numbers are trusted up to a Pareto k of "
                    (rounded(self.report.trust.correction().map_or(f64::NAN, |own: &Correction| own.threshold), 1.0)) "."
                }
                @let rows: Vec<_> = all.iter().take(SHOWN).map(row).collect();
                (table("What each silo, and the prior, does to the answer", &columns, &rows))
                @if let Some(note) = cut_note(SHOWN, all.len(), LEFT_OUT) { p { (note) (IN_JSON) } }
                @let tables = cut_note(SHOWN_NUMBERS, all.len(), "tables, one without each");
                @let numbers_of_each = cut_note(SHOWN_NUMBERS, self.report.sites.len(), "numbers, in each table");
                @for note in tables.into_iter().chain(numbers_of_each) { p { (note) (IN_JSON) } }
                @for own in all.iter().take(SHOWN_NUMBERS).filter(|own| own.is_trusted()) {
                    details {
                        summary { "The numbers without " (name(own)) }
                        @let columns = ["Number", "Mean", "sd", "Moved by it (sd)", "Disagrees (sd)"];
                        (table(&format!("The numbers without {}", name(own)), &columns, &numbers(own)))
                    }
                }
            }
        }
    }

    /// Bytes, and what the manifest lets go.
    pub(super) fn what_left(&self) -> Markup {
        let report = self.report;
        // What was asked of the rows after the fit is no part of the method's own manifest.
        let mut asked: Vec<Field> = Vec::new();
        if report.leave_one_out.is_some() {
            asked.extend(LeftOutRows::fields(&()));
        }
        if let Some(found) = &report.checks {
            asked.extend(Checked::fields(&(found.checks.len() as u64)));
        }
        let rows =
            |manifest: &[Vec<String>]| manifest.iter().cloned().chain(asked.iter().map(listed)).collect::<Vec<_>>();
        html! {
            p {
                (grouped(report.bytes_from_silos)) " bytes left the " (report.silos.len())
                @if report.silos.len() == 1 { " silo" } @else { " silos together" }
                ". No row, no latent of a row and no parameter of one is in a message."
            }
            @if let Some(manifest) = &self.content.manifest {
                @let columns = ["Field", "What it is", "Numbers at most", "Depends on data"];
                (table("All that a message from a silo may hold", &columns, &rows(manifest)))
            }
        }
    }
}
