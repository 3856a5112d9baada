//! Draws the words of each topic as columns of text, the most coherent topic first.

use std::fmt::Write as _;
use std::path::Path;

use partita::inference::write_atomically;

use super::fit::Fitted;
use crate::harness::Result;

/// Writes the words of each topic.
pub(super) fn draw(path: &Path, fits: &[Fitted]) -> Result<()> {
    Ok(write_atomically(path, words(fits).as_bytes())?)
}

fn svg(width: f64, height: f64, body: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{body}</svg>\n"
    )
}

fn label(body: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(body, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
}

/// The words of each topic of every federated fit, the most coherent first, one column a fit.
fn words(fits: &[Fitted]) -> String {
    let mut shown: Vec<&Fitted> = fits.iter().filter(|fit| fit.way.alone().is_none()).collect();
    if shown.is_empty() {
        shown = fits.iter().collect();
    }
    let mut body = String::new();
    let mut height = 0.0_f64;
    for (fit, column) in shown.iter().zip(0_u32..) {
        let x = 12.0 + 470.0 * f64::from(column);
        label(&mut body, x, 20.0, "start", &format!("{}: mean UMass coherence {:.2}", fit.name, fit.mean_coherence));
        let mut order: Vec<usize> = (0..fit.topics.len()).collect();
        order.sort_by(|a, b| fit.coherence[*b].total_cmp(&fit.coherence[*a]));
        for (topic, row) in order.into_iter().zip(0_u32..) {
            let y = 44.0 + 18.0 * f64::from(row);
            let length = (30.0 / -fit.coherence[topic].min(-0.1)).min(30.0);
            let _ = writeln!(
                body,
                "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{length:.1}\" height=\"9\" fill=\"#0072b2\"/>",
                y - 9.0
            );
            label(&mut body, x + 36.0, y, "start", &fit.topics[topic][..7].join(" "));
            height = height.max(y);
        }
    }
    svg(24.0 + 470.0 * f64::from(u32::try_from(shown.len()).unwrap_or(1)), height + 16.0, &body)
}
