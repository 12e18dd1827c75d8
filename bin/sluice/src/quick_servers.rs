//! Servers defined by the command line alone (`reverse-proxy`, `file-server`, `respond`): builds their configurations,
//! which are then handled like any other.

use sluice_model::Config;

use crate::Exit;
use crate::messages::{Failed, MessageFormat};
use crate::supervise::{self, Job, Manners, Origin};

/// Serves a configuration given as JSON.
pub fn serve_json(json: serde_json::Value, format: MessageFormat) -> Result<Exit, Failed> {
    let config = Config::from_value(json).map_err(Failed::new)?;
    serve(config, format)
}

/// Like [`serve_json`]; calls `ready` once the server serves.
pub fn serve_json_then(
    json: serde_json::Value,
    format: MessageFormat,
    ready: Ready,
) -> Result<Exit, Failed> {
    let config = Config::from_value(json).map_err(Failed::new)?;
    serve_then(config, format, ready)
}

/// What is done once a server serves.
type Ready = Box<dyn FnOnce() -> Result<(), Failed>>;

/// Serves a configuration until the server is stopped.
pub fn serve(config: Config, format: MessageFormat) -> Result<Exit, Failed> {
    serve_then(config, format, Box::new(|| Ok(())))
}

fn serve_then(config: Config, format: MessageFormat, ready: Ready) -> Result<Exit, Failed> {
    supervise::run(Job {
        origin: Origin::CommandLine(config),
        watch: false,
        pidfile: None,
        ready,
        format,
        manners: Manners::Caddy,
        inherited: Default::default(),
    })
}

/// A Caddyfile token with exactly this `text`.
pub fn quoted(text: &str) -> String {
    if text.contains('`') {
        format!("\"{}\"", text.replace('"', "\\\""))
    } else {
        format!("`{text}`")
    }
}

/// Parses a header in a flag: `Name: value`.
pub fn field(text: &str) -> Result<(&str, &str), Failed> {
    let parts = text
        .split_once(':')
        .map(|(name, value)| (name.trim(), value.trim()));
    parts.filter(|(name, _)| !name.is_empty()).ok_or_else(|| {
        Failed::new(format!("`{text}` is not a valid header")).help("write it as `Name: value`")
    })
}

/// The `logging` object of a configuration, with or without debug logs.
pub fn logging(debug: bool) -> Option<serde_json::Value> {
    debug.then(|| serde_json::json!({ "logs": { "default": { "level": "DEBUG" } } }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted() {
        assert_eq!(quoted("a b"), "`a b`");
        assert_eq!(quoted("a`\"b"), "\"a`\\\"b\"");
    }

    #[test]
    fn fields_are_split_at_the_first_colon() {
        assert_eq!(
            field("A: b:c ").map_err(|f| f.text().to_owned()),
            Ok(("A", "b:c"))
        );
        assert!(field("no colon").is_err());
        assert!(field(": x").is_err());
    }
}
