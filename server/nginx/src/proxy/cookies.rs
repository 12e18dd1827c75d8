//! What nginx changes in an upstream's cookies: `proxy_cookie_domain`, `proxy_cookie_path`, `proxy_cookie_flags`. Which
//! fields are changed at all is left to the parent module.

use sluice_model::nginx::{CookieFlags, LocationChange, NginxProxy as Config};
use sluice_route::{Provenance, Template};

use crate::groups::{Case, Pattern, found_or_fails};
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::values::expanded;

/// A replacement rule for a text from the upstream.
pub struct Change {
    from: From,
    to: Template,
}

enum From {
    Text(Template),
    Pattern(Pattern),
}

impl Change {
    /// Parses one rule of this directive.
    pub fn build(
        directive: &'static str,
        config: &LocationChange,
        builder: &Builder<'_>,
    ) -> Result<Change, Refusal> {
        Ok(Change {
            from: From::build(directive, &config.from, &config.pattern, builder)?,
            to: builder.template(&config.to)?,
        })
    }

    /// Replaces a prefix of `text`, or all of it if a regular expression matches; `None` if the rule does not match.
    pub fn beginning(&self, exchange: &mut Exchange, text: &[u8]) -> Option<Vec<u8>> {
        match &self.from {
            From::Text(from) => {
                let rest = text.strip_prefix(&expanded(from, exchange)[..])?;
                let mut new = expanded(&self.to, exchange);
                new.extend_from_slice(rest);
                Some(new)
            }
            From::Pattern(pattern) => {
                fits(pattern, exchange, text).then(|| expanded(&self.to, exchange))
            }
        }
    }

    /// The replacement for the domain `text`, if the rule matches. A text is compared and replaced behind a leading
    /// dot, which stays; a regular expression gets all of it.
    fn whole(&self, exchange: &mut Exchange, text: &[u8]) -> Option<Vec<u8>> {
        let from = match &self.from {
            From::Pattern(pattern) => {
                return fits(pattern, exchange, text).then(|| expanded(&self.to, exchange));
            }
            From::Text(from) => expanded(from, exchange),
        };
        let bare = text.strip_prefix(b".").unwrap_or(text);
        let from = from.strip_prefix(b".").unwrap_or(&from);
        from.eq_ignore_ascii_case(bare).then(|| {
            let to = expanded(&self.to, exchange);
            let mut new = text[..text.len() - bare.len()].to_vec();
            new.extend_from_slice(to.strip_prefix(b".").unwrap_or(&to));
            new
        })
    }
}

impl From {
    fn build(
        directive: &'static str,
        text: &str,
        pattern: &str,
        builder: &Builder<'_>,
    ) -> Result<From, Refusal> {
        match pattern {
            "" => Ok(From::Text(builder.template(text)?)),
            pattern => Ok(From::Pattern(Pattern::new(
                directive,
                pattern,
                Case::Kept,
                builder.recorder,
            )?)),
        }
    }
}

/// Whether a regular expression matches `text`.
fn fits(pattern: &Pattern, exchange: &mut Exchange, text: &[u8]) -> bool {
    let found = pattern.matches(exchange, text, Provenance::Path);
    found_or_fails(exchange, found)
}

/// Changes to cookies.
pub struct Cookies {
    domains: Vec<Change>,
    paths: Vec<Change>,
    flags: Vec<Flags>,
}

struct Flags {
    name: From,
    secure: Option<bool>,
    http_only: Option<bool>,
    /// Empty to remove the attribute.
    same_site: Option<&'static [u8]>,
}

impl Cookies {
    /// Parses the settings; `None` if cookies are not changed.
    pub fn build(config: &Config, builder: &Builder<'_>) -> Result<Option<Cookies>, Refusal> {
        let changes = |name, list: &[LocationChange]| -> Result<Vec<Change>, Refusal> {
            let list = list.iter();
            list.map(|one| Change::build(name, one, builder)).collect()
        };
        let flags = config.cookie_flags.iter();
        let cookies = Cookies {
            domains: changes("proxy_cookie_domain", &config.cookie_domains)?,
            paths: changes("proxy_cookie_path", &config.cookie_paths)?,
            flags: flags
                .map(|flags| Flags::build(flags, builder))
                .collect::<Result<_, _>>()?,
        };
        let is_idle =
            cookies.domains.is_empty() && cookies.paths.is_empty() && cookies.flags.is_empty();
        Ok((!is_idle).then_some(cookies))
    }

    /// The changed cookie; `None` if it remains as it is.
    pub fn change(&self, exchange: &mut Exchange, cookie: &[u8]) -> Option<Vec<u8>> {
        let mut pieces = cookie.split(|byte| *byte == b';');
        let first = pieces.next()?;
        let name = first.split(|byte| *byte == b'=').next()?.trim_ascii();
        let flags = self.flags.iter().find(|flags| flags.fits(exchange, name));
        let mut out = first.to_vec();
        for piece in pieces {
            let (name, value) = match memchr::memchr(b'=', piece) {
                Some(at) => (&piece[..at], Some(&piece[at + 1..])),
                None => (piece, None),
            };
            let name = name.trim_ascii();
            if flags.is_some_and(|flags| flags.sets(name)) {
                continue;
            }
            let changes = match value {
                Some(_) if name.eq_ignore_ascii_case(b"domain") => &self.domains[..],
                Some(_) if name.eq_ignore_ascii_case(b"path") => &self.paths[..],
                _ => &[],
            };
            let value = value.unwrap_or_default().trim_ascii();
            let is_domain = name.eq_ignore_ascii_case(b"domain");
            let new = changes.iter().find_map(|change| match is_domain {
                true => change.whole(exchange, value),
                false => change.beginning(exchange, value),
            });
            out.push(b';');
            match new {
                None => out.extend_from_slice(piece),
                Some(new) => {
                    out.push(b' ');
                    out.extend_from_slice(name);
                    out.push(b'=');
                    out.extend_from_slice(&new);
                }
            }
        }
        if let Some(flags) = flags {
            flags.add(&mut out);
        }
        (out != cookie).then_some(out)
    }
}

impl Flags {
    fn build(config: &CookieFlags, builder: &Builder<'_>) -> Result<Flags, Refusal> {
        let mut flags = Flags {
            name: From::build("proxy_cookie_flags", &config.name, &config.pattern, builder)?,
            secure: None,
            http_only: None,
            same_site: None,
        };
        for flag in &config.flags {
            match flag.as_str() {
                "secure" => flags.secure = Some(true),
                "nosecure" => flags.secure = Some(false),
                "httponly" => flags.http_only = Some(true),
                "nohttponly" => flags.http_only = Some(false),
                "samesite" => flags.same_site = Some(b"SameSite"),
                "samesite=strict" => flags.same_site = Some(b"SameSite=Strict"),
                "samesite=lax" => flags.same_site = Some(b"SameSite=Lax"),
                "samesite=none" => flags.same_site = Some(b"SameSite=None"),
                "nosamesite" => flags.same_site = Some(b""),
                other => return Err(Refusal::new(format!("`{other}` is not a cookie flag"))),
            }
        }
        Ok(flags)
    }

    fn fits(&self, exchange: &mut Exchange, name: &[u8]) -> bool {
        match &self.name {
            From::Text(text) => expanded(text, exchange).eq_ignore_ascii_case(name),
            From::Pattern(pattern) => fits(pattern, exchange, name),
        }
    }

    /// Whether these flags determine this attribute.
    fn sets(&self, attribute: &[u8]) -> bool {
        let is = |name: &[u8]| attribute.eq_ignore_ascii_case(name);
        self.secure.is_some() && is(b"secure")
            || self.http_only.is_some() && is(b"httponly")
            || self.same_site.is_some() && is(b"samesite")
    }

    fn add(&self, out: &mut Vec<u8>) {
        let texts: [&[u8]; 3] = [
            if self.secure == Some(true) {
                b"Secure"
            } else {
                b""
            },
            if self.http_only == Some(true) {
                b"HttpOnly"
            } else {
                b""
            },
            self.same_site.unwrap_or_default(),
        ];
        for text in texts.into_iter().filter(|text| !text.is_empty()) {
            out.extend_from_slice(b"; ");
            out.extend_from_slice(text);
        }
    }
}
