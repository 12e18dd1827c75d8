//! Translates one site: collects its directives in the order in which Caddy 1 runs them, then writes the lines of a new
//! site.

use super::Page;
use super::detect::{ORDER, is_plugin};
use super::pieces::{Piece, bare, line};
use super::translation::Translation;
use crate::registry::{self, old_names::old_name};
use crate::tree::{Directive, Site, Token};

impl Translation<'_> {
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
            "websocket" => "run the program as a server of its own and use `proxy`",
            _ => "turn the pages into HTML before they are served, or use `templates`",
        };
        self.cannot(
            &line.name,
            format!("`{name}` of Caddy 1 has no equivalent"),
            help,
        );
    }

    fn unknown(&mut self, line: &Directive) {
        let name = line.name.text.as_str();
        let title = match is_plugin(name) {
            true => format!("`{name}` is a directive of a Caddy 1 plugin"),
            false => format!("`{name}` is not a directive of Caddy 1"),
        };
        let help = match old_name(name) {
            Some(help) => help,
            None if is_plugin(name) => "remove it",
            None => "remove it, or translate the rest of the file first",
        };
        self.cannot(&line.name, title, help);
    }

    /// Whether the order in which Caddy 2 would run the steps is another than theirs.
    fn needs_route(&self) -> bool {
        let rewrites = self.steps.iter().any(Piece::rewrites);
        let ordered: Vec<&Piece> = self
            .steps
            .iter()
            .filter(|step| !(step.is_free() && (!rewrites || step.is_unconditional())))
            .collect();
        let rank = |piece: &&Piece| registry::position(&piece.line.name.text);
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
