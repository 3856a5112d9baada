//! Gives the ordered logistic and the ordered probit distribution of classes that cutpoints divide a scale into.

use super::tail::{Tail, tails};
use super::{Batch, Density, Gradient, distribution};
use crate::math::kernel::{BinomialTerms, binomial_logit};
use crate::math::special::{
    HALF_LOG_TWO_PI, log_normal_cumulative, log_one_minus_exp, normal_cumulative, normal_hazard, sigmoid, softplus,
};
use crate::noise::NoiseStream;

distribution! {
    /// The ordered logistic distribution on the classes 0, 1, ..., K - 1.
    ///
    /// $$ P(k) = \sigma(c_{k+1}-\eta) - \sigma(c_k-\eta),\qquad c_0 = -\infty,\ c_K = \infty $$
    /// with $\eta$ = `predictor`, $c_1 < \dots < c_{K-1}$ = `cutpoints` and $\sigma(x) = 1/(1+e^{-x})$;
    /// `ordered_logistic(η, c)` of Stan, whose classes start at 1. Mean and variance are those of the class index.
    ///
    /// # Shapes
    /// `predictor` `[...]`, one for each event; `cutpoints` `[K - 1]`, shared by the batch; value `[...]`.
    ///
    /// # Numerics
    /// $\log P(k) = \log\sigma(h) + \log\sigma(-l) + \log(1 - e^{l-h})$ for the ends $l < h$: no cancellation.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Density, Gradient, OrderedLogistic};
    /// let log_prob = OrderedLogistic.log_prob(&[1.0], [&[0.0], &[-1.0, 1.0], &[]], &mut Gradient::default());
    /// assert!((log_prob - 0.5_f64.tanh().ln()).abs() < 1e-15);
    /// ```
    pub struct OrderedLogistic
        where |[_, cutpoints, _]| Support::CountUpTo(cutpoints.len() as f64),
        of number(predictor in Real), vector(cutpoints in Real);
}

distribution! {
    /// The ordered probit distribution on the classes 0, 1, ..., K - 1.
    ///
    /// $$ P(k) = \Phi(c_{k+1}-\eta) - \Phi(c_k-\eta),\qquad c_0 = -\infty,\ c_K = \infty $$
    /// with $\eta$ = `predictor`, $c_1 < \dots < c_{K-1}$ = `cutpoints` and $\Phi$ the standard normal distribution
    /// function; `ordered_probit(η, c)` of Stan, whose classes start at 1.
    ///
    /// # Shapes
    /// As for [`OrderedLogistic`].
    ///
    /// # Numerics
    /// Accurate in both tails and for cutpoints close together, where the difference is an integral of the density.
    ///
    /// # Example
    /// ```
    /// use partita_core::{Density, Gradient, OrderedProbit};
    /// let log_prob = OrderedProbit.log_prob(&[0.0], [&[0.3], &[0.3], &[]], &mut Gradient::default());
    /// assert!((log_prob - 0.5_f64.ln()).abs() < 1e-15);
    /// ```
    pub struct OrderedProbit
        where |[_, cutpoints, _]| Support::CountUpTo(cutpoints.len() as f64),
        of number(predictor in Real), vector(cutpoints in Real);
}

/// An end that is absent, where loops need a number: beyond it there is no probability.
const FAR: f64 = 1e300;

/// A class between two ends of the standard scale; an end that is infinite is absent.
#[derive(Debug, Clone, Copy)]
struct Class {
    index: usize,
    low: f64,
    high: f64,
}

impl Class {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the value is checked to be a class")]
    fn of(value: f64, [predictor, cutpoints, _]: [&[f64]; 3]) -> Self {
        let index = value as usize;
        let end = |place: Option<usize>, otherwise: f64| {
            place.and_then(|place| cutpoints.get(place)).map_or(otherwise, |cutpoint| cutpoint - predictor[0])
        };
        Self { index, low: end(index.checked_sub(1), f64::NEG_INFINITY), high: end(Some(index), f64::INFINITY) }
    }

    /// Adds the derivatives by the predictor and by the cutpoints at both ends.
    fn add(self, by_predictor: f64, [by_low, by_high]: [f64; 2], gradient: &mut Gradient<'_>) {
        let scale = gradient.scale;
        let [predictor, cutpoints, _] = &mut gradient.parameters;
        if let [slot] = &mut **predictor {
            *slot += scale * by_predictor;
        }
        if let Some(slot) = self.index.checked_sub(1).and_then(|place| cutpoints.get_mut(place)) {
            *slot += scale * by_low;
        }
        if let Some(slot) = cutpoints.get_mut(self.index) {
            *slot += scale * by_high;
        }
    }
}

/// The first cutpoint that is not above the one before.
fn unordered([_, cutpoints, _]: [&[f64]; 3]) -> Option<(&'static str, f64, &'static str)> {
    let pair = cutpoints.windows(2).find(|pair| pair[1] <= pair[0])?;
    Some(("cutpoints", pair[1], "a number above the cutpoint before it"))
}

/// The class whose cumulative probability first exceeds a uniform number.
fn class_draw(cutpoints: &[f64], cumulative: impl Fn(f64) -> f64, noise: &mut NoiseStream) -> f64 {
    let uniform = noise.uniform();
    cutpoints.iter().take_while(|cutpoint| cumulative(**cutpoint) <= uniform).count() as f64
}

/// Mean and variance of the class index.
fn moments(density: &dyn Density, parameters: [&[f64]; 3]) -> [f64; 2] {
    let probability = |class: usize| density.log_prob(&[class as f64], parameters, &mut Gradient::default()).exp();
    let classes = 0..=parameters[1].len();
    let mean: f64 = classes.clone().map(|class| class as f64 * probability(class)).sum();
    [mean, classes.map(|class| (class as f64 - mean).powi(2) * probability(class)).sum()]
}

impl Density for OrderedLogistic {
    fn conflict(&self, parameters: [&[f64]; 3]) -> Option<(&'static str, f64, &'static str)> {
        unordered(parameters)
    }

    fn log_prob(&self, value: &[f64], parameters: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let class = Class::of(value[0], parameters);
        let Class { low, high, .. } = class;
        let width = high - low;
        if gradient.is_wanted() {
            let (above, below) = (sigmoid(-high), sigmoid(low));
            let shared = if width.is_finite() { 1.0 / width.exp_m1() } else { 0.0 };
            class.add(below - above, [-below - shared, above + shared], gradient);
        }
        -softplus(-high) - softplus(low) + log_one_minus_exp(-width)
    }

    /// Both ends of all events at once; what the width of a class gives, once a class.
    fn batch(&self, batch: &mut Batch<'_>) -> Option<f64> {
        let ([predictor, cutpoints, _], values, scale) = (batch.parameters, batch.values, batch.scale);
        let is_class = |value: &f64| (0.0..=cutpoints.len() as f64).contains(value) && value.fract() <= 0.0;
        if predictor.len() != values.len() || !values.iter().all(is_class) {
            return None;
        }
        let [by_predictor, by_cutpoints, _] = &mut batch.parameter_gradients;
        let class = |(value, predictor): (&f64, &f64)| Class::of(*value, [&[*predictor], cutpoints, &[]]);
        let classes: Vec<Class> = values.iter().zip(predictor).map(class).collect();
        let ends =
            |end: fn(&Class) -> f64| -> Vec<f64> { classes.iter().map(|class| end(class).clamp(-FAR, FAR)).collect() };
        let has_slopes = !by_predictor.is_empty() || !by_cutpoints.is_empty();
        let slots = |is_wanted: bool| vec![0.0; if is_wanted { values.len() } else { 0 }];
        let (mut above, mut below) = (slots(has_slopes), slots(has_slopes));
        let mut terms = slots(!batch.events.is_empty());
        let side = |logits: &[f64], success: f64, by_logits: &mut [f64], terms: &mut [f64]| {
            let (successes, failures) = (&*vec![success; values.len()], &[1.0 - success][..]);
            let by_failures = &mut [][..];
            binomial_logit(&mut BinomialTerms { logits, successes, failures, scale, by_logits, by_failures, terms })
        };
        let mut total = side(&ends(|own| own.high), 1.0, &mut above, &mut *batch.events);
        total += side(&ends(|own| own.low), 0.0, &mut below, &mut terms);
        let width = |class: usize| match class {
            0 => f64::INFINITY,
            _ => cutpoints.get(class).map_or(f64::INFINITY, |high| high - cutpoints[class - 1]),
        };
        let widths = (0..=cutpoints.len()).map(width);
        let [logs, slopes]: [Vec<f64>; 2] = [
            widths.clone().map(|own| log_one_minus_exp(-own)).collect(),
            widths.map(|own| if own.is_finite() { scale / own.exp_m1() } else { 0.0 }).collect(),
        ];
        batch.events.iter_mut().zip(&terms).for_each(|(event, term)| *event += term);
        for (event, Class { index: class, .. }) in classes.into_iter().enumerate() {
            total += logs[class];
            if let Some(slot) = batch.events.get_mut(event) {
                *slot += logs[class];
            }
            if let Some(slot) = by_predictor.get_mut(event) {
                *slot = -above[event] - below[event];
            }
            let own = event * cutpoints.len()..(event + 1) * cutpoints.len();
            if let Some(slots) = by_cutpoints.get_mut(own) {
                slots.fill(0.0);
                if class > 0 {
                    slots[class - 1] = below[event] - slopes[class];
                }
                if let Some(slot) = slots.get_mut(class) {
                    *slot = above[event] + slopes[class];
                }
            }
        }
        batch.value_gradient.fill(0.0);
        Some(total)
    }

    fn draw(&self, [predictor, cutpoints, _]: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]) {
        out[0] = class_draw(cutpoints, |cutpoint| sigmoid(cutpoint - predictor[0]), noise);
    }

    fn mean(&self, parameters: [&[f64]; 3]) -> Option<Vec<f64>> {
        Some(vec![moments(self, parameters)[0]])
    }

    fn variance(&self, parameters: [&[f64]; 3]) -> Option<Vec<f64>> {
        Some(vec![moments(self, parameters)[1]])
    }

    tails!();
}

impl OrderedLogistic {
    fn log_tail(tail: Tail, value: f64, parameters: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        if value < 0.0 {
            return tail.below();
        }
        let class = Class::of(value.floor(), parameters);
        if class.high.is_infinite() {
            return tail.above();
        }
        let end = tail.sign() * class.high;
        let slope = tail.sign() * sigmoid(-end);
        class.add(-slope, [0.0, slope], gradient);
        -softplus(-end)
    }
}

impl Density for OrderedProbit {
    fn conflict(&self, parameters: [&[f64]; 3]) -> Option<(&'static str, f64, &'static str)> {
        unordered(parameters)
    }

    fn log_prob(&self, value: &[f64], parameters: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        let class = Class::of(value[0], parameters);
        let Class { low, high, .. } = class;
        // By symmetry both ends can be mirrored to the lower half, where the logarithms keep their digits.
        let log_prob = if low + high > 0.0 { log_between(-high, -low) } else { log_between(low, high) };
        if gradient.is_wanted() {
            let slope = |end: f64| (-0.5 * end * end - HALF_LOG_TWO_PI - log_prob).exp();
            // Where one end is absent the other's slope is the hazard, which survives a density that underflows.
            let [by_low, by_high] = match (low.is_finite(), high.is_finite()) {
                (false, true) => [0.0, normal_hazard(high)],
                (true, false) => [-normal_hazard(-low), 0.0],
                _ => [-slope(low), slope(high)],
            };
            class.add(-by_low - by_high, [by_low, by_high], gradient);
        }
        log_prob
    }

    fn draw(&self, [predictor, cutpoints, _]: [&[f64]; 3], noise: &mut NoiseStream, out: &mut [f64]) {
        out[0] = class_draw(cutpoints, |cutpoint| normal_cumulative(cutpoint - predictor[0]), noise);
    }

    fn mean(&self, parameters: [&[f64]; 3]) -> Option<Vec<f64>> {
        Some(vec![moments(self, parameters)[0]])
    }

    fn variance(&self, parameters: [&[f64]; 3]) -> Option<Vec<f64>> {
        Some(vec![moments(self, parameters)[1]])
    }

    tails!();
}

impl OrderedProbit {
    fn log_tail(tail: Tail, value: f64, parameters: [&[f64]; 3], gradient: &mut Gradient<'_>) -> f64 {
        if value < 0.0 {
            return tail.below();
        }
        let class = Class::of(value.floor(), parameters);
        if class.high.is_infinite() {
            return tail.above();
        }
        let (log, slope) = tail.normal(class.high);
        class.add(-slope, [0.0, slope], gradient);
        log
    }
}

/// $\log(\Phi(h) - \Phi(l))$ for $l < h$ with $l + h \le 0$; not a number for ends in the wrong order.
fn log_between(low: f64, high: f64) -> f64 {
    let width = high - low;
    let middle = 0.5 * (low + high);
    if width <= 0.0 {
        return f64::NAN;
    }
    if width * (1.0 + middle.abs()) > 8.0 || width.is_infinite() {
        let log_high = log_normal_cumulative(high);
        return log_high + log_one_minus_exp(log_normal_cumulative(low) - log_high);
    }
    // φ(m) ∫ e^(-mt - t²/2) dt over the width, whose exponent changes by at most 12.
    let half = 0.5 * width;
    let sum: f64 = NODES
        .iter()
        .map(|(node, weight)| {
            let t = half * node;
            weight * (-0.5 * t * t).exp() * ((-middle * t).exp() + (middle * t).exp())
        })
        .sum();
    -0.5 * middle * middle - HALF_LOG_TWO_PI + (half * sum).ln()
}

/// The positive nodes and their weights of Gauss-Legendre quadrature with twenty points on (-1, 1).
const NODES: [(f64, f64); 10] = [
    (0.07652652113349734, 0.15275338713072584),
    (0.22778585114164507, 0.14917298647260374),
    (0.37370608871541955, 0.14209610931838204),
    (0.5108670019508271, 0.13168863844917664),
    (0.636053680726515, 0.11819453196151841),
    (0.7463319064601508, 0.10193011981724044),
    (0.8391169718222188, 0.08327674157670475),
    (0.912234428251326, 0.06267204833410907),
    (0.9639719272779138, 0.04060142980038694),
    (0.9931285991850949, 0.017614007139152118),
];
