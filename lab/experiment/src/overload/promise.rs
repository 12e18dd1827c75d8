//! A service-level objective, such as `p99<50ms,errors<0.1%`, and whether a load met it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use sluice_load::quantity::{parse_duration, time};
use sluice_load::result::Load;

/// Minimum share of the due requests that must complete inside the window: below it the server does not keep up,
/// whatever its latency.
const KEPT_UP_MIN: f64 = 0.98;

/// Conditions that must all hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Promise(Vec<Condition>);

/// The objective of `find-limit` and of shares of a limit, unless another one is given: `p99<50ms,errors<0.1%`.
impl Default for Promise {
    fn default() -> Self {
        Promise(vec![
            Condition::Percentile(99.0, 50e6),
            Condition::Errors(0.001),
        ])
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, condition) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            let limit =
                |ns: &f64| format!("{:?}", Duration::from_nanos(*ns as u64)).replace('µ', "u");
            match condition {
                Condition::Percentile(percent, ns) => write!(f, "{comma}p{percent}<{}", limit(ns)),
                Condition::Mean(ns) => write!(f, "{comma}mean<{}", limit(ns)),
                Condition::Max(ns) => write!(f, "{comma}max<{}", limit(ns)),
                Condition::Errors(share) => {
                    write!(f, "{comma}errors<{}%", (share * 1e8).round() / 1e6)
                }
            }?;
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Promise {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Condition {
    /// A percentile of the total duration of successful requests, in nanoseconds.
    Percentile(f64, f64),
    /// The mean.
    Mean(f64),
    /// The longest.
    Max(f64),
    /// Share of requests that fail, from 0 to 1.
    Errors(f64),
}

impl FromStr for Promise {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty());
        let conditions: Result<Vec<Condition>, String> = parts.map(condition).collect();
        match conditions? {
            empty if empty.is_empty() => {
                Err("the objective is empty; write p99<50ms,errors<0.1%".into())
            }
            conditions => Ok(Promise(conditions)),
        }
    }
}

fn condition(part: &str) -> Result<Condition, String> {
    let (name, value) = part.split_once('<').ok_or_else(|| {
        format!("invalid objective `{part}`: write a name, < and a value, as in p99<50ms")
    })?;
    let (name, value) = (name.trim(), value.trim());
    if name == "errors" {
        let number = value.trim_end_matches('%').trim();
        let number: f64 = number
            .parse()
            .map_err(|_| format!("`{value}` is not a percentage; write 0.1%"))?;
        return Ok(Condition::Errors(number / 100.0));
    }
    let limit = parse_duration(value)?.as_nanos() as f64;
    match (
        name,
        name.strip_prefix('p')
            .and_then(|percent| percent.parse::<f64>().ok()),
    ) {
        ("mean", _) => Ok(Condition::Mean(limit)),
        ("max", _) => Ok(Condition::Max(limit)),
        (_, Some(percent)) if (0.0..=100.0).contains(&percent) => {
            Ok(Condition::Percentile(percent, limit))
        }
        _ => Err(format!(
            "`{name}` cannot be an objective: use p50 p90 p99 …, mean, max or errors"
        )),
    }
}

impl Promise {
    /// Why a load violated it; `None` if it was met.
    pub fn broken(&self, load: &Load) -> Option<String> {
        if load.ended_ok == 0 {
            return Some("no successful response".into());
        }
        if let Some(due) = load.due {
            let kept_up = load.ended_ok as f64 / (due.max(1)) as f64;
            if kept_up < KEPT_UP_MIN {
                return Some(format!(
                    "only {:.1} % of requests completed in time",
                    kept_up * 100.0
                ));
            }
        }
        let times = &load.latency.total;
        if times.count == 0 {
            // Responses to requests that were due before the window do not count.
            return Some("no request was due in the window".into());
        }
        self.0.iter().find_map(|condition| {
            let (seen, limit, name) = match condition {
                Condition::Errors(limit) => {
                    let share = load.failed_share();
                    let words = || format!("{:.2} % errors", share * 100.0);
                    return (share >= *limit && share > 0.0).then(words);
                }
                Condition::Percentile(percent, limit) => {
                    (times.percentile(*percent)?, limit, format!("p{percent}"))
                }
                Condition::Mean(limit) => (times.mean_ns?, limit, "mean".into()),
                Condition::Max(limit) => (times.max_ns?, limit, "max".into()),
            };
            (seen >= *limit).then(|| format!("{name} {}", time(seen)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_load::result::{Distribution, FailureClass, Failures, Histogram};

    fn load(ms: &[u64], failed: u64) -> Load {
        let mut histogram = Histogram::new();
        ms.iter().for_each(|ms| histogram.record(ms * 1_000_000));
        let mut load = Load {
            ok: ms.len() as u64,
            ended_ok: ms.len() as u64,
            ..Load::default()
        };
        load.latency.total = Distribution::of(histogram);
        if failed > 0 {
            load.failures.push(Failures {
                class: FailureClass::Reset,
                count: failed,
                statuses: Vec::new(),
                latency: Distribution::default(),
                example: None,
            });
        }
        load
    }

    #[test]
    fn promises_are_read_and_held_against_loads() {
        let promise: Promise = "p50<5ms, errors<10%".parse().unwrap();
        assert_eq!(promise.broken(&load(&[1, 1, 9], 0)), None);
        assert!(
            promise
                .broken(&load(&[1, 9, 9], 0))
                .unwrap()
                .starts_with("p50")
        );
        assert!(
            promise
                .broken(&load(&[1; 9], 1))
                .unwrap()
                .contains("10.00 % errors")
        );
        assert!(promise.broken(&load(&[], 1)).is_some());
        // One response arrived, but to a request due earlier: no latency was measured, so the objective is not met.
        let mut early = load(&[], 0);
        (early.ended_ok, early.due) = (1, Some(0));
        assert!(
            promise
                .broken(&early)
                .unwrap()
                .contains("no request was due")
        );
        let none: Promise = "errors<0.1%,max<10ms".parse().unwrap();
        assert_eq!(none.broken(&load(&[9], 0)), None);
        let mut late = load(&[1; 50], 0);
        late.due = Some(100);
        assert!(promise.broken(&late).unwrap().contains("50.0 %"));
    }

    #[test]
    fn mistakes_in_objectives_are_reported() {
        for (text, word) in [
            ("", "empty"),
            ("p99", "<"),
            ("p101<1s", "p101"),
            ("p99<fast", "fast"),
            ("errors<few", "few"),
        ] {
            let error = text.parse::<Promise>().unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
