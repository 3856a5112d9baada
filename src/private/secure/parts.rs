//! Takes an answer apart into numbers that are summed behind masks and a frame that is the same at all silos, and puts a sum together.

use partita_inference::{DataType, Error, Message, Record, Result};
use serde::{Deserialize, Serialize};

/// The requests whose answers a coordinator needs the sum of alone: every party is asked the same, and no answer counts
/// other than as a part of that sum.
const ADDITIVE: [&str; 8] = [
    "private.round",
    "private.step",
    "sfvi.step",
    "sfvi.estimate_elbo",
    "sfvi.slope",
    "vertical.step",
    "vertical.estimate_elbo",
    "vertical.predict",
];

/// Whether a request is one of these.
pub(super) fn is_additive(kind: &str) -> bool {
    ADDITIVE.contains(&kind)
}

/// The word that silos say again: which step they were asked for.
const STEP: &str = "step";

/// Whole numbers are multiples of 2⁻⁶⁴.
const UNIT: f64 = 18_446_744_073_709_551_616.0;
/// The size from which on a number is not summed: sums over a thousand silos are below 2⁶³ units of one.
const LARGEST: f64 = 9_007_199_254_740_992.0;

/// The nearest multiple of 2⁻⁶⁴, modulo 2¹²⁸.
///
/// # Errors
/// [`Error::Declined`] for a number that is none or too large: it is not cut off.
pub(super) fn write(number: f64) -> Result<u128> {
    if number.is_nan() || number.abs() >= LARGEST {
        let problem = format!("a number of {number} for a sum behind masks, expected less than {LARGEST:e} in size");
        return Err(Error::Declined { problem });
    }
    Ok(((number * UNIT).round() as i128).cast_unsigned())
}

/// The number that a sum modulo 2¹²⁸ stands for.
pub(super) fn read(sum: u128) -> f64 {
    sum.cast_signed() as f64 / UNIT
}

/// What an answer is beside its numbers: it has none that depends on a silo's data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Frame {
    kind: String,
    records: Vec<Part>,
    numbers: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
enum Part {
    /// An array whose numbers are summed.
    Floats { name: String, shape: Vec<u64> },
    /// A count, which is summed.
    Count { name: String },
    /// The step of the request, said again.
    Said { name: String, word: u64 },
}

fn wrong<T>(kind: &str, problem: String) -> Result<T> {
    Err(Error::Message { kind: kind.to_owned(), problem })
}

/// The frame of an answer to `asked`, and its numbers.
///
/// # Errors
/// [`Error::Message`] for an answer with words, which have no sum, or of another step than the request's; otherwise as
/// for [`write()`].
pub(super) fn apart(answer: &Message, asked: &Message) -> Result<(Frame, Vec<u128>)> {
    let Message { kind, records, numbers, settings, .. } = answer;
    if let Some((name, _)) = settings.first() {
        return wrong(kind, format!("its `{name}` is no number, and has no sum"));
    }
    let (mut parts, mut values) = (Vec::new(), Vec::new());
    for record in records {
        let name = record.name.clone();
        // Every other count is summed, whatever the request has by its name: what is said again is not masked.
        let step = (name == STEP).then(|| asked.get_word(STEP).ok()).flatten();
        parts.push(match (record.data_type, step) {
            (DataType::F64, _) => {
                for eight in record.bytes.as_chunks::<8>().0 {
                    values.push(write(f64::from_le_bytes(*eight))?);
                }
                Part::Floats { name, shape: record.shape.clone() }
            }
            (DataType::U64, Some(word)) => match answer.get_word(&name)? {
                own if own == word => Part::Said { name, word },
                own => return wrong(kind, format!("its `{name}` is {own}, asked was {word}")),
            },
            (DataType::U64, None) => {
                #[expect(clippy::cast_precision_loss, reason = "larger counts than 2^53 are refused")]
                values.push(write(answer.get_word(&name)? as f64)?);
                Part::Count { name }
            }
        });
    }
    for (_, number) in numbers {
        values.push(write(*number)?);
    }
    let numbers = numbers.iter().map(|(name, _)| name.clone()).collect();
    Ok((Frame { kind: kind.clone(), records: parts, numbers }, values))
}

impl Frame {
    /// The answer with these numbers.
    ///
    /// # Errors
    /// [`Error::Message`] for another count of numbers than it has places.
    pub(super) fn with(&self, values: &[u128]) -> Result<Message> {
        let mut rest = values;
        let mut take = |count: u64| {
            let found = usize::try_from(count).ok().and_then(|count| rest.split_at_checked(count));
            let Some((own, others)) = found else {
                return wrong(&self.kind, format!("a sum of {} numbers, expected more", values.len()));
            };
            rest = others;
            Ok(own)
        };
        let mut message = Message::new(&self.kind);
        for part in &self.records {
            message = match part {
                Part::Floats { name, shape } => {
                    let cells = shape.iter().try_fold(1_u64, |cells, side| cells.checked_mul(*side));
                    let own = take(cells.unwrap_or(u64::MAX))?;
                    let bytes: Vec<u8> = own.iter().flat_map(|value| read(*value).to_le_bytes()).collect();
                    let (name, shape) = (name.clone(), shape.clone());
                    message.records.push(Record { name, data_type: DataType::F64, shape, bytes: bytes.into() });
                    message
                }
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a sum of counts")]
                Part::Count { name } => message.word(name, read(take(1)?[0]) as u64),
                Part::Said { name, word } => message.word(name, *word),
            };
        }
        for name in &self.numbers {
            message = message.number(name, read(take(1)?[0]));
        }
        match rest.len() {
            0 => Ok(message),
            more => wrong(&self.kind, format!("a sum of {} numbers, expected {more} fewer", values.len())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Message {
        Message::new("sfvi.step").word("step", 7)
    }

    fn answer(numbers: &[f64; 4], clipped: u64) -> Message {
        let answer = Message::new("sfvi.terms").word("step", 7).array("z", numbers, &[2, 2]).word("clipped", clipped);
        answer.floats("nothing", &[]).number("elbo", numbers[0])
    }

    #[test]
    fn numbers_come_back_to_a_unit_and_sums_have_the_same_bits_in_any_order() {
        let numbers = [[0.3, -0.3, 1e-9, -123.456], [1e15, -7.0, 0.1, 1.0 / 3.0], [-1e15, 1e-18, 4.0, -0.1]];
        let parts: Vec<_> =
            numbers.iter().zip([2, 0, 5]).map(|(own, count)| apart(&answer(own, count), &request()).unwrap()).collect();
        for (own, (frame, values)) in numbers.iter().zip(&parts) {
            let back = frame.with(values).unwrap().get_floats("z").unwrap();
            assert!(back.iter().zip(own).all(|(found, own)| (found - own).abs() <= 0.5 / UNIT), "{back:?} of {own:?}");
        }
        let sum = |order: [usize; 3]| {
            let add = |mut sum: Vec<u128>, own: usize| {
                sum.iter_mut().zip(&parts[own].1).for_each(|(slot, own)| *slot = slot.wrapping_add(*own));
                sum
            };
            parts[0].0.with(&order.into_iter().fold(vec![0; 6], add)).unwrap()
        };
        let total = sum([0, 1, 2]);
        for order in [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            assert_eq!(sum(order), total);
        }
        assert_eq!((total.get_word("step").unwrap(), total.get_word("clipped").unwrap()), (7, 7));
        // In f64 the small ones would be lost between the large ones.
        let z = total.get_floats("z").unwrap();
        assert!((z[0] - 0.3).abs() < 1e-15 && (z[2] - 4.100_000_001).abs() < 1e-15, "{z:?}");
    }

    #[test]
    fn what_has_no_sum_or_does_not_fit_is_refused_and_not_cut_off() {
        for number in [f64::NAN, f64::INFINITY, -1e16] {
            assert!(write(number).is_err(), "{number}");
        }
        let refused = |answer: &Message| apart(answer, &request()).unwrap_err().to_string();
        assert!(refused(&answer(&[1.0; 4], 1).setting("level", "a")).contains("`level` is no number"));
        assert!(refused(&answer(&[1.0; 4], 1).number("x", f64::NAN)).contains("NaN"));
        // A word that the coordinator adds to its request reads no count: it is summed as ever.
        let plain = apart(&answer(&[1.0; 4], 2), &request()).unwrap();
        for guess in [2, 3] {
            assert_eq!(apart(&answer(&[1.0; 4], 2), &request().word("clipped", guess)).unwrap(), plain);
        }
        assert!(plain.0.records.contains(&Part::Count { name: "clipped".into() }));
        let other = Message::new("sfvi.terms").word("step", 8);
        assert!(refused(&other).contains("`step` is 8, asked was 7"));
        let (frame, values) = apart(&answer(&[1.0; 4], 1), &request()).unwrap();
        assert!(frame.with(&values[1..]).is_err() && frame.with(&[&values[..], &[1]].concat()).is_err());
    }
}
