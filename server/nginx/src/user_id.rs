//! `nginx_userid`: a cookie that identifies clients, in nginx's format: four 32-bit numbers in Base64.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use base64::Engine;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use sluice_message::date::{self, Calendar};
use sluice_message::{FieldId, FieldName};
use sluice_model::nginx::UserId as Config;
use sluice_net::Body;
use sluice_route::Template;

use super::user_id_value::Known;
use super::variables::cookie;
use crate::state::NginxContext;
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::handler::{Filter, Handler, Step};
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::text::clean_value;
use sluice_pipeline::values::expanded;

/// Old cookies may have any trailing bits in their last character.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&ALPHABET, NO_PAD.with_decode_allow_trailing_bits(true));

/// Base64 characters of a cookie; the mark follows.
const LETTERS: usize = 22;

struct UserId(Arc<Settings>);

struct Settings {
    mode: Mode,
    name: Box<str>,
    /// The attributes after the value, except `expires`.
    attributes: Box<str>,
    ends: Ends,
    mark: Option<u8>,
    p3p: Option<(FieldName, Template)>,
    service: Option<u32>,
    /// Whether to replace the client's cookie: if the value is neither empty nor `0`.
    reset: Option<Template>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Cookies are only logged.
    Log,
    /// nginx's version 1, in native byte order.
    One,
    Two,
}

/// When a cookie expires.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    WithBrowser,
    After(i64),
    Never,
}

/// Builds the handler.
pub fn build(config: &Config, builder: &Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    let mut attributes = String::new();
    if !config.domain.is_empty() {
        attributes.push_str(&format!("; domain={}", config.domain));
    }
    attributes.push_str(&format!("; path={}", config.path));
    for flag in &config.flags {
        attributes.push_str(&format!("; {flag}"));
    }
    let p3p = FieldName::new("P3P").filter(|_| !config.p3p.is_empty());
    let p3p = p3p.map(|name| Ok((name, builder.template(&config.p3p)?)));
    Ok(Box::new(UserId(Arc::new(Settings {
        mode: match config.mode.as_str() {
            "on" => Mode::Two,
            "v1" => Mode::One,
            "log" => Mode::Log,
            other => return Err(Refusal::new(format!("userid `{other}`"))),
        },
        name: config.name.as_str().into(),
        attributes: attributes.into(),
        ends: match config.expires {
            None => Ends::WithBrowser,
            Some(seconds) if seconds < 0 => Ends::Never,
            Some(seconds) => Ends::After(seconds),
        },
        mark: config.mark.bytes().next(),
        p3p: p3p.transpose()?,
        service: config.service,
        reset: match config.reset.as_str() {
            "" => None,
            text => Some(builder.template(text)?),
        },
    }))))
}

impl Handler for UserId {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        if exchange.context.nginx().is_subrequest() {
            return Step::Next;
        }
        let mut text = Vec::new();
        cookie(exchange, self.0.name.as_bytes(), &mut text);
        let mut known = Known {
            name: self.0.name.clone(),
            got: decoded(&text),
            set: None,
        };
        if self.0.mode != Mode::Log {
            known.set = self.0.to_set(exchange, &known, &text);
            exchange.context.filters.push(self.0.clone());
        }
        exchange.context.occasional_mut().user_id = Some(Box::new(known));
        Step::Next
    }
}

/// Decodes a cookie; `None` if it is not one of ours.
fn decoded(text: &[u8]) -> Option<[u8; 16]> {
    let letters = text.get(..LETTERS)?;
    let bytes: [u8; 16] = BASE64.decode(letters).ok()?.try_into().ok()?;
    // The last number is never zero.
    (bytes[12..] != [0; 4]).then_some(bytes)
}

impl Settings {
    /// The cookie to send: if the client has none, or one without the mark.
    fn to_set(&self, exchange: &Exchange, known: &Known, text: &[u8]) -> Option<[u8; 16]> {
        let is_reset = self.reset.as_ref().is_some_and(|reset| {
            let reset = expanded(reset, exchange);
            !matches!(&reset[..], b"" | b"0")
        });
        let has_mark = |mark: u8| text.get(LETTERS..LETTERS + 2) == Some(&[mark, b'=']);
        match known.got {
            Some(got) if !is_reset => match self.mark.is_none_or(has_mark) {
                true => None,
                false => Some(got),
            },
            _ => Some(self.made(exchange)),
        }
    }

    fn made(&self, exchange: &Exchange) -> [u8; 16] {
        // Unique within a process; `start` distinguishes processes.
        static LAST: AtomicU32 = AtomicU32::new(0x0303_0302);
        let last = LAST.fetch_add(0x100, Ordering::Relaxed).max(0x0303_0302);
        let now = exchange.worker.clock.unix_seconds() as u32;
        let start = sluice_observe::random::word() as u32;
        let numbers = match self.mode {
            Mode::One => [self.service.unwrap_or(0), now, start, last].map(u32::to_ne_bytes),
            Mode::Two | Mode::Log => {
                let local = exchange.conn.local.address().map(|local| local.ip());
                let service = self.service.unwrap_or_else(|| match local {
                    Some(IpAddr::V4(ip)) => u32::from(ip),
                    Some(IpAddr::V6(ip)) => (u128::from(ip) & 0xffff_ffff) as u32,
                    None => 0,
                });
                [service, now, start, last].map(u32::to_be_bytes)
            }
        };
        let mut bytes = [0; 16];
        bytes.copy_from_slice(numbers.as_flattened());
        bytes
    }
}

impl Filter for Settings {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        let known = exchange.context.occasional().user_id.as_deref();
        let Some(set) = known.and_then(|known| known.set) else {
            return body;
        };
        let mark = char::from(self.mark.unwrap_or(b'='));
        let mut value = format!("{}={}{mark}=", self.name, BASE64.encode(set));
        match self.ends {
            Ends::WithBrowser => {}
            Ends::Never => value.push_str("; expires=Thu, 31-Dec-37 23:55:55 GMT"),
            Ends::After(seconds) => {
                let now = i64::try_from(exchange.worker.clock.unix_seconds()).unwrap_or(i64::MAX);
                value.push_str("; expires=");
                value.push_str(&cookie_time(now.saturating_add(seconds)));
            }
        }
        value.push_str(&self.attributes);
        exchange
            .res
            .fields
            .push(FieldId::SetCookie, value.as_bytes());
        if let Some((name, text)) = &self.p3p {
            let mut text = expanded(text, exchange);
            clean_value(&mut text);
            exchange.res.fields.push_name(name, &text);
        }
        body
    }
}

/// A time in nginx's cookie format: a two-digit year up to 2037.
fn cookie_time(seconds: i64) -> String {
    let day = Calendar::of(seconds);
    let http = date::format_http(u64::try_from(seconds).unwrap_or(0));
    let text = String::from_utf8_lossy(&http).into_owned();
    // `Sun, 06 Nov 1994 08:49:37 GMT`
    let (weekday, rest) = text.split_at(5);
    let year = match day.year {
        ..=2037 => &rest[9..11],
        _ => &rest[7..11],
    };
    format!(
        "{weekday}{}-{}-{year}{}",
        &rest[..2],
        &rest[3..6],
        &rest[11..]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_read_with_and_without_marks() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
        let text = BASE64.encode(bytes);
        assert_eq!(text.len(), LETTERS);
        for end in ["==", "", "a=", "x"] {
            assert_eq!(
                decoded(format!("{text}{end}").as_bytes()),
                Some(bytes),
                "{end}"
            );
        }
        for bad in [
            "",
            "short",
            "!!!!!!!!!!!!!!!!!!!!!!!!",
            "AAAAAAAAAAAAAAAAAAAAAA==",
        ] {
            assert_eq!(decoded(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn times_are_those_of_old_cookies() {
        for (seconds, text) in [
            (784_111_777, "Sun, 06-Nov-94 08:49:37 GMT"),
            (2_145_916_555, "Thu, 31-Dec-37 23:55:55 GMT"),
            (2_145_916_800, "Fri, 01-Jan-2038 00:00:00 GMT"),
        ] {
            assert_eq!(cookie_time(seconds), text);
        }
    }
}
