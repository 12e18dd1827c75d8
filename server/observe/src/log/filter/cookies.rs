//! Applies filter actions to cookies.

use super::Action;

/// Applies the actions to a Cookie header. Of several actions for one cookie the first applies.
pub fn apply(actions: &[Action], field: &str) -> String {
    let mut out = String::with_capacity(field.len());
    for part in field
        .split(';')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let quoted = value.len() >= 2 && value.starts_with('"') && value.ends_with('"');
        let bare = if quoted {
            &value[1..value.len() - 1]
        } else {
            value
        };
        let action = actions.iter().find(|action| action.name == name);
        let value = match action {
            None => Some(bare.to_owned()),
            Some(action) => action.kind.apply(bare),
        };
        let Some(value) = value else { continue };
        if !out.is_empty() {
            out.push_str("; ");
        }
        out.push_str(name);
        out.push('=');
        let quote = if quoted { "\"" } else { "" };
        out.push_str(quote);
        out.push_str(&value);
        out.push_str(quote);
    }
    out
}
