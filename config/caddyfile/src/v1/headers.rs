//! `header`: response headers.

use super::pieces::{block, line, prefix};
use super::translation::Translation;
use crate::tree::{Directive, Token};

impl Translation<'_> {
    /// `header <path> <name> <value>` or a block of such fields.
    pub(super) fn header(&mut self, old: &Directive) {
        let Some((path, rest)) = old.args.split_first() else {
            return self.malformed(old, "header <path> { <name> <value> }");
        };
        let mut fields = Vec::new();
        if let Some((name, values)) = rest.split_first() {
            fields.extend(self.field(name, values));
        }
        for inner in old.lines() {
            fields.extend(self.field(&inner.name, &inner.args));
        }
        let mut words: Vec<String> = prefix(path.as_str()).into_iter().collect();
        let header = match fields.len() {
            0 => return self.malformed(old, "header <path> { <name> <value> }"),
            1 => {
                let only = &fields[0];
                words.push(only.name.text.clone());
                words.extend(only.args.iter().map(|arg| arg.text.clone()));
                line(&only.name, "header", words)
            }
            _ => block(&old.name, "header", words, fields),
        };
        self.step(Vec::new(), header);
    }

    fn field(&mut self, name: &Token, values: &[Token]) -> Option<Directive> {
        let text = name.text.as_str();
        match values {
            [] if text.starts_with('-') => Some(line(name, text, [""; 0])),
            [value] => {
                let value = self.text(value);
                // Caddy 1 set headers when the response began, and replaced those of an upstream.
                let over = self.has_upstreams && !text.starts_with(['+', '-']);
                let name_now = if over {
                    format!(">{text}")
                } else {
                    text.to_owned()
                };
                Some(line(name, &name_now, [value]))
            }
            _ => {
                let title = format!("header field `{text}` needs one value");
                self.cannot(name, title, "put the value into quotes");
                None
            }
        }
    }
}
