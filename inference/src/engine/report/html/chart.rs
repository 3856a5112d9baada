//! Draws frames, axes and curves as SVG that stands in a page, with a title and a description for those who do not see it.

use maud::{Markup, PreEscaped, html};

/// What a picture says in words, and how large it is.
pub(super) struct Picture<'a> {
    /// Its name in the page: letters, digits and hyphens.
    pub(super) id: &'a str,
    pub(super) title: &'a str,
    /// What is to be seen, for those who do not see it.
    pub(super) description: &'a str,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Picture<'_> {
    pub(super) fn around(&self, body: Markup) -> Markup {
        let Self { id, title, description, width, height } = self;
        html! {
            svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (width) " " (height) } width=(width) height=(height)
                role="img" aria-labelledby={ (id) "-title " (id) "-description" } {
                title id={ (id) "-title" } { (title) }
                desc id={ (id) "-description" } { (description) }
                (body)
            }
        }
    }
}

/// How values are spaced along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spacing {
    Linear,
    Logarithmic,
}

/// What an axis spans.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) spacing: Spacing,
}

impl Span {
    /// From the smallest to the largest of `values` with a margin; of length one around zero where there are none.
    pub(super) fn of(values: impl Iterator<Item = f64>, spacing: Spacing) -> Self {
        let placed = values.map(|value| spacing.place(value)).filter(|place| place.is_finite());
        let (low, high) =
            placed.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), own| (low.min(own), high.max(own)));
        let (low, high) = if low <= high { (low, high) } else { (-0.5, 0.5) };
        let margin = (0.05 * (high - low)).max(1e-9 * high.abs().max(low.abs())).max(1e-300);
        Self { low: spacing.value(low - margin), high: spacing.value(high + margin), spacing }
    }

    /// Where a value lies: 0 at the lower end, 1 at the upper.
    pub(super) fn share(&self, value: f64) -> f64 {
        let [low, high, value] = [self.low, self.high, value].map(|own| self.spacing.place(own));
        (value - low) / (high - low)
    }

    pub(super) fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Round values within, with their labels: about `count` of them.
    fn ticks(&self, count: f64) -> Vec<(f64, String)> {
        if self.spacing == Spacing::Logarithmic {
            let of = |digits: &[f64]| -> Vec<(f64, String)> {
                let powers = (-6..=9).map(|power| 10_f64.powi(power));
                let values = powers.flat_map(|power| digits.iter().map(move |digit| digit * power));
                let within = values.filter(|value| self.holds(*value));
                let label = |value: f64| format!("{value:.7}").trim_end_matches('0').trim_end_matches('.').to_owned();
                within.map(|value| (value, label(value))).collect()
            };
            let few = [[1.0].as_slice(), &[1.0, 2.0, 5.0], &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0]];
            if let Some(ticks) = few.into_iter().map(of).find(|ticks| (4..=9).contains(&ticks.len())) {
                return ticks;
            }
        }
        let rough = (self.high - self.low) / count;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|digit| digit * power).find(|step| *step >= rough * 0.999);
        let step = step.unwrap_or(rough);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "cut to the range from 0 to 12")]
        let places = (-(step * 1.001).log10().floor()).clamp(0.0, 12.0) as usize;
        let first = (self.low / step).ceil();
        let values = (0..20).map(|index| (first + f64::from(index)) * step).take_while(|value| *value <= self.high);
        let label = |value: f64| {
            if value.abs() < 1e-9 * step { "0".into() } else { format!("{value:.places$}").replace('-', "\u{2212}") }
        };
        values.map(|value| (value, label(value))).collect()
    }
}

impl Spacing {
    fn place(self, value: f64) -> f64 {
        if self == Self::Linear { value } else { value.ln() }
    }

    fn value(self, place: f64) -> f64 {
        if self == Self::Linear { place } else { place.exp() }
    }
}

/// The part of a picture in which values are placed.
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) across: Span,
    pub(super) up: Span,
}

impl Frame {
    pub(super) fn x(&self, value: f64) -> f64 {
        self.left + self.width * self.across.share(value).clamp(0.0, 1.0)
    }

    pub(super) fn y(&self, value: f64) -> f64 {
        self.top + self.height * (1.0 - self.up.share(value).clamp(0.0, 1.0))
    }

    /// The points as a path.
    pub(super) fn path(&self, points: &[(f64, f64)]) -> String {
        let place = |(index, (x, y)): (usize, &(f64, f64))| {
            format!("{}{:.1} {:.1}", if index == 0 { 'M' } else { 'L' }, self.x(*x), self.y(*y))
        };
        points.iter().enumerate().map(place).collect()
    }

    /// The lower axis with its ticks and its name.
    pub(super) fn lower_axis(&self, name: &str, ticks: f64) -> Markup {
        let (bottom, right) = (self.top + self.height, self.left + self.width);
        html! {
            (line("axis", [self.left, bottom], [right, bottom]))
            @for (value, label) in self.across.ticks(ticks) {
                (line("axis", [self.x(value), bottom], [self.x(value), bottom + 4.0]))
                (text("middle", [self.x(value), bottom + 17.0], &label))
            }
            (text("middle", [self.left + self.width / 2.0, bottom + 34.0], name))
        }
    }

    /// The left axis with its ticks and rules across.
    pub(super) fn left_axis(&self, name: &str, ticks: f64) -> Markup {
        let right = self.left + self.width;
        html! {
            @for (value, label) in self.up.ticks(ticks) {
                (line("rule", [self.left, self.y(value)], [right, self.y(value)]))
                (text("end", [self.left - 6.0, self.y(value) + 4.0], &label))
            }
            (text("start", [2.0, self.top - 8.0], name))
        }
    }
}

pub(super) fn line(class: &str, from: [f64; 2], to: [f64; 2]) -> Markup {
    let [x1, y1, x2, y2] = [from[0], from[1], to[0], to[1]].map(at);
    html! { line class=(class) x1=(x1) y1=(y1) x2=(x2) y2=(y2) {} }
}

/// Words that start, end or have their middle at a place.
pub(super) fn text(anchor: &str, [x, y]: [f64; 2], words: &str) -> Markup {
    html! { text x=(at(x)) y=(at(y)) text-anchor=(anchor) { (words) } }
}

/// A length with one decimal.
pub(super) fn at(length: f64) -> PreEscaped<String> {
    PreEscaped(format!("{length:.1}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within() {
        let labels = |low: f64, high: f64, spacing| {
            let ticks = Span { low, high, spacing }.ticks(5.0);
            ticks.into_iter().map(|(_, label)| label).collect::<Vec<_>>()
        };
        assert_eq!(labels(-0.52, 1.03, Spacing::Linear), ["−0.5", "0", "0.5", "1.0"]);
        assert_eq!(labels(0.4, 3.0, Spacing::Logarithmic), ["0.5", "0.7", "1", "1.5", "2", "3"]);
        assert_eq!(labels(0.01, 20.0, Spacing::Logarithmic), ["0.01", "0.1", "1", "10"]);
        // Too few round numbers of that kind: those of a linear axis.
        assert_eq!(labels(0.9, 1.3, Spacing::Logarithmic), ["0.9", "1.0", "1.1", "1.2", "1.3"]);
    }

    #[test]
    fn a_span_of_no_numbers_and_one_of_one_number_have_a_length() {
        for values in [vec![], vec![f64::NAN], vec![3.0], vec![0.0]] {
            let span = Span::of(values.into_iter(), Spacing::Linear);
            assert!(span.low < span.high && span.share(span.low).abs() < 1e-9, "{span:?}");
        }
    }
}
