//! Draws the words of each topic as lines of text, one block a fit, the most coherent topic first.

use std::fmt::Write as _;
use std::path::Path;

use partita::inference::write_atomically;

use super::fit::Fitted;
use crate::harness::Result;

const WIDTH: f64 = 860.0;
/// The height of a line of words.
const LINE: f64 = 24.0;
/// The words of a topic that are shown.
const WORDS: usize = 8;

/// Writes the words of each topic.
pub(super) fn draw(path: &Path, fits: &[Fitted]) -> Result<()> {
    Ok(write_atomically(path, words(fits).as_bytes())?)
}

fn label(body: &mut String, [x, y]: [f64; 2], style: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(body, "<text x=\"{x:.1}\" y=\"{y:.1}\"{style}>{text}</text>");
}

/// The words of each topic of every federated fit, the most coherent first, one block a fit below the other.
fn words(fits: &[Fitted]) -> String {
    let mut shown: Vec<&Fitted> = fits.iter().filter(|fit| fit.way.alone().is_none()).collect();
    if shown.is_empty() {
        shown = fits.iter().collect();
    }
    let mut body = String::new();
    let mut y = 12.0;
    for fit in shown {
        y += LINE;
        let title = format!("{}: mean UMass coherence {:.2}", fit.name, fit.mean_coherence);
        label(&mut body, [16.0, y], " font-weight=\"600\"", &title);
        let mut order: Vec<usize> = (0..fit.topics.len()).collect();
        order.sort_by(|a, b| fit.coherence[*b].total_cmp(&fit.coherence[*a]));
        for (place, topic) in order.into_iter().enumerate() {
            y += LINE;
            if place % 2 == 0 {
                let _ = writeln!(
                    body,
                    "<rect x=\"8\" y=\"{:.1}\" width=\"{:.0}\" height=\"{LINE}\" fill=\"#f2f2f2\"/>",
                    y - 17.0,
                    WIDTH - 16.0
                );
            }
            let coherence = format!("{:.2}", fit.coherence[topic]).replace('-', "\u{2212}");
            label(&mut body, [64.0, y], " text-anchor=\"end\"", &coherence);
            label(&mut body, [84.0, y], "", &fit.topics[topic][..WORDS.min(fit.topics[topic].len())].join("  "));
        }
        y += LINE;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH:.0}\" height=\"{y:.0}\" font-family=\"sans-serif\" \
         font-size=\"16\" fill=\"#1a1a1a\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{body}</svg>\n"
    )
}
