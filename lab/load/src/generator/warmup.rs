//! The load before the window: for a time, or until a number of requests have succeeded.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::limits::WARMUP_MAX;
use crate::quantity::{parse_duration, thousands};

/// How a load warms up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warmup {
    /// For this long.
    Time(Duration),
    /// Until as many requests have succeeded, and at most for a time.
    Requests {
        /// Successful requests.
        count: u64,
        /// The longest time.
        within: Duration,
    },
}

impl Warmup {
    /// The longest time that it takes.
    pub fn most(&self) -> Duration {
        match self {
            Warmup::Time(time) => *time,
            Warmup::Requests { within, .. } => *within,
        }
    }

    /// The number of requests, if it ends with one.
    pub fn requests(&self) -> Option<u64> {
        match self {
            Warmup::Time(_) => None,
            Warmup::Requests { count, .. } => Some(*count),
        }
    }

    /// How long it takes as far as that is known: a number of requests takes no time that could be foreseen.
    pub fn estimate(&self) -> Duration {
        match self {
            Warmup::Time(time) => *time,
            Warmup::Requests { .. } => Duration::ZERO,
        }
    }
}

impl FromStr for Warmup {
    type Err = String;

    /// Parses `2s`, `1000 requests` and `1000 requests within 30s`.
    fn from_str(text: &str) -> Result<Self, String> {
        let Some((number, rest)) = text.split_once("request") else {
            return parse_duration(text).map(Warmup::Time);
        };
        let wrong = || {
            format!(
                "`{text}` is not a warm-up: write 2s, `1000 requests` or `1000 requests within 30s`"
            )
        };
        let count = number.trim().parse().map_err(|_| wrong())?;
        let rest = rest.strip_prefix('s').unwrap_or(rest).trim();
        let within = match rest.strip_prefix("within ") {
            Some(time) => parse_duration(time)?,
            None if rest.is_empty() => WARMUP_MAX,
            None => return Err(wrong()),
        };
        match count {
            0 => Err(wrong()),
            count => Ok(Warmup::Requests { count, within }),
        }
    }
}

impl fmt::Display for Warmup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warmup::Time(time) => write!(f, "{} s", time.as_secs_f64()),
            Warmup::Requests { count, within } => write!(
                f,
                "{} requests within {} s",
                thousands(*count as f64),
                within.as_secs_f64()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warmup_is_a_time_or_a_number_of_requests() {
        let read = |text: &str| text.parse::<Warmup>();
        assert_eq!(read("1.5s"), Ok(Warmup::Time(Duration::from_millis(1_500))));
        let of = |count, within| Ok(Warmup::Requests { count, within });
        assert_eq!(read("1000 requests"), of(1_000, WARMUP_MAX));
        assert_eq!(read("1 request"), of(1, WARMUP_MAX));
        let half = Duration::from_millis(500);
        assert_eq!(read("20 requests within 500ms"), of(20, half));
        assert_eq!(
            read("2000 requests within 30s").unwrap().to_string(),
            "2,000 requests within 30 s"
        );
        for wrong in [
            "0 requests",
            "many requests",
            "5 requests in 3s",
            "5 requests within",
            "soon",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
