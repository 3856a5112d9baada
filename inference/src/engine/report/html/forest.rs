//! Draws intervals of named numbers below each other as forest plots, one for each unit, each with its table.

use maud::{Markup, html};

use super::chart::{Frame, Picture, Spacing, Span, at, line, text};
use super::effects::Scale;
use super::words::{cut, signed, table};
use crate::engine::report::summary::Quantiles;
use crate::engine::report::text::interval_in_places;

/// A middle with the 95 % interval around it, on the scale that is shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interval {
    low: f64,
    middle: f64,
    high: f64,
}

impl Interval {
    /// The median and the quantiles at 2.5 % and 97.5 %.
    pub(super) fn of(own: &Quantiles, scale: Scale) -> Self {
        Self { low: own.p2_5, middle: own.p50, high: own.p97_5 }.on(scale)
    }

    fn on(self, scale: Scale) -> Self {
        let [low, middle, high] = scale.interval([self.low, self.middle, self.high]);
        Self { low, middle, high }
    }

    pub(super) fn is_finite(&self) -> bool {
        [self.low, self.middle, self.high].iter().all(|own| own.is_finite())
    }

    fn words(&self) -> String {
        let [low, middle, high] = interval_in_places([self.low, self.middle, self.high]).map(signed);
        format!("{middle} ({low} to {high})")
    }
}

/// One line of a forest plot.
pub(super) struct Line {
    pub(super) who: String,
    /// `None` where the draws at hand do not say.
    pub(super) interval: Option<Interval>,
}

impl Line {
    /// The line of all silos together.
    pub(super) fn of_all(interval: Option<Interval>) -> Self {
        Self { who: "all silos".into(), interval: interval.filter(Interval::is_finite) }
    }
}

/// A number with its lines: of all silos first.
pub(super) struct Shown<'a> {
    pub(super) name: &'a str,
    pub(super) unit: &'a str,
    pub(super) scale: Scale,
    pub(super) lines: Vec<Line>,
}

/// The height of a line.
const LINE: f64 = 22.0;
/// How far an axis reaches, in lengths of the interval of all silos: what goes beyond ends in an arrow.
const REACH: f64 = 2.0;
const NOT_KNOWN: &str = "not known from this fit";

/// A picture and a table for each unit and scale of these numbers, each of which is a `kind`.
pub(super) fn forests(id: &str, kind: &str, all: &[Shown<'_>]) -> Markup {
    let mut axes: Vec<(&str, Scale)> = Vec::new();
    for own in all {
        if !axes.contains(&(own.unit, own.scale)) {
            axes.push((own.unit, own.scale));
        }
    }
    html! {
        @for (index, (unit, scale)) in axes.into_iter().enumerate() {
            @let shown: Vec<&Shown<'_>> = all.iter().filter(|own| own.unit == unit && own.scale == scale).collect();
            figure tabindex="0" { (forest(&format!("{id}-{index}"), unit, scale, &shown)) }
            details {
                summary { "The same numbers as a table" }
                (table(unit, &[kind, "From", "Median (95 % interval)"], &rows(&shown)))
            }
        }
    }
}

fn rows(shown: &[&Shown<'_>]) -> Vec<Vec<String>> {
    let words = |line: &Line| line.interval.map_or_else(|| NOT_KNOWN.into(), |own| own.words());
    let of = |own: &&Shown<'_>| {
        own.lines.iter().map(|line| vec![own.name.to_owned(), line.who.clone(), words(line)]).collect::<Vec<_>>()
    };
    shown.iter().flat_map(of).collect()
}

fn forest(id: &str, unit: &str, scale: Scale, shown: &[&Shown<'_>]) -> Markup {
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
    let count = shown.iter().map(|own| own.lines.len() + 1).sum::<usize>() as f64;
    let up = Span { low: 0.0, high: 1.0, spacing: Spacing::Linear };
    let frame = Frame { left: 230.0, top: 24.0, width: 330.0, height: count * LINE + 6.0, across, up };
    let bottom = frame.top + frame.height;
    let title = format!("Forest plot: {unit}");
    let of = |own: &&Shown<'_>| {
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
        let scale = Scale::Exponential;
        let lines =
            vec![line("all silos", Some([0.9, 1.2])), line("without a", Some([0.01, 150.0])), line("without b", None)];
        let drawn = forest("f", "odds ratio", scale, &[&Shown { name: "Effect", unit: "odds ratio", scale, lines }])
            .into_string();
        assert_eq!(drawn.matches("<path class=\"interval\"").count(), 2, "{drawn}");
        assert!(
            drawn.contains(NOT_KNOWN) && drawn.contains("1.22 (0.0100 to 150)") && !drawn.contains("NaN"),
            "{drawn}"
        );
    }
}
