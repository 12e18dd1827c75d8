//! Arguments that are numbers, sizes, times, addresses or patterns of one directive.

use sluice_route::matcher::IpRanges;

use super::{Wrong, ZONE_BYTES_MIN, each};
use crate::lower::syslog;
use crate::lower::values::{size, time};
use crate::tree::Directive;

/// Checks directives with such arguments.
pub fn wrong(directive: &Directive) -> Option<Wrong> {
    match directive.name() {
        "userid_expires" => each(directive, "a time such as `365d`, `max` or `off`", |word| {
            matches!(word, "max" | "off") || time(word).is_some()
        }),
        "userid_mark" => each(directive, "a letter, a digit, `=` or `off`", |word| {
            word == "off"
                || matches!(
                    word.as_bytes(),
                    [b'=' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z']
                )
        }),
        "uwsgi_modifier1" | "uwsgi_modifier2" => {
            each(directive, "a number from 0 to 255", |word| {
                word.parse::<u8>().is_ok()
            })
        }
        "http2_chunk_size" => each(directive, "a size such as `8k`", |word| {
            size(word).is_some_and(|bytes| bytes > 0)
        }),
        "proxy_cache_max_range_offset"
        | "fastcgi_cache_max_range_offset"
        | "uwsgi_cache_max_range_offset"
        | "scgi_cache_max_range_offset" => {
            each(directive, "a number of bytes", |word| size(word).is_some())
        }
        "proxy_cache_valid" | "fastcgi_cache_valid" | "uwsgi_cache_valid" | "scgi_cache_valid" => {
            cache_valid(directive)
        }
        "fastcgi_param" | "uwsgi_param" | "scgi_param" => {
            let third = directive.arg(2)?;
            (third != "if_not_empty").then_some((2, "`if_not_empty` at its end"))
        }
        "limit_conn" => {
            let is_number = |text: &str| text.parse::<u16>().is_ok_and(|count| count > 0);
            (!is_number(directive.arg(1)?)).then_some((1, "a zone and a number from 1 to 65535"))
        }
        "limit_req" => limit_req(directive),
        "debug_connection" | "set_real_ip_from" => {
            each(directive, "an address, a network or `unix:`", |word| {
                word == "unix:" || IpRanges::new(&[word]).is_ok() || is_host(word)
            })
        }
        "sub_filter" => (directive.arg(0)?.is_empty()).then_some((0, "a text to look for")),
        "rewrite" => (directive.arg(1)?.is_empty()).then_some((1, "what the path becomes")),
        "auth_request_set" => (!directive.arg(0)?.starts_with('$'))
            .then_some((0, "a variable such as `$name`, and its value")),
        "error_log" => error_log(directive),
        "log_format" => log_format(directive),
        "proxy_redirect" => changed(
            directive,
            "`default`, `off`, or what is replaced and by what",
            true,
        ),
        "proxy_cookie_path" | "proxy_cookie_domain" => {
            changed(directive, "`off`, or what is replaced and by what", false)
        }
        "proxy_cookie_flags" => {
            let is_alone = directive.args.len() == 1 && directive.arg(0) != Some("off");
            is_alone.then_some((0, "`off`, or a cookie and its flags"))
        }
        "proxy_bind" | "fastcgi_bind" | "uwsgi_bind" | "scgi_bind" | "grpc_bind"
        | "memcached_bind" => bind(directive),
        "zone" => upstream_zone(directive),
        "thread_pool" => thread_pool(directive),
        "ssl_session_cache" => session_cache(directive),
        _ => None,
    }
}

/// Whether a text may be the name of a host.
fn is_host(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    text.trim_end_matches('.').split('.').all(is_label)
}

fn cache_valid(directive: &Directive) -> Option<Wrong> {
    let (last, codes) = directive.args.split_last()?;
    if time(&last.text).is_none() {
        return Some((
            codes.len(),
            "statuses or `any`, and a length of time at its end",
        ));
    }
    let fits = |text: &str| {
        text == "any"
            || text
                .parse::<u16>()
                .is_ok_and(|code| (100..=599).contains(&code))
    };
    let at = codes.iter().position(|word| !fits(&word.text))?;
    Some((at, "a status from 100 to 599, or `any`"))
}

fn limit_req(directive: &Directive) -> Option<Wrong> {
    const BOUND: u32 = 1_000_000;
    let mut words = directive.args.iter().enumerate();
    let is_number = |text: &str| {
        text.parse::<u32>()
            .is_ok_and(|number| (1..=BOUND).contains(&number))
    };
    let found = words.find_map(|(at, word)| {
        let wanted = match word.text.split_once('=').unwrap_or((&word.text, "")) {
            ("zone", name) if !name.is_empty() => return None,
            ("nodelay", "") => return None,
            ("delay" | "burst", number) if is_number(number) => return None,
            ("delay", _) => "`delay=` and a number",
            ("burst", _) => "`burst=` and a number",
            _ => "`zone=`, `burst=`, and `nodelay` or `delay=`",
        };
        Some((at, wanted))
    });
    let mut words = directive.args.iter();
    let has_zone = words.any(|word| word.text.starts_with("zone="));
    found.or((!has_zone).then_some((0, "`zone=NAME`")))
}

fn error_log(directive: &Directive) -> Option<Wrong> {
    let path = directive.arg(0)?;
    if let Some(params) = path.strip_prefix("syslog:") {
        return syslog::parse(params).err().map(|wanted| (0, wanted));
    }
    // nginx takes no ring of lines that is smaller.
    const RING_BYTES_MIN: u64 = 8 * 1024;
    let ring = path.strip_prefix("memory:").map(size)?;
    let fits = ring.is_some_and(|bytes| bytes >= RING_BYTES_MIN);
    (!fits).then_some((0, "`memory:` and a size of 8k or more"))
}

fn log_format(directive: &Directive) -> Option<Wrong> {
    if directive.arg(0) == Some("combined") {
        return Some((
            0,
            "a name that is free: `combined` is there without being written",
        ));
    }
    let escape = directive.arg(1)?.strip_prefix("escape=");
    if escape.is_some_and(|escape| !matches!(escape, "default" | "json" | "none")) {
        return Some((1, "`escape=default`, `escape=json` or `escape=none`"));
    }
    let mut words = directive.args.iter().enumerate().skip(1);
    let (at, _) = words.find(|(_, word)| !has_whole_names(&word.text))?;
    Some((at, "names behind each `$`, as in `$status` or `${status}`"))
}

/// Whether a name stands behind each `$`, and each bracket is closed.
fn has_whole_names(text: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    text.split('$')
        .skip(1)
        .all(|rest| match rest.strip_prefix('{') {
            None => rest.starts_with(is_letter),
            Some(rest) => rest
                .split_once('}')
                .is_some_and(|(name, _)| !name.is_empty() && name.chars().all(is_letter)),
        })
}

/// What is replaced and by what, or a word alone that forbids it.
fn changed(directive: &Directive, wanted: &'static str, may_be_usual: bool) -> Option<Wrong> {
    let first = directive.arg(0)?;
    let is_alone = directive.args.len() == 1;
    let fits = first == "off" || first == "default" && may_be_usual;
    (is_alone && !fits).then_some((0, wanted))
}

fn bind(directive: &Directive) -> Option<Wrong> {
    let first = directive.arg(0)?;
    let fits = first == "off"
        || first.contains('$')
        || first.parse::<std::net::IpAddr>().is_ok()
        || first.parse::<std::net::SocketAddr>().is_ok();
    if !fits {
        return Some((0, "an IP address without port and variables, or `off`"));
    }
    (directive.arg(1)? != "transparent")
        .then_some((1, "an address alone, or `transparent` behind it"))
}

fn upstream_zone(directive: &Directive) -> Option<Wrong> {
    if directive.arg(0)?.is_empty() {
        return Some((0, "a name, and a size such as `64k`"));
    }
    let fits = size(directive.arg(1)?).is_some_and(|bytes| bytes >= ZONE_BYTES_MIN);
    (!fits).then_some((1, "a size of 32k or more behind the name"))
}

fn thread_pool(directive: &Directive) -> Option<Wrong> {
    let mut words = directive.args.iter().enumerate().skip(1);
    words.find_map(|(at, word)| {
        let (name, value) = word.text.split_once('=').unwrap_or((&word.text, ""));
        let number = value.parse::<u32>().ok();
        let fits = match name {
            "threads" => number.is_some_and(|count| count > 0),
            "max_queue" => number.is_some(),
            _ => false,
        };
        (!fits).then_some((at, "`threads=N` and `max_queue=N`"))
    })
}

fn session_cache(directive: &Directive) -> Option<Wrong> {
    let wanted =
        "`off`, `none`, `builtin`, `builtin:SIZE` or `shared:NAME:SIZE` with a size of 32k or more";
    each(directive, wanted, |word| match word.split_once(':') {
        None => matches!(word, "off" | "none" | "builtin"),
        Some(("builtin", count)) => count.parse::<u32>().is_ok(),
        Some(("shared", zone)) => match zone.split_once(':') {
            Some((name, bytes)) => {
                !name.is_empty() && size(bytes).is_some_and(|bytes| bytes >= ZONE_BYTES_MIN)
            }
            None => false,
        },
        Some(_) => false,
    })
}
