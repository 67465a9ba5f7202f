//! Deserializers for numbers and words, where the derived ones accept too much or too little.

use serde::de::{Deserializer, Visitor};

/// Reads an optional whole number. One that does not fit becomes the largest or smallest that does: the handler checks the
/// range and names it in its error.
pub(super) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
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
