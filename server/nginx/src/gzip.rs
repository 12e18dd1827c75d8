//! `nginx_gzip`: compression with nginx's rules: ETags are weakened, and `gzip_disable`, `gzip_http_version` and
//! `gzip_proxied` decide beside `Accept-Encoding`. The compression itself is done by `filters::encode`.

use std::sync::Arc;

use sluice_message::{FieldId, Fields, Version, date, negotiate};
use sluice_model::nginx::{Gzip as Config, GzipClients};
use sluice_net::Body;

use super::changed;
use super::groups::{Case, Pattern, found_or_fails};
use super::types::Kinds;
use crate::state::NginxContext;
use sluice_handlers::filters::encode::{Coding, Counts, compress};
use sluice_observe::Recorder;
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::handler::{Filter, Filtering, Handler};
use sluice_pipeline::refusal::Refusal;

/// Which clients get compressed responses.
pub struct Clients {
    version_min: Version,
    proxied: Proxied,
    not_for: Box<[Browser]>,
    varies: bool,
}

/// A browser excluded by `gzip_disable`.
enum Browser {
    /// `msie6`: Internet Explorer up to version 6, except version 6 with `SV1`.
    OldExplorer,
    Like(Pattern),
}

/// `gzip_proxied`: which responses to requests with `Via` are compressed.
#[derive(Default)]
struct Proxied {
    /// None.
    off: bool,
    any: bool,
    expired: bool,
    no_cache: bool,
    no_store: bool,
    private: bool,
    no_last_modified: bool,
    no_etag: bool,
    auth: bool,
}

impl Clients {
    /// Parses the directives.
    pub fn build(
        config: &GzipClients,
        recorder: Option<&Arc<Recorder>>,
    ) -> Result<Clients, Refusal> {
        let browser = |text: &String| match text.as_str() {
            "msie6" => Ok(Browser::OldExplorer),
            pattern => {
                Pattern::new("gzip_disable", pattern, Case::Folded, recorder).map(Browser::Like)
            }
        };
        Ok(Clients {
            version_min: match config.http10 {
                true => Version::Http10,
                false => Version::Http11,
            },
            proxied: Proxied::build(&config.proxied)?,
            not_for: config
                .not_for
                .iter()
                .map(browser)
                .collect::<Result<_, _>>()?,
            varies: config.vary,
        })
    }

    /// Adds `Accept-Encoding` to `Vary`, if configured.
    pub fn note_variants(&self, fields: &mut Fields) {
        let is_listed = |value: &[u8]| {
            let mut names = value.split(|byte| *byte == b',');
            names.any(|name| name.trim_ascii().eq_ignore_ascii_case(b"Accept-Encoding"))
        };
        if self.varies && !fields.all(FieldId::Vary).any(is_listed) {
            fields.push(FieldId::Vary, b"Accept-Encoding");
        }
    }

    /// Whether responses get `Vary` (`gzip_vary`).
    pub fn announces_variants(&self) -> bool {
        self.varies
    }

    /// Whether the client gets a compressed response; evaluates request headers and the response headers set so
    /// far.
    pub fn include(&self, exchange: &Exchange) -> bool {
        let asked = &exchange.req.fields;
        // The response to a subrequest becomes part of one that is compressed as a whole.
        !exchange.context.nginx().is_subrequest()
            && takes_gzip(asked)
            && exchange.req.version >= self.version_min
            && (!asked.has(FieldId::Via) || self.proxied.include(exchange))
            && !self.is_left_out(
                exchange,
                asked.first(FieldId::UserAgent).unwrap_or_default(),
            )
    }

    fn is_left_out(&self, exchange: &Exchange, agent: &[u8]) -> bool {
        self.not_for.iter().any(|browser| match browser {
            Browser::OldExplorer => is_old_explorer(agent),
            Browser::Like(pattern) => found_or_fails(exchange, pattern.is_match(agent)),
        })
    }
}

/// Whether `Accept-Encoding` names gzip; as in nginx, `*` is not enough.
fn takes_gzip(fields: &Fields) -> bool {
    let names = |value: &[u8]| {
        let mut windows = value.windows(4);
        windows.any(|word| word.eq_ignore_ascii_case(b"gzip"))
    };
    fields.all(FieldId::AcceptEncoding).any(names) && negotiate::coding_weight(fields, b"gzip") > 0
}

fn is_old_explorer(agent: &[u8]) -> bool {
    let Some(at) = memchr::memmem::find(agent, b"MSIE ") else {
        return false;
    };
    match agent.get(at + 5..at + 7) {
        Some([b'4' | b'5', b'.']) => true,
        Some([b'6', b'.']) => memchr::memmem::find(&agent[at + 7..], b"SV1").is_none(),
        _ => false,
    }
}

impl Proxied {
    fn build(words: &[String]) -> Result<Proxied, Refusal> {
        let mut proxied = Proxied {
            off: words.is_empty(),
            ..Proxied::default()
        };
        for word in words {
            let flag = match word.as_str() {
                "any" => &mut proxied.any,
                "expired" => &mut proxied.expired,
                "no-cache" => &mut proxied.no_cache,
                "no-store" => &mut proxied.no_store,
                "private" => &mut proxied.private,
                "no_last_modified" => &mut proxied.no_last_modified,
                "no_etag" => &mut proxied.no_etag,
                "auth" => &mut proxied.auth,
                other => return Err(Refusal::new(format!("gzip_proxied `{other}`"))),
            };
            *flag = true;
        }
        Ok(proxied)
    }

    /// In nginx's order: `Expires` decides first, then `Cache-Control`, then the absence of `Last-Modified` and
    /// `ETag`.
    fn include(&self, exchange: &Exchange) -> bool {
        let said = &exchange.res.fields;
        if self.off {
            return false;
        }
        if self.any || self.auth && exchange.req.fields.has(FieldId::Authorization) {
            return true;
        }
        if let Some(expires) = said.first(FieldId::Expires) {
            let now = exchange.worker.clock.unix_seconds();
            let time = |value| date::parse_http(value, now);
            let sent = said.first(FieldId::Date).and_then(time);
            let sent = sent.unwrap_or_else(|| i64::try_from(now).unwrap_or(i64::MAX));
            return self.expired && time(expires).is_some_and(|expires| expires < sent);
        }
        if said.has(FieldId::CacheControl) {
            let says = |word: &[u8]| {
                said.all(FieldId::CacheControl).any(|value| {
                    let mut words = value.split(|byte| *byte == b',');
                    words.any(|one| {
                        let name = one.split(|byte| *byte == b'=').next().unwrap_or_default();
                        name.trim_ascii().eq_ignore_ascii_case(word)
                    })
                })
            };
            return self.no_cache && says(b"no-cache")
                || self.no_store && says(b"no-store")
                || self.private && says(b"private");
        }
        // Responses without these headers are compressed, unless one of these parameters forbids it.
        !(self.no_last_modified && said.has(FieldId::LastModified)
            || self.no_etag && said.has(FieldId::Etag))
    }
}

struct Settings {
    coding: Coding,
    bytes_min: u64,
    types: Kinds,
    clients: Clients,
}

/// Builds the handler.
pub fn build(config: &Config, builder: &Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    Ok(Filtering::boxed(Settings {
        coding: Coding::gzip(config.level)?,
        bytes_min: config.minimum_length.max(1),
        types: Kinds::build(&config.types),
        clients: Clients::build(&config.clients, builder.recorder)?,
    }))
}

impl Settings {
    fn is_for(&self, exchange: &Exchange, body: &Body) -> bool {
        let fields = &exchange.res.fields;
        matches!(exchange.res.status.code(), 200 | 403 | 404)
            && !exchange.context.nginx().is_subrequest()
            && !fields.has(FieldId::ContentEncoding)
            && body
                .len(exchange.inline.len())
                .is_none_or(|length| length >= self.bytes_min)
            // Like nginx, this does not look for `no-transform` (RFC 9110, section 7.7).
            && self.types.include(fields)
    }
}

impl Filter for Settings {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        if !self.is_for(exchange, &body) {
            return body;
        }
        let is_meant = self.clients.include(exchange);
        self.clients.note_variants(&mut exchange.res.fields);
        if !is_meant {
            return body;
        }
        let counts = Arc::new(Counts::default());
        let body = compress(&self.coding, Some(&counts), exchange, body, |fields| {
            fields.set(FieldId::ContentEncoding, b"gzip");
            changed::note(fields);
        });
        exchange.context.occasional_mut().gzip = Some(counts);
        body
    }
}

/// Appends `$gzip_ratio` with two decimals; nothing for a response that was not compressed.
pub(super) fn push_ratio(exchange: &Exchange, out: &mut Vec<u8>) {
    let counts = exchange.context.occasional().gzip.as_ref();
    let Some((plain, coded)) = counts.map(|counts| counts.both()) else {
        return;
    };
    if plain == 0 || coded == 0 {
        return;
    }
    let hundredths = (plain * 1000 / coded + 5) / 10;
    let text = format!("{}.{:02}", hundredths / 100, hundredths % 100);
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_browsers_are_known() {
        for (agent, expected) in [
            ("Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)", true),
            (
                "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; SV1)",
                false,
            ),
            ("Mozilla/4.0 (compatible; MSIE 5.5)", true),
            ("Mozilla/4.0 (compatible; MSIE 7.0)", false),
            ("MSIE 6", false),
            ("MSIE ", false),
            ("", false),
        ] {
            assert_eq!(is_old_explorer(agent.as_bytes()), expected, "{agent}");
        }
    }

    #[test]
    fn gzip_has_to_be_named() {
        for (value, expected) in [
            ("gzip", true),
            ("deflate, GZIP;q=0.1", true),
            ("gzip;q=0", false),
            ("*", false),
            ("gzip;q=0, *", false),
            ("gzipped", false),
            ("identity", false),
        ] {
            let mut fields = Fields::new();
            fields.push(FieldId::AcceptEncoding, value.as_bytes());
            assert_eq!(takes_gzip(&fields), expected, "{value}");
        }
    }
}
