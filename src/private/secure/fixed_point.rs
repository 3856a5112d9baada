//! Writes noised sums as whole multiples of one unit, whose sums modulo 2⁶⁴ have the same bits in any order.

use partita_inference::{Error, Message, Result};

/// The numbers of a silo's answer, all of which are sums: gradient, curvature, and the marks of clipped rows.
///
/// # Errors
/// [`Error::Message`] for an answer without one of them.
pub(super) fn numbers_of(answer: &Message) -> Result<Vec<f64>> {
    let clipped = answer.get_number("clipped")?;
    Ok([answer.get_floats("gradient")?, answer.get_floats("curvature")?, vec![clipped]].concat())
}

/// The unit of a round: a power of two, far below the clip of every number of the sum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Unit(f64);

/// The unit is this power of two of the shorter clip, rounded down to a power of two.
const FINER: i32 = -30;
/// The largest multiple of a silo: sums over a thousand of them are below 2⁶³.
const LARGEST: f64 = 9_007_199_254_740_992.0;

impl Unit {
    /// The unit that follows from a request: from the clip of gradients, and from that of curvatures.
    ///
    /// # Errors
    /// [`Error::Message`] for a request without both, or with numbers that are none.
    pub(super) fn of(request: &Message) -> Result<Self> {
        let (clip, curvature) = (request.get_number("clip")?, request.get_number("curvature")?);
        let shorter = clip.min(clip / curvature);
        let is_positive = |number: f64| number.is_normal() && number > 0.0;
        if ![clip, curvature, shorter].into_iter().all(is_positive) {
            let problem = format!("its clip is {clip} and its curvature counts {curvature}: both have to be > 0");
            return Err(Error::Message { kind: request.kind.clone(), problem });
        }
        Ok(Self(2_f64.powi(shorter.log2().floor() as i32 + FINER)))
    }

    /// The nearest multiples, modulo 2⁶⁴.
    ///
    /// # Errors
    /// [`Error::Declined`] for a number that is none or too large: it is not cut off.
    pub(super) fn write(self, numbers: &[f64]) -> Result<Vec<u64>> {
        let one = |number: &f64| {
            let multiple = (number / self.0).round();
            if multiple.is_nan() || multiple.abs() > LARGEST {
                let problem = format!("a sum of {number} for masks, expected at most {} in size", LARGEST * self.0);
                return Err(Error::Declined { problem });
            }
            Ok((multiple as i64).cast_unsigned())
        };
        numbers.iter().map(one).collect()
    }

    /// The numbers that a sum modulo 2⁶⁴ stands for.
    pub(super) fn read(self, sum: &[u64]) -> Vec<f64> {
        sum.iter().map(|own| own.cast_signed() as f64 * self.0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(clip: f64, curvature: f64) -> Message {
        Message::new("private.round").number("clip", clip).number("curvature", curvature)
    }

    #[test]
    fn numbers_come_back_to_a_billionth_of_the_clip_and_sums_are_those_of_multiples() {
        let unit = Unit::of(&request(0.3, 5.0)).unwrap();
        let numbers = [0.3, -0.3, 0.0, 1e-9, -123.456];
        for (found, number) in unit.read(&unit.write(&numbers).unwrap()).iter().zip(numbers) {
            assert!((found - number).abs() <= 0.5 * unit.0 && unit.0 < 0.06 * 1e-9, "{found} of {number}");
        }
        let (one, other) = (unit.write(&numbers).unwrap(), unit.write(&[1.0; 5]).unwrap());
        let sum: Vec<u64> = one.iter().zip(&other).map(|(a, b)| a.wrapping_add(*b)).collect();
        let plain: Vec<f64> = unit.read(&one).iter().zip(unit.read(&other)).map(|(a, b)| a + b).collect();
        assert_eq!(unit.read(&sum), plain);
    }

    #[test]
    fn what_does_not_fit_is_refused_and_not_cut_off() {
        let unit = Unit::of(&request(1.0, 1.0)).unwrap();
        for number in [f64::NAN, f64::INFINITY, 1e8] {
            assert!(unit.write(&[number]).is_err(), "{number}");
        }
        for (clip, curvature) in [(0.0, 1.0), (1.0, 0.0), (f64::NAN, 1.0), (-1.0, 1.0), (1.0, f64::INFINITY)] {
            assert!(Unit::of(&request(clip, curvature)).is_err(), "{clip}, {curvature}");
        }
    }
}
