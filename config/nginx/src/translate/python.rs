//! Suggests `python` where an upstream seems to be a server of Python applications on this machine: sluice can run the
//! application itself.

use super::Writer;
use crate::tree::Directive;

/// The interface of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interface {
    Wsgi,
    Asgi,
}

/// A server of Python applications: the word that names it, what to call it, and the interface.
type Known = (&'static str, &'static str, Interface);

const UWSGI: Known = ("uwsgi", "uWSGI", Interface::Wsgi);

/// The more specific words come first: gunicorn runs uvicorn's workers as well, and uWSGI has WSGI in its name.
const KNOWN: &[Known] = &[
    ("uvicorn", "uvicorn", Interface::Asgi),
    ("hypercorn", "hypercorn", Interface::Asgi),
    ("daphne", "daphne", Interface::Asgi),
    ("gunicorn", "gunicorn", Interface::Wsgi),
    UWSGI,
    ("asgi", "an ASGI server", Interface::Asgi),
    ("wsgi", "a WSGI server", Interface::Wsgi),
];

impl Writer<'_> {
    /// A comment before the proxy of `line`, if all of `addresses` are on this machine and a Python server is named: in the
    /// path of a socket, as the group of upstreams, or in a comment beside one of the lines.
    pub(super) fn suggest_python(
        &mut self,
        line: &Directive,
        addresses: &[&str],
        group: Option<&Directive>,
    ) {
        if addresses.is_empty() || !addresses.iter().all(|address| is_local(address)) {
            return;
        }
        let sockets = addresses
            .iter()
            .filter_map(|address| address.strip_prefix("unix:"));
        let mut texts: Vec<String> = sockets.map(str::to_owned).collect();
        texts.push(self.comments_beside(line));
        if let Some(group) = group {
            texts.extend(group.arg(0).map(str::to_owned));
            let lines = group.body().iter().filter(|line| line.name() == "server");
            texts.extend(
                std::iter::once(group)
                    .chain(lines)
                    .map(|line| self.comments_beside(line)),
            );
        }
        let text = texts.join("\n").to_ascii_lowercase();
        if let Some(known) = KNOWN.iter().find(|(word, ..)| text.contains(word)) {
            self.write_suggestion(known);
        }
    }

    /// The comment before the proxy of a `uwsgi_pass`: the protocol says enough.
    pub(super) fn suggest_python_for_uwsgi(&mut self) {
        self.write_suggestion(&UWSGI);
    }

    fn write_suggestion(&mut self, (_, name, interface): &Known) {
        let lines: &[&str] = match interface {
            Interface::Wsgi => &["python main:app"],
            Interface::Asgi => &["python {", "\tmodule_asgi main:app", "}"],
        };
        self.line(format!(
            "# If this is {name} with a Python application, sluice can run the application itself. Replace the next block by:"
        ));
        for line in lines {
            self.line(format!("#\t{line}"));
        }
    }

    /// The comments at the end of a directive's first line, and on the lines directly above.
    fn comments_beside(&self, directive: &Directive) -> String {
        let span = directive.name.span;
        let text = self.report.sources.source(span.source).text();
        let at = span.start as usize;
        let begins = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let line = text[at..].lines().next().unwrap_or_default();
        let above = text[..begins].lines().rev().map(str::trim_start);
        let above = above.take_while(|line| line.starts_with('#'));
        let beside = line.split_once('#').map(|(_, comment)| comment);
        above.chain(beside).collect::<Vec<_>>().join("\n")
    }
}

/// Whether an address is a Unix socket or one of the loopback addresses.
fn is_local(address: &str) -> bool {
    let host = match address.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => address,
    };
    address.starts_with("unix:")
        || host == "localhost"
        || host == "[::1]"
        || host.starts_with("127.") && host.parse::<std::net::Ipv4Addr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::is_local;

    #[test]
    fn addresses_of_this_machine() {
        for (address, is) in [
            ("127.0.0.1:8000", true),
            ("127.0.0.1", true),
            ("localhost:8000", true),
            ("[::1]:8000", true),
            ("unix:/run/app.sock", true),
            ("10.0.0.1:8000", false),
            ("127.example.com:80", false),
            ("localhost.example.com:80", false),
            ("app", false),
        ] {
            assert_eq!(is_local(address), is, "{address}");
        }
    }
}
