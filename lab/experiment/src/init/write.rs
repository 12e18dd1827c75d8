//! Writes the experiment as text, with comments for its reader.

use std::fmt::Write;
use std::path::Path;

use super::{Backend, DIR, Found, Language, PORT, Place, Right};

/// The response body of the lab's upstreams.
const BEHIND: &str = "This is behind.";

/// The file name of a copy.
pub fn copy_name(stem: &str, kind: &str, language: Language) -> String {
    let dot = if kind.is_empty() { "" } else { "." };
    match language {
        Language::Nginx => format!("{stem}{dot}{kind}.nginx.conf"),
        Language::Caddyfile | Language::Json => format!("{stem}{dot}{kind}.caddy.json"),
    }
}

/// The text of the experiment.
pub fn experiment(found: &Found, language: Language, from: &Path, stem: &str) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write_all(found, language, from, stem, &mut out);
    out
}

fn write_all(
    found: &Found,
    language: Language,
    from: &Path,
    stem: &str,
    out: &mut String,
) -> std::fmt::Result {
    let names = names(&found.places);
    writeln!(
        out,
        "# Made by `sluice-lab init` from {}. Run it with `sluice-lab run FILE --quick` (minutes) or without (an hour),\n\
         # view it with `sluice-lab report lab-results/{stem}`. Edit it as you like.\n#\n\
         # The servers get copies of the configuration, in which these things differ:",
        from.display()
    )?;
    for change in &found.changes {
        writeln!(out, "#   - {change}")?;
    }
    if !found.left_out.is_empty() {
        writeln!(out, "#\n# Not covered by a test:")?;
        for reason in &found.left_out {
            writeln!(out, "#   - {}", reason.replace('\n', " "))?;
        }
    }
    writeln!(out, "schema = \"sluice.lab/1\"\nname = {}", quoted(stem))?;
    writeln!(
        out,
        "title = {}\n",
        quoted(&format!("The configuration {}", from.display()))
    )?;
    writeln!(
        out,
        "[matrix]\n# Concurrent clients. Beyond the server's capacity more clients only wait: `sluice-lab find-limit` finds it.\n\
         clients = [10, 100, 500]\n"
    )?;
    writeln!(
        out,
        "[load]\nduration = \"10s\"\nwarmup = \"2s\"\n\
         # A fixed rate reveals queueing that a closed loop hides: rate = 1000.0\n\
         # Idle connections and slow readers beside the load: idle = 1000, slow_readers = 10\n"
    )?;
    writeln!(
        out,
        "[repeat]\n# Each block starts every server afresh. An interval needs at least five.\nblocks = 5\n"
    )?;
    for backend in backends(found) {
        let server = match backend {
            Backend::Http => "respond",
            Backend::Fastcgi => "fastcgi",
        };
        writeln!(
            out,
            "# Upstream in place of your application. To imitate a slow one, add `--delay 20ms` (HTTP only), or run your own.\n\
             [[backend]]\nname = {}\nrun = \"{{lab}} serve {server} --listen {{upstream.address}}:{{port}} --counts {{counts}} --body '{BEHIND}'\"\nbody = \"{BEHIND}\"\n",
            quoted(backend.name())
        )?;
    }
    for (place, name) in found.places.iter().zip(&names) {
        test(place, name, out)?;
    }
    rewrites(found, out)?;
    subjects(found, language, stem, out)?;
    writeln!(
        out,
        "# Your objectives. A report shows whether they are met.\n\
         [claims]\nlatency = \"p99(subject=sluice) < 50\"   # milliseconds\nerrors = \"errors(subject=sluice) == 0\""
    )
}

fn test(place: &Place, name: &str, out: &mut String) -> std::fmt::Result {
    writeln!(out, "[test.{name}]\npath = {}", quoted(&place.path))?;
    if !place.kind.is_empty() {
        writeln!(out, "kind = {}", quoted(&place.kind))?;
    }
    if let Some(host) = &place.host {
        writeln!(out, "host = {}", quoted(host))?;
    }
    match &place.right {
        Right::Fixed(status, Some(body)) => {
            let body = quoted(body);
            writeln!(out, "expect = {{ status = {status}, body = {body} }}")?;
        }
        Right::Fixed(status, None) => writeln!(out, "expect = {{ status = {status} }}")?,
        Right::File(file) => {
            writeln!(out, "# The file is {}.", file.display())?;
            writeln!(out, "expect = {{ status = 200 }}")?;
        }
        Right::Behind(backend) => {
            let name = quoted(backend.name());
            writeln!(
                out,
                "needs = [{name}]\nexpect = {{ status = 200, body_of = {name} }}"
            )?;
            if *backend == Backend::Http {
                let claim = "assert = { backend_requests = \"== requests\" }";
                writeln!(
                    out,
                    "# Remove this line if responses may come from a cache.\n{claim}"
                )?;
            }
        }
    }
    writeln!(out)
}

/// The values that the lab substitutes for placeholders in the copies.
fn rewrites(found: &Found, out: &mut String) -> std::fmt::Result {
    let here = |port: &str| format!("127.0.0.1:{port}");
    let mut all = vec![
        (here(PORT), "{address}:{port}".to_string()),
        (DIR.to_string(), "{dir}".to_string()),
    ];
    for backend in backends(found) {
        let to = format!("{{upstream.address}}:{{backend.{}}}", backend.name());
        all.push((here(backend.port()), to));
    }
    for (from, to) in all {
        if found.copies.iter().any(|(_, text)| text.contains(&from)) {
            writeln!(out, "[[rewrite]]\nfrom = \"{from}\"\nto = \"{to}\"")?;
        }
    }
    writeln!(out)
}

fn subjects(found: &Found, language: Language, stem: &str, out: &mut String) -> std::fmt::Result {
    let kind = match found.copies.as_slice() {
        [(kind, _)] if kind.is_empty() => "",
        _ => "{kind}",
    };
    let conf = quoted(&copy_name(stem, kind, language));
    writeln!(
        out,
        "# The servers to measure. A server that is not installed is skipped. Variables such as SLUICE_BIN select other programs."
    )?;
    let adapter = match language {
        Language::Nginx => " --adapter nginx",
        Language::Caddyfile | Language::Json => "",
    };
    writeln!(
        out,
        "[subject.sluice]\nrun = \"sluice run --config {{conf}}{adapter}\"\nconf = {conf}\n\
         env = {{ SLUICE_ADMIN = \"127.0.0.1:{{admin}}\", HOME = \"{{dir}}\", XDG_DATA_HOME = \"{{dir}}\", XDG_CONFIG_HOME = \"{{dir}}\" }}\n\
         version = \"sluice version\"\n"
    )?;
    match language {
        Language::Nginx => writeln!(
            out,
            "[subject.nginx]\nrun = \"nginx -p {{dir}} -e {{dir}}/error.log -c {{conf}} -g 'daemon off; pid {{dir}}/nginx.pid; {{user}}'\"\n\
             conf = {conf}\nversion = \"nginx -V\"\nlog = \"{{dir}}/error.log\"\n"
        ),
        Language::Caddyfile | Language::Json => writeln!(
            out,
            "[subject.caddy]\nrun = \"caddy run --config {{conf}}\"\nconf = {conf}\n\
             env = {{ HOME = \"{{dir}}\", XDG_DATA_HOME = \"{{dir}}\", XDG_CONFIG_HOME = \"{{dir}}\" }}\nversion = \"caddy version\"\n"
        ),
    }
}

/// Upstreams that a copy refers to: each needs a port, or servers reject the copy, even if no test uses it.
fn backends(found: &Found) -> Vec<Backend> {
    let named = |backend: &Backend| {
        let mut copies = found.copies.iter();
        copies.any(|(_, text)| text.contains(backend.port()))
    };
    let all = [Backend::Http, Backend::Fastcgi];
    all.into_iter().filter(named).collect()
}

/// A unique name for each place, from host and path: letters, digits and hyphens.
fn names(places: &[Place]) -> Vec<String> {
    let several = |place: &Place| places.iter().any(|other| other.host != place.host);
    let mut names: Vec<String> = Vec::new();
    for place in places {
        let host = place.host.as_deref().filter(|_| several(place));
        let text = format!("{} {}", host.unwrap_or_default(), place.path);
        let words = text.split(|c: char| !c.is_ascii_alphanumeric());
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        let name = match words.is_empty() {
            true => "root".to_string(),
            false => words.join("-"),
        };
        let same = |name: &String| names.contains(name);
        let mut numbered = (2..).map(|number| format!("{name}-{number}"));
        let name = match same(&name) {
            true => numbered.find(|name| !same(name)).unwrap_or(name),
            false => name,
        };
        names.push(name);
    }
    names
}

/// Quotes a string for TOML: its basic strings have the escapes of JSON, and DEL must be escaped, too.
fn quoted(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    json.replace('\u{7f}', "\\u007F")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_has_a_name_of_its_own() {
        let place = |host: Option<&str>, path: &str| Place {
            host: host.map(String::from),
            path: path.into(),
            kind: String::new(),
            right: Right::Fixed(200, None),
        };
        let places = [
            place(None, "/"),
            place(None, "/a/b.css?x"),
            place(Some("example.com"), "/"),
            place(Some("example.com"), "/a-b"),
            place(Some("example.com"), "/a/b"),
        ];
        assert_eq!(
            names(&places),
            [
                "root",
                "a-b-css-x",
                "example-com",
                "example-com-a-b",
                "example-com-a-b-2"
            ]
        );
    }
}
