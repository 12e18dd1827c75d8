//! The translation of one site under way: what directives add to it, and what they report.

use std::collections::BTreeMap;

use sluice_diag::{Diagnostic, Report};

use super::Purpose;
use super::globals::Globals;
use super::pieces::{Piece, block, word};
use super::placeholders::{self, Setting};
use crate::Loader;
use crate::tree::{Directive, Token};

/// The translation of one site under way.
pub(super) struct Translation<'a> {
    pub report: &'a mut Report,
    pub loader: &'a dyn Loader,
    pub globals: &'a mut Globals,
    pub(super) purpose: Purpose,
    /// Comments for the next line.
    pub(super) comments: Vec<String>,
    /// Lines whose place among the others does not matter.
    pub(super) setup: Vec<Piece>,
    /// Lines that see requests one after the other.
    pub(super) steps: Vec<Piece>,
    /// How often a matcher of some name was made.
    pub(super) matchers: BTreeMap<String, u32>,
    /// Labels in the host name.
    pub(super) labels: usize,
    /// Whether some directive rewrites paths.
    pub has_rewrites: bool,
    /// Whether upstreams may set response headers.
    pub has_upstreams: bool,
    /// Whether TLS is switched off, or needs no ACME.
    pub tls: TlsKind,
    /// Names of index files, if they are not the usual ones.
    pub index: Vec<Token>,
}

/// What `tls` says about a site as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TlsKind {
    /// Nothing: it depends on the name.
    Automatic,
    /// `tls off`.
    Off,
    /// Certificates that need no public name.
    Own,
}

impl<'a> Translation<'a> {
    pub fn new(
        report: &'a mut Report,
        loader: &'a dyn Loader,
        globals: &'a mut Globals,
        purpose: Purpose,
    ) -> Self {
        Translation {
            report,
            loader,
            globals,
            purpose,
            comments: Vec::new(),
            setup: Vec::new(),
            steps: Vec::new(),
            matchers: BTreeMap::new(),
            labels: 0,
            has_rewrites: false,
            has_upstreams: false,
            tls: TlsKind::Automatic,
            index: Vec::new(),
        }
    }

    /// Reports something without an equal: a server does not start with it.
    pub fn cannot(&mut self, at: &Token, title: impl Into<String>, help: &str) {
        let title = title.into();
        self.comments.push(format!("{title}: {help}."));
        let label = "not translated";
        let found = match self.purpose {
            Purpose::Run => at.error("caddy1-untranslated", title, label),
            Purpose::Read => at.warning("caddy1-untranslated", title, label),
        };
        self.report.push(found.help(help));
    }

    /// Reports a difference that users should know.
    pub fn differs(&mut self, at: &Token, title: impl Into<String>, note: &str) {
        let title = title.into();
        self.comments.push(format!("{title}: {note}."));
        let found: Diagnostic = at.warning("caddy1-differs", title, "translated with a difference");
        self.report.push(found.note(note));
    }

    /// Refuses words that the old language would not take either.
    pub fn malformed(&mut self, line: &Directive, usage: &str) {
        let title = format!("`{}` does not have the form of Caddy 1", line.name.text);
        self.cannot(&line.name, title, &format!("write it as `{usage}`"));
    }

    /// A text of a request handler with its placeholders translated.
    pub fn text(&mut self, word: &Token) -> String {
        let setting = Setting {
            is_rewritten: self.has_rewrites,
            ..self.setting()
        };
        self.text_in(word, setting)
    }

    /// What holds for all placeholders of the site.
    pub fn setting(&self) -> Setting<'static> {
        Setting {
            labels: self.labels,
            ..Setting::default()
        }
    }

    /// As [`Translation::text`], in a setting.
    pub fn text_in(&mut self, word: &Token, setting: Setting<'_>) -> String {
        let (text, unknown) = placeholders::translate(&word.text, setting);
        for name in unknown {
            let title = format!("placeholder `{{{name}}}` has no equivalent");
            self.differs(word, title, "it stays as it is");
        }
        text
    }

    /// A matcher of a name of its own: the name, and its definition.
    pub fn matcher(
        &mut self,
        at: &Token,
        kind: &str,
        lines: Vec<Directive>,
    ) -> (String, Directive) {
        let count = self.matchers.entry(kind.to_owned()).or_default();
        *count += 1;
        let name = match *count {
            1 => format!("@{kind}"),
            count => format!("@{kind}{count}"),
        };
        let mut lines = lines;
        let definition = match lines.len() {
            // One line is written behind the name.
            1 if lines[0].block.is_none() => {
                let mut only = lines.remove(0);
                only.args.insert(0, only.name);
                Directive {
                    name: word(name.as_str(), at),
                    args: only.args,
                    block: None,
                    span: only.span,
                }
            }
            _ => block(at, &name, [""; 0], lines),
        };
        (name, definition)
    }

    /// Adds a line whose place does not matter.
    pub fn set_up(&mut self, line: Directive) {
        let comments = std::mem::take(&mut self.comments);
        self.setup.push(Piece {
            comments,
            matchers: Vec::new(),
            line,
        });
    }

    /// Adds a line to those that see requests one after the other.
    pub fn step(&mut self, matchers: Vec<Directive>, line: Directive) {
        let comments = std::mem::take(&mut self.comments);
        self.steps.push(Piece {
            comments,
            matchers,
            line,
        });
    }
}
