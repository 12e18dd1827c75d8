//! The welcome page of a server without a configuration: it says what is running and which file to write. It is an
//! ordinary configuration with a fixed response; the page is `welcome.html`.

use std::time::SystemTime;

use serde_json::json;
use sluice_model::Config;

use crate::commands::version_text;
use crate::load::{ADJACENT, Loaded};
use crate::messages::Failed;

/// The address that a first Caddyfile most likely uses: then it stays open when the configuration replaces the page.
const LISTEN: &str = ":8080";

/// The URL to open in a browser.
const ADDRESS: &str = "http://localhost:8080";

/// The page is self-contained: no scripts, nothing external.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

const SERVER: &str = "welcome";

const PAGE: &str = include_str!("welcome.html");

/// The configuration with the welcome page.
pub fn load() -> Result<Loaded, Failed> {
    let read_at = SystemTime::now();
    let folder = std::env::current_dir().map_err(Failed::new)?;
    say!("No Caddyfile in {}: open {ADDRESS}", folder.display());
    let config = Config::from_value(json!({
        "apps": { "http": { "servers": { SERVER: {
            "listen": [LISTEN],
            "automatic_https": { "disable": true },
            "routes": [
                {
                    "match": [{ "remote_ip": { "ranges": ["127.0.0.0/8", "::1"] } }],
                    "handle": [{
                        "handler": "static_response",
                        "headers": {
                            "Content-Type": ["text/html; charset=utf-8"],
                            "Cache-Control": ["no-store"],
                            "Content-Security-Policy": [POLICY],
                        },
                        "body": body(&folder.to_string_lossy()),
                    }],
                    "terminal": true,
                },
                // Remote clients get no information, since the page names a directory.
                { "handle": [{
                    "handler": "static_response",
                    "status_code": 403,
                    "body": "Nothing is configured yet.\n",
                }] },
            ],
        } } } },
    }))
    .map_err(Failed::new)?;
    Ok(Loaded {
        config,
        report: Default::default(),
        document: Default::default(),
        written: None,
        files: Vec::new(),
        texts: None,
        read_at,
    })
}

/// Whether `config` is the one with the welcome page.
pub fn is_welcome(config: &Config) -> bool {
    config.servers().any(|(name, _)| name == SERVER)
}

/// Adds what to do if the page cannot be served.
pub fn explain(failed: Failed) -> Failed {
    failed
        .help(format!("without a Caddyfile sluice serves its welcome page on {LISTEN}"))
        .help(format!("create a {ADJACENT} with another address, for example `:8081` and below it `respond \"Hello\"`"))
}

/// The page as a response body, with braces escaped: they would be placeholders.
fn body(folder: &str) -> String {
    let page = PAGE
        .replace("@version@", version_text())
        .replace("@address@", ADDRESS)
        .replace("@listen@", LISTEN)
        .replace("@file@", &escaped(ADJACENT))
        .replace("@folder@", &escaped(folder));
    page.replace('{', "\\{").replace('}', "\\}")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_says_what_runs_and_nothing_is_left_to_fill_in() {
        let page = body("/srv/<b>{env.HOME}");
        assert!(page.contains("/srv/&lt;b&gt;\\{env.HOME\\}"));
        assert!(page.contains(version_text()) && page.contains(LISTEN));
        assert!(!page.contains('@'), "all marks are filled in");
        assert!(
            !page.contains("https://") && !page.contains("src="),
            "the page fetches nothing"
        );
    }
}
