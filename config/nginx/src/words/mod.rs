//! Checks the arguments of directives wherever they occur, whether or not the directive is in use: what `nginx -t`
//! would reject is rejected. Checks that need more than the directive itself are in `lower`.

mod sets;
mod values;

use crate::lower::values::{size, time};
use crate::modules::log;
use crate::registry::variables::may_be_set;
use crate::tree::Directive;

/// A word that means nothing: its number, and what may stand there.
pub type Wrong = (usize, &'static str);

/// Looks at the words of a directive whose number of words fits.
pub fn wrong(directive: &Directive) -> Option<Wrong> {
    not_of_its_set(directive)
        .or_else(|| values::wrong(directive))
        .or_else(|| malformed(directive))
}

fn not_of_its_set(directive: &Directive) -> Option<Wrong> {
    let set = sets::of(directive.name())?;
    let is_one = |text: &str| set.words.iter().any(|word| word.eq_ignore_ascii_case(text));
    let mut words = directive.args.iter().enumerate().skip(set.from);
    let (at, _) = words.find(|(_, word)| !is_one(&word.text))?;
    Some((at, set.wanted))
}

fn malformed(directive: &Directive) -> Option<Wrong> {
    match directive.name() {
        "gzip_comp_level" => not_in(directive, 1..=9, "a number from 1 to 9"),
        "limit_req_status" | "limit_conn_status" => {
            not_in(directive, 400..=599, "a status from 400 to 599")
        }
        "lingering_close" => each(directive, "`off`, `on` or `always`", |word| {
            matches!(word, "off" | "on" | "always")
        }),
        "aio" => each(directive, "`on`, `off` or `threads`", |word| {
            matches!(word, "on" | "off" | "threads") || word.starts_with("threads=")
        }),
        "directio" => each(directive, "`off` or a size such as `4m`", |word| {
            word == "off" || size(word).is_some()
        }),
        "keepalive_timeout" => each(directive, "one or two lengths of time", |word| {
            time(word).is_some()
        }),
        "output_buffers"
        | "large_client_header_buffers"
        | "gzip_buffers"
        | "gunzip_buffers"
        | "proxy_buffers"
        | "fastcgi_buffers"
        | "uwsgi_buffers"
        | "scgi_buffers" => buffers(directive),
        "proxy_cache_methods"
        | "fastcgi_cache_methods"
        | "uwsgi_cache_methods"
        | "scgi_cache_methods" => each(directive, "`GET`, `HEAD` and `POST`", |word| {
            matches!(word, "GET" | "HEAD" | "POST")
        }),
        "open_file_cache" => open_file_cache(directive),
        "resolver" => resolver(directive),
        "access_log" => log::params(directive).err(),
        "open_log_file_cache" => log::open_files(directive).err(),
        "listen" => listen(directive),
        "server_name" => each(
            directive,
            "names such as `a.example`, `*.example` or `~^a`",
            |word| {
                names_are_free(word)
                    && !(word == "."
                        || word.starts_with('*') && (word.len() < 3 || !word.starts_with("*.")))
            },
        ),
        "limit_req_zone" | "limit_conn_zone" => zone(directive),
        "fastcgi_pass" | "uwsgi_pass" | "scgi_pass" | "memcached_pass" => address(directive),
        "server" if directive.block.is_none() => address(directive),
        "location" | "rewrite" | "if" => each(
            directive,
            "a pattern whose groups have names of their own",
            names_are_free,
        ),
        _ => None,
    }
}

/// Whether directives of this name define what others use.
pub fn defines(name: &str) -> bool {
    matches!(name, "limit_req_zone" | "limit_conn_zone" | "log_format")
}

/// nginx refuses zones of fewer than eight pages of memory.
const ZONE_BYTES_MIN: u64 = 8 * 4096;

fn each(directive: &Directive, wanted: &'static str, fits: impl Fn(&str) -> bool) -> Option<Wrong> {
    let mut words = directive.args.iter();
    let at = words.position(|word| !fits(&word.text))?;
    Some((at, wanted))
}

fn not_in(
    directive: &Directive,
    range: std::ops::RangeInclusive<u32>,
    wanted: &'static str,
) -> Option<Wrong> {
    each(directive, wanted, |word| {
        word.parse().is_ok_and(|number| range.contains(&number))
    })
}

fn buffers(directive: &Directive) -> Option<Wrong> {
    let [count, bytes] = directive.args.as_slice() else {
        return None;
    };
    if !count.text.parse::<u32>().is_ok_and(|count| count > 0) {
        return Some((0, "a number of buffers and the size of each"));
    }
    let fits = size(&bytes.text).is_some_and(|bytes| bytes > 0);
    (!fits).then_some((1, "a size such as `8k` behind the number"))
}

fn open_file_cache(directive: &Directive) -> Option<Wrong> {
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

/// Whether an address of a DNS server has a port that there is, if it has any.
fn has_good_port(word: &str) -> bool {
    let after = word.rfind(']').map_or(word, |at| &word[at + 1..]);
    let port = after.rsplit_once(':').map(|(_, port)| port);
    port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
}

fn resolver(directive: &Directive) -> Option<Wrong> {
    const WANTED: &str = "addresses, those of IPv6 in brackets, then `valid=TIME`, `ipv4=on|off`, `ipv6=on|off`, one of them on; \
         only nginx Plus has `status_zone=`";
    let has = |text: &str| directive.args.iter().any(|word| word.text == text);
    if has("ipv4=off") && has("ipv6=off") {
        return Some((directive.args.len() - 1, WANTED));
    }
    each(directive, WANTED, |word| match word.split_once('=') {
        Some(("valid", length)) => time(length).is_some(),
        Some(("ipv4" | "ipv6", value)) => matches!(value, "on" | "off"),
        Some(_) => false,
        None => (word.starts_with('[') || word.matches(':').count() < 2) && has_good_port(word),
    })
    .or_else(|| {
        let mut words = directive.args.iter();
        (!words.any(|word| !word.text.contains('='))).then_some((0, WANTED))
    })
}

fn listen(directive: &Directive) -> Option<Wrong> {
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

/// Whether a word is a rate of one or more.
fn is_rate(word: &str) -> bool {
    let rate = word.strip_prefix("rate=");
    // Without a unit it is one of a second, as in nginx.
    let count = rate.map(|rate| {
        let bare = rate.strip_suffix("r/s").or(rate.strip_suffix("r/m"));
        bare.unwrap_or(rate)
    });
    count.is_some_and(|count| count.parse::<u32>().is_ok_and(|count| count > 0))
}

fn zone(directive: &Directive) -> Option<Wrong> {
    let (at, text) = directive
        .args
        .iter()
        .enumerate()
        .find_map(|(at, word)| Some((at, word.text.strip_prefix("zone=")?)))?;
    if !text.contains(':') {
        return Some((at, "`zone=NAME:SIZE`"));
    }
    if directive.name() == "limit_req_zone" {
        let mut words = directive.args.iter().enumerate().skip(1);
        let is_known = |word: &str| word.starts_with("zone=") || word == "sync" || is_rate(word);
        let unknown = words.find(|(_, word)| !is_known(&word.text));
        if let Some((at, _)) = unknown {
            return Some((
                at,
                "a key, `zone=NAME:SIZE`, and `rate=10r/s` or `rate=30r/m`",
            ));
        }
    }
    let bytes = text.rsplit_once(':').map(|(_, bytes)| size(bytes));
    let is_enough = bytes.is_none_or(|bytes| bytes.is_some_and(|bytes| bytes >= ZONE_BYTES_MIN));
    (!is_enough).then_some((at, "a size that is large enough, such as `10m`"))
}

/// Whether the groups of a pattern are called as variables may be that configurations set.
fn names_are_free(pattern: &str) -> bool {
    let after = |opening: &'static str| pattern.split(opening).skip(1);
    let mut rests = after("(?<").chain(after("(?P<"));
    rests.all(|rest| {
        let name = rest.split('>').next().unwrap_or_default();
        may_be_set(name)
    })
}

fn address(directive: &Directive) -> Option<Wrong> {
    let first = directive.arg(0)?;
    let is_of_cgi = directive.name() != "server";
    let fits = match first.strip_prefix("unix:") {
        _ if first.contains('$') => !first.starts_with('/'),
        Some(path) => !path.is_empty(),
        None if is_of_cgi => !first.starts_with('/'),
        None => !first.contains('/') && (has_good_port(first) || first.matches(':').count() > 1),
    };
    (!fits).then_some((0, "`host:port` or `unix:/path`"))
}

/// Directives that mean nothing among those of their block: what is wrong, and what helps.
pub fn among(directives: &[Directive]) -> Vec<(&Directive, &'static str, &'static str)> {
    let mut found = Vec::new();
    let mut is_passed = false;
    let redirects = directives
        .iter()
        .filter(|one| one.name() == "proxy_redirect");
    let is_several = redirects.count() > 1;
    for directive in directives {
        match (directive.name(), directive.arg(0)) {
            ("proxy_pass", _) => is_passed = true,
            ("proxy_redirect", Some("default")) if !is_passed => found.push((
                directive,
                "no `proxy_pass` stands before it, from which it would follow",
                "put it behind `proxy_pass`, or leave it out: it holds where nothing is said",
            )),
            ("proxy_redirect", Some("off")) if is_several => found.push((
                directive,
                "other lines of this block say what is replaced",
                "keep it, or the others",
            )),
            _ => {}
        }
    }
    found
}

/// What may occur only once: directives of the same name are distinguished by the word that names what they define. A
/// directive that excludes another one has its name.
pub fn identity(directive: &Directive) -> Option<String> {
    let zone = || {
        let mut words = directive.args.iter();
        let text = words.find_map(|word| word.text.strip_prefix("zone="))?;
        text.split(':').next()
    };
    let name = directive.name();
    let own = match name {
        "alias" => return Some("root".to_owned()),
        "upstream" | "log_format" | "limit_conn" | "thread_pool" => directive.arg(0)?,
        "limit_req" | "limit_req_zone" | "limit_conn_zone" => zone()?,
        _ => return None,
    };
    Some(format!("{name} {own}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryLoader;
    use crate::parse::parse_with;

    #[test]
    fn words_are_looked_at() {
        for (text, at) in [
            ("gzip_comp_level 10;", Some(0)),
            ("gzip_comp_level 9;", None),
            ("open_file_cache max=0;", Some(0)),
            ("open_file_cache inactive=1s;", Some(0)),
            ("open_file_cache max=10 inactive=20s;", None),
            ("open_file_cache off;", None),
            ("resolver ::1;", Some(0)),
            ("resolver [::1]:53 10.0.0.1:53 valid=5m ipv6=off;", None),
            ("resolver 10.0.0.1 valid=x;", Some(1)),
            ("access_log off combined;", Some(1)),
            ("access_log a combined flush=1s;", Some(2)),
            ("access_log a combined flush=1s buffer=32k;", None),
            ("access_log a combined flush=0 gzip;", Some(2)),
            ("access_log a combined flush=1h gzip if=;", None),
            ("access_log a combined gzip=10;", Some(2)),
            ("access_log a combined more;", Some(2)),
            ("access_log a/$host combined buffer=1k;", Some(0)),
            ("access_log syslog:server=a combined gzip;", Some(0)),
            ("open_log_file_cache max=0;", Some(0)),
            (
                "open_log_file_cache max=1 inactive=1s min_uses=0 valid=1m;",
                None,
            ),
            ("open_log_file_cache max=1 valid=x;", Some(1)),
            ("open_log_file_cache inactive=1s;", Some(0)),
            ("open_log_file_cache max=1 off;", None),
            ("listen 80 backlog=x;", Some(1)),
            ("listen 80 so_keepalive=30m::10 ipv6only=on;", None),
            ("listen 80 so_keepalive=x;", Some(1)),
            ("server_name a *.b .c ~^d;", None),
            ("server_name a *;", Some(1)),
            ("server_name *b.example;", Some(0)),
            ("limit_req_zone $a zone=b:1 rate=1r/s;", Some(1)),
            ("limit_req_zone $a zone=b:32k rate=1r/s;", None),
            ("proxy_buffers 0 4k;", Some(0)),
            ("proxy_buffers 8 4k;", None),
            ("fastcgi_pass /run/php.sock;", Some(0)),
            ("location ~ /(?<scheme>a) {}", Some(1)),
            ("location ~ /(?<own>a)(?<=b)(?<!c) {}", None),
            ("server_name ~^(?P<host>a);", Some(0)),
            ("keepalive_timeout 65s 60;", None),
            ("keepalive_timeout -1;", Some(0)),
        ] {
            let parsed = parse_with("nginx.conf", text, "", &MemoryLoader::default());
            let found = wrong(&parsed.directives[0]).map(|(at, _)| at);
            assert_eq!(found, at, "{text}");
        }
    }
}
