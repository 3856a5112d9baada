//! Bounds the counts of uniform numbers in bins, or below their edges, by a band that holds everywhere at once.

use partita_core::special::ln_gamma;

use super::real;

/// Which counts a band is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    /// The numbers up to the upper edge of each bin: the empirical distribution function, times how many there are.
    Below,
    /// The numbers in each bin: a histogram.
    Within,
}

/// A band that holds all counts of independent numbers at once with a probability.
#[derive(Debug, Clone, PartialEq)]
pub struct SimultaneousBand {
    /// The least count, bin by bin.
    pub lower: Vec<usize>,
    /// The largest count, bin by bin.
    pub upper: Vec<usize>,
    /// The probability of each interval alone, in the sense of its two tails.
    pub pointwise: f64,
    /// The probability that all counts are in the band.
    pub coverage: f64,
}

impl SimultaneousBand {
    /// The narrowest band of binomial intervals of equal probability that holds all counts with at least `probability`.
    ///
    /// `count` numbers fall independently into bins of probabilities `masses`, whose sum is one. The interval of each bin
    /// runs between the quantiles $`(1 - \gamma)/2`$ and $`(1 + \gamma)/2`$ of its binomial distribution. The probability
    /// that all counts are inside is computed exactly, bin by bin: given the count below a bin, the count in it is binomial.
    /// $`\gamma`$ is the smallest for which it is at least `probability`.
    ///
    /// # Example
    /// ```
    /// use partita_inference::metrics::{Counts, SimultaneousBand};
    /// let band = SimultaneousBand::new(100, &[0.25; 4], Counts::Below, 0.95);
    /// // At the end of the first quarter there are 15 to 35 of the hundred numbers.
    /// assert_eq!((&band.lower[..], &band.upper[..]), (&[15, 39, 65, 100][..], &[35, 61, 84, 100][..]));
    /// assert!((band.coverage - 0.950_677_741_684).abs() < 1e-9);
    /// ```
    ///
    /// # References
    /// Säilynoja, Bürkner and Vehtari (2022), Graphical test for discrete uniformity and its applications in goodness-of-fit
    /// evaluation and multiple sample comparison, Statistics and Computing 32, algorithm 2.
    #[must_use]
    pub fn new(count: usize, masses: &[f64], counts: Counts, probability: f64) -> Self {
        let bins = Bins::new(count, masses, counts);
        // All of one: such a band holds every count.
        let (mut outside, mut inside) = (0.0, 1.0);
        let mut found = bins.band(inside);
        for _ in 0..60 {
            let middle = 0.5 * (outside + inside);
            let band = bins.band(middle);
            if band.coverage < probability {
                outside = middle;
            } else {
                (inside, found) = (middle, band);
            }
        }
        found
    }

    /// The band whose intervals have the probability `pointwise` each, with the probability of all.
    ///
    /// # Example
    /// ```
    /// use partita_inference::metrics::{Counts, SimultaneousBand};
    /// let band = SimultaneousBand::of_intervals(2, &[0.5, 0.5], Counts::Below, 0.2);
    /// // Of two numbers one is in each half, or not.
    /// assert_eq!((band.lower[0], band.upper[0], band.coverage), (1, 1, 0.5));
    /// ```
    #[must_use]
    pub fn of_intervals(count: usize, masses: &[f64], counts: Counts, pointwise: f64) -> Self {
        Bins::new(count, masses, counts).band(pointwise)
    }

    /// Whether these counts are all in the band.
    #[must_use]
    pub fn holds(&self, counts: &[usize]) -> bool {
        let inside = |((count, lower), upper): ((&usize, &usize), &usize)| (lower..=upper).contains(&count);
        counts.len() == self.lower.len() && counts.iter().zip(&self.lower).zip(&self.upper).all(inside)
    }
}

/// Numbers that fall into bins.
struct Bins<'a> {
    count: usize,
    masses: &'a [f64],
    counts: Counts,
    /// The logarithms of the factorials up to the number of numbers.
    log_factorials: Vec<f64>,
}

impl<'a> Bins<'a> {
    fn new(count: usize, masses: &'a [f64], counts: Counts) -> Self {
        let log_factorials = (0..=count).map(|number| ln_gamma(real(number) + 1.0)).collect();
        Self { count, masses, counts, log_factorials }
    }

    /// The probability that `found` of `count` numbers have a property of this probability.
    fn binomial(&self, found: usize, count: usize, probability: f64) -> f64 {
        let (yes, no) = (real(found), real(count - found));
        if (found > 0 && probability <= 0.0) || (found < count && probability >= 1.0) {
            return 0.0;
        }
        let ways = self.log_factorials[count] - self.log_factorials[found] - self.log_factorials[count - found];
        let of = |times: f64, log: f64| if times > 0.0 { times * log } else { 0.0 };
        (ways + of(yes, probability.ln()) + of(no, (-probability).ln_1p())).exp()
    }

    /// The smallest counts at which the binomial distribution function reaches both quantiles.
    fn interval(&self, probability: f64, pointwise: f64) -> [usize; 2] {
        if pointwise >= 1.0 {
            return [0, self.count];
        }
        let (mut below, mut found) = (0.0, 0);
        [0.5 * (1.0 - pointwise), 0.5 * (1.0 + pointwise)].map(|quantile| {
            while found < self.count && below + self.binomial(found, self.count, probability) < quantile {
                below += self.binomial(found, self.count, probability);
                found += 1;
            }
            found
        })
    }

    fn band(&self, pointwise: f64) -> SimultaneousBand {
        let mut before = 0.0;
        let intervals = self.masses.iter().map(|mass| {
            before += mass;
            let probability: f64 = if self.counts == Counts::Below { before } else { *mass };
            self.interval(probability.min(1.0), pointwise)
        });
        let (mut lower, mut upper): (Vec<usize>, Vec<usize>) = intervals.map(|[lower, upper]| (lower, upper)).unzip();
        // Every number is below the last edge.
        if let (Counts::Below, Some(least), Some(most)) = (self.counts, lower.last_mut(), upper.last_mut()) {
            (*least, *most) = (self.count, self.count);
        }
        let coverage = self.coverage(&lower, &upper);
        SimultaneousBand { lower, upper, pointwise, coverage }
    }

    /// The probability that all counts are in these intervals.
    fn coverage(&self, lower: &[usize], upper: &[usize]) -> f64 {
        let mut rest: f64 = self.masses.iter().sum();
        // The probability of each count below the bin, with all counts before inside.
        let mut below = vec![0.0; self.count + 1];
        below[0] = 1.0;
        for (index, mass) in self.masses.iter().enumerate() {
            let is_last = index + 1 == self.masses.len();
            let share = if is_last { 1.0 } else { (mass / rest).min(1.0) };
            rest -= mass;
            let mut next = vec![0.0; self.count + 1];
            for (start, before) in below.iter().enumerate().filter(|(_, before)| **before > 0.0) {
                let (least, most) = match self.counts {
                    Counts::Below => (lower[index].max(start), upper[index]),
                    Counts::Within => (start + lower[index], (start + upper[index]).min(self.count)),
                };
                for (end, slot) in next.iter_mut().enumerate().take(most + 1).skip(least) {
                    *slot += before * self.binomial(end - start, self.count - start, share);
                }
            }
            below = next;
        }
        below.iter().sum()
    }
}
