//! Messages in nginx's wording, for programs that parse them. Our own diagnostics are printed before them.

use std::io;

use sluice_diag::{Report, Severity};

use crate::messages::{Failed, Gist, write};

/// Prints a failure: the whole message, then a summary in nginx's wording.
pub fn print(failed: &Failed) {
    let line = line("emerg", failed.gist());
    // If it does not refer to a file, the summary is enough.
    if failed.gist().place.is_some() || failed.text().lines().count() > 1 {
        failed.print();
    }
    write(&line);
}

/// Prints the warnings of a report, one line each.
pub fn print_warnings(report: &Report) {
    let warnings = report
        .sorted()
        .into_iter()
        .filter(|found| found.severity == Severity::Warning);
    for warning in warnings {
        write(&line("warn", &Gist::of(warning, report)));
    }
}

/// `open() "/a" failed (2: No such file or directory)`
pub fn call(what: &str, error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => {
            let text = error.to_string();
            let text = text.split(" (os error").next().unwrap_or_default();
            format!("{what} failed ({number}: {text})")
        }
        None => format!("{what} failed ({error})"),
    }
}

fn line(level: &str, gist: &Gist) -> String {
    let title = match as_bind(&gist.title) {
        Some(title) => title,
        None => gist.title.replace('`', "\""),
    };
    let place = match &gist.place {
        Some((file, _)) if file == sluice_nginx::COMMAND_LINE => format!(" in {file}"),
        Some((file, line)) => format!(" in {file}:{line}"),
        None => String::new(),
    };
    format!("nginx: [{level}] {title}{place}\n")
}

/// nginx's wording for an address that cannot be bound: `bind() to 0.0.0.0:80 failed (98: Address already in use)`.
fn as_bind(title: &str) -> Option<String> {
    let (addr, reason) = title.strip_prefix("cannot listen on ")?.split_once(": ")?;
    let (text, number) = reason.strip_suffix(')')?.split_once(" (os error ")?;
    Some(format!("bind() to {addr} failed ({number}: {text})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(title: &str, place: Option<(&str, u32)>) -> String {
        let place = place.map(|(file, line)| (file.to_owned(), line));
        line(
            "emerg",
            &Gist {
                title: title.to_owned(),
                place,
            },
        )
    }

    #[test]
    fn lines_have_nginxs_shape() {
        assert_eq!(
            of("unknown directive `foo`", Some(("/a/b.conf", 3))),
            "nginx: [emerg] unknown directive \"foo\" in /a/b.conf:3\n"
        );
        assert_eq!(
            of("`pid` takes 1 word", Some(("command line", 1))),
            "nginx: [emerg] \"pid\" takes 1 word in command line\n"
        );
        assert_eq!(
            of(
                "cannot listen on 127.0.0.1:80: Address already in use (os error 98)",
                None
            ),
            "nginx: [emerg] bind() to 127.0.0.1:80 failed (98: Address already in use)\n"
        );
        assert_eq!(
            call("open() \"/a\"", &io::Error::from_raw_os_error(2)),
            "open() \"/a\" failed (2: No such file or directory)"
        );
    }
}
