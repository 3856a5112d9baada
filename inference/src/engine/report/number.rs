//! Writes numbers of a report into JSON, which has no infinite ones and none that is no number, and reads them back.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number as JSON has it.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Read {
    Finite(f64),
    Word(Word),
}

/// What JSON says in a word.
#[derive(Debug, Serialize, Deserialize)]
enum Word {
    #[serde(rename = "inf")]
    Infinity,
    #[serde(rename = "-inf")]
    MinusInfinity,
    #[serde(rename = "nan")]
    Nan,
}

impl Word {
    /// `None` of a finite number.
    fn of(number: f64) -> Option<Self> {
        match number {
            own if own.is_finite() => None,
            own if own.is_nan() => Some(Self::Nan),
            own if own > 0.0 => Some(Self::Infinity),
            _ => Some(Self::MinusInfinity),
        }
    }
}

impl From<Read> for f64 {
    fn from(read: Read) -> Self {
        match read {
            Read::Finite(number) => number,
            Read::Word(Word::Infinity) => Self::INFINITY,
            Read::Word(Word::MinusInfinity) => Self::NEG_INFINITY,
            Read::Word(Word::Nan) => Self::NAN,
        }
    }
}

/// A number that stands in a list.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Number(#[serde(with = "super::number")] pub(crate) f64);

/// A number, of which JSON has `null` where it is none.
pub(crate) fn serialize<S: Serializer>(own: &f64, to: S) -> Result<S::Ok, S::Error> {
    if own.is_nan() { to.serialize_none() } else { optional::serialize(&Some(*own), to) }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(optional::deserialize(from)?.unwrap_or(f64::NAN))
}

/// A number that may be missing, of which JSON has `null` then; one that is there and no number is a word.
pub(crate) mod optional {
    use super::{Deserialize, Deserializer, Read, Serialize, Serializer, Word};

    pub(crate) fn serialize<S: Serializer>(own: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
        match own {
            None => to.serialize_none(),
            Some(number) => match Word::of(*number) {
                Some(word) => word.serialize(to),
                None => to.serialize_f64(*number),
            },
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
        Ok(Option::<Read>::deserialize(from)?.map(f64::from))
    }
}

/// Numbers, each as one by itself.
pub(crate) mod list {
    use super::{Deserialize, Deserializer, Number, Serializer};

    pub(crate) fn serialize<S: Serializer>(own: &[f64], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(own.iter().map(|number| Number(*number)))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f64>, D::Error> {
        Ok(Vec::<Number>::deserialize(from)?.into_iter().map(|Number(own)| own).collect())
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use crate::engine::report::{Severity, SiteSummary, Warning};
    use crate::engine::trust::chains::{ChainSummary, Convergence};
    use crate::engine::trust::correction::CorrectedSite;

    /// What comes back from JSON, with the JSON.
    fn back<T: Serialize + for<'de> Deserialize<'de>>(own: &T) -> (T, String) {
        let text = serde_json::to_string(own).unwrap();
        (serde_json::from_str(&text).unwrap(), text)
    }

    #[test]
    fn numbers_that_json_has_not_come_back() {
        let (error, sd_error) = (f64::NEG_INFINITY, f64::NAN);
        let (moved, sd_ratio, skewness) = (1.0, 0.1 + 0.2, f64::INFINITY);
        let summary = SiteSummary::of("a".into(), "a".into(), &[1.0, 1.0]);
        for sd_pareto_k in [None, Some(f64::INFINITY)] {
            let summary = summary.clone();
            let own = CorrectedSite { summary, error, moved, sd_ratio, skewness, sd_error, sd_pareto_k };
            let (read, text) = back(&own);
            assert!(read.sd_error.is_nan() && text.contains(r#""sd_error":null"#), "{text}");
            assert_eq!(CorrectedSite { sd_error: 0.0, ..read }, CorrectedSite { sd_error: 0.0, ..own }, "{text}");
        }
        for number in [f64::INFINITY, f64::NEG_INFINITY, -2.5, 3.0] {
            let own = Warning::new(Severity::Limit, "a problem", "A remedy.").measured(number);
            assert_eq!(back(&own).0, own);
        }
        let own = Warning::new(Severity::Limit, "a problem", "A remedy.");
        assert_eq!(back(&own).0, own);
        assert!(back(&own.measured(f64::NAN)).0.number.is_some_and(f64::is_nan));
        // A file of an earlier version has no word for them.
        let text = back(&Warning::new(Severity::Limit, "a problem", "A remedy.").measured(1.5)).1;
        let read: Warning = serde_json::from_str(&text.replace("1.5", "null")).unwrap();
        assert_eq!(read.number, None);
    }

    #[test]
    fn agreement_that_cannot_be_computed_comes_back() {
        let label = "beta".to_owned();
        let own = Convergence { label, silo: None, r_hat: f64::INFINITY, bulk: f64::NAN, tail: 12.0, overflowed: 3 };
        let (read, text) = back(&own);
        assert!(read.r_hat == f64::INFINITY && read.bulk.is_nan() && read.overflowed == 3, "{text}");
        let earlier = r#"{"label":"beta","silo":null,"r_hat":null,"bulk":null,"tail":null}"#;
        let read: Convergence = serde_json::from_str(earlier).unwrap();
        assert!(read.r_hat.is_nan() && read.tail.is_nan() && read.overflowed == 0);
        let read = back(&ChainSummary { mean_depth: f64::NAN, step_size: f64::INFINITY, ..ChainSummary::default() }).0;
        assert!(read.mean_depth.is_nan() && read.step_size == f64::INFINITY);
    }
}
