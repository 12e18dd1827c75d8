//! The values of placeholders that the process alone decides, for settings that are read once when a configuration is
//! built. Values that belong to a request are left to `values`.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use sluice_route::placeholder::Unknown;
use sluice_route::{Found, Key, Template, Values};

use crate::values;

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
            Key::System(key) => values::system(*key, out),
            Key::FileText(path) => values::file_text(path, out),
            Key::Time(key) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH);
                values::time_at(*key, now.unwrap_or_default().as_secs(), out)
            }
            _ => Found::Unknown,
        }
    }
}

/// Expands a setting in which every placeholder has to be one of the process.
pub(crate) fn expand(text: &str) -> Result<String, String> {
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

/// Expands a value that is logged. As in Caddy an unknown placeholder stays as it is written, and one that stands alone
/// gives nothing.
pub(crate) fn value(text: &str) -> Result<Value, String> {
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
