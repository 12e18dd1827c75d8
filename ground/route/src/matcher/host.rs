//! The `host` matcher. `router` finds the routes of a host among many.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::{Input, MatcherError};
use crate::placeholder::{Template, Unknown};
use crate::router::HostKey;
use crate::table::Table;

/// Hosts: exact names, names with `*` for whole labels, and names with placeholders.
#[derive(Clone, Debug)]
pub struct HostMatcher {
    exact: Table,
    wildcards: Vec<Wildcard>,
    dynamic: Vec<Template>,
    key: Option<Vec<HostKey>>,
}

/// The labels of a name, `None` for `*`.
#[derive(Clone, Debug)]
struct Wildcard {
    labels: Vec<Option<Box<[u8]>>>,
}

impl HostMatcher {
    /// Compiles `hosts`.
    pub fn new<S: AsRef<str>>(hosts: &[S]) -> Result<HostMatcher, MatcherError> {
        let mut exact: Vec<String> = Vec::new();
        let mut seen = alloc::collections::BTreeSet::new();
        let (mut wildcards, mut dynamic) = (Vec::new(), Vec::new());
        let mut key = Some(Vec::new());
        for text in hosts.iter().map(AsRef::as_ref) {
            let refuse = |error| MatcherError::Template(text.into(), error);
            let template = Template::parse(text).map_err(refuse)?;
            let name = match template.literal() {
                Some(_) => ascii_host(text)?,
                None => text.into(),
            };
            if !seen.insert(name.clone()) {
                return Err(MatcherError::HostRepeated(text.into()));
            }
            if template.literal().is_none() {
                dynamic.push(template);
                key = None;
            } else if name.contains('*') {
                let wildcard = Wildcard::new(name.as_bytes());
                add_key(&mut key, wildcard.key());
                wildcards.push(wildcard);
            } else {
                add_key(&mut key, Some(HostKey::Exact(name.as_bytes().into())));
                exact.push(name);
            }
        }
        Ok(HostMatcher {
            exact: Table::new(&exact),
            wildcards,
            dynamic,
            key,
        })
    }

    /// Whether the request's host is one of them.
    pub fn matches(&self, input: &Input<'_>) -> bool {
        let host = input.head.host.as_slice();
        self.exact.find(host).is_some()
            || self.wildcards.iter().any(|wildcard| wildcard.matches(host))
            || self
                .dynamic
                .iter()
                .any(|template| matches_dynamic(template, host, input))
    }

    /// The hosts as the route index takes them; `None` if any host may match.
    pub(crate) fn key(&self) -> Option<Vec<HostKey>> {
        self.key.clone()
    }
}

fn add_key(keys: &mut Option<Vec<HostKey>>, key: Option<HostKey>) {
    match (keys.as_mut(), key) {
        (Some(keys), Some(key)) => keys.push(key),
        (_, None) => *keys = None,
        (None, Some(_)) => {}
    }
}

impl Wildcard {
    fn new(name: &[u8]) -> Wildcard {
        let label = |label: &[u8]| (label != b"*").then(|| label.into());
        Wildcard {
            labels: name.split(|&byte| byte == b'.').map(label).collect(),
        }
    }

    fn matches(&self, host: &[u8]) -> bool {
        let mut given = host.split(|&byte| byte == b'.');
        self.labels.iter().all(|label| match (label, given.next()) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(label), Some(given)) => label.as_ref() == given,
        }) && given.next().is_none()
    }

    /// Only `*.name` is indexed; stars elsewhere are rare and cost a comparison each.
    fn key(&self) -> Option<HostKey> {
        let (first, rest) = self.labels.split_first()?;
        if first.is_some() || rest.is_empty() {
            return None;
        }
        let rest: Option<Vec<&[u8]>> = rest.iter().map(Option::as_deref).collect();
        Some(HostKey::Wildcard(rest?.join(&b'.').into()))
    }
}

/// A star in the text of the configuration stands for a label; one in a value is an ordinary
/// character, which no host has.
fn matches_dynamic(template: &Template, host: &[u8], input: &Input<'_>) -> bool {
    input.scratch.with_buf(|buf| {
        template.expand_each(input.values, Unknown::Empty, buf, |_, out, start| {
            for byte in out[start..].iter_mut().filter(|byte| **byte == b'*') {
                *byte = 0;
            }
        });
        buf.make_ascii_lowercase();
        Wildcard::new(buf).matches(host)
    })
}

/// `name` in the form that stands in requests: lower case, labels beyond ASCII in Punycode (RFC
/// 3492), IPv6 without brackets.
fn ascii_host(name: &str) -> Result<String, MatcherError> {
    let name = name
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(name);
    let mut out = String::with_capacity(name.len());
    for (index, label) in name.split('.').enumerate() {
        if index > 0 {
            out.push('.');
        }
        if label.is_ascii() {
            out.push_str(&label.to_ascii_lowercase());
        } else {
            out.push_str("xn--");
            let lower = label.to_lowercase();
            encode_label(&lower, &mut out).ok_or_else(|| MatcherError::HostName(name.into()))?;
        }
    }
    Ok(out)
}

/// Appends the Punycode form of `label` (RFC 3492, section 6.3); `None` on overflow.
fn encode_label(label: &str, out: &mut String) -> Option<()> {
    const BASE: u32 = 36;
    let basic_count = label.chars().filter(char::is_ascii).count() as u32;
    out.extend(label.chars().filter(char::is_ascii));
    if basic_count > 0 {
        out.push('-');
    }
    let (mut next, mut delta, mut bias, mut handled) = (128_u32, 0_u32, 72_u32, basic_count);
    while (handled as usize) < label.chars().count() {
        let lowest = label
            .chars()
            .map(u32::from)
            .filter(|&code| code >= next)
            .min()?;
        delta = delta.checked_add((lowest - next).checked_mul(handled + 1)?)?;
        next = lowest;
        for code in label.chars().map(u32::from) {
            if code < next {
                delta = delta.checked_add(1)?;
            }
            if code != next {
                continue;
            }
            let (mut quotient, mut step) = (delta, BASE);
            loop {
                let threshold = step.saturating_sub(bias).clamp(1, 26);
                if quotient < threshold {
                    break;
                }
                out.push(digit(
                    threshold + (quotient - threshold) % (BASE - threshold),
                ));
                quotient = (quotient - threshold) / (BASE - threshold);
                step += BASE;
            }
            out.push(digit(quotient));
            bias = adapt(delta, handled + 1, handled == basic_count);
            delta = 0;
            handled += 1;
        }
        delta = delta.checked_add(1)?;
        next += 1;
    }
    Some(())
}

fn digit(value: u32) -> char {
    let value = value as u8;
    char::from(if value < 26 {
        b'a' + value
    } else {
        b'0' + value - 26
    })
}

fn adapt(delta: u32, count: u32, first: bool) -> u32 {
    let mut delta = if first { delta / 700 } else { delta / 2 };
    delta += delta / count;
    let mut bias = 0;
    while delta > 455 {
        delta /= 35;
        bias += 36;
    }
    bias + 36 * delta / (delta + 38)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_beyond_ascii_get_their_ascii_form() {
        for (name, ascii) in [
            ("Example.COM", "example.com"),
            ("Bücher.example", "xn--bcher-kva.example"),
            ("例え.テスト", "xn--r8jz45g.xn--zckzah"),
            ("[::1]", "::1"),
            ("*.ü", "*.xn--tda"),
        ] {
            assert_eq!(ascii_host(name).unwrap(), ascii);
        }
    }

    #[test]
    fn a_host_twice_is_refused() {
        let error = HostMatcher::new(&["a.b", "A.b"]).unwrap_err();
        assert_eq!(error, MatcherError::HostRepeated("A.b".into()));
    }

    #[test]
    fn only_what_the_index_decides_exactly_has_a_key() {
        let key = |hosts: &[&str]| HostMatcher::new(hosts).unwrap().key();
        assert_eq!(key(&["a", "*.b.c"]).unwrap().len(), 2);
        assert_eq!(key(&["a", "*"]), None);
        assert_eq!(key(&["a.*"]), None);
        assert_eq!(key(&["a", "{env.X}", "b"]), None);
        assert_eq!(key(&[]), Some(Vec::new()));
    }
}
