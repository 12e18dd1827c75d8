//! The `url_pattern` matcher: a pattern of the URL Pattern standard (<https://urlpattern.spec.whatwg.org/>), compared with
//! the URL of a request. The standard's parser is the crate `urlpattern`; the expressions that it generates are compiled
//! and limited as all others are.

use sluice_message::uri::encode_path_as_go;
use sluice_model::matcher::UrlPattern as Config;
use sluice_route::matcher::{self, Hook, Input};
use sluice_route::path::{Case, Slashes, normalize};
use sluice_route::regexp::Regexp;
use url::{Url, quirks};
use urlpattern::{RegexSyntax, UrlPattern, UrlPatternInit, UrlPatternOptions};

use crate::refusal::Refusal;

/// Matches if each component of the request's URL matches its pattern, and records the groups.
#[derive(Debug)]
pub struct UrlPatternHook {
    components: [Component; 8],
    slashes: Slashes,
}

#[derive(Debug)]
struct Component {
    name: &'static str,
    regexp: Regexp,
    groups: Vec<Box<str>>,
}

/// An expression in the syntax of the crate `urlpattern`.
struct Compiled(Regexp);

impl urlpattern::regexp::RegExp for Compiled {
    fn syntax() -> RegexSyntax {
        RegexSyntax::Rust
    }

    fn parse(pattern: &str, flags: &str, _force_eval: bool) -> Result<Compiled, ()> {
        let folded = if flags.contains('i') { "(?i)" } else { "" };
        let regexp = Regexp::new(&format!("{folded}{pattern}")).map_err(drop)?;
        Ok(Compiled(regexp))
    }

    fn matches<'a>(&self, text: &'a str) -> Option<Vec<Option<&'a str>>> {
        let mut spans = Vec::new();
        if !self.0.groups(text.as_bytes(), &mut spans) {
            return None;
        }
        let span = |span: &Option<(u32, u32)>| text.get(span.map(range)?);
        Some(spans.iter().skip(1).map(span).collect())
    }

    fn pattern_string(&self) -> &str {
        self.0.pattern()
    }
}

fn range((start, end): (u32, u32)) -> std::ops::Range<usize> {
    start as usize..end as usize
}

impl UrlPatternHook {
    /// Compiles the matcher of a configuration.
    ///
    /// # Errors
    /// The pattern or the base URL is malformed, or one of its expressions is too large.
    pub fn build(config: &Config) -> Result<UrlPatternHook, Refusal> {
        let written = &config.pattern;
        let base = match config.base_url.as_str() {
            "" => None,
            text => Some(Url::parse(text).map_err(|error| {
                Refusal::new(format!("base URL `{text}`: {error}"))
                    .with_help("write it as `https://example.com`")
            })?),
        };
        // As in Caddy, a pattern for a path holds for every scheme, host and port.
        let text = match base.is_none() && !written.contains("://") {
            true => format!("*://*:*{written}"),
            false => written.clone(),
        };
        let refused = |error: urlpattern::Error| {
            Refusal::new(format!("URL pattern `{written}`: {error}"))
                .with_help("write a pattern such as `/books/:id` or `https://example.com/*`")
        };
        let init = UrlPatternInit::parse_constructor_string::<Compiled>(&text, base);
        let options = UrlPatternOptions {
            regex_syntax: RegexSyntax::Rust,
            ignore_case: config.ignore_case,
        };
        let pattern = UrlPattern::<Compiled>::parse(init.map_err(refused)?, options);
        let pattern = pattern.map_err(refused)?;
        let mut components = Vec::with_capacity(8);
        for (name, component) in [
            ("protocol", pattern.protocol),
            ("username", pattern.username),
            ("password", pattern.password),
            ("hostname", pattern.hostname),
            ("port", pattern.port),
            ("pathname", pattern.pathname),
            ("search", pattern.search),
            ("hash", pattern.hash),
        ] {
            components.push(Component {
                name,
                regexp: component.regexp.map_err(refused)?.0,
                groups: component
                    .group_name_list
                    .iter()
                    .map(|name| name.as_str().into())
                    .collect(),
            });
        }
        Ok(UrlPatternHook {
            components: components.try_into().expect("eight were listed"),
            slashes: match path_of(written).contains("//") {
                true => Slashes::Keep,
                false => Slashes::Merge,
            },
        })
    }
}

/// The part of a pattern behind scheme and host.
fn path_of(pattern: &str) -> &str {
    match pattern.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("", |at| &rest[at..]),
        None => pattern,
    }
}

impl Hook for UrlPatternHook {
    fn matches(&self, input: &Input<'_>) -> Result<bool, matcher::Refusal> {
        let Some(url) = url_of(input, self.slashes) else {
            return Ok(false);
        };
        let texts = [
            url.scheme(),
            url.username(),
            url.password().unwrap_or(""),
            quirks::hostname(&url),
            quirks::port(&url),
            url.path(),
            url.query().unwrap_or(""),
            "",
        ];
        let mut spans = Vec::new();
        for (component, text) in self.components.iter().zip(texts) {
            if !component.regexp.groups(text.as_bytes(), &mut spans) {
                return Ok(false);
            }
        }
        for (component, text) in self.components.iter().zip(texts) {
            component.record(text, &mut spans, input);
        }
        Ok(true)
    }

    fn name(&self) -> &'static str {
        "url_pattern"
    }
}

impl Component {
    /// Records the groups of a text that matches, for `{http.url_pattern.COMPONENT.GROUP}`.
    fn record(&self, text: &str, spans: &mut Vec<Option<(u32, u32)>>, input: &Input<'_>) {
        // A lone group of an empty text leaves no value, as in Caddy.
        if self.groups.is_empty() || self.groups.len() == 1 && text.is_empty() {
            return;
        }
        self.regexp.groups(text.as_bytes(), spans);
        for (name, span) in self.groups.iter().zip(spans.iter().skip(1)) {
            let value = span.and_then(|span| text.get(range(span)));
            let key = format!("{}.{name}", self.name);
            input
                .scratch
                .found_group(&key, value.unwrap_or("").as_bytes());
        }
    }
}

/// The URL that the request asks for, with its path in the form that handlers use: decoded, cleaned and encoded again.
/// `None` if the host is not one of a URL.
fn url_of(input: &Input<'_>, slashes: Slashes) -> Option<Url> {
    let authority = std::str::from_utf8(&input.head.authority).ok()?;
    // These would end the host, or come before it.
    if authority.contains(['/', '?', '#', '\\', '@']) {
        return None;
    }
    let mut text = format!("{}://{authority}", input.conn.scheme().as_str()).into_bytes();
    input.scratch.with_buf(|buf| {
        let path = normalize(input.head.uri.path(), slashes, Case::Keep, buf);
        encode_path_as_go(path, &mut text);
    });
    if let Some(query) = input.head.uri.query() {
        text.push(b'?');
        text.extend_from_slice(query);
    }
    Url::parse(std::str::from_utf8(&text).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(pattern: &str, base_url: &str) -> Result<UrlPatternHook, Refusal> {
        UrlPatternHook::build(&Config {
            pattern: pattern.into(),
            base_url: base_url.into(),
            ignore_case: false,
        })
    }

    #[test]
    fn patterns_that_are_none_are_refused() {
        for (pattern, base) in [
            ("/a/(", ""),
            ("/a/:", ""),
            ("/:id/:id", ""),
            ("/a/(x{9999999})", ""),
            ("/a", "example.com"),
            ("https://exa mple.com/", ""),
        ] {
            let refused = build(pattern, base).unwrap_err();
            assert!(!refused.help.is_empty(), "{pattern} {base}");
        }
    }

    #[test]
    fn only_a_pattern_with_two_slashes_keeps_those_of_requests() {
        for (pattern, slashes) in [
            ("/a/:x", Slashes::Merge),
            ("https://example.com/a", Slashes::Merge),
            ("https://example.com", Slashes::Merge),
            ("/a//b", Slashes::Keep),
            ("https://example.com/a//b", Slashes::Keep),
        ] {
            assert_eq!(build(pattern, "").unwrap().slashes, slashes, "{pattern}");
        }
    }
}
