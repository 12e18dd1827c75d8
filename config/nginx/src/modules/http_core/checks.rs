//! What the arguments of `listen`, `server_name`, `open_file_cache` and other directives of `ngx_http_core_module` have to
//! be.

use crate::arguments::{each, names_are_free};
use crate::definition::{Keywords, Wrong};
use crate::lower::values::{size, time};
use crate::tree::Directive;

/// Those of `keepalive_disable`.
pub const KEEPALIVE_DISABLE: Keywords = Keywords {
    from: 0,
    words: &["none", "msie6", "safari"],
    wanted: "`none`, `msie6` and `safari`",
};

/// Those of `aio`.
pub fn aio(directive: &Directive) -> Option<Wrong> {
    each(directive, "`on`, `off` or `threads`", |word| {
        matches!(word, "on" | "off" | "threads") || word.starts_with("threads=")
    })
}

/// Those of `directio`.
pub fn directio(directive: &Directive) -> Option<Wrong> {
    each(directive, "`off` or a size such as `4m`", |word| {
        word == "off" || size(word).is_some()
    })
}

/// Those of `keepalive_timeout`.
pub fn keepalive_timeout(directive: &Directive) -> Option<Wrong> {
    each(directive, "one or two lengths of time", |word| {
        time(word).is_some()
    })
}

/// Those of `server_name`.
pub fn server_name(directive: &Directive) -> Option<Wrong> {
    each(
        directive,
        "names such as `a.example`, `*.example` or `~^a`",
        |word| {
            names_are_free(word)
                && !(word == "."
                    || word.starts_with('*') && (word.len() < 3 || !word.starts_with("*.")))
        },
    )
}

/// Those of `open_file_cache`.
pub fn open_file_cache(directive: &Directive) -> Option<Wrong> {
    const WANTED: &str = "`off`, or `max=N` and perhaps `inactive=TIME`";
    let fits = |word: &str| match word.split_once('=') {
        Some(("max", count)) => count.parse::<u32>().is_ok_and(|count| count > 0),
        Some(("inactive", length)) => time(length).is_some(),
        _ => word == "off",
    };
    each(directive, WANTED, fits).or_else(|| {
        let mut words = directive.args.iter();
        let is_whole = words.any(|word| word.text == "off" || word.text.starts_with("max="));
        (!is_whole).then_some((0, WANTED))
    })
}

/// Those of `listen`.
pub fn listen(directive: &Directive) -> Option<Wrong> {
    let mut words = directive.args.iter().enumerate().skip(1);
    words.find_map(|(at, word)| {
        let (name, value) = word.text.split_once('=')?;
        let (fits, wanted) = match name {
            "backlog" => (
                value.parse::<u32>().is_ok_and(|count| count != 0),
                "`backlog=N`",
            ),
            "fastopen" => (value.parse::<u32>().is_ok(), "`fastopen=N`"),
            "rcvbuf" | "sndbuf" => (size(value).is_some(), "a size such as `64k`"),
            "ipv6only" => (matches!(value, "on" | "off"), "`ipv6only=on|off`"),
            "so_keepalive" => (
                matches!(value, "on" | "off") || is_keep_alive(value),
                "`so_keepalive=on|off|[idle]:[interval]:[count]`",
            ),
            _ => return None,
        };
        (!fits).then_some((at, wanted))
    })
}

/// Whether a text is `idle:interval:count`, of which some may be left out.
fn is_keep_alive(text: &str) -> bool {
    let parts: Vec<&str> = text.split(':').collect();
    let [idle, interval, count] = parts.as_slice() else {
        return false;
    };
    let is_time = |part: &str| part.is_empty() || time(part).is_some();
    let is_said = !(idle.is_empty() && interval.is_empty() && count.is_empty());
    let is_zero = |part: &str| time(part).is_some_and(|time| time.0 == 0);
    let is_count = count.is_empty() || count.parse::<u32>().is_ok_and(|count| count > 0);
    is_said
        && is_time(idle)
        && is_time(interval)
        && !is_zero(idle)
        && !is_zero(interval)
        && is_count
}
