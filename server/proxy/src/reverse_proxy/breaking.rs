//! `circuit_breaker`: classifies results and builds the breakers of `sluice-policy`.

use std::sync::Arc;
use std::time::Duration;

use sluice_message::Status;
use sluice_model::{Duration as Length, RawModule};
use sluice_policy::breaker::{Breaker, BreakerPolicy, Went};
use sluice_policy::typical::TypicalLatency;

use crate::limits::{BREAKER_REQUESTS_MIN, BREAKER_TRIP, BREAKER_WINDOW};
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::settings::given;

/// The settings of a directive's circuit breakers; each upstream has its own.
#[derive(Clone, Debug)]
pub struct Breaking {
    policy: BreakerPolicy,
    wrong: Wrong,
}

/// Which results count as failures.
#[derive(Clone, Debug)]
enum Wrong {
    /// Requests without a response.
    Errors,
    /// Requests without a response, or with a status of 500 or above.
    Statuses,
    /// Requests without a response, or with one that took longer.
    Slower(Duration),
    /// Requests without a response, with a status of 500 or above, or with a latency of more than so many times the typical
    /// one of all upstreams.
    Outliers(f64, Arc<TypicalLatency>),
}

impl Breaking {
    /// Parses the settings; the names are those of Caddy's former module.
    pub fn build(config: &RawModule) -> Result<Breaking, Refusal> {
        const KNOWN: [&str; 6] = [
            "type",
            "factor",
            "threshold",
            "trip_duration",
            "window",
            "min_requests",
        ];
        if let Some(name) = config.keys().find(|name| !KNOWN.contains(&name.as_str())) {
            return Err(
                Refusal::new(format!("unknown field `{name}` of `circuit_breaker`"))
                    .with_help(format!("it has {}", KNOWN.join(", "))),
            );
        }
        let text = |name: &str| config.get(name).and_then(|value| value.as_str());
        if let Some(other) = text("type").filter(|kind| *kind != "internal") {
            return Err(Refusal::new(format!("unknown circuit breaker `{other}`"))
                .with_help("the only one is `internal`"));
        }
        let number = config.get("threshold").and_then(serde_json::Value::as_f64);
        let share = || match number {
            Some(share) if (0.0..1.0).contains(&share) => Ok(share),
            _ => Err(
                Refusal::new("`circuit_breaker` without a share of requests")
                    .with_help("give a `threshold` from 0 to below 1, such as 0.5"),
            ),
        };
        let (wrong, threshold) = match text("factor").unwrap_or("latency") {
            "error_ratio" => (Wrong::Errors, share()?),
            "status_ratio" => (Wrong::Statuses, share()?),
            // The median exceeds a limit if more than half of all values do.
            "latency" => match number {
                Some(millis) if millis > 0.0 && millis < 1e9 => {
                    (Wrong::Slower(Duration::from_secs_f64(millis / 1e3)), 0.5)
                }
                _ => {
                    return Err(Refusal::new("`circuit_breaker` without a time")
                        .with_help("give a `threshold` in milliseconds, such as 500"));
                }
            },
            "outlier" => match number {
                Some(times) if times > 1.0 && times <= 1_000.0 => {
                    (Wrong::Outliers(times, Arc::default()), 0.5)
                }
                _ => {
                    let refusal = Refusal::new("`circuit_breaker` without a factor for outliers");
                    return Err(refusal.with_help("give a `threshold` above 1, such as 3"));
                }
            },
            other => {
                return Err(Refusal::new(format!("unknown factor `{other}`")).with_help(
                    "the factors are `error_ratio`, `status_ratio`, `latency` and `outlier`",
                ));
            }
        };
        let policy = BreakerPolicy {
            threshold,
            window: length(config, "window")?.unwrap_or(BREAKER_WINDOW),
            requests_min: requests_min(config)?,
            trip_duration: length(config, "trip_duration")?.unwrap_or(BREAKER_TRIP),
        };
        Ok(Breaking { policy, wrong })
    }

    /// Creates a breaker for one upstream.
    pub fn breaker(&self) -> Breaker {
        Breaker::new(self.policy)
    }

    /// Whether latencies are needed.
    pub fn is_timed(&self) -> bool {
        matches!(self.wrong, Wrong::Slower(_) | Wrong::Outliers(..))
    }

    /// Whether upstreams are compared with each other: then they must not be ejected all together.
    pub fn compares(&self) -> bool {
        matches!(self.wrong, Wrong::Outliers(..))
    }

    /// Classifies a response.
    pub fn went(&self, status: Status, latency: Duration) -> Went {
        let is_wrong = match &self.wrong {
            Wrong::Errors => false,
            Wrong::Statuses => status.code() >= 500,
            Wrong::Slower(limit) => latency > *limit,
            Wrong::Outliers(..) if status.code() >= 500 => true,
            Wrong::Outliers(times, typical) => {
                let is_outlier = typical.is_outlier(latency, *times);
                typical.note(latency);
                is_outlier
            }
        };
        if is_wrong { Went::Wrong } else { Went::Well }
    }
}

fn length(config: &RawModule, name: &str) -> Result<Option<Duration>, Refusal> {
    let Some(value) = config.get(name) else {
        return Ok(None);
    };
    let read = serde_json::from_value::<Length>(value.clone());
    let read =
        read.map_err(|error| Refusal::new(format!("`{name}` of `circuit_breaker`: {error}")))?;
    Ok(given(read))
}

fn requests_min(config: &RawModule) -> Result<u32, Refusal> {
    let Some(value) = config.get("min_requests") else {
        return Ok(BREAKER_REQUESTS_MIN);
    };
    let count = value.as_u64().and_then(|count| u32::try_from(count).ok());
    count.filter(|count| *count > 0).ok_or_else(|| {
        Refusal::new(format!("`min_requests` {value} of `circuit_breaker`"))
            .with_help("give a number of 1 or more")
    })
}
