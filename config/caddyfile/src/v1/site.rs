//! Translates one site: collects its directives in the order in which Caddy 1 runs them, then writes the lines of a new
//! site.

use std::collections::BTreeMap;

use sluice_diag::{Diagnostic, Report};

use super::detect::{ORDER, is_plugin};
use super::globals::Globals;
use super::pieces::{Piece, bare, line, word};
use super::placeholders::{self, Setting};
use super::{Page, Purpose};
use crate::Loader;
use crate::registry::{DIRECTIVE_ORDER, old_name};
use crate::tree::{Directive, Site, Token};

/// The translation of one site under way.
pub(super) struct Translation<'a> {
    pub report: &'a mut Report,
    pub loader: &'a dyn Loader,
    pub globals: &'a mut Globals,
    purpose: Purpose,
    /// Comments for the next line.
    comments: Vec<String>,
    /// Lines whose place among the others does not matter.
    setup: Vec<Piece>,
    /// Lines that see requests one after the other.
    steps: Vec<Piece>,
    /// How often a matcher of some name was made.
    matchers: BTreeMap<String, u32>,
    /// Labels in the host name.
    labels: usize,
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

    /// Translates the site.
    pub fn site(mut self, site: &Site) -> Page {
        let named = |names: &[&str]| {
            let is_one = |line: &Directive| names.contains(&line.name.text.as_str());
            site.body.iter().any(is_one)
        };
        self.has_rewrites = named(&["rewrite", "ext"]);
        self.has_upstreams = named(&["proxy", "fastcgi"]);
        self.tls = super::tls::kind(&site.body);
        let (addresses, path) = self.addresses(&site.addresses);
        self.labels = super::address::labels(&addresses);
        for line in site.body.iter().filter(|line| !is_known(line)) {
            self.unknown(line);
        }
        for name in ORDER {
            let lines: Vec<&Directive> = site
                .body
                .iter()
                .filter(|line| line.name.text == *name)
                .collect();
            if !lines.is_empty() {
                self.directive(name, &lines);
            }
        }
        self.files(site, path.as_ref());
        if let Some(path) = path {
            let strip = line(&path, "uri", ["strip_prefix", path.text.as_str()]);
            self.steps.insert(0, piece(strip));
        }
        self.page(site, addresses)
    }

    fn directive(&mut self, name: &str, lines: &[&Directive]) {
        match name {
            "root" => self.each(lines, Self::root),
            "index" => self.each(lines, |this, line| this.index.clone_from(&line.args)),
            "bind" => self.each(lines, |this, old| {
                let bind = line(&old.name, "bind", old.args.iter().map(Token::as_str));
                this.set_up(bind);
            }),
            "limits" => self.each(lines, Self::limits),
            "timeouts" => self.each(lines, Self::timeouts),
            "tls" => self.each(lines, Self::tls),
            "request_id" => self.each(lines, Self::request_id),
            "log" => self.each(lines, Self::log),
            "rewrite" => self.rewrites(lines),
            "ext" => self.each(lines, Self::ext),
            "gzip" => self.each(lines, Self::gzip),
            "header" => self.each(lines, Self::header),
            "errors" => self.each(lines, Self::errors),
            "basicauth" => self.basicauth(lines),
            "redir" => self.redirs(lines),
            "status" => self.each(lines, Self::status),
            "mime" => self.each(lines, Self::mime),
            "internal" => self.each(lines, Self::internal),
            "push" => self.each(lines, Self::push),
            "templates" => self.each(lines, Self::templates),
            "proxy" => self.proxies(lines),
            "fastcgi" => self.each(lines, Self::fastcgi),
            // `browse` is a part of serving files.
            "browse" => {}
            _ => self.each(lines, Self::nothing_like_it),
        }
    }

    fn each(&mut self, lines: &[&Directive], mut one: impl FnMut(&mut Self, &Directive)) {
        for line in lines {
            one(self, line);
        }
    }

    /// Directives that have no equal.
    fn nothing_like_it(&mut self, line: &Directive) {
        let name = line.name.text.as_str();
        let help = match name {
            "startup" | "shutdown" | "on" => {
                "start programs with a service manager such as systemd, and remove it"
            }
            "pprof" | "expvar" => "remove it; the admin endpoint shows what the server does",
            "websocket" => "run the program as a server of its own and name it with `proxy`",
            _ => "turn the pages into HTML before they are served, or use `templates`",
        };
        self.cannot(
            &line.name,
            format!("`{name}` of Caddy 1 has no equal"),
            help,
        );
    }

    fn unknown(&mut self, line: &Directive) {
        let name = line.name.text.as_str();
        let title = match is_plugin(name) {
            true => format!("`{name}` came with a plug-in of Caddy 1"),
            false => format!("`{name}` is not a directive of Caddy 1"),
        };
        let help = match old_name(name) {
            Some(help) => help,
            None if is_plugin(name) => "remove it",
            None => "remove it, or translate the rest of the file first",
        };
        self.cannot(&line.name, title, help);
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
        let found: Diagnostic = at.warning("caddy1-differs", title, "translated, not the same");
        self.report.push(found.note(note));
    }

    /// Refuses words that the old language would not take either.
    pub fn malformed(&mut self, line: &Directive, usage: &str) {
        let title = format!("`{}` is not written as Caddy 1 has it", line.name.text);
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
            let title = format!("placeholder `{{{name}}}` has no equal");
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
            _ => super::pieces::block(at, &name, [""; 0], lines),
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

    /// Whether the order in which Caddy 2 would run the steps is another than theirs.
    fn needs_route(&self) -> bool {
        let rewrites = self.steps.iter().any(Piece::rewrites);
        let ordered: Vec<&Piece> = self
            .steps
            .iter()
            .filter(|step| !(step.is_free() && (!rewrites || step.is_unconditional())))
            .collect();
        let rank = |piece: &&Piece| {
            let name = piece.line.name.text.as_str();
            DIRECTIVE_ORDER.iter().position(|known| *known == name)
        };
        let sorted = ordered.is_sorted_by_key(rank);
        // Those of one name are sorted by paths; only proxies are in that order already.
        let twins = |pair: &[&Piece]| {
            let [a, b] = pair else { return false };
            let same = a.line.name.text == b.line.name.text;
            let name = a.line.name.text.as_str();
            same && ["rewrite", "redir", "handle"].contains(&name)
                && !(a.matchers.is_empty() && b.matchers.is_empty())
        };
        !sorted || ordered.windows(2).any(twins)
    }

    fn page(mut self, site: &Site, addresses: Vec<Token>) -> Page {
        let at = &site.addresses[0];
        let needs_route = self.needs_route();
        let mut comments = Vec::new();
        let mut body = Vec::new();
        for piece in std::mem::take(&mut self.setup) {
            comments.extend(piece.comments.into_iter().map(|text| (body.len(), text)));
            body.push(piece.line);
        }
        let mut steps = Vec::new();
        for piece in std::mem::take(&mut self.steps) {
            let at = if needs_route {
                body.len()
            } else {
                body.len() + steps.len()
            };
            comments.extend(piece.comments.into_iter().map(|text| (at, text)));
            steps.extend(piece.matchers);
            steps.push(piece.line);
        }
        if needs_route {
            body.push(Directive {
                block: Some(steps),
                ..bare(at, "route")
            });
        } else {
            body.extend(steps);
        }
        comments.extend(self.comments.drain(..).map(|text| (body.len(), text)));
        Page {
            site: Site {
                addresses,
                body,
                span: site.span,
            },
            comments,
        }
    }
}

/// A line that needs nothing in front of it.
fn piece(line: Directive) -> Piece {
    Piece {
        comments: Vec::new(),
        matchers: Vec::new(),
        line,
    }
}

fn is_known(line: &Directive) -> bool {
    ORDER.contains(&line.name.text.as_str())
}
