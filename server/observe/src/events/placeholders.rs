//! Placeholders of events: those that Caddy documents, `{event.name}` and others, and those of the process.

use std::time::Duration;

use serde_json::Value;
use sluice_message::layout::LocalTime;

use super::Emitted;
use crate::process_values;

/// Replaces the placeholders in an argument or a header value; unknown ones by nothing, as in Caddy. `\{` is a brace.
pub(super) fn expanded(text: &str, emitted: &Emitted) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('{') {
        let (before, after) = rest.split_at(at);
        if let Some(before) = before.strip_suffix('\\') {
            out.push_str(before);
            out.push('{');
            rest = &after[1..];
            continue;
        }
        out.push_str(before);
        let Some(end) = after.find('}') else {
            rest = after;
            break;
        };
        let name = &after[1..end];
        if let Some(value) = value(name, emitted) {
            out.push_str(&value);
        }
        rest = &after[end + 1..];
    }
    out.push_str(rest);
    out
}

fn value(name: &str, emitted: &Emitted) -> Option<String> {
    let event = &emitted.event;
    if let Some(key) = name.strip_prefix("event.data.") {
        let mut data = event.data.iter();
        let (_, value) = data.find(|(known, _)| *known == key)?;
        return Some(shown(value));
    }
    Some(match name {
        "event" => emitted.to_json().to_string(),
        "event.id" => emitted.id.clone(),
        "event.name" => event.name.to_owned(),
        "event.module" => event.module.to_owned(),
        "event.time" => time_text(emitted.at),
        "event.time_unix" => emitted.at.as_secs().to_string(),
        "event.data" => emitted.data().to_string(),
        _ => match process_values::value(&format!("{{{name}}}")) {
            Ok(Value::String(text)) => text,
            Ok(_) | Err(_) => return None,
        },
    })
}

/// A value as a word of a command line: texts without quotes, other values as JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// RFC 3339, in UTC.
pub(super) fn time_text(since_epoch: Duration) -> String {
    let seconds = i64::try_from(since_epoch.as_secs()).unwrap_or(i64::MAX);
    let time = LocalTime::utc(seconds, since_epoch.subsec_nanos());
    let mut out = Vec::new();
    time.push("2006-01-02T15:04:05.000Z", &mut out);
    String::from_utf8_lossy(&out).into_owned()
}
