//! The changes a handler made: compares an exchange before and after the handler ran.

use sluice_message::Fields;

use super::report::{Remark, RemarkKind};
use super::request_facts::quoted;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::vars::Vars;

/// A snapshot of the parts that are compared.
pub(super) struct Before {
    method: String,
    target: Vec<u8>,
    authority: Vec<u8>,
    request: Lines,
    response: Lines,
    vars: Lines,
    mapped: Lines,
    user: Option<String>,
    skip: bool,
    loggers: usize,
    logged: usize,
    close: bool,
}

/// Names and values.
type Lines = Vec<(String, Vec<u8>)>;

impl Before {
    /// Takes a snapshot of the exchange.
    pub(super) fn of(exchange: &Exchange) -> Before {
        Before {
            method: exchange.req.method.as_str().to_owned(),
            target: exchange.req.uri.as_bytes().to_vec(),
            authority: exchange.req.authority.clone(),
            request: lines(&exchange.req.fields),
            response: lines(&exchange.res.fields),
            vars: values(&exchange.context.vars),
            mapped: values(&exchange.context.mapped),
            user: exchange.context.log.user.clone(),
            skip: exchange.context.log.skip,
            loggers: exchange.context.log.names.len(),
            logged: exchange.context.log.fields.len(),
            close: exchange.close,
        }
    }

    /// Describes the differences from the snapshot.
    pub(super) fn changes(&self, exchange: &Exchange) -> Vec<Remark> {
        let now = Before::of(exchange);
        let mut out = Vec::new();
        let mut say = |kind, name: &str, text: String| out.push(Remark::new(kind, name, text));
        if self.method != now.method {
            let text = format!("method `{}` → `{}`", self.method, now.method);
            say(RemarkKind::Rewrite, "method", text);
        }
        if self.target != now.target {
            let text = format!("{} → {}", quoted(&self.target), quoted(&now.target));
            say(RemarkKind::Rewrite, "uri", text);
        }
        if self.authority != now.authority {
            let text = format!("{} → {}", quoted(&self.authority), quoted(&now.authority));
            say(RemarkKind::Rewrite, "host", text);
        }
        for (name, value) in now.vars.iter().filter(|set| !self.vars.contains(set)) {
            let text = format!("{{vars.{name}}} = {}", quoted(value));
            say(RemarkKind::Variable, name, text);
        }
        for (name, value) in now.mapped.iter().filter(|set| !self.mapped.contains(set)) {
            let text = format!("{{{name}}} = {}", quoted(value));
            say(RemarkKind::Variable, name, text);
        }
        out.extend(compare(
            RemarkKind::RequestField,
            &self.request,
            &now.request,
        ));
        out.extend(compare(
            RemarkKind::ResponseField,
            &self.response,
            &now.response,
        ));
        out.extend(self.said_to_the_log(&now));
        out
    }

    fn said_to_the_log(&self, now: &Before) -> Vec<Remark> {
        let mut out = Vec::new();
        let mut note = |text: &str| out.push(Remark::new(RemarkKind::Note, "", text));
        if let Some(user) = now.user.as_ref().filter(|_| self.user != now.user) {
            note(&format!("the user is {}", quoted(user.as_bytes())));
        }
        if self.skip != now.skip {
            note(match now.skip {
                true => "the access log leaves this request out",
                false => "the access log has this request again",
            });
        }
        if self.loggers != now.loggers {
            note("another access log takes this request");
        }
        if self.logged != now.logged {
            note("the access log gets one more field");
        }
        if now.close && !self.close {
            note("the connection is closed after the response");
        }
        out
    }
}

fn lines(fields: &Fields) -> Lines {
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    let all = fields.iter();
    all.map(|field| (text(field.name), field.value.to_vec()))
        .collect()
}

fn values(vars: &Vars) -> Lines {
    vars.iter()
        .map(|(name, value)| (name.to_owned(), value.to_vec()))
        .collect()
}

/// The lines that were added, removed or changed.
fn compare(kind: RemarkKind, before: &Lines, now: &Lines) -> Vec<Remark> {
    let mut gone: Vec<_> = before.clone();
    let mut new = Vec::new();
    for line in now {
        match gone.iter().position(|old| old == line) {
            Some(at) => drop(gone.remove(at)),
            None => new.push(line),
        }
    }
    let mut out = Vec::new();
    for (name, value) in new {
        let same = |(old, _): &(String, Vec<u8>)| old.eq_ignore_ascii_case(name);
        let text = match gone.iter().position(same) {
            Some(at) => format!("{name}: {} → {}", quoted(&gone.remove(at).1), quoted(value)),
            None => format!("+ {name}: {}", quoted(value)),
        };
        out.push(Remark::new(kind, name, text));
    }
    for (name, _) in gone {
        out.push(Remark::new(kind, &name, format!("- {name}")));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_added_replaced_and_removed() {
        let lines = |lines: &[(&str, &str)]| -> Lines {
            let own =
                |(name, value): &(&str, &str)| ((*name).to_owned(), value.as_bytes().to_vec());
            lines.iter().map(own).collect()
        };
        let before = lines(&[("Server", "sluice"), ("Vary", "Origin"), ("A", "1")]);
        let now = lines(&[("vary", "*"), ("A", "1"), ("A", "2")]);
        let said: Vec<String> = compare(RemarkKind::ResponseField, &before, &now)
            .into_iter()
            .map(|remark| remark.text)
            .collect();
        assert_eq!(said, ["vary: `Origin` → `*`", "+ A: `2`", "- Server"]);
    }
}
