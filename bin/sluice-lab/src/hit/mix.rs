//! The requests of `hit --urls`: a file with a request in each line.

use std::fs;
use std::path::Path;

use sluice_load::generator::Plan;
use sluice_load::generator::kind;
use sluice_load::generator::mix::Mix;
use sluice_load::generator::request::Prepared;
use sluice_load::outcome::Refused;

use super::{Options, draft, expect};

/// A line of the file.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    weight: u32,
    method: Option<String>,
    path: String,
}

/// Reads the file, and probes each request for the response to expect.
pub fn read(path: &Path, options: &Options, plan: &Plan) -> Result<(Vec<Prepared>, Mix), Refused> {
    let failed = |error: String| Refused::new(format!("{}: {error}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let lines = lines(&text).map_err(failed)?;
    let mut requests = Vec::new();
    for line in lines {
        let one = Options {
            method: line.method.clone(),
            ..options.clone()
        };
        let mut draft = draft(&one, &plan.target)?;
        draft.path.clone_from(&line.path);
        let name = format!("{} {}", draft.method, draft.path);
        let bare = draft
            .prepare(&plan.target, Default::default())
            .map_err(failed)?;
        let alone = Plan {
            requests: vec![bare.clone()],
            ..plan.clone()
        };
        let ask = || {
            kind::ask(&alone).map_err(|fault| {
                let class = fault.class.words();
                failed(format!("{name} does not respond: {class} ({})", fault.text))
            })
        };
        let first = ask()?;
        let expect =
            expect(&one, &first, ask).map_err(|error| failed(format!("{name}: {}", error.0)))?;
        requests.push((name, line.weight, Prepared { expect, ..bare }));
    }
    Mix::of(requests).map_err(failed)
}

/// The requests of a text; empty lines and comments are skipped. The error names the line.
fn lines(text: &str) -> Result<Vec<Line>, String> {
    let numbered = text.lines().map(str::trim).enumerate();
    let some = numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let lines: Result<Vec<Line>, String> = some
        .map(|(at, text)| line(text).ok_or_else(|| {
            format!("line {}: `{text}` is not a request; write `[WEIGHT] [METHOD] PATH`, such as `3 GET /a`", at + 1)
        }))
        .collect();
    match lines? {
        empty if empty.is_empty() => {
            Err("no request; write `[WEIGHT] [METHOD] PATH` in each line".into())
        }
        lines => Ok(lines),
    }
}

fn line(text: &str) -> Option<Line> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (path, before) = words.split_last()?;
    let (weight, method) = match before {
        [] => (1, None),
        [one] => match one.parse::<u32>() {
            Ok(weight) => (weight, None),
            Err(_) => (1, Some(*one)),
        },
        [weight, method] => (weight.parse().ok()?, Some(*method)),
        _ => return None,
    };
    path.starts_with('/').then(|| Line {
        weight,
        method: method.map(str::to_string),
        path: path.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_requests_and_mistakes_are_named() {
        let line = |weight, method: Option<&str>, path: &str| Line {
            weight,
            method: method.map(str::to_string),
            path: path.into(),
        };
        let read = lines("# paths\n/a\n\n3 /b?c\nHEAD /d\n 2 POST /e \n").unwrap();
        let expected = [
            line(1, None, "/a"),
            line(3, None, "/b?c"),
            line(1, Some("HEAD"), "/d"),
            line(2, Some("POST"), "/e"),
        ];
        assert_eq!(read, expected);
        for (text, part) in [
            ("/a\nb", "line 2: `b` is not a request"),
            ("many GET /a", "line 1"),
            ("1 GET HTTP /a", "line 1"),
            ("# nothing", "no request"),
        ] {
            let error = lines(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
