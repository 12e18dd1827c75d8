//! The dashboard: one page with its style and its script inside. It loads nothing from elsewhere and runs without a
//! framework. The Content-Security-Policy allows exactly this script and this style, by their hashes, and connections
//! to the admin API only, so that no value that a client of the server chose can become a script. `actions` does what its
//! buttons stand for.

pub(crate) mod actions;

use std::sync::LazyLock;

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sluice_message::condition::{Validators, Verdict, evaluate};
use sluice_message::{FieldId, Status};
use sluice_net::{Body, Exchange};

const HTML: &str = include_str!("dashboard.html");
const STYLE: &str = include_str!("dashboard.css");
const SCRIPT: &str = include_str!("dashboard.js");

/// The page, made when it is first requested.
static PAGE: LazyLock<Page> = LazyLock::new(Page::new);

struct Page {
    html: String,
    /// Its entity tag, with the quotes.
    etag: String,
    policy: String,
}

impl Page {
    fn new() -> Page {
        let html = HTML
            .replace("/*STYLE*/", STYLE)
            .replace("/*SCRIPT*/", SCRIPT);
        let etag = format!("\"{}\"", &hash(&html)[..22]);
        let policy = format!(
            "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; connect-src 'self'; \
             img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
            hash(SCRIPT),
            hash(STYLE)
        );
        Page { html, etag, policy }
    }
}

/// The SHA-256 of a text, in Base64.
fn hash(text: &str) -> String {
    STANDARD.encode(digest::digest(&digest::SHA256, text.as_bytes()))
}

/// Responds with the page.
pub(crate) fn respond(exchange: &mut Exchange<()>) -> Body {
    let page = &*PAGE;
    let fields = &mut exchange.res.fields;
    fields.set(FieldId::Etag, page.etag.as_bytes());
    fields.set(FieldId::CacheControl, b"no-cache");
    let validators = Validators {
        etag: Some(page.etag.as_bytes()),
        modified: None,
    };
    let now = exchange.worker.clock.unix_seconds();
    let req = &exchange.req;
    if let Verdict::NotModified = evaluate(&req.method, &req.fields, validators, now) {
        exchange.res.status = Status::NOT_MODIFIED;
        return Body::Empty;
    }
    fields.set(FieldId::ContentType, b"text/html; charset=utf-8");
    let name = b"Content-Security-Policy";
    fields.push_raw(FieldId::of(name), name, page.policy.as_bytes());
    exchange.inline.extend_from_slice(page.html.as_bytes());
    Body::Inline
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_complete_and_the_policy_allows_its_parts() {
        let page = Page::new();
        let part = |open: &str, close: &str| {
            let (_, rest) = page.html.split_once(open).expect("it opens once");
            let (part, rest) = rest.split_once(close).expect("it closes");
            assert!(!rest.contains(open), "{open}");
            part.to_owned()
        };
        // What browsers hash is the text between the tags, as it is.
        for (open, close) in [("<script>", "</script>"), ("<style>", "</style>")] {
            let allowed = format!("'sha256-{}'", hash(&part(open, close)));
            assert!(page.policy.contains(&allowed), "{open}");
        }
        // Neither an address elsewhere nor a way around the policy. The only URL is the namespace of SVG.
        let elsewhere = page.html.replace("http://www.w3.org/2000/svg", "");
        for word in [
            "http:",
            "https:",
            "//cdn",
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
        ] {
            assert!(!elsewhere.contains(word), "{word}");
        }
        for word in [
            "document.write",
            "eval(",
            "onclick=",
            "style=\"",
            "<link",
            "@import",
        ] {
            assert!(!elsewhere.contains(word), "{word}");
        }
    }
}
