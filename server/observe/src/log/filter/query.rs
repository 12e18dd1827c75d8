//! Applies filter actions to URL query parameters.

use sluice_message::uri::{decode_percent, encode_query};

use super::Action;

/// Applies the actions to the query of a URL. As in Caddy, the parameters are sorted by name.
pub fn apply(actions: &[Action], url: &str) -> String {
    let (rest, fragment) = split(url, '#');
    let (path, query) = split(rest, '?');
    let Some(query) = query else {
        return url.to_owned();
    };
    let mut pairs: Vec<(String, String)> = query.split('&').filter_map(pair).collect();
    for action in actions {
        pairs.retain_mut(|(name, value)| {
            if *name != action.name {
                return true;
            }
            let new = action.kind.apply(value);
            let kept = new.is_some();
            *value = new.unwrap_or_default();
            kept
        });
    }
    pairs.sort_by(|(one, _), (other, _)| one.cmp(other));
    let mut out = path.as_bytes().to_vec();
    for (at, (name, value)) in pairs.iter().enumerate() {
        out.push(if at == 0 { b'?' } else { b'&' });
        encode_query(name.as_bytes(), &mut out);
        out.push(b'=');
        encode_query(value.as_bytes(), &mut out);
    }
    if let Some(fragment) = fragment {
        out.push(b'#');
        out.extend_from_slice(fragment.as_bytes());
    }
    String::from_utf8(out).expect("only ASCII was added to text")
}

fn split(text: &str, mark: char) -> (&str, Option<&str>) {
    match text.split_once(mark) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

/// Decodes a parameter. Empty and malformed ones are dropped: actions cannot refer to them, and they must not reveal
/// what an action hides.
fn pair(text: &str) -> Option<(String, String)> {
    if text.is_empty() || text.contains(';') {
        return None;
    }
    let (name, value) = split(text, '=');
    Some((unescaped(name)?, unescaped(value.unwrap_or_default())?))
}

fn unescaped(text: &str) -> Option<String> {
    let spaced = text.replace('+', " ");
    let mut out = Vec::with_capacity(spaced.len());
    let valid = decode_percent(spaced.as_bytes(), &mut out);
    valid.then(|| String::from_utf8_lossy(&out).into_owned())
}
