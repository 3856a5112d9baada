//! Guesses which rows were in the sums of a run, by what each of them adds to each sum and by what was released.

/// What sums over some of the rows say of which rows are in them.
///
/// Of a row that is in a sum by a fair coin, and of noise of variance one, this is the normal posterior of all coins together
/// whose prior has the coins' means and variances:
/// ```math
/// \Big(\sum_t V_t V_t^\top + 4 I\Big)\, (b - \tfrac12) = \sum_t V_t \big(s_t - \tfrac12 V_t^\top 1\big)
/// ```
/// with the rows of $`V_t`$ as what the rows add to the sum $`s_t`$, in units of its noise.
#[derive(Debug)]
pub(super) struct Told {
    /// The lower triangle of the products of rows, row by row.
    products: Vec<Vec<f64>>,
    /// The products of rows with sums, of which half of all rows is taken.
    along: Vec<f64>,
}

impl Told {
    /// Nothing is told of so many rows.
    pub(super) fn new(rows: usize) -> Self {
        Self { products: (1..=rows).map(|length| vec![0.0; length]).collect(), along: vec![0.0; rows] }
    }

    /// Hears a sum to which each row adds its numbers, if it is in it, and whose noise has this standard deviation.
    pub(super) fn hear(&mut self, rows: &[Vec<f64>], sum: &[f64], noise: f64) {
        let all = |number: usize| rows.iter().map(|row| row[number]).sum::<f64>();
        let rest: Vec<f64> = sum.iter().enumerate().map(|(number, own)| (own - 0.5 * all(number)) / noise).collect();
        let rows: Vec<Vec<f64>> = rows.iter().map(|row| row.iter().map(|own| own / noise).collect()).collect();
        for (place, (row, slots)) in rows.iter().zip(&mut self.products).enumerate() {
            slots.iter_mut().zip(&rows).for_each(|(slot, other)| *slot += dot(row, other));
            self.along[place] += dot(row, &rest);
        }
    }

    /// How far the mean of each coin is from one half: a row with a positive number seems to be in.
    pub(super) fn coins(&self) -> Vec<f64> {
        let (mut factor, mut coins) = (self.products.clone(), self.along.clone());
        // By Cholesky's factor, whose rows are made one after another.
        for place in 0..factor.len() {
            let (before, own) = factor.split_at_mut(place);
            let Some(row) = own.first_mut() else { continue };
            for (column, other) in before.iter().enumerate() {
                row[column] = (row[column] - dot(&row[..column], &other[..column])) / other[column];
            }
            let rest = row[place] + 4.0 - dot(&row[..place], &row[..place]);
            row[place] = rest.max(f64::MIN_POSITIVE).sqrt();
            coins[place] = (coins[place] - dot(&row[..place], &coins[..place])) / row[place];
        }
        for place in (0..factor.len()).rev() {
            let below: f64 = (place + 1..factor.len()).map(|row| factor[row][place] * coins[row]).sum();
            coins[place] = (coins[place] - below) / factor[place][place];
        }
        coins
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coins_are_those_of_the_normal_equations_and_of_sums_without_noise() {
        // Two rows of one number, s = b₁ + 2 b₂ with noise of one: 5 x + 2 y = r and 2 x + 8 y = 2 r with r = s - 3/2.
        let mut told = Told::new(2);
        told.hear(&[vec![1.0], vec![2.0]], &[2.0], 1.0);
        let found = told.coins();
        let (x, y) = (0.5 * 4.0 / 36.0, 0.5 * 8.0 / 36.0);
        assert!((found[0] - x).abs() < 1e-12 && (found[1] - y).abs() < 1e-12, "{found:?}");
        // Three rows in two sums of two numbers with hardly any noise, and the second row is not in them.
        let mut told = Told::new(3);
        for rows in [[[1.0, 0.2], [-0.5, 1.0], [0.3, 0.4]], [[0.1, -1.0], [0.7, 0.6], [-0.9, 0.2]]] {
            let sum = [0, 1].map(|number| rows[0][number] + rows[2][number]);
            told.hear(&rows.map(|row| row.to_vec()), &sum, 1e-5);
        }
        let found = told.coins();
        let expected = [0.5, -0.5, 0.5];
        assert!(found.iter().zip(expected).all(|(found, coin)| (found - coin).abs() < 1e-6), "{found:?}");
    }
}
