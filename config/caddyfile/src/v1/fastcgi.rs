//! `fastcgi`: the PHP preset becomes `php_fastcgi`, any other a proxy with the FastCGI transport.

use super::pieces::{block, line, prefix, renamed};
use super::translation::Translation;
use crate::tree::{Directive, Token};

/// What the options of a FastCGI rule amount to.
#[derive(Default)]
struct Rule<'t> {
    upstreams: Vec<String>,
    ext: Option<&'t Token>,
    index: Vec<&'t Token>,
    except: Vec<&'t Token>,
    /// Options that mean the same in both forms.
    transport: Vec<Directive>,
}

impl Translation<'_> {
    pub(super) fn fastcgi(&mut self, old: &Directive) {
        let (path, endpoint, preset) = match old.args.as_slice() {
            [path, endpoint] => (path, endpoint, None),
            [path, endpoint, preset] => (path, endpoint, Some(preset)),
            _ => return self.malformed(old, "fastcgi <path> <endpoint> [php]"),
        };
        if let Some(preset) = preset.filter(|preset| preset.text != "php") {
            let title = format!("`{}` is not a preset of `fastcgi`", preset.text);
            return self.cannot(preset, title, "write `php` or nothing");
        }
        let mut rule = Rule {
            upstreams: vec![upstream(endpoint.as_str())],
            ..Rule::default()
        };
        for inner in old.lines() {
            self.fastcgi_option(inner, &mut rule);
        }
        match preset {
            Some(_) => self.php(old, path, rule),
            None => self.plain_fastcgi(old, path, rule),
        }
    }

    fn fastcgi_option<'t>(&mut self, old: &'t Directive, rule: &mut Rule<'t>) {
        let at = &old.name;
        let same = |name: &str| renamed(old, name);
        match (at.as_str(), old.args.as_slice()) {
            ("root", [_]) => rule.transport.push(same("root")),
            ("ext", [only]) => rule.ext = Some(only),
            ("split", [_]) => rule.transport.push(same("split")),
            ("index", names @ [_, ..]) => rule.index.extend(names),
            ("except", paths @ [_, ..]) => rule.except.extend(paths),
            ("env", [name, value]) => {
                let value = self.text(value);
                rule.transport
                    .push(line(at, "env", [name.text.clone(), value]));
            }
            ("upstream", [only]) => rule.upstreams.push(upstream(only.as_str())),
            ("connect_timeout", [_]) => rule.transport.push(same("dial_timeout")),
            ("read_timeout", [_]) => rule.transport.push(same("read_timeout")),
            ("send_timeout", [_]) => rule.transport.push(same("write_timeout")),
            // Connections were kept in a pool; Caddy 2 makes one for each request.
            ("pool", [_]) => {
                self.differs(
                    at,
                    "`pool` is omitted",
                    "each request has its own connection",
                );
            }
            _ => {
                let title = format!("option `{}` of `fastcgi` has no equivalent", at.text);
                self.cannot(at, title, "remove it");
            }
        }
    }

    /// Caddy 1 proxies paths that end in `.php` and directories with an index file. Everything else is a static file,
    /// and a missing file is 404.
    fn php(&mut self, old: &Directive, path: &Token, rule: Rule<'_>) {
        let (words, matchers) = self.fastcgi_paths(old, path, &rule, &[]);
        let index = rule
            .index
            .first()
            .map_or("index.php", |index| index.as_str());
        let tried = [
            "{path}".to_owned(),
            format!("{{path}}/{index}"),
            "=404".to_owned(),
        ];
        let mut lines = vec![line(&old.name, "try_files", tried)];
        if let Some(only) = rule.index.first() {
            lines.push(line(only, "index", [only.as_str()]));
        }
        lines.extend(rule.transport);
        let words = words.into_iter().chain(rule.upstreams);
        self.step(matchers, block(&old.name, "php_fastcgi", words, lines));
    }

    fn plain_fastcgi(&mut self, old: &Directive, path: &Token, rule: Rule<'_>) {
        let exts: Vec<&Token> = rule.ext.into_iter().collect();
        let (words, matchers) = self.fastcgi_paths(old, path, &rule, &exts);
        let transport = match rule.transport.is_empty() {
            true => line(&old.name, "transport", ["fastcgi"]),
            false => block(&old.name, "transport", ["fastcgi"], rule.transport),
        };
        let words = words.into_iter().chain(rule.upstreams);
        let proxy = block(&old.name, "reverse_proxy", words, vec![transport]);
        self.step(matchers, proxy);
    }

    fn fastcgi_paths(
        &mut self,
        old: &Directive,
        path: &Token,
        rule: &Rule<'_>,
        exts: &[&Token],
    ) -> (Vec<String>, Vec<Directive>) {
        let Some(first) = rule.except.first() else {
            return self.path_and_exts(&old.name, "fastcgi", path.as_str(), exts);
        };
        let base = prefix(path.as_str()).unwrap_or_else(|| "*".to_owned());
        let globs: Vec<String> = match exts {
            [] => prefix(path.as_str()).into_iter().collect(),
            exts => exts
                .iter()
                .map(|ext| format!("{base}{}", ext.text))
                .collect(),
        };
        let mut conditions = Vec::new();
        if !globs.is_empty() {
            conditions.push(line(path, "path", globs));
        }
        let not = rule.except.iter().filter_map(|path| prefix(path.as_str()));
        let words = std::iter::once("path".to_owned()).chain(not);
        conditions.push(line(first, "not", words));
        let (name, matcher) = self.matcher(&old.name, "fastcgi", conditions);
        (vec![name], vec![matcher])
    }
}

/// An endpoint in the form of Caddy 2.
fn upstream(old: &str) -> String {
    if let Some(path) = old.strip_prefix("unix:") {
        return format!("unix/{}", path.trim_start_matches("//"));
    }
    match old.strip_prefix('/') {
        Some(_) => format!("unix/{old}"),
        None => {
            let bare = ["fastcgi://", "tcp://"].iter();
            bare.fold(old, |text, scheme| {
                text.strip_prefix(scheme).unwrap_or(text)
            })
            .to_owned()
        }
    }
}
