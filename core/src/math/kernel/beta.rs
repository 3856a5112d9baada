//! Sums the log density of many numbers between zero and one under beta distributions, with the derivatives, in one pass.

use super::block::{BLOCK, at, serves, sum_blocks, takes};
use super::polynomial::log;
use crate::math::special::{HALF_LOG_TWO_PI, digamma_difference, ln_beta};

/// Numbers with their beta distributions, and where what is found goes.
#[derive(Debug)]
pub struct BetaTerms<'a> {
    /// The numbers, between zero and one.
    pub values: &'a [f64],
    /// Concentrations towards one: one an event, or one for all.
    pub ones: &'a [f64],
    /// Concentrations towards zero: one an event, or one for all.
    pub zeros: &'a [f64],
    /// The factor on derivatives.
    pub scale: f64,
    /// Overwritten with `scale` times the derivative by each concentration towards one, unless empty.
    pub by_ones: &'a mut [f64],
    /// Overwritten with `scale` times the derivative by each concentration towards zero, unless empty.
    pub by_zeros: &'a mut [f64],
    /// Overwritten with the terms of the sum, unless empty.
    pub terms: &'a mut [f64],
}

impl BetaTerms<'_> {
    fn fits(&self) -> bool {
        let count = self.values.len();
        [self.ones, self.zeros].iter().all(|own| serves(own, count))
            && [&self.by_ones, &self.by_zeros, &self.terms].iter().all(|own| takes(own, count))
    }
}

dispatch! {
    /// The beta log density, in nats.
    ///
    /// $$ \sum_i (a_i-1)\log x_i + (b_i-1)\log(1-x_i) - \log B(a_i, b_i), \qquad
    ///    \frac{\partial}{\partial a_i} = \log x_i + \psi(a_i+b_i) - \psi(a_i) $$
    /// with $x$ = `values`, $a$ = `ones` and $b$ = `zeros`. The sum is not multiplied by `scale`.
    ///
    /// # Numerics
    /// For concentrations from 1e-30 to 1e15. Gamma functions are those of arguments eight higher, by Stirling's series, over the product of
    /// the eight numbers passed. Against the libm loop: sum, terms and derivatives 1e-15, relative to the size of their parts.
    ///
    /// # Panics
    /// If the lengths disagree: callers have checked them.
    ///
    /// # Example
    /// ```
    /// use partita_core::kernel::{BetaTerms, beta};
    /// let (values, ones, zeros) = (&[0.5, 0.25], &[2.0], &[3.0]);
    /// let (by_ones, by_zeros, terms): (&mut [f64], &mut [f64], &mut [f64]) = (&mut [], &mut [], &mut []);
    /// let sum = beta(&mut BetaTerms { values, ones, zeros, scale: 1.0, by_ones, by_zeros, terms });
    /// assert!((sum - 1.5_f64.ln() - 1.6875_f64.ln()).abs() < 1e-14);
    /// ```
    beta(own: &mut BetaTerms<'_>) -> f64
    where own.fits();
    vector, scalar
}

/// How far arguments of gamma functions are moved up, to where Stirling's series hold.
const UP: usize = 8;

/// What the log-gamma function of a number and its derivative are made of.
struct Raised {
    /// The number and [`UP`], and the inverse of that.
    up: f64,
    inverse: f64,
    /// The product of the numbers passed, and the sum of their inverses.
    product: f64,
    inverses: f64,
    /// What Stirling's formula leaves out of the log-gamma function at `up`.
    error: f64,
    /// What the logarithm of `up` exceeds the digamma function by.
    excess: f64,
}

/// $B_{2n}/(2n(2n-1))$ and $B_{2n}/(2n)$, the last first.
const LOG_GAMMA: [f64; 8] = [
    -3617.0 / 122_400.0,
    1.0 / 156.0,
    -691.0 / 360_360.0,
    1.0 / 1188.0,
    -1.0 / 1680.0,
    1.0 / 1260.0,
    -1.0 / 360.0,
    1.0 / 12.0,
];
const DIGAMMA: [f64; 8] =
    [-3617.0 / 8160.0, 1.0 / 12.0, -691.0 / 32_760.0, 1.0 / 132.0, -1.0 / 240.0, 1.0 / 252.0, -1.0 / 120.0, 1.0 / 12.0];

/// The polynomial with these coefficients, the highest power first.
#[inline(always)]
fn polynomial(coefficients: &[f64; 8], x: f64) -> f64 {
    let mut sum = coefficients[0];
    for coefficient in &coefficients[1..] {
        sum = sum.mul_add(x, *coefficient);
    }
    sum
}

impl Raised {
    #[inline(always)]
    fn of<const DERIVATIVE: bool>(number: f64) -> Self {
        let (mut product, mut derivative) = (number, 1.0);
        for step in 1..UP {
            let next = number + step as f64;
            if DERIVATIVE {
                derivative = f64::mul_add(derivative, next, product);
            }
            product *= next;
        }
        let up = number + UP as f64;
        let inverse = 1.0 / up;
        let square = inverse * inverse;
        let error = inverse * polynomial(&LOG_GAMMA, square);
        let (inverses, excess) = if DERIVATIVE {
            (derivative / product, 0.5_f64.mul_add(inverse, square * polynomial(&DIGAMMA, square)))
        } else {
            (0.0, 0.0)
        };
        Self { up, inverse, product, inverses, error, excess }
    }
}

/// The log density of one number, and the derivatives by both concentrations.
#[inline(always)]
fn lane<const DERIVATIVE: bool>(value: f64, one: f64, zero: f64) -> [f64; 3] {
    let rest = 1.0 - value;
    // The second part is what the subtraction has lost.
    let logs = [log(value), log(rest) - ((rest - 1.0) + value) / rest];
    let [a, b, both] = [one, zero, one + zero].map(Raised::of::<DERIVATIVE>);
    let shares = [log(a.up * both.inverse), log(b.up * both.inverse)];
    // (A - ½) log A + (B - ½) log B - (C - ½) log C with A + B = C + 8, in which large terms do not cancel.
    let stirling = (a.up - 0.5).mul_add(shares[0], (b.up - 0.5) * shares[1]) + (UP as f64 - 0.5) * log(both.up);
    let errors = a.error + b.error - both.error;
    let log_beta = stirling + (HALF_LOG_TWO_PI - UP as f64) + errors - log(a.product * b.product / both.product);
    let density = (one - 1.0).mul_add(logs[0], (zero - 1.0) * logs[1]) - log_beta;
    let by =
        |log: f64, share: f64, own: &Raised| log - share + (own.excess - both.excess) + (own.inverses - both.inverses);
    [density, by(logs[0], shares[0], &a), by(logs[1], shares[1], &b)]
}

#[inline(always)]
fn vector(own: &mut BetaTerms<'_>) -> f64 {
    if own.by_ones.is_empty() && own.by_zeros.is_empty() { blocks::<false>(own) } else { blocks::<true>(own) }
}

#[inline(always)]
fn blocks<const DERIVATIVE: bool>(own: &mut BetaTerms<'_>) -> f64 {
    let BetaTerms { values, ones, zeros, scale, by_ones, by_zeros, terms } = own;
    sum_blocks!(values.len(), |io, start| {
        let (value, one, zero) = (io.load(values, start), io.serve(ones, start), io.serve(zeros, start));
        let (mut own, mut by_one, mut by_zero) = ([0.0; BLOCK], [0.0; BLOCK], [0.0; BLOCK]);
        for at in 0..BLOCK {
            let found = lane::<DERIVATIVE>(value[at], one[at], zero[at]);
            own[at] = found[0];
            by_one[at] = *scale * found[1];
            by_zero[at] = *scale * found[2];
        }
        if DERIVATIVE {
            io.store(by_ones, start, &by_one);
            io.store(by_zeros, start, &by_zero);
        }
        io.store(terms, start, &own);
        own
    })
}

fn scalar(own: &mut BetaTerms<'_>) -> f64 {
    let BetaTerms { values, ones, zeros, scale, by_ones, by_zeros, terms } = own;
    let mut sum = 0.0;
    for (index, value) in values.iter().enumerate() {
        let (one, zero, log_value, log_rest) = (at(ones, index), at(zeros, index), value.ln(), (-value).ln_1p());
        let term = (one - 1.0) * log_value + (zero - 1.0) * log_rest - ln_beta(one, zero);
        sum += term;
        if let Some(slot) = terms.get_mut(index) {
            *slot = term;
        }
        if let Some(slot) = by_ones.get_mut(index) {
            *slot = *scale * (log_value + digamma_difference(one, zero));
        }
        if let Some(slot) = by_zeros.get_mut(index) {
            *slot = *scale * (log_rest + digamma_difference(zero, one));
        }
    }
    sum
}
