//! Holds a value behind an open trait as options do: shared, comparable, and written by the words of run files.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A value that implements an open trait, such as a divergence or an average, as options hold it.
///
/// Any implementor becomes one by `into()`. Two are equal where their debug texts are. One that comes with the crate is
/// written to reports and run files by its words, and read from them; one of a user's own is written by its debug text,
/// and given to a fit in code alone.
///
/// # Example
/// ```
/// use partita_inference::{Averaging, Barycentre, Family, LogPool, Plug, Result};
///
/// /// The first member, whatever the others are.
/// #[derive(Debug)]
/// struct First;
/// impl Averaging for First {
///     fn average(&self, _: &dyn Family, members: &[Vec<f64>], _: &[f64]) -> Result<Vec<f64>> { Ok(members[0].clone()) }
/// }
///
/// let [own, built_in]: [Plug<dyn Averaging>; 2] = [First.into(), LogPool.into()];
/// assert!(own != built_in && built_in == LogPool.into());
/// assert_eq!(serde_json::to_string(&[&own, &built_in])?, r#"["First","LogPool"]"#);
/// assert!(serde_json::from_str::<Plug<dyn Averaging>>(r#""First""#).is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
pub struct Plug<T: ?Sized>(pub(crate) Arc<T>);

impl<T: ?Sized> Clone for Plug<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: ?Sized> Deref for Plug<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Plug<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl<T: ?Sized + fmt::Debug> PartialEq for Plug<T> {
    fn eq(&self, other: &Self) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

/// Makes an open trait one of plugs, with the words of the values that come with the crate: a name alone, or a name
/// with the fields of the value.
macro_rules! plug {
    ($plug:ident, $what:literal, names { $($name:ident: $unit:ident),* }, values { $($word:ident: $value:ty),* }) => {
        const _: () = {
            use $crate::engine::plug::Plug;

            #[derive(serde::Serialize, serde::Deserialize)]
            enum Words {
                $($name,)*
                $($word($value),)*
            }

            impl<V: $plug> From<V> for Plug<dyn $plug> {
                fn from(value: V) -> Self {
                    Self(std::sync::Arc::new(value))
                }
            }

            impl Plug<dyn $plug> {
                /// The value, if it is of this type.
                #[must_use]
                pub fn get<V: $plug>(&self) -> Option<&V> {
                    (&*self.0 as &dyn std::any::Any).downcast_ref()
                }
            }

            impl serde::Serialize for Plug<dyn $plug> {
                fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
                    $(if self.get::<$unit>().is_some() {
                        return Words::$name.serialize(serializer);
                    })*
                    $(if let Some(value) = self.get::<$value>() {
                        return Words::$word(value.clone()).serialize(serializer);
                    })*
                    serializer.serialize_str(&format!("{self:?}"))
                }
            }

            impl<'de> serde::Deserialize<'de> for Plug<dyn $plug> {
                fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
                    let words = Words::deserialize(deserializer).map_err(|error| {
                        let text = error.to_string();
                        match text.starts_with("unknown variant") {
                            true => serde::de::Error::custom(format!(
                                "{text}; {} of your own has no word, give it to the fit in code", $what
                            )),
                            false => error,
                        }
                    })?;
                    Ok(match words {
                        $(Words::$name => $unit.into(),)*
                        $(Words::$word(value) => value.into(),)*
                    })
                }
            }
        };
    };
}

pub(crate) use plug;
