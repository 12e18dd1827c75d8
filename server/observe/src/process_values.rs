//! Placeholder values that depend only on the process, for settings that are expanded once when a configuration is
//! built. `values` has those that belong to a request.

use std::io::{Read, Write};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use sluice_message::layout::LocalTime;
use sluice_route::placeholder::{SystemKey, TimeKey, Unknown};
use sluice_route::{Found, Key, Template, Values};

use crate::limits::FILE_TEXT_BYTES_MAX;

/// The placeholders of the process: `{env.*}`, `{system.*}`, `{file.*}`, `{time.now.*}`.
struct Process;

impl Values for Process {
    fn value(&self, key: &Key, out: &mut Vec<u8>) -> Found {
        match key {
            Key::Env(name) => {
                if let Some(value) = std::env::var_os(&**name) {
                    out.extend_from_slice(value.as_encoded_bytes());
                }
                Found::Known
            }
            Key::System(key) => system(*key, out),
            Key::FileText(path) => file_text(path, out),
            Key::Time(key) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH);
                time_at(*key, now.unwrap_or_default().as_secs(), out)
            }
            _ => Found::Unknown,
        }
    }
}

/// Whether expanding `text` gives the same text.
pub fn is_plain(text: &str) -> bool {
    Template::parse(text).is_ok_and(|parsed| parsed.literal() == Some(text.as_bytes()))
}

/// Expands a setting that may contain only placeholders of the process.
pub fn expand(text: &str) -> Result<String, String> {
    let template = Template::parse(text).map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    let mut unknown = false;
    for key in template.keys() {
        unknown |= Process.value(key, &mut Vec::new()) == Found::Unknown;
    }
    template.expand(&Process, Unknown::Keep, &mut out);
    if unknown {
        let known = "{env.*}, {system.*}, {file.*} and {time.now.*} have values here";
        return Err(format!(
            "`{text}` holds a placeholder without a value; {known}"
        ));
    }
    String::from_utf8(out).map_err(|_| format!("`{text}` gives bytes that are not a text"))
}

/// Expands a value to log. As in Caddy, unknown placeholders remain as written, and a value that consists of one alone
/// is null.
pub fn value(text: &str) -> Result<Value, String> {
    let template = Template::parse(text).map_err(|error| error.to_string())?;
    let lone = template
        .single()
        .map(|key| Process.value(key, &mut Vec::new()));
    if lone == Some(Found::Unknown) {
        return Ok(Value::Null);
    }
    let mut out = Vec::new();
    template.expand(&Process, Unknown::Keep, &mut out);
    Ok(Value::String(String::from_utf8_lossy(&out).into_owned()))
}

/// The value of `{time.now.*}` at the given time.
pub fn time_at(key: TimeKey, seconds: u64, out: &mut Vec<u8>) -> Found {
    let time = LocalTime::utc(i64::try_from(seconds).unwrap_or(i64::MAX), 0);
    let layout = match key {
        TimeKey::Http => {
            out.extend_from_slice(&sluice_message::date::format_http(seconds));
            return Found::Known;
        }
        TimeKey::Year => "2006",
        TimeKey::Now => "2006-01-02 15:04:05 -0700 MST",
        TimeKey::Rfc3339 => "2006-01-02T15:04:05Z07:00",
        TimeKey::CommonLog => "02/Jan/2006:15:04:05 -0700",
        TimeKey::Unix => return push(out, seconds),
        TimeKey::UnixMs => {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            return push(out, now.unwrap_or_default().as_millis());
        }
    };
    time.push(layout, out);
    Found::Known
}

/// The value of `{system.*}`.
pub fn system(key: SystemKey, out: &mut Vec<u8>) -> Found {
    match key {
        SystemKey::Hostname => {
            static NAME: OnceLock<String> = OnceLock::new();
            let read = || {
                let text = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
                text.trim_end().to_owned()
            };
            push(out, NAME.get_or_init(read))
        }
        SystemKey::Slash => push(out, std::path::MAIN_SEPARATOR),
        SystemKey::Os => push(out, std::env::consts::OS),
        SystemKey::Arch => match std::env::consts::ARCH {
            // Go's names for these architectures, which configurations expect.
            "x86_64" => push(out, "amd64"),
            "aarch64" => push(out, "arm64"),
            other => push(out, other),
        },
        SystemKey::WorkingDir => match std::env::current_dir() {
            Ok(dir) => push(out, dir.display()),
            Err(_) => Found::Known,
        },
    }
}

/// The text of a configured file, without the trailing newline.
pub fn file_text(path: &str, out: &mut Vec<u8>) -> Found {
    let start = out.len();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(FILE_TEXT_BYTES_MAX + 1).read_to_end(out));
    match read {
        Ok(count) if count as u64 <= FILE_TEXT_BYTES_MAX => {
            if out.ends_with(b"\n") {
                out.pop();
            }
        }
        Ok(_) | Err(_) => out.truncate(start),
    }
    Found::Known
}

fn push(out: &mut Vec<u8>, value: impl std::fmt::Display) -> Found {
    write!(out, "{value}").expect("writing to memory does not fail");
    Found::Known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_know_the_process_and_no_request() {
        assert_eq!(
            expand("/logs/{system.os}.log"),
            Ok("/logs/linux.log".to_owned())
        );
        assert_eq!(expand("plain"), Ok("plain".to_owned()));
        let refused = expand("/logs/{http.request.host}.log").expect_err("there is not a request");
        assert!(refused.contains("{env.*}"), "{refused}");
    }

    #[test]
    fn logged_values_keep_what_is_unknown() {
        for (text, expected) in [
            ("{http.request.host}", Value::Null),
            ("a {http.request.host}", "a {http.request.host}".into()),
            ("{system.os}", "linux".into()),
            ("", "".into()),
        ] {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
    }
}
