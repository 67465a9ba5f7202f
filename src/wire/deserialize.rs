//! Deserializers for numbers, words and lists, where the derived ones accept too much or too little.

use std::cell::Cell;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};

use super::limits::CHECK_PATHS_CONFIG_MAX;

/// Reads an optional whole number. One that does not fit becomes the largest or smallest that does: the handler checks the
/// range and names it in its error.
pub(crate) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    struct Whole;

    impl<'de> Visitor<'de> for Whole {
        type Value = Option<i64>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a whole number")
        }

        fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
            Ok(Some(value))
        }

        fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
            Ok(Some(i64::try_from(value).unwrap_or(i64::MAX)))
        }

        fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Self::Value, E> {
            // 60.0 is a whole number in JSON, and integers beyond 64 bits arrive here too; the cast saturates.
            if value.fract() == 0.0 {
                return Ok(Some(value as i64));
            }
            Err(E::invalid_type(serde::de::Unexpected::Float(value), &self))
        }

        fn visit_none<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
            deserializer.deserialize_any(self)
        }
    }

    deserializer.deserialize_any(Whole)
}

thread_local! {
    /// The most entries of [`check_list`] on this thread.
    static CHECK_PATHS: Cell<usize> = const { Cell::new(CHECK_PATHS_CONFIG_MAX) };
}

/// Reads with this number as the most paths of a check. It is a setting of the server, and deserializers take no
/// parameters.
pub(super) fn with_check_paths<T>(most: usize, read: impl FnOnce() -> T) -> T {
    let before = CHECK_PATHS.replace(most);
    let result = read();
    CHECK_PATHS.set(before);
    result
}

/// What the error for a list with too many entries begins with.
pub(super) const TOO_MANY: &str = "has more than ";

/// Reads an optional list of at most `MAX` entries. It stops there: a body full of empty entries would otherwise take many
/// times its own size.
pub(super) fn list<'de, D, T, const MAX: usize>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_option(List { most: MAX, entry: PhantomData })
}

/// Reads an optional list of as many entries as a check may have.
pub(super) fn check_list<'de, D, T>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_option(List { most: CHECK_PATHS.get(), entry: PhantomData })
}

/// The same as [`list`] for a list that must be there.
pub(super) fn required_list<'de, D, T, const MAX: usize>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_seq(List { most: MAX, entry: PhantomData }).map(Option::unwrap_or_default)
}

struct List<T> {
    most: usize,
    entry: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
    type Value = Option<Vec<T>>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(entry) = entries.next_element()? {
            let most = self.most;
            if list.len() == most {
                return Err(A::Error::custom(format_args!(
                    "{TOO_MANY}{most} entries; {most} is the most for one request"
                )));
            }
            list.push(entry);
        }
        Ok(Some(list))
    }
}

/// Reads one of these words. The error for any other text lists them.
pub(super) fn word<'de, D: Deserializer<'de>, T: Copy>(
    deserializer: D,
    words: &'static [(&'static str, T)],
) -> Result<T, D::Error> {
    struct Word<T: 'static>(&'static [(&'static str, T)]);

    impl<T: Copy> Visitor<'_> for Word<T> {
        type Value = T;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            for (i, (word, _)) in self.0.iter().enumerate() {
                write!(f, "{}\"{word}\"", if i == 0 { "" } else { " or " })?;
            }
            Ok(())
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
            let found = self.0.iter().find(|(word, _)| *word == text);
            found.map(|(_, value)| *value).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
        }
    }

    deserializer.deserialize_str(Word(words))
}

/// What the error for a field of another system begins with.
pub(super) const NOT_UNDERSTOOD: &str = "is not understood here; ";

/// A field that clients of other systems send and that would change what is granted. It is refused, with our own name for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Misspelled;

macro_rules! misspelled {
    ($($name:ident: $advice:literal;)*) => {
        $(pub(super) fn $name<'de, D: Deserializer<'de>>(_: D) -> Result<Misspelled, D::Error> {
            Err(D::Error::custom(format_args!("{NOT_UNDERSTOOD}{}", $advice)))
        })*
    };
}

misspelled! {
    not_ttl_minutes: "write ttlSeconds, in seconds";
    not_file_path: "write filePath, or filePaths for several";
    not_max_retries: "write waitSeconds, to wait in the queue";
    not_file_paths: "write filePaths";
    not_ttl_seconds: "write ttlSeconds";
    not_wait_seconds: "write waitSeconds";
    not_idle_seconds: "write idleSeconds";
    not_while_session: "write whileSession";
    not_if_version: "write ifVersion";
}
