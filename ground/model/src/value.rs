//! Small values of the configuration: durations, and numbers that may also be placeholders. Addresses have their own
//! module.

use alloc::string::{String, ToString};
use core::fmt;

use serde::de::{Error as _, Visitor as Read};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sluice_message::span::{self, Days, SpanError as DurationError};

use crate::walk::{Visitor, Walk};

/// A span of time in nanoseconds, signed because some settings use -1 for "at once".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(pub i64);

const SECOND: i64 = 1_000_000_000;

impl Duration {
    /// A span of whole seconds.
    pub const fn seconds(seconds: i64) -> Self {
        Self(seconds * SECOND)
    }

    /// A span of whole milliseconds.
    pub const fn milliseconds(milliseconds: i64) -> Self {
        Self(milliseconds * 1_000_000)
    }

    /// The same span for the standard library; negative spans have none.
    pub fn to_std(self) -> Option<core::time::Duration> {
        u64::try_from(self.0)
            .ok()
            .map(core::time::Duration::from_nanos)
    }

    /// Whether the setting was left at zero, which mostly means "the default".
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Reads `1h30m`, `1.5s`, `250ms`, `2d` or `-1s`. A lone `0` needs no unit.
    pub fn parse(text: &str) -> Result<Self, DurationError> {
        span::parse(text, Days::Known).map(Self)
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0;
        let units = [
            (3_600 * SECOND, "h"),
            (60 * SECOND, "m"),
            (SECOND, "s"),
            (1_000_000, "ms"),
            (1_000, "us"),
        ];
        for (scale, unit) in units {
            if nanos != 0 && nanos % scale == 0 {
                return write!(f, "{}{unit}", nanos / scale);
            }
        }
        if nanos == 0 {
            f.write_str("0s")
        } else {
            write!(f, "{nanos}ns")
        }
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(self.0)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Read<'_> for Reader {
            type Value = Duration;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("nanoseconds or a duration such as \"5s\"")
            }

            fn visit_i64<E: serde::de::Error>(self, nanos: i64) -> Result<Duration, E> {
                Ok(Duration(nanos))
            }

            fn visit_u64<E: serde::de::Error>(self, nanos: u64) -> Result<Duration, E> {
                i64::try_from(nanos).map(Duration).map_err(E::custom)
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Duration, E> {
                Duration::parse(text)
                    .map_err(|error| E::custom(format_args!("invalid duration `{text}`: {error}")))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// The name in a text that is one placeholder and nothing else: `{name}`.
pub fn placeholder_name(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('{')?.strip_suffix('}')?;
    (!inside.is_empty() && !inside.contains(['{', '}'])).then_some(inside)
}

/// A span of time, or none at all: `forever`, its other names, or a negative number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeLimit(pub Duration);

impl TimeLimit {
    /// No limit.
    pub const NONE: TimeLimit = TimeLimit(Duration(-1));

    /// What Caddy Snake calls that.
    const NAMES: [&str; 6] = ["-1", "forever", "none", "inf", "infinite", "indefinite"];

    /// Whether a text stands for "no limit".
    pub fn is_none(text: &str) -> bool {
        TimeLimit::NAMES.contains(&text)
    }
}

impl Serialize for TimeLimit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for TimeLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        if value.as_str().is_some_and(TimeLimit::is_none) {
            return Ok(TimeLimit::NONE);
        }
        let span = Duration::deserialize(value).map_err(D::Error::custom)?;
        Ok(TimeLimit(span))
    }
}

/// A text that is written as a number or a boolean when it looks like one: a status code that may
/// also be a placeholder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WeakString(pub String);

impl WeakString {
    /// The number, unless the text is a placeholder or empty.
    pub fn number(&self) -> Option<u64> {
        self.0.parse().ok()
    }

    /// The text as it stands.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

crate::walk::without_text!(Duration);
crate::walk::without_text!(TimeLimit);

impl Walk for WeakString {
    fn walk(&self, visitor: &mut dyn Visitor) {
        visitor.text(&self.0);
    }
}

impl From<&str> for WeakString {
    fn from(text: &str) -> Self {
        Self(text.to_string())
    }
}

impl From<u16> for WeakString {
    fn from(number: u16) -> Self {
        Self(number.to_string())
    }
}

impl Serialize for WeakString {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Ok(number) = self.0.parse::<i64>() {
            return serializer.serialize_i64(number);
        }
        match self.0.as_str() {
            "true" => serializer.serialize_bool(true),
            "false" => serializer.serialize_bool(false),
            text => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for WeakString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(text) => Ok(Self(text)),
            serde_json::Value::Number(number) => Ok(Self(number.to_string())),
            serde_json::Value::Bool(flag) => Ok(Self(flag.to_string())),
            other => Err(D::Error::custom(format_args!(
                "invalid type: {}, expected a string, a number or a boolean",
                crate::object::Kind(&other)
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_show_their_largest_whole_unit() {
        for (nanos, text) in [
            (0, "0s"),
            (90 * SECOND, "90s"),
            (3_600 * SECOND, "1h"),
            (7, "7ns"),
        ] {
            assert_eq!(Duration(nanos).to_string(), text);
        }
    }

    #[test]
    fn time_limits_are_spans_or_none() {
        for (json, nanos) in [
            ("\"forever\"", -1),
            ("\"none\"", -1),
            ("\"-1\"", -1),
            ("-1", -1),
            ("\"90s\"", 90 * SECOND),
            ("5", 5),
        ] {
            let limit: TimeLimit = serde_json::from_str(json).unwrap();
            assert_eq!(limit.0, Duration(nanos), "{json}");
            let written = serde_json::to_string(&limit).unwrap();
            assert_eq!(serde_json::from_str::<TimeLimit>(&written).unwrap(), limit);
        }
        let error = serde_json::from_str::<TimeLimit>("\"never\"").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("invalid duration `never`"), "{text}");
    }

    #[test]
    fn weak_strings_keep_numbers_as_numbers() {
        for (json, text) in [("404", "404"), ("\"{x}\"", "{x}"), ("true", "true")] {
            let read: WeakString = serde_json::from_str(json).unwrap();
            assert_eq!(read.0, text);
            assert_eq!(serde_json::to_string(&read).unwrap(), json);
        }
        assert!(serde_json::from_str::<WeakString>("[1]").is_err());
    }
}
