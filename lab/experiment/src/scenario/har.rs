//! A recording of a browser (HTTP Archive 1.2) as a scenario: the requests to one host, in order, as the steps of a session.
//! Secrets of the recording stay out of the file.

use std::collections::BTreeMap;

use serde_json::Value;
use sluice_message::date::days_from_civil;

use super::document;
use super::write::{Written, WrittenStep, literal};

/// Headers that follow from the connection, belong to one visit, or are secrets.
const NOT_TAKEN: [&str; 12] = [
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "keep-alive",
    "upgrade",
    "cookie",
    "if-none-match",
    "if-modified-since",
    "te",
    "priority",
    "upgrade-insecure-requests",
];

/// Headers with secrets: reported, since the requests may fail without them.
const SECRETS: [&str; 3] = ["authorization", "proxy-authorization", "x-api-key"];

/// Longest think time: a recording may have been interrupted.
const THINK_MS_MAX: f64 = 60_000.0;

/// A request of the recording.
struct Entry<'a> {
    url: &'a str,
    method: &'a str,
    request: &'a Value,
    status: u16,
    /// Milliseconds since 1970, and how long it took.
    began: Option<f64>,
    took: f64,
}

/// Converts a recording called `source`. Without `host` the first one that was requested is taken.
pub fn convert(source: &str, text: &str, host: Option<&str>) -> Result<Written, String> {
    let failed = |error: &str| format!("{source}: {error}");
    let har = document::json(source, text)?;
    let entries = har.pointer("/log/entries").and_then(Value::as_array);
    let entries = entries.ok_or_else(|| failed("not a HAR file: no `log.entries`"))?;
    let mut written = Written {
        source: source.to_string(),
        name: "recorded".into(),
        is_session: true,
        ..Written::default()
    };
    let entries: Vec<Entry<'_>> = entries.iter().filter_map(entry).collect();
    let first = || entries.iter().find_map(|entry| Some(split(entry.url)?.0));
    let host = match host {
        Some(host) => host.to_string(),
        None => first().ok_or_else(|| failed("no request over http or https"))?,
    };
    let mut previous: Option<f64> = None;
    for entry in &entries {
        match step(entry, &host, &mut written) {
            Err(reason) => written.omit(reason),
            Ok(step) => {
                let pause = entry.began.zip(previous).map(|(began, end)| began - end);
                if let (Some(pause), Some(last)) = (pause, written.steps.last_mut()) {
                    last.think_ms = pause.clamp(0.0, THINK_MS_MAX).round() as u64;
                }
                previous = entry.began.map(|began| began + entry.took);
                written.add(step);
            }
        }
    }
    match written.steps.is_empty() {
        true => Err(failed(&format!("no request to `{host}` can be taken over"))),
        false => Ok(written),
    }
}

fn entry(value: &Value) -> Option<Entry<'_>> {
    let request = value.get("request")?;
    Some(Entry {
        url: request.get("url")?.as_str()?,
        method: request.get("method")?.as_str()?,
        request,
        status: value
            .pointer("/response/status")
            .and_then(Value::as_u64)
            .and_then(|status| u16::try_from(status).ok())
            .unwrap_or(0),
        began: value
            .get("startedDateTime")
            .and_then(Value::as_str)
            .and_then(unix_ms),
        took: value.get("time").and_then(Value::as_f64).unwrap_or(0.0),
    })
}

/// The step of a request; the error is the reason to omit it.
fn step(entry: &Entry<'_>, host: &str, written: &mut Written) -> Result<WrittenStep, String> {
    let (found, path) =
        split(entry.url).ok_or_else(|| "request that is not http or https".to_string())?;
    if found != host {
        return Err(format!("request to another host, {found}"));
    }
    if !(200..=599).contains(&entry.status) {
        return Err("request without a response (blocked, cancelled, or an upgrade)".to_string());
    }
    // A cached response was validated, and the session has no cache.
    let status = if entry.status == 304 {
        200
    } else {
        entry.status
    };
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    let list = entry.request.get("headers").and_then(Value::as_array);
    for header in list.into_iter().flatten() {
        let text = |key: &str| header.get(key).and_then(Value::as_str).unwrap_or_default();
        let (name, value) = (text("name").to_ascii_lowercase(), text("value"));
        if SECRETS.contains(&name.as_str()) {
            written.omit(format!(
                "header `{name}`, a secret; add it to [headers] if needed"
            ));
        } else if !name.starts_with(':') && !NOT_TAKEN.contains(&name.as_str()) {
            headers.insert(name, literal(value));
        }
    }
    let post = entry.request.get("postData");
    let body = post
        .and_then(|post| post.get("text"))
        .and_then(Value::as_str);
    let is_binary = post.is_some_and(|post| post.get("encoding").is_some());
    let has_params = post.is_some_and(|post| post.get("params").is_some());
    if is_binary || (has_params && body.is_none_or(str::is_empty)) {
        return Err("request with a body that is not recorded as text".to_string());
    }
    Ok(WrittenStep {
        method: entry.method.to_string(),
        path: literal(&path),
        headers: headers.into_iter().collect(),
        body: literal(body.unwrap_or_default()),
        think_ms: 0,
        status,
    })
}

/// Host and path of a URL; the path is percent-encoded as browsers do.
fn split(url: &str) -> Option<(String, String)> {
    let rest = url
        .strip_prefix("http://")
        .or_else(|| url.strip_prefix("https://"))?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    let path = path.split('#').next().unwrap_or_default();
    let path = match path.starts_with('/') {
        true => path.to_string(),
        false => format!("/{path}"),
    };
    let encoded = path.chars().map(|c| match c {
        ' ' => "%20".to_string(),
        c if c.is_ascii() && !c.is_control() => c.to_string(),
        c => {
            let mut buf = [0; 4];
            let bytes = c.encode_utf8(&mut buf).bytes();
            bytes.map(|byte| format!("%{byte:02X}")).collect()
        }
    });
    Some((host.to_string(), encoded.collect()))
}

/// Milliseconds since 1970 of `2026-11-26T02:03:04.567+01:00` (RFC 3339).
fn unix_ms(text: &str) -> Option<f64> {
    let (date, time) = text.split_once(['T', 't'])?;
    let mut parts = date.splitn(3, '-').map(str::parse::<i64>);
    let (year, month, day) = (
        parts.next()?.ok()?,
        parts.next()?.ok()?,
        parts.next()?.ok()?,
    );
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let zone_at = time.find(['Z', 'z', '+', '-']).unwrap_or(time.len());
    let (clock, zone) = time.split_at(zone_at);
    let seconds = |text: &str| -> Option<f64> {
        let parts: Vec<f64> = text
            .split(':')
            .map(|p| p.parse().ok())
            .collect::<Option<_>>()?;
        let weights = [3600.0, 60.0, 1.0];
        Some(
            parts
                .iter()
                .zip(weights)
                .map(|(part, weight)| part * weight)
                .sum(),
        )
    };
    let ahead = match zone.split_at_checked(1) {
        Some(("+", zone)) => seconds(zone)?,
        Some(("-", zone)) => -seconds(zone)?,
        _ => 0.0,
    };
    let days = days_from_civil(year, u32::try_from(month).ok()?, day) as f64;
    Some((days * 86_400.0 + seconds(clock)? - ahead) * 1000.0)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::scenario::parse;

    const HAR: &str = r#"{"log": {"version": "1.2", "entries": [
        {"startedDateTime": "2026-11-26T02:00:00.000Z", "time": 120.5,
         "request": {"method": "GET", "url": "https://shop.example/a b?q=é&p=$1#top",
            "headers": [{"name": "Accept", "value": "text/html"}, {"name": "Cookie", "value": "id=7"},
                        {"name": "Host", "value": "shop.example"}, {"name": ":method", "value": "GET"},
                        {"name": "Authorization", "value": "Bearer secret"}]},
         "response": {"status": 200}},
        {"startedDateTime": "2026-11-26T02:00:00.050Z", "time": 10,
         "request": {"method": "GET", "url": "https://cdn.example/x.js", "headers": []}, "response": {"status": 200}},
        {"startedDateTime": "2026-11-26T03:00:02.000+01:00", "time": 10,
         "request": {"method": "POST", "url": "https://shop.example/cart", "headers": [],
            "postData": {"mimeType": "application/json", "text": "{\"price\": \"$5\"}"}}, "response": {"status": 302}},
        {"startedDateTime": "2026-11-26T02:00:02.005Z", "time": 10,
         "request": {"method": "GET", "url": "https://shop.example/logo", "headers": []}, "response": {"status": 304}},
        {"request": {"method": "GET", "url": "https://shop.example/blocked", "headers": []}, "response": {"status": 0}},
        {"request": {"method": "GET", "url": "wss://shop.example/live", "headers": []}, "response": {"status": 101}}
    ]}}"#;

    #[test]
    fn a_recording_becomes_a_session() {
        let written = convert("shop.har", HAR, None).unwrap();
        let text = written.text();
        assert!(!text.contains("Bearer") && !text.contains("id=7"), "{text}");
        let scenario = parse("shop.toml", &text, Path::new(".")).unwrap();
        let steps = &scenario.sessions[0].steps;
        let paths: Vec<String> = steps.iter().map(|step| step.path.fill(&[])).collect();
        assert_eq!(paths, ["/a%20b?q=%C3%A9&p=$1", "/cart", "/logo"]);
        assert_eq!(steps[1].body.fill(&[]), "{\"price\": \"$5\"}");
        let statuses: Vec<u16> = steps.iter().map(|step| step.expect.status).collect();
        assert_eq!(statuses, [200, 302, 200]);
        // From the end of the first to the beginning of the second; the third overlaps with the second.
        let think: Vec<u128> = steps
            .iter()
            .map(|step| step.think_min.as_millis())
            .collect();
        assert_eq!(think, [1_880, 0, 0]);
        assert_eq!(steps[0].headers.len(), 1);
        let omissions = written.omissions().join("\n");
        for part in [
            "1 x request to another host, cdn.example",
            "1 x request without a response",
            "1 x request that is not http",
            "1 x header `authorization`, a secret",
        ] {
            assert!(
                omissions.contains(part) && text.contains(part),
                "{omissions}"
            );
        }
        let other = convert("shop.har", HAR, Some("cdn.example")).unwrap();
        assert_eq!(other.steps.len(), 1);
    }

    #[test]
    fn what_is_no_recording_is_refused() {
        for (text, part) in [
            ("{", "not JSON"),
            ("{}", "no `log.entries`"),
            ("{\"log\": {\"entries\": []}}", "no request over http"),
        ] {
            let error = convert("a.har", text, None).unwrap_err();
            assert!(
                error.starts_with("a.har:") && error.contains(part),
                "{error}"
            );
        }
        let error = convert("a.har", HAR, Some("b.example")).unwrap_err();
        assert!(error.contains("no request to `b.example`"), "{error}");
    }

    #[test]
    fn moments_have_zones() {
        assert_eq!(unix_ms("1970-01-02T00:00:01.5Z"), Some(86_401_500.0));
        assert_eq!(unix_ms("1970-01-01T01:00:00+01:00"), Some(0.0));
        assert_eq!(unix_ms("1970-01-01T00:00:00-00:30"), Some(1_800_000.0));
        for bad in ["", "yesterday", "1970-13-01T00:00:00Z", "1970-01-01Tnoon"] {
            assert_eq!(unix_ms(bad), None, "{bad}");
        }
    }
}
