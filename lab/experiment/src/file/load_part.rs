//! The load of an experiment file.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::limits::{LIMIT_STEP, RATE_SHARE_MAX};
use crate::overload::Promise;

use sluice_load::generator::warmup::Warmup;
use sluice_load::quantity::parse_duration;

/// The load.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoadPart {
    /// The rate of an open loop; if absent, the loop is closed.
    pub rate: Option<Rate>,
    /// What the highest rate is, of which a rate may be a share.
    pub limit: LimitPart,
    /// Random intervals in an open loop.
    pub poisson: bool,
    /// The window.
    #[serde(deserialize_with = "duration")]
    pub duration: Duration,
    /// Warm-up before the window: a time, or a number of requests.
    #[serde(deserialize_with = "warmup")]
    pub warmup: Warmup,
    /// Timeout of a request.
    #[serde(deserialize_with = "duration")]
    pub timeout: Duration,
    /// How long to wait for responses in flight at the end of the window; by default `timeout`.
    #[serde(deserialize_with = "some_duration")]
    pub drain: Option<Duration>,
    /// How long a client waits before it reconnects after a failed connection.
    #[serde(deserialize_with = "duration")]
    pub failure_pause: Duration,
    /// Headers of every request.
    pub headers: BTreeMap<String, String>,
    /// Concurrent requests on each connection.
    pub depth: usize,
    /// Requests after which a connection is closed.
    pub requests_per_connection: Option<u64>,
    /// Pauses before and after a block; by default there are none.
    pub rest: RestPart,
    /// Idle connections held open beside the load.
    pub idle: usize,
    /// Slow readers held open beside the load.
    pub slow_readers: usize,
    /// Bytes that each slow reader reads per second.
    pub slow_rate: u64,
}

impl Default for LoadPart {
    fn default() -> Self {
        LoadPart {
            rate: None,
            limit: LimitPart::default(),
            poisson: false,
            duration: Duration::from_secs(10),
            warmup: Warmup::Time(Duration::from_secs(2)),
            timeout: Duration::from_secs(10),
            drain: None,
            failure_pause: Duration::from_millis(10),
            headers: BTreeMap::new(),
            depth: 1,
            requests_per_connection: None,
            rest: RestPart::default(),
            idle: 0,
            slow_readers: 0,
            slow_rate: 1024,
        }
    }
}

/// The rate of an open loop.
#[derive(Clone, Debug, PartialEq)]
pub enum Rate {
    /// Requests per second.
    PerSecond(f64),
    /// A share of the highest rate at which a server meets the objective of [`LimitPart`].
    OfLimit {
        /// The share in per cent.
        percent: f64,
        /// The server whose limit it is, if it is not that of the cell.
        subject: Option<String>,
    },
}

impl Rate {
    /// The share as it is written: `60 % of limit`; `None` for requests per second.
    pub fn share(&self) -> Option<String> {
        match self {
            Rate::PerSecond(_) => None,
            Rate::OfLimit { percent, subject } => Some(match subject {
                None => format!("{percent} % of limit"),
                Some(subject) => format!("{percent} % of limit of {subject}"),
            }),
        }
    }
}

/// A rate as it stands in a file.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Number(f64),
    Text(String),
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let rate = match Written::deserialize(from)? {
            Written::Number(number) if number.is_finite() && number > 0.0 => {
                Ok(Rate::PerSecond(number))
            }
            Written::Number(number) => Err(format!("the rate {number} is not above 0")),
            Written::Text(text) => rate_of_limit(&text),
        };
        rate.map_err(serde::de::Error::custom)
    }
}

/// Parses `60 % of limit` and `60 % of limit of nginx`.
fn rate_of_limit(text: &str) -> Result<Rate, String> {
    let parse = || {
        let (number, rest) = text.split_once('%')?;
        let percent: f64 = number.trim().parse().ok()?;
        let rest = rest.trim().strip_prefix("of limit")?;
        let subject = match rest.trim().strip_prefix("of ") {
            Some(subject) if rest.starts_with(' ') => Some(subject.trim().to_string()),
            Some(_) => return None,
            None if rest.trim().is_empty() => None,
            None => return None,
        };
        let fits = percent > 0.0 && percent <= RATE_SHARE_MAX;
        fits.then_some(Rate::OfLimit { percent, subject })
    };
    parse().ok_or_else(|| {
        format!(
            "`{text}` is not a rate: write requests per second (rate = 500), or a share of at most {RATE_SHARE_MAX} % of the \
             highest one (rate = \"60 % of limit\", or \"60 % of limit of NAME\" for the limit of one subject)"
        )
    })
}

/// Pauses before and after a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestPart {
    /// Between the end of the load and the last memory reading.
    pub memory: Duration,
    /// Before a block: how long to wait at most until the machine is idle.
    pub idle: Duration,
}

/// Both pauses as a table.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
#[derive(Default)]
struct RestTable {
    #[serde(deserialize_with = "duration")]
    memory: Duration,
    #[serde(deserialize_with = "duration")]
    idle: Duration,
}

impl<'de> Deserialize<'de> for RestPart {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = RestPart;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time such as \"5s\", or { memory = \"5s\", idle = \"30s\" }")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<RestPart, E> {
                Ok(RestPart {
                    memory: parse_duration(text).map_err(E::custom)?,
                    idle: Duration::ZERO,
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RestPart, A::Error> {
                let table = RestTable::deserialize(MapAccessDeserializer::new(map))?;
                Ok(RestPart {
                    memory: table.memory,
                    idle: table.idle,
                })
            }
        }
        from.deserialize_any(Either)
    }
}

/// What the highest rate of a server is, and how long the search for it takes.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitPart {
    /// The objective that is still met at the highest rate.
    pub objective: Promise,
    /// Length of each step of the search.
    #[serde(deserialize_with = "duration")]
    pub step: Duration,
}

impl Default for LimitPart {
    fn default() -> Self {
        LimitPart {
            objective: Promise::default(),
            step: LIMIT_STEP,
        }
    }
}

pub(super) fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    parse_duration(&text).map_err(serde::de::Error::custom)
}

pub(super) fn some_warmup<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Warmup>, D::Error> {
    warmup(from).map(Some)
}

fn warmup<'de, D: Deserializer<'de>>(from: D) -> Result<Warmup, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map_err(serde::de::Error::custom)
}

pub(super) fn some_duration<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Duration>, D::Error> {
    duration(from).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_or_a_share_of_the_limit() {
        let part = |text: &str| toml::from_str::<LoadPart>(text);
        let rate = |text: &str| part(text).unwrap().rate.unwrap();
        assert_eq!(rate("rate = 500"), Rate::PerSecond(500.0));
        assert_eq!(rate("rate = 0.5"), Rate::PerSecond(0.5));
        let share = |percent, subject: Option<&str>| Rate::OfLimit {
            percent,
            subject: subject.map(str::to_string),
        };
        let own = rate("rate = \"60 % of limit\"");
        assert_eq!(own, share(60.0, None));
        assert_eq!(own.share().as_deref(), Some("60 % of limit"));
        assert_eq!(rate("rate = \"12.5% of limit\""), share(12.5, None));
        let other = rate("rate = \"120 % of limit of nginx (again)\"");
        assert_eq!(other, share(120.0, Some("nginx (again)")));
        let text = "120 % of limit of nginx (again)";
        assert_eq!(other.share().as_deref(), Some(text));
        for wrong in [
            "0",
            "-5",
            "\"fast\"",
            "\"60 %\"",
            "\"0 % of limit\"",
            "\"60 % of limits\"",
            "\"60 % of limitof a\"",
            "\"5000 % of limit\"",
            "\"60 of limit\"",
        ] {
            let error = part(&format!("rate = {wrong}")).unwrap_err().to_string();
            assert!(error.contains("rate"), "{wrong}: {error}");
        }
        let own = part("limit = { objective = \"p90<1s\", step = \"200ms\" }").unwrap();
        assert_eq!(own.limit.objective.to_string(), "p90<1s");
        assert_eq!(own.limit.step, Duration::from_millis(200));
        assert_eq!(
            LoadPart::default().limit.objective.to_string(),
            "p99<50ms,errors<0.1%"
        );
        assert!(part("limit = { objective = \"p90\" }").is_err());
    }

    #[test]
    fn a_rest_is_a_time_for_memory_or_both() {
        let rest = |text: &str| toml::from_str::<LoadPart>(text).map(|part| part.rest);
        let of = |memory, idle| RestPart {
            memory: Duration::from_secs(memory),
            idle: Duration::from_secs(idle),
        };
        assert_eq!(rest(""), Ok(of(0, 0)));
        assert_eq!(rest("rest = \"5s\""), Ok(of(5, 0)));
        assert_eq!(rest("rest = { idle = \"30s\" }"), Ok(of(0, 30)));
        let both = "rest = { memory = \"5s\", idle = \"1m\" }";
        assert_eq!(rest(both), Ok(of(5, 60)));
        for wrong in ["5", "\"long\"", "{ idel = \"5s\" }"] {
            let error = rest(&format!("rest = {wrong}")).unwrap_err().to_string();
            assert!(error.contains("rest") || error.contains("idel"), "{error}");
        }
    }
}
