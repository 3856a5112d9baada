//! Declares the fields of a message once: encoding, decoding, limits and rows of the manifest follow.

use std::sync::Arc;

use super::manifest::{Field, Release};
use super::message::{DataType, Message, Record, decoded, encoded};
use crate::engine::error::{Error, Result};

/// A value that a message carries under a name.
///
/// # Laws
/// `get(put(value), limit)` gives the value back where it keeps its limit, and is refused where it does not (tests
/// below).
pub(crate) trait Carried: Sized {
    /// Adds it to a message.
    fn put(&self, message: Message, name: &str) -> Message;

    /// Reads it: vectors have `limit` numbers, counts are no larger.
    fn get(message: &Message, name: &str, limit: u64) -> Result<Self>;

    /// How many numbers it may have in a manifest.
    fn numbers(limit: u64) -> usize {
        length(limit)
    }
}

impl Carried for u64 {
    fn put(&self, message: Message, name: &str) -> Message {
        message.word(name, *self)
    }

    fn get(message: &Message, name: &str, limit: u64) -> Result<Self> {
        message.get_count(name, limit)
    }

    fn numbers(_: u64) -> usize {
        1
    }
}

impl Carried for bool {
    fn put(&self, message: Message, name: &str) -> Message {
        message.word(name, u64::from(*self))
    }

    fn get(message: &Message, name: &str, _: u64) -> Result<Self> {
        Ok(message.get_count(name, 1)? == 1)
    }

    fn numbers(_: u64) -> usize {
        1
    }
}

impl Carried for f64 {
    fn put(&self, message: Message, name: &str) -> Message {
        message.number(name, *self)
    }

    fn get(message: &Message, name: &str, _: u64) -> Result<Self> {
        message.get_number(name)
    }

    fn numbers(_: u64) -> usize {
        1
    }
}

/// A text of at most `limit` bytes.
impl Carried for String {
    fn put(&self, message: Message, name: &str) -> Message {
        message.setting(name, self)
    }

    fn get(message: &Message, name: &str, limit: u64) -> Result<Self> {
        let text = message.get_setting(name)?;
        let problem = format_args!("`{name}` has {} bytes, expected at most {limit}", text.len());
        Error::well_formed(text.len() <= length(limit), &message.kind, problem)?;
        Ok(text.to_owned())
    }

    fn numbers(limit: u64) -> usize {
        length(limit).div_ceil(8)
    }
}

/// An empty vector is not sent.
impl Carried for Vec<f64> {
    fn put(&self, message: Message, name: &str) -> Message {
        if self.is_empty() { message } else { message.floats(name, self) }
    }

    fn get(message: &Message, name: &str, limit: u64) -> Result<Self> {
        if limit == 0 { Ok(Self::new()) } else { message.expect_floats(name, length(limit)) }
    }
}

/// Numbers as a message has them: written once, however many copies there are, and read where they are asked for.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Written {
    bytes: Arc<Vec<u8>>,
}

impl Written {
    /// These numbers.
    pub(crate) fn of(numbers: &[f64]) -> Self {
        Self { bytes: encoded(numbers).into() }
    }

    /// The numbers.
    pub(crate) fn read(&self) -> Vec<f64> {
        decoded(&self.bytes)
    }
}

/// No numbers are not sent.
impl Carried for Written {
    fn put(&self, message: Message, name: &str) -> Message {
        let (bytes, shape) = (Arc::clone(&self.bytes), vec![self.bytes.len() as u64 / 8]);
        if bytes.is_empty() {
            return message;
        }
        message.share(&Record { name: name.to_owned(), data_type: DataType::F64, shape, bytes })
    }

    fn get(message: &Message, name: &str, limit: u64) -> Result<Self> {
        if limit == 0 {
            return Ok(Self::default());
        }
        Ok(Self { bytes: Arc::clone(&message.record_of(name, length(limit))?.bytes) })
    }
}

/// Vectors of one length, such as one a draw.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Rows {
    /// How many there are.
    pub(crate) count: usize,
    /// Their numbers, one vector after another.
    pub(crate) values: Vec<f64>,
}

/// No rows are not sent.
impl Carried for Rows {
    fn put(&self, message: Message, name: &str) -> Message {
        if self.count == 0 {
            return message;
        }
        message.array(name, &self.values, &[self.count, self.values.len() / self.count])
    }

    fn get(message: &Message, name: &str, limit: u64) -> Result<Self> {
        if limit == 0 && !message.has(name) {
            return Ok(Self::default());
        }
        let values = message.expect_floats(name, length(limit))?;
        let sides = message.records.iter().find(|record| record.name == name).map(|record| record.shape.as_slice());
        Ok(Self { count: sides.and_then(|sides| sides.first()).map_or(0, |&count| length(count)), values })
    }
}

/// What is not there is not sent.
impl<T: Carried> Carried for Option<T> {
    fn put(&self, message: Message, name: &str) -> Message {
        match self {
            Some(value) => value.put(message, name),
            None => message,
        }
    }

    fn get(message: &Message, name: &str, limit: u64) -> Result<Self> {
        let is_there = message.has(name) || message.numbers.iter().any(|(known, _)| known == name);
        if is_there { T::get(message, name, limit).map(Some) } else { Ok(None) }
    }

    fn numbers(limit: u64) -> usize {
        T::numbers(limit)
    }
}

/// A length that fits into memory: one that does not is refused as any other wrong length.
pub(crate) fn length(limit: u64) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// Whether what a field says depends on the data of the silo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// It depends on rows or local latents.
    Data,
    /// It depends on them through clipped sums with noise.
    Noised,
    /// It is known without them.
    Request,
}

/// A row of a manifest.
pub(crate) fn row<T: Carried>(name: &'static str, meaning: &'static str, limit: u64, source: Source) -> Field {
    let release = match source {
        Source::Data => Release::Forbidden,
        Source::Noised => Release::Noised,
        Source::Request => Release::Public,
    };
    Field { name, meaning: meaning.trim(), limit: T::numbers(limit), release }
}

/// Refuses a message of another kind.
pub(crate) fn same_kind(message: &Message, expected: &str) -> Result<()> {
    Error::well_formed(message.kind == expected, &message.kind, format_args!("expected `{expected}`"))
}

/// Declares a message: its kind, the sizes that limits follow from, and each field with type, limit and source.
///
/// The docstring of a field is its meaning in the manifest. Vectors have as many numbers as their limit says, counts
/// are no larger.
macro_rules! message {
    (
        $(#[$doc:meta])*
        struct $name:ident = $kind:literal, $sizes:ident: &$Sizes:ty {
            $( #[doc = $meaning:literal] $field:ident: $Type:ty = $source:ident <= $limit:expr, )*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq)]
        pub(crate) struct $name {
            $( #[doc = $meaning] pub(crate) $field: $Type, )*
        }

        #[allow(dead_code, unused_variables, reason = "a request has no row in a manifest, and some have no sizes")]
        impl $name {
            /// The kind of such a message.
            pub(crate) const KIND: &'static str = $kind;

            /// The message.
            pub(crate) fn write(&self) -> $crate::engine::wire::message::Message {
                let message = $crate::engine::wire::message::Message::new($kind);
                $( let message = $crate::engine::wire::typed::Carried::put(&self.$field, message, stringify!($field)); )*
                message
            }

            /// Reads it, with every field within its limit.
            pub(crate) fn read(
                message: &$crate::engine::wire::message::Message,
                $sizes: &$Sizes,
            ) -> $crate::engine::error::Result<Self> {
                Self::read_as($kind, message, $sizes)
            }

            /// Reads it where it stands under another kind.
            pub(crate) fn read_as(
                kind: &str,
                message: &$crate::engine::wire::message::Message,
                $sizes: &$Sizes,
            ) -> $crate::engine::error::Result<Self> {
                $crate::engine::wire::typed::same_kind(message, kind)?;
                Ok(Self {
                    $( $field: $crate::engine::wire::typed::Carried::get(message, stringify!($field), $limit)?, )*
                })
            }

            /// What the manifest says of its fields.
            pub(crate) fn fields($sizes: &$Sizes) -> Vec<$crate::engine::wire::manifest::Field> {
                vec![$(
                    $crate::engine::wire::typed::row::<$Type>(
                        stringify!($field),
                        $meaning,
                        $limit,
                        $crate::engine::wire::typed::Source::$source,
                    ),
                )*]
            }
        }
    };
}
pub(crate) use message;

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) struct Sizes {
        length: u64,
    }

    message! {
        /// Every kind of field.
        struct Sample = "test.sample", sizes: &Sizes {
            /// a count
            step: u64 = Request <= 7,
            /// whether
            fresh: bool = Request <= 1,
            /// a number
            scale: f64 = Data <= 1,
            /// a vector
            global: Vec<f64> = Data <= sizes.length,
            /// a vector that is read later
            later: Written = Data <= sizes.length,
            /// vectors
            vectors: Rows = Data <= 2 * sizes.length,
            /// perhaps
            weights: Option<Vec<f64>> = Request <= 2,
            /// none
            theta: Vec<f64> = Data <= 0,
            /// a text
            checks: String = Request <= 4,
        }
    }

    fn sample() -> Sample {
        Sample {
            step: 7,
            fresh: true,
            scale: -0.5,
            global: vec![1.0, 2.0, 3.0],
            later: Written::of(&[-0.0, 2.0, f64::MIN_POSITIVE]),
            vectors: Rows { count: 2, values: vec![0.0; 6] },
            weights: None,
            theta: Vec::new(),
            checks: "µ 1".into(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let (message, sizes) = (sample().write(), Sizes { length: 3 });
        assert_eq!(Sample::read(&message, &sizes).unwrap(), sample());
        let given = Sample { weights: Some(vec![0.5, 0.5]), ..sample() };
        assert_eq!(Sample::read(&given.write(), &sizes).unwrap(), given);
        assert!(!message.has("theta") && !message.has("weights"));
    }

    #[test]
    fn numbers_that_are_read_later_are_written_as_others_are() {
        let numbers = [-0.0, 2.5, f64::NAN];
        let (later, now) = (Written::of(&numbers), numbers.to_vec());
        assert_eq!(later.put(Message::new("test"), "x"), now.put(Message::new("test"), "x"));
        let bits = |numbers: &[f64]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<u64>>();
        assert_eq!(bits(&later.read()), bits(&now));
        let none = Written::default();
        assert_eq!(none.put(Message::new("test"), "x"), Message::new("test"));
        assert_eq!((Written::get(&Message::new("test"), "x", 0).unwrap(), none.read()), (none, Vec::new()));
    }

    #[test]
    fn what_is_missing_too_long_or_too_large_is_refused() {
        let sizes = Sizes { length: 3 };
        for wrong in [
            Sample { step: 8, ..sample() },
            Sample { global: vec![1.0], ..sample() },
            Sample { later: Written::of(&[1.0]), ..sample() },
            Sample { vectors: Rows { count: 1, values: vec![0.0; 3] }, ..sample() },
            Sample { weights: Some(vec![1.0; 3]), ..sample() },
            Sample { checks: "µ 12".into(), ..sample() },
        ] {
            assert!(Sample::read(&wrong.write(), &sizes).is_err(), "{wrong:?}");
        }
        let mut short = sample().write();
        short.numbers.clear();
        assert!(Sample::read(&short, &sizes).is_err());
        let other = Message { kind: "test.other".into(), ..sample().write() };
        assert!(Sample::read(&other, &sizes).is_err());
    }

    #[test]
    fn a_manifest_follows_from_the_declaration() {
        let fields = Sample::fields(&Sizes { length: 3 });
        let told: Vec<_> =
            fields.iter().map(|field| (field.name, field.limit, field.release == Release::Forbidden)).collect();
        let expected = [
            ("step", 1, false),
            ("fresh", 1, false),
            ("scale", 1, true),
            ("global", 3, true),
            ("later", 3, true),
            ("vectors", 6, true),
            ("weights", 2, false),
            ("theta", 0, true),
            ("checks", 1, false),
        ];
        assert_eq!(told, expected);
        assert_eq!(fields[0].meaning, "a count");
    }
}
