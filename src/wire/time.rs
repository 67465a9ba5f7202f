//! Times as the contract writes them: RFC 3339, UTC, with milliseconds, ending in `Z`.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A time in milliseconds since 1970 (UTC); `2026-01-31T09:30:00.250Z` in JSON.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Time(pub i64);

impl Time {
    /// Reads RFC 3339 text with any offset.
    pub fn parse(text: &str) -> Option<Time> {
        text.parse::<jiff::Timestamp>().ok().map(|time| Time(time.as_millisecond()))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The format has four-digit years. A later deadline means "never" anyway.
        let ms = self.0.clamp(0, jiff::Timestamp::MAX.as_millisecond());
        let time = jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::MAX);
        write!(f, "{time:.3}")
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'_, str>::deserialize(deserializer)?;
        Time::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("{text:?} is not a time in RFC 3339")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_utc_with_milliseconds() {
        assert_eq!(Time(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Time(1_709_210_096_007).to_string(), "2024-02-29T12:34:56.007Z");
        assert_eq!(serde_json::to_string(&Time(1_709_210_096_500)).unwrap(), "\"2024-02-29T12:34:56.500Z\"");
    }

    #[test]
    fn reads_what_it_writes_and_other_offsets() {
        for ms in [0, 1, 999, 1_709_210_096_007, 253_402_000_000_000] {
            assert_eq!(Time::parse(&Time(ms).to_string()), Some(Time(ms)));
        }
        assert_eq!(Time::parse("2024-02-29T14:34:56+02:00"), Some(Time(1_709_210_096_000)));
        for bad in ["", "now", "2024-02-30T00:00:00Z", "2024-02-29", "2024-02-29T12:34:56"] {
            assert_eq!(Time::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn no_number_is_too_large_or_small_to_write() {
        assert!(Time(i64::MAX).to_string().starts_with("9999-12-3"));
        assert_eq!(Time(i64::MIN).to_string(), "1970-01-01T00:00:00.000Z");
    }
}
