//! The status in the form of nginx Plus's API, read-only, for programs that read that. It has what can be true here; all
//! other paths are 404, as those of features that an nginx is built without.

use serde_json::{Map, Value, json};
use sluice_message::layout::LocalTime;
use sluice_net::Counters;

use crate::recorder::{Recorder, Totals};
use crate::site_counts::SiteTotals;

/// The newest version of the API.
const VERSION: u64 = 9;

/// The page that its errors refer to.
const HREF: &str = "https://nginx.org/en/docs/http/ngx_http_api_module.html";

/// A response of the API: a status and a document.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiResponse {
    /// The status.
    pub status: u16,
    /// The document.
    pub body: Value,
}

impl ApiResponse {
    /// An error in the form of the API.
    pub fn error(status: u16, text: &str, code: &str) -> ApiResponse {
        let error = json!({ "status": status, "text": text, "code": code });
        let body = json!({ "error": error, "request_id": "", "href": HREF });
        ApiResponse { status, body }
    }
}

/// The document at a path, which begins at the first segment that is a number: a location may have any path before. The
/// `fields` of the query select members of the document.
pub fn respond(recorder: &Recorder, path: &str, query: &str) -> ApiResponse {
    let mut segments = path.split('/').filter(|segment| !segment.is_empty());
    let version = segments.find_map(|segment| segment.parse::<u64>().ok());
    let Some(version) = version else {
        let versions: Vec<u64> = (1..=VERSION).collect();
        return found(json!(versions));
    };
    if !(1..=VERSION).contains(&version) {
        return ApiResponse::error(404, "unknown version", "UnknownVersion");
    }
    let steps: Vec<&str> = segments.collect();
    let Some(document) = document(recorder, &steps) else {
        return ApiResponse::error(404, "path not found", "PathNotFound");
    };
    let mut pairs = query.split('&');
    found(match pairs.find_map(|pair| pair.strip_prefix("fields=")) {
        None => document,
        Some(fields) => only(document, fields),
    })
}

fn found(body: Value) -> ApiResponse {
    ApiResponse { status: 200, body }
}

/// The members that `fields` names, separated by commas.
fn only(document: Value, fields: &str) -> Value {
    match document {
        Value::Object(members) => {
            let is_named = |name: &str| fields.split(',').any(|field| field == name);
            let kept = members.into_iter().filter(|(name, _)| is_named(name));
            Value::Object(kept.collect())
        }
        other => other,
    }
}

fn document(recorder: &Recorder, steps: &[&str]) -> Option<Value> {
    Some(match steps {
        [] => json!(["nginx", "processes", "connections", "http", "workers"]),
        ["nginx"] => nginx(recorder),
        // Workers are threads, which are not respawned.
        ["processes"] => json!({ "respawned": 0 }),
        ["connections"] => connections(recorder.hub().workers(), &recorder.totals()),
        ["http"] => json!(["requests", "server_zones", "location_zones", "limit_reqs"]),
        ["http", "requests"] => requests(&recorder.totals()),
        ["http", "server_zones", rest @ ..] => part(server_zones(recorder), rest)?,
        ["http", "location_zones", rest @ ..] => part(location_zones(recorder), rest)?,
        ["http", "limit_reqs", rest @ ..] => part(limit_reqs(recorder), rest)?,
        ["workers"] => workers(recorder),
        ["workers", index] => workers(recorder).get(index.parse::<usize>().ok()?)?.clone(),
        _ => return None,
    })
}

/// All members, or the one that is named.
fn part(mut all: Map<String, Value>, rest: &[&str]) -> Option<Value> {
    match rest {
        [] => Some(Value::Object(all)),
        [name] => all.remove(*name),
        _ => None,
    }
}

fn nginx(recorder: &Recorder) -> Value {
    let hub = recorder.hub();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "build": "sluice",
        "generation": recorder.sources().reloads().succeeded + 1,
        "load_timestamp": time_text(hub.loaded_at_millis()),
        "timestamp": time_text(millis_now()),
        "pid": std::process::id(),
        "ppid": std::os::unix::process::parent_id(),
    })
}

/// A time as the API writes it: ISO 8601 with milliseconds.
fn time_text(millis: u64) -> String {
    let seconds = i64::try_from(millis / 1000).unwrap_or(i64::MAX);
    let nanos = u32::try_from(millis % 1000).unwrap_or(0) * 1_000_000;
    let mut text = Vec::new();
    LocalTime::utc(seconds, nanos).push("2006-01-02T15:04:05.000Z07:00", &mut text);
    String::from_utf8(text).unwrap_or_default()
}

fn millis_now() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    u64::try_from(now.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

fn connections<'a>(
    workers: impl IntoIterator<Item = &'a std::sync::Arc<Counters>>,
    totals: &Totals,
) -> Value {
    let (mut accepted, mut dropped, mut open) = (0, 0, 0);
    for worker in workers {
        accepted += worker.accepted.value();
        dropped += worker.refused.value();
        open += worker.open.value();
    }
    // An HTTP/2 connection may have several requests, so these are estimates, as in `stub_status`.
    let active = totals.in_flight().min(open);
    json!({ "accepted": accepted, "dropped": dropped, "active": active, "idle": open - active })
}

fn requests(totals: &Totals) -> Value {
    json!({ "total": totals.started, "current": totals.in_flight() })
}

fn workers(recorder: &Recorder) -> Value {
    let totals = recorder.totals_by_worker();
    let each = recorder.hub().workers().iter().zip(totals).enumerate();
    let row = |(id, (counters, totals))| {
        json!({
            "id": id,
            "pid": std::process::id(),
            "connections": connections([counters], &totals),
            "http": { "requests": requests(&totals) },
        })
    };
    each.map(row).collect()
}

fn server_zones(recorder: &Recorder) -> Map<String, Value> {
    let sites = recorder.hub().sites().all();
    let zones = sites.iter().filter(|site| site.is_zone());
    let zone = |site: &std::sync::Arc<crate::site_counts::SiteCounts>| {
        let totals = site.totals();
        let mut zone = counted(&totals);
        zone.insert("processing".to_owned(), json!(totals.in_flight));
        (site.name().to_owned(), Value::Object(zone))
    };
    zones.map(zone).collect()
}

fn location_zones(recorder: &Recorder) -> Map<String, Value> {
    let zones = recorder.hub().location_zones().all();
    let zones = zones.iter();
    let zone = zones.map(|zone| {
        let counted = counted(&zone.totals());
        (zone.name().to_owned(), Value::Object(counted))
    });
    zone.collect()
}

/// What zones of servers and locations have in common.
fn counted(totals: &SiteTotals) -> Map<String, Value> {
    let [discarded, one, two, three, four, five] = totals.ended;
    let responses = json!({
        "1xx": one, "2xx": two, "3xx": three, "4xx": four, "5xx": five,
        "total": one + two + three + four + five,
    });
    let members = [
        ("requests", json!(totals.requests() + totals.in_flight)),
        ("responses", responses),
        ("discarded", json!(discarded)),
        ("received", json!(totals.bytes_read)),
        ("sent", json!(totals.bytes_sent)),
    ];
    let members = members.into_iter();
    members
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn limit_reqs(recorder: &Recorder) -> Map<String, Value> {
    let zones = recorder.hub().rate_zones().into_iter();
    let zone = |(name, totals): (String, crate::metrics::ZoneTotals)| {
        let passed = totals.asked.saturating_sub(totals.refused);
        (
            name,
            json!({ "passed": passed, "rejected": totals.refused }),
        )
    };
    zones.map(zone).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use sluice_net::{Completion, Ending};

    use super::*;
    use crate::log::Log;
    use crate::site_counts::{SiteMark, SiteTable};

    fn completion() -> Completion {
        Completion {
            ending: Ending::Complete,
            body_bytes_sent: 10,
            bytes_sent: 60,
            head_bytes_sent: 50,
            body_bytes_read: 2,
            duration: Duration::from_millis(3),
        }
    }

    #[test]
    fn zones_are_those_that_the_configuration_names() {
        let recorder = Arc::new(Recorder::new(Log::silent(), 1));
        let names = ["plain", "zone"].map(str::to_owned);
        let table = SiteTable::new(recorder.hub().sites(), 1, &names).expect("sites");
        table.name_zone(1);
        for site in [0, 1] {
            let mark = table.enter(0, SiteMark::COUNTED, site);
            table.end(0, mark, 404, &completion());
        }
        table.enter(0, SiteMark::COUNTED, 1);
        let at = |path: &str, query: &str| {
            let response = respond(&recorder, path, query);
            (response.status, response.body)
        };
        let zone = json!({
            "processing": 1, "requests": 2, "discarded": 0, "received": 2, "sent": 10,
            "responses": { "1xx": 0, "2xx": 0, "3xx": 0, "4xx": 1, "5xx": 0, "total": 1 },
        });
        assert_eq!(
            at("/api/9/http/server_zones", ""),
            (200, json!({ "zone": zone }))
        );
        assert_eq!(at("/9/http/server_zones/zone/", ""), (200, zone));
        let two = at("/api/9/http/server_zones/zone", "x=1&fields=sent,received").1;
        assert_eq!(two, json!({ "sent": 10, "received": 2 }));
        assert_eq!(at("/status/api/9/http/server_zones/plain", "").0, 404);
        assert_eq!(at("/api/", "").1, json!([1, 2, 3, 4, 5, 6, 7, 8, 9]));
        assert_eq!(at("/api/10/nginx", "").1["error"]["code"], "UnknownVersion");
        assert_eq!(at("/api/9/stream", "").1["error"]["code"], "PathNotFound");
        assert_eq!(at("/api/9/processes", ""), (200, json!({ "respawned": 0 })));
        let nginx = at("/api/9/nginx", "").1;
        assert_eq!(
            (&nginx["build"], &nginx["generation"]),
            (&json!("sluice"), &json!(1))
        );
        let time = nginx["timestamp"].as_str().expect("a text");
        assert!(time.len() == 24 && time.ends_with('Z'), "{time}");
    }
}
