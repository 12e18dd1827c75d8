//! A place in the configuration document, as request paths name it: `/config/` and the keys and indices below it.

use sluice_message::Status;
use sluice_message::uri::decode_percent;

use crate::denied::Denied;

/// What the paths of the document begin with.
pub const ROOT: &str = "/config";

/// A last step that stands for all elements of the body (`POST`).
const SPREAD: &str = "...";

/// A place in the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The path, as it is shown in messages and entity tags.
    pub path: String,
    /// Keys and indices from the root; percent-decoded.
    pub steps: Vec<String>,
    /// Whether the path ends in `...`.
    pub spreads: bool,
}

impl Place {
    /// Reads a path below `/config`. Empty steps are ignored, and an encoded slash belongs to its step.
    ///
    /// # Errors
    ///
    /// The path is not UTF-8 once it is decoded.
    pub fn of(path: &[u8]) -> Result<Place, Denied> {
        let path = str::from_utf8(path).map_err(|_| not_text())?;
        let below = path.strip_prefix(ROOT).unwrap_or(path);
        let mut steps = Vec::new();
        for step in below.split('/').filter(|step| !step.is_empty()) {
            steps.push(decoded(step).ok_or_else(not_text)?);
        }
        let spreads = steps.last().is_some_and(|step| step == SPREAD);
        if spreads {
            steps.pop();
        }
        Ok(Place {
            path: path.to_owned(),
            steps,
            spreads,
        })
    }

    /// The place of an object with a name, and what follows it in a path.
    pub fn below(object: &str, rest: &[u8]) -> Result<Place, Denied> {
        Place::of(&[object.as_bytes(), rest].concat())
    }
}

/// A step as it is written in a path.
pub fn encoded(step: &str) -> String {
    let mut out = String::with_capacity(step.len());
    for character in step.chars() {
        match character {
            '/' => out.push_str("%2F"),
            '%' => out.push_str("%25"),
            other => out.push(other),
        }
    }
    out
}

/// A step of a path without its percent-encoding; `None` if it is malformed or no text.
pub fn decoded(step: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(step.len());
    let is_well_formed = decode_percent(step.as_bytes(), &mut bytes);
    is_well_formed.then(|| String::from_utf8(bytes).ok())?
}

fn not_text() -> Denied {
    Denied::new(
        Status::BAD_REQUEST,
        "the path is not UTF-8, or its percent-encoding is malformed",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_keys_and_indices() {
        for (path, steps, spreads) in [
            ("/config", &[][..], false),
            ("/config/", &[], false),
            ("/config/apps//http/", &["apps", "http"], false),
            ("/config/listen/...", &["listen"], true),
            ("/config/a%2fb%20c", &["a/b c"], false),
            ("/config/.../x", &["...", "x"], false),
        ] {
            let place = Place::of(path.as_bytes()).expect("a place");
            assert_eq!(
                (place.steps, place.spreads),
                (steps.iter().map(|s| (*s).to_owned()).collect(), spreads),
                "{path}"
            );
        }
        for path in [
            &b"/config/%zz"[..],
            b"/config/%f",
            b"/config/%ff",
            b"/config/\xff",
        ] {
            assert!(Place::of(path).is_err());
        }
    }

    #[test]
    fn a_step_survives_its_encoding() {
        for step in ["a/b", "100%", "", "é %2F"] {
            assert_eq!(decoded(&encoded(step)).as_deref(), Some(step));
        }
    }
}
