//! `nginx_expires`: until when answers are fresh.

use std::sync::Arc;

use sluice_message::{FieldId, date};
use sluice_model::nginx::Expires as Config;
use sluice_net::Body;

use crate::build::Refusal;
use crate::context::Exchange;
use crate::handler::{Filter, Handler, Step};

struct Expires(Arc<Fresh>);

struct Fresh {
    seconds: i64,
    from: From,
    on: On,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    /// The time of the answer.
    Access,
    /// The last change of what is answered; nothing is said where that is not known.
    Modified,
    /// Long ago.
    Epoch,
    /// As far in the future as nginx goes.
    Max,
}

/// Which answers get it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum On {
    Good,
    All,
}

/// Builds the handler.
pub fn build(config: &Config) -> Result<Box<dyn Handler>, Refusal> {
    let from = match config.from.as_str() {
        "access" => From::Access,
        "modified" => From::Modified,
        "epoch" => From::Epoch,
        "max" => From::Max,
        other => return Err(Refusal::new(format!("`{other}` is no beginning of a time"))),
    };
    Ok(Box::new(Expires(Arc::new(Fresh {
        seconds: config.seconds,
        from,
        on: if config.always { On::All } else { On::Good },
    }))))
}

impl Handler for Expires {
    fn serve(&self, x: &mut Exchange) -> Step {
        x.context.filters.push(self.0.clone());
        Step::Next
    }
}

impl Filter for Fresh {
    fn apply(&self, x: &mut Exchange, body: Body) -> Body {
        const GOOD: [u16; 10] = [200, 201, 204, 206, 301, 302, 303, 304, 307, 308];
        if self.on == On::Good && !GOOD.contains(&x.res.status.code()) {
            return body;
        }
        let now = x.worker.clock.unix_seconds();
        match self.from {
            From::Epoch => set(x, b"Thu, 01 Jan 1970 00:00:01 GMT", "no-cache"),
            From::Max => set(x, b"Thu, 31 Dec 2037 23:55:55 GMT", "max-age=315360000"),
            From::Access => self.count_from(x, i64::try_from(now).unwrap_or(i64::MAX), now),
            From::Modified => {
                let modified = x.res.fields.first(FieldId::LastModified);
                if let Some(modified) = modified.and_then(|value| date::parse_http(value, now)) {
                    self.count_from(x, modified, now);
                }
            }
        }
        body
    }
}

impl Fresh {
    fn count_from(&self, x: &mut Exchange, start: i64, now: u64) {
        let until = start.saturating_add(self.seconds);
        let left = until.saturating_sub(i64::try_from(now).unwrap_or(i64::MAX));
        let field = date::format_http(u64::try_from(until).unwrap_or(0));
        match self.seconds < 0 || left < 0 {
            true => set(x, &field, "no-cache"),
            false => set(x, &field, &format!("max-age={left}")),
        }
    }
}

/// A Cache-Control of an upstream is joined by ours, as nginx has it; its Expires is replaced.
fn set(x: &mut Exchange, expires: &[u8], cache_control: &str) {
    x.res.fields.set(FieldId::Expires, expires);
    x.res
        .fields
        .set(FieldId::CacheControl, cache_control.as_bytes());
}
