//! Draws named effects with their 95 % intervals, from all silos together and without each of them, as a forest plot.

use maud::{Markup, html};
use serde::{Deserialize, Serialize};

use super::Page;
use super::chart::{Frame, Picture, Spacing, Span, at, line, text};
use super::words::{cut, rounded, table};
use crate::engine::error::{Error, Result};
use crate::engine::report::summary::Quantiles;
use crate::engine::trust::left_out::LeftOut;

/// A number of a site with the name and the scale that readers know it by.
///
/// # Example
/// ```
/// use partita_inference::{Effect, Scale};
/// let smoking =
///     Effect { label: "beta[1]".into(), name: "Mother smokes".into(), unit: "odds ratio".into(), scale: Scale::Exponential };
/// assert_eq!(smoking.scale.no_effect(), Some(1.0));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// The number, as in [`crate::SiteSummary::label`].
    pub label: String,
    /// What it is, for readers.
    pub name: String,
    /// What is written along the axis, such as "odds ratio"; effects of one unit and scale share an axis.
    pub unit: String,
    /// The scale on which it is shown.
    pub scale: Scale,
}

/// What a number is turned into before it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scale {
    /// Nothing: differences, whose line of no effect is 0.
    Identity,
    /// Its exponential: ratios of odds, rates and hazards, whose line of no effect is 1.
    Exponential,
    /// The exponential of its negative: a standard deviation that the model has as minus its logarithm.
    ExponentialOfMinus,
}

impl Scale {
    /// The value that says that there is no effect; `None` on a scale that has none.
    #[must_use]
    pub fn no_effect(self) -> Option<f64> {
        match self {
            Self::Identity => Some(0.0),
            Self::Exponential => Some(1.0),
            Self::ExponentialOfMinus => None,
        }
    }

    fn spacing(self) -> Spacing {
        if self == Self::Exponential { Spacing::Logarithmic } else { Spacing::Linear }
    }
}

/// A middle with the 95 % interval around it, on the scale that is shown.
#[derive(Debug, Clone, Copy)]
struct Interval {
    low: f64,
    middle: f64,
    high: f64,
}

impl Interval {
    /// The median and the quantiles at 2.5 % and 97.5 %.
    fn of(own: &Quantiles, scale: Scale) -> Self {
        Self { low: own.p2_5, middle: own.p50, high: own.p97_5 }.on(scale)
    }

    fn on(self, scale: Scale) -> Self {
        let Self { low, middle, high } = self;
        match scale {
            Scale::Identity => self,
            Scale::Exponential => Self { low: low.exp(), middle: middle.exp(), high: high.exp() },
            Scale::ExponentialOfMinus => Self { low: (-high).exp(), middle: (-middle).exp(), high: (-low).exp() },
        }
    }

    fn is_finite(&self) -> bool {
        [self.low, self.middle, self.high].iter().all(|own| own.is_finite())
    }

    fn words(&self) -> String {
        let width = self.high - self.low;
        let like = |own: f64| match self.low {
            // Ends that are decades apart have their own digits each, and ratios around one have two places.
            low if low > 0.0 && self.high > 10.0 * low => own,
            low if (0.1..10.0).contains(&low) && width > 0.05 => width.max(1.0),
            _ => width,
        };
        let [low, middle, high] = [self.low, self.middle, self.high].map(|own| rounded(own, like(own)));
        format!("{middle} ({low} to {high})")
    }
}

/// One line of a forest plot.
struct Line {
    who: String,
    /// `None` where the draws at hand do not say.
    interval: Option<Interval>,
}

/// An effect with its lines: of all silos first.
struct Shown<'a> {
    name: &'a str,
    lines: Vec<Line>,
}

/// The most silos that are left out in a picture: those that move the answer most.
const SHOWN_SILOS: usize = 10;
/// The height of a line.
const LINE: f64 = 22.0;
/// How far an axis reaches, in lengths of the interval of all silos: what goes beyond ends in an arrow.
const REACH: f64 = 2.0;
const NOT_KNOWN: &str = "not known from this fit";

impl Page<'_> {
    /// Refuses effects that the report does not have.
    pub(super) fn check_effects(&self) -> Result<()> {
        match self.content.options.effects.iter().find(|effect| self.report.site(&effect.label).is_none()) {
            None => Ok(()),
            Some(effect) => Err(Error::Setting {
                setting: "effects",
                found: effect.label.clone(),
                expected: "the label of a number in `Report::sites`",
            }),
        }
    }

    /// A picture and a table for each unit and scale; nothing where no effect is named.
    pub(super) fn effects(&self) -> Option<Markup> {
        let effects = &self.content.options.effects;
        let first = effects.first()?;
        let mut axes: Vec<(&str, Scale)> = Vec::new();
        for effect in effects {
            if !axes.contains(&(&effect.unit, effect.scale)) {
                axes.push((&effect.unit, effect.scale));
            }
        }
        let has_left_out = self.lines(first).len() > 1;
        Some(html! {
            p {
                "Median and 95 % interval of each effect: of all silos together (square)"
                @if has_left_out {
                    ", and what the others say without one of them (circle). "
                    "Where a circle lies far from its square, that silo decides the answer"
                }
                ". An arrow goes on beyond the axis."
            }
            @for (index, (unit, scale)) in axes.into_iter().enumerate() {
                @let own = effects.iter().filter(|effect| effect.unit == unit && effect.scale == scale);
                @let shown = own.map(|effect| Shown { name: &effect.name, lines: self.lines(effect) });
                @let shown: Vec<Shown<'_>> = shown.collect();
                figure tabindex="0" { (forest(&format!("forest-{index}"), unit, scale, &shown)) }
                details {
                    summary { "The same numbers as a table" }
                    (table(unit, &["Effect", "From", "Median (95 % interval)"], &rows(&shown)))
                }
            }
        })
    }

    fn lines(&self, effect: &Effect) -> Vec<Line> {
        let Some(place) = self.report.sites.iter().position(|site| site.label == effect.label) else {
            return Vec::new();
        };
        let all = self.report.answer().get(place).map(|site| Interval::of(&site.quantiles, effect.scale));
        let all = Line { who: "all silos".into(), interval: all.filter(Interval::is_finite) };
        let without = |own: &&LeftOut| Line {
            who: format!("without {}", own.silo.as_deref().unwrap_or("the prior")),
            interval: own
                .sites
                .get(place)
                .filter(|_| own.is_trusted())
                .map(|own| Interval::of(&own.quantiles, effect.scale))
                .filter(Interval::is_finite),
        };
        [all].into_iter().chain(self.by_influence().iter().take(SHOWN_SILOS).map(without)).collect()
    }
}

fn rows(shown: &[Shown<'_>]) -> Vec<Vec<String>> {
    let words = |line: &Line| line.interval.map_or_else(|| NOT_KNOWN.into(), |own| own.words());
    let of = |own: &Shown<'_>| {
        own.lines.iter().map(|line| vec![own.name.to_owned(), line.who.clone(), words(line)]).collect::<Vec<_>>()
    };
    shown.iter().flat_map(of).collect()
}

fn forest(id: &str, unit: &str, scale: Scale, shown: &[Shown<'_>]) -> Markup {
    let spacing = scale.spacing();
    let all = shown.iter().filter_map(|own| own.lines.first()?.interval);
    // A silo whose absence leaves nearly nothing known would squeeze all else into a dot.
    let reach = |own: Interval| {
        let [low, high] = [own.low, own.high].map(|end| if spacing == Spacing::Linear { end } else { end.ln() });
        [low - REACH * (high - low), high + REACH * (high - low)]
            .map(|end| if spacing == Spacing::Linear { end } else { end.exp() })
    };
    let limits: Vec<[f64; 2]> = all.map(reach).collect();
    let (least, most) =
        limits.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), [low, high]| (a.min(*low), b.max(*high)));
    let ends =
        shown.iter().flat_map(|own| &own.lines).filter_map(|line| line.interval).flat_map(|own| [own.low, own.high]);
    let across =
        Span::of(ends.map(|end| end.clamp(least.min(most), most.max(least))).chain(scale.no_effect()), spacing);
    #[expect(clippy::cast_precision_loss, reason = "a page has few lines")]
    let count = shown.iter().map(|own| own.lines.len() + 1).sum::<usize>() as f64;
    let up = Span { low: 0.0, high: 1.0, spacing: Spacing::Linear };
    let frame = Frame { left: 230.0, top: 24.0, width: 330.0, height: count * LINE + 6.0, across, up };
    let bottom = frame.top + frame.height;
    let title = format!("Forest plot: {unit}");
    let of = |own: &Shown<'_>| {
        let words =
            own.lines.first().and_then(|line| line.interval).map_or_else(|| NOT_KNOWN.into(), |all| all.words());
        format!("{}: {words}", own.name)
    };
    let description = format!("Of all silos together. {}.", shown.iter().map(of).collect::<Vec<_>>().join("; "));
    let axis = if spacing == Spacing::Logarithmic { format!("{unit} (logarithmic axis)") } else { unit.to_owned() };
    let mut next = frame.top + 16.0;
    let mut place = || {
        let own = next;
        next += LINE;
        own
    };
    let body = html! {
        @if let Some(none) = scale.no_effect() {
            (line("none", [frame.x(none), frame.top], [frame.x(none), bottom]))
            (text("middle", [frame.x(none), frame.top - 8.0], "no effect"))
        }
        @for own in shown {
            g.strong { (text("start", [0.0, place()], &cut(own.name, 60))) }
            @for (index, own) in own.lines.iter().enumerate() {
                @let y = place();
                g.strong[index == 0] {
                    (text("start", [12.0, y], &cut(&own.who, 30)))
                    @match own.interval {
                        Some(interval) => {
                            (mark(&frame, y - 4.0, index, interval))
                            (text("start", [580.0, y], &interval.words()))
                        }
                        None => (text("start", [580.0, y], NOT_KNOWN))
                    }
                }
            }
        }
        (frame.lower_axis(&axis, 5.0))
    };
    Picture { id, title: &title, description: &description, width: 760.0, height: bottom + 44.0 }.around(body)
}

/// An interval with its middle: a square for all silos, a circle without one; an arrow where it goes on.
fn mark(frame: &Frame, y: f64, index: usize, interval: Interval) -> Markup {
    let (left, middle, right) = (frame.x(interval.low), frame.x(interval.middle), frame.x(interval.high));
    let arrow =
        |x: f64, tip: f64| format!("M{:.1} {:.1}L{:.1} {y:.1}L{:.1} {:.1}", x - tip, y - 4.0, x, x - tip, y + 4.0);
    html! {
        (line("interval", [left, y], [right, y]))
        @if interval.low < frame.across.low { path.interval d=(arrow(left, -6.0)) {} }
        @if interval.high > frame.across.high { path.interval d=(arrow(right, 6.0)) {} }
        @if !frame.across.holds(interval.middle) {}
        @else if index == 0 { rect.middle x=(at(middle - 4.5)) y=(at(y - 4.5)) width="9" height="9" {} }
        @else { circle.hollow cx=(at(middle)) cy=(at(y)) r="4" {} }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_keeps_its_order_on_every_scale() {
        for scale in [Scale::Identity, Scale::Exponential, Scale::ExponentialOfMinus] {
            let own = Interval { low: -1.0, middle: 0.5, high: 0.75 }.on(scale);
            assert!(own.low < own.middle && own.middle < own.high, "{scale:?}: {own:?}");
        }
        let ratio = Interval { low: -0.051, middle: 0.445, high: 0.963 }.on(Scale::Exponential);
        assert_eq!(ratio.words(), "1.56 (0.95 to 2.62)");
    }

    #[test]
    fn what_goes_far_beyond_the_rest_ends_in_an_arrow() {
        let line = |who: &str, ends: Option<[f64; 2]>| Line {
            who: who.into(),
            interval: ends.map(|[low, high]| Interval { low, middle: (low * high).sqrt(), high }),
        };
        let lines =
            vec![line("all silos", Some([0.9, 1.2])), line("without a", Some([0.01, 150.0])), line("without b", None)];
        let drawn = forest("f", "odds ratio", Scale::Exponential, &[Shown { name: "Effect", lines }]).into_string();
        assert_eq!(drawn.matches("<path class=\"interval\"").count(), 2, "{drawn}");
        assert!(
            drawn.contains(NOT_KNOWN) && drawn.contains("1.22 (0.0100 to 150)") && !drawn.contains("NaN"),
            "{drawn}"
        );
    }
}
