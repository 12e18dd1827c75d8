//! Checks of arguments that several modules use; those of one module stand beside its definitions.

use std::ops::RangeInclusive;

use crate::definition::Wrong;
use crate::lower::values::size;
use crate::registry::variables::may_be_set;
use crate::tree::Directive;

/// nginx refuses zones of fewer than eight pages of memory.
pub const ZONE_BYTES_MIN: u64 = 8 * 4096;

/// Finds the first argument that does not fit.
pub fn each(
    directive: &Directive,
    wanted: &'static str,
    fits: impl Fn(&str) -> bool,
) -> Option<Wrong> {
    let mut words = directive.args.iter();
    let at = words.position(|word| !fits(&word.text))?;
    Some((at, wanted))
}

/// Finds the first argument that is not a number of this range.
pub fn not_in(
    directive: &Directive,
    range: RangeInclusive<u32>,
    wanted: &'static str,
) -> Option<Wrong> {
    each(directive, wanted, |word| {
        word.parse().is_ok_and(|number| range.contains(&number))
    })
}

/// A number of buffers, and the size of each.
pub fn buffers(directive: &Directive) -> Option<Wrong> {
    let [count, bytes] = directive.args.as_slice() else {
        return None;
    };
    if !count.text.parse::<u32>().is_ok_and(|count| count > 0) {
        return Some((0, "a number of buffers and the size of each"));
    }
    let fits = size(&bytes.text).is_some_and(|bytes| bytes > 0);
    (!fits).then_some((1, "a size such as `8k` behind the number"))
}

/// Whether the groups of a pattern are called as variables may be that configurations set.
pub fn names_are_free(pattern: &str) -> bool {
    let after = |opening: &'static str| pattern.split(opening).skip(1);
    let mut rests = after("(?<").chain(after("(?P<"));
    rests.all(|rest| {
        let name = rest.split('>').next().unwrap_or_default();
        may_be_set(name)
    })
}

/// A pattern whose named groups are not variables of nginx.
pub fn pattern(directive: &Directive) -> Option<Wrong> {
    each(
        directive,
        "a pattern whose groups have names of their own",
        names_are_free,
    )
}

/// The address of an application or of memcached.
pub fn address(directive: &Directive) -> Option<Wrong> {
    let first = directive.arg(0)?;
    let fits = match first.strip_prefix("unix:") {
        Some(path) if !first.contains('$') => !path.is_empty(),
        _ => !first.starts_with('/'),
    };
    (!fits).then_some((0, ADDRESS))
}

/// What addresses look like, shown in diagnostics.
pub const ADDRESS: &str = "`host:port` or `unix:/path`";

/// Whether an address of a DNS server has a port that there is, if it has any.
pub fn has_good_port(word: &str) -> bool {
    let after = word.rfind(']').map_or(word, |at| &word[at + 1..]);
    let port = after.rsplit_once(':').map(|(_, port)| port);
    port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
}
