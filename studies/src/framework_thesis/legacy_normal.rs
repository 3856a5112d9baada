//! Repeats the normal numbers of NumPy's legacy generator, to reproduce published synthetic data.

/// Words of the generator's state.
const WORDS: usize = 624;

/// The offset of the word with which a new word is mixed.
const AHEAD: usize = 397;

/// Normal numbers from the Mersenne Twister MT19937 by the polar method, two from each accepted pair.
///
/// # References
/// Matsumoto and Nishimura (1998), Mersenne Twister; Marsaglia and Bray (1964), A convenient method for generating
/// normal variables. Only the algorithms are those of NumPy's `RandomState`.
#[derive(Debug, Clone)]
pub(super) struct LegacyNormal {
    state: Vec<u32>,
    place: usize,
    kept: Option<f64>,
}

impl LegacyNormal {
    /// The generator in the starting state of `RandomState(seed)`.
    pub(super) fn new(seed: u32) -> Self {
        let mut state = vec![seed];
        for index in 1..WORDS {
            let last = state[index - 1];
            let word = 1_812_433_253_u32.wrapping_mul(last ^ last >> 30);
            state.push(word.wrapping_add(u32::try_from(index).unwrap_or_default()));
        }
        Self { state, place: WORDS, kept: None }
    }

    /// One standard normal number.
    pub(super) fn draw(&mut self) -> f64 {
        if let Some(kept) = self.kept.take() {
            return kept;
        }
        loop {
            let (first, second) = (2.0 * self.uniform() - 1.0, 2.0 * self.uniform() - 1.0);
            let square = first * first + second * second;
            if square > 0.0 && square < 1.0 {
                let factor = (-2.0 * square.ln() / square).sqrt();
                self.kept = Some(factor * first);
                return factor * second;
            }
        }
    }

    /// One number of [0, 1) with 53 random bits.
    fn uniform(&mut self) -> f64 {
        let (high, low) = (self.word() >> 5, self.word() >> 6);
        (f64::from(high) * 67_108_864.0 + f64::from(low)) / 9_007_199_254_740_992.0
    }

    fn word(&mut self) -> u32 {
        if self.place == WORDS {
            for index in 0..WORDS {
                let joined = self.state[index] & 0x8000_0000 | self.state[(index + 1) % WORDS] & 0x7fff_ffff;
                let twist = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
                self.state[index] = self.state[(index + AHEAD) % WORDS] ^ joined >> 1 ^ twist;
            }
            self.place = 0;
        }
        let mut word = self.state[self.place];
        self.place += 1;
        word ^= word >> 11;
        word ^= word << 7 & 0x9d2c_5680;
        word ^= word << 15 & 0xefc6_0000;
        word ^ word >> 18
    }
}
