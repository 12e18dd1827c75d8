//! `nginx_expires`: the `Expires` and `Cache-Control` headers.

use sluice_message::{FieldId, Status, date};
use sluice_model::nginx::Expires as Config;
use sluice_net::Body;
use sluice_net::sys::local_time::local_offset;
use sluice_route::Template;

use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::handler::{Filter, Filtering, Handler};
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::values::expanded;

struct Fresh {
    span: Span,
    /// A template that yields the time and replaces the configured one; it may still count from the last
    /// modification.
    value: Option<Template>,
    on: On,
}

/// A lifetime and what it counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Span {
    /// Seconds from the response.
    Access(i64),
    /// Seconds from the last modification, or from the response if that is unknown.
    Modified(i64),
    /// Until this second of the day in local time.
    Daily(i64),
    /// Expired long ago.
    Epoch,
    /// The most distant time that nginx uses.
    Max,
}

/// The responses that the directive applies to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum On {
    Good,
    All,
}

const DAY: i64 = 24 * 60 * 60;

/// Builds the handler.
pub fn build(config: &Config, builder: &Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    let span = match config.from.as_str() {
        "access" => Span::Access(config.seconds),
        "modified" => Span::Modified(config.seconds),
        "daily" => Span::Daily(config.seconds),
        "epoch" => Span::Epoch,
        "max" => Span::Max,
        other => {
            return Err(Refusal::new(format!(
                "`{other}` is not the start of a time"
            )));
        }
    };
    let value = match config.value.as_str() {
        "" => None,
        text => Some(builder.template(text)?),
    };
    Ok(Filtering::boxed(Fresh {
        span,
        value,
        on: if config.always { On::All } else { On::Good },
    }))
}

/// Whether `expires` and `add_header` apply to this status without `always`.
pub(super) fn is_good(status: Status) -> bool {
    matches!(
        status.code(),
        200 | 201 | 204 | 206 | 301 | 302 | 303 | 304 | 307 | 308
    )
}

impl Filter for Fresh {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        if self.on == On::Good && !is_good(exchange.res.status) {
            return body;
        }
        let span = match &self.value {
            None => Some(self.span),
            Some(value) => Span::parse(&expanded(value, exchange), self.span),
        };
        if let Some(span) = span {
            span.set_fields(exchange);
        }
        body
    }
}

impl Span {
    /// Parses the value of a variable; `None` for `off` and for invalid values.
    fn parse(text: &[u8], like: Span) -> Option<Span> {
        let is_modified = matches!(like, Span::Modified(_));
        match text {
            b"epoch" if !is_modified => return Some(Span::Epoch),
            b"max" if !is_modified => return Some(Span::Max),
            _ => {}
        }
        let (sign, digits) = match text {
            [b'@', digits @ ..] if !is_modified => {
                let second = seconds(digits).filter(|second| *second <= DAY)?;
                return Some(Span::Daily(second));
            }
            [b'+', digits @ ..] => (1, digits),
            [b'-', digits @ ..] => (-1, digits),
            digits => (1, digits),
        };
        let length = sign * seconds(digits)?;
        Some(match is_modified {
            true => Span::Modified(length),
            false => Span::Access(length),
        })
    }

    fn set_fields(self, exchange: &mut Exchange) {
        let unix = exchange.worker.clock.unix_seconds();
        let now = i64::try_from(unix).unwrap_or(i64::MAX);
        let modified = || {
            let modified = exchange.res.fields.first(FieldId::LastModified);
            modified.and_then(|value| date::parse_http(value, unix))
        };
        let (until, length) = match self {
            Span::Epoch => return set(exchange, b"Thu, 01 Jan 1970 00:00:01 GMT", "no-cache"),
            Span::Max => {
                return set(
                    exchange,
                    b"Thu, 31 Dec 2037 23:55:55 GMT",
                    "max-age=315360000",
                );
            }
            Span::Access(length) => (now.saturating_add(length), length),
            Span::Modified(length) => (modified().unwrap_or(now).saturating_add(length), length),
            Span::Daily(second) => {
                let ahead = i64::from(local_offset(unix).seconds);
                (now + until_second(now + ahead, second), 0)
            }
        };
        let left = until.saturating_sub(now);
        let field = date::format_http(u64::try_from(until).unwrap_or(0));
        match length < 0 || left < 0 {
            true => set(exchange, &field, "no-cache"),
            false => set(exchange, &field, &format!("max-age={left}")),
        }
    }
}

/// Seconds until the local clock next reaches this second of the day.
fn until_second(local: i64, second: i64) -> i64 {
    match second - local.rem_euclid(DAY) {
        left @ 1.. => left,
        passed => passed + DAY,
    }
}

/// Parses a duration in nginx's format, in seconds: `1h 30m`, units in descending order.
fn seconds(text: &[u8]) -> Option<i64> {
    const UNITS: [(u8, i64); 7] = [
        (b'y', 365 * DAY),
        (b'M', 30 * DAY),
        (b'w', 7 * DAY),
        (b'd', DAY),
        (b'h', 3600),
        (b'm', 60),
        (b's', 1),
    ];
    let mut rest = text.trim_ascii();
    if rest.is_empty() {
        return None;
    }
    let (mut total, mut next) = (0i64, 0);
    while !rest.is_empty() {
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let digits = std::str::from_utf8(&rest[..count]).ok()?;
        let value: i64 = digits.parse().ok()?;
        rest = &rest[count..];
        let unit = rest.first().copied();
        rest = rest.get(1..).unwrap_or_default().trim_ascii_start();
        // A number without a unit counts seconds.
        let unit = unit.map_or(b's', |unit| if unit == b' ' { b's' } else { unit });
        let at = UNITS.iter().position(|(name, _)| *name == unit)?;
        if at < next {
            return None;
        }
        next = at + 1;
        total = total.checked_add(value.checked_mul(UNITS[at].1)?)?;
    }
    Some(total)
}

/// Replaces the headers of an upstream.
fn set(exchange: &mut Exchange, expires: &[u8], cache_control: &str) {
    exchange.res.fields.set(FieldId::Expires, expires);
    exchange
        .res
        .fields
        .set(FieldId::CacheControl, cache_control.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_say_times() {
        let access = Span::Access(0);
        for (text, expected) in [
            ("30d", Some(Span::Access(30 * DAY))),
            ("+1h 30m", Some(Span::Access(5400))),
            ("-1", Some(Span::Access(-1))),
            ("90", Some(Span::Access(90))),
            ("@15h30m", Some(Span::Daily(55_800))),
            ("@25h", None),
            ("epoch", Some(Span::Epoch)),
            ("max", Some(Span::Max)),
            ("off", None),
            ("", None),
            ("1m 1h", None),
            ("1x", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(Span::parse(text.as_bytes(), access), expected, "{text}");
        }
        let modified = Span::Modified(0);
        assert_eq!(Span::parse(b"1d", modified), Some(Span::Modified(DAY)));
        for text in ["@1h", "epoch", "max", "off"] {
            assert_eq!(Span::parse(text.as_bytes(), modified), None, "{text}");
        }
    }

    #[test]
    fn a_time_of_the_day_is_the_next_one() {
        for (local, second, left) in [
            (0, 60, 60),
            (60, 60, DAY),
            (61, 60, DAY - 1),
            (DAY + 5, 0, DAY - 5),
        ] {
            assert_eq!(until_second(local, second), left, "{local} {second}");
        }
    }
}
