//! Static files: `root`, `ext` and `browse`, and the file server that ends every site of Caddy 1.

use super::pieces::{bare, block, line, prefix, word};
use super::translation::Translation;
use crate::tree::{Directive, Site, Token};

impl Translation<'_> {
    pub(super) fn root(&mut self, old: &Directive) {
        match old.args.as_slice() {
            [folder] => {
                let folder = self.text(folder);
                self.set_up(line(&old.name, "root", ["*".to_owned(), folder]));
            }
            _ => self.malformed(old, "root <folder>"),
        }
    }

    pub(super) fn ext(&mut self, old: &Directive) {
        let tried = old.args.iter().map(|ext| format!("{{path}}{}", ext.text));
        let files: Vec<String> = std::iter::once("{path}".to_owned()).chain(tried).collect();
        match files.len() {
            1 => self.malformed(old, "ext <extensions...>"),
            _ => self.step(Vec::new(), line(&old.name, "try_files", files)),
        }
    }

    /// The file server, which every site has without saying so. Left out where nothing reaches it.
    pub(super) fn files(&mut self, site: &Site, path: Option<&Token>) {
        let is_proxied = site
            .body
            .iter()
            .any(|line| line.name.text == "proxy" && takes_all(line));
        let from = site
            .body
            .iter()
            .find(|line| line.name.text == "root")
            .map_or(path.unwrap_or(&site.addresses[0]), |root| &root.name);
        let listings = site.body.iter().filter(|line| line.name.text == "browse");
        let mut lists_all = false;
        for old in listings {
            lists_all |= self.browse(old);
        }
        if !lists_all && !is_proxied {
            let server = self.file_server(from, Vec::new());
            self.step(Vec::new(), server);
        }
    }

    /// Adds a file server with directory listings; returns whether it handles all requests.
    fn browse(&mut self, old: &Directive) -> bool {
        if let [_, template, ..] = old.args.as_slice() {
            let help = "rewrite the template for Caddy 2: `file_server { browse <file> }`";
            self.cannot(
                template,
                "`browse` templates have another syntax in Caddy 2",
                help,
            );
        }
        if let Some(inner) = old.lines().first() {
            let title = format!("option `{}` of `browse` has no equivalent", inner.name.text);
            self.cannot(&inner.name, title, "remove it");
        }
        let path = old.args.first().map_or("/", Token::as_str);
        let words = prefix(path)
            .into_iter()
            .chain(["browse".to_owned()])
            .collect();
        let server = self.file_server(&old.name, words);
        self.step(Vec::new(), server);
        prefix(path).is_none()
    }

    fn file_server(&self, from: &Token, words: Vec<String>) -> Directive {
        let index = self.index.first().map(|first| {
            let names = self.index.iter().map(Token::as_str);
            line(first, "index", names)
        });
        match index {
            Some(index) => block(from, "file_server", words, vec![index]),
            None => line(from, "file_server", words),
        }
    }

    /// `internal <path>`: nobody may ask for it from outside.
    pub(super) fn internal(&mut self, old: &Directive) {
        if old.args.is_empty() {
            return self.malformed(old, "internal <path>");
        }
        for path in &old.args {
            self.differs(
                path,
                "`internal` hides files, but does not open them for upstreams",
                "an upstream that responds with X-Accel-Redirect needs `handle_response`",
            );
            self.error_on(&old.name, path.as_str(), "404");
        }
    }

    /// Responds to requests below a path with an error.
    pub(super) fn error_on(&mut self, from: &Token, path: &str, status: &str) {
        let words = prefix(path).into_iter().chain([status.to_owned()]);
        self.step(Vec::new(), line(from, "error", words));
    }

    pub(super) fn status(&mut self, old: &Directive) {
        let mut rules: Vec<(&Token, &Token)> = Vec::new();
        match old.args.as_slice() {
            [code, path] => rules.push((code, path)),
            [code] => rules.extend(old.lines().iter().map(|inner| (code, &inner.name))),
            [] => {
                for inner in old.lines() {
                    rules.extend(inner.args.iter().map(|path| (&inner.name, path)));
                }
            }
            _ => {}
        }
        if rules.is_empty() {
            return self.malformed(old, "status <code> <path>");
        }
        for (code, path) in rules {
            match code.text.parse::<u16>() {
                Ok(400..) => self.error_on(code, path.as_str(), code.as_str()),
                Ok(_) => {
                    let words = prefix(path.as_str()).into_iter().chain([code.text.clone()]);
                    self.step(Vec::new(), line(code, "respond", words));
                }
                Err(_) => self.malformed(old, "status <code> <path>"),
            }
        }
    }

    pub(super) fn mime(&mut self, old: &Directive) {
        let mut rules: Vec<(&Token, &Token)> = Vec::new();
        if let [ext, kind] = old.args.as_slice() {
            rules.push((ext, kind));
        }
        for inner in old.lines() {
            rules.extend(inner.args.first().map(|kind| (&inner.name, kind)));
        }
        if rules.is_empty() {
            return self.malformed(old, "mime <extension> <type>");
        }
        for (ext, kind) in rules {
            let path = line(ext, "path", [format!("*{}", ext.text)]);
            let (name, matcher) = self.matcher(ext, "mime", vec![path]);
            let mut header = line(ext, "header", [name, "Content-Type".to_owned()]);
            header.args.push(word(kind.as_str(), kind));
            self.step(vec![matcher], header);
        }
    }

    pub(super) fn templates(&mut self, old: &Directive) {
        self.differs(
            &old.name,
            "templates have other functions in Caddy 2",
            "`{{.Include \"a\"}}` is `{{include \"a\"}}` now; see the guide on templates",
        );
        let mut path = old.args.first().map_or("/", Token::as_str);
        let mut exts: Vec<&Token> = old.args.iter().skip(1).collect();
        let mut inner = Vec::new();
        for option in old.lines() {
            match (option.name.as_str(), option.args.as_slice()) {
                ("path", [only]) => path = only.as_str(),
                ("ext", some) => exts.extend(some),
                ("between", [open, close]) => {
                    inner.push(line(
                        &option.name,
                        "between",
                        [open.as_str(), close.as_str()],
                    ));
                }
                _ => self.malformed(option, "path, ext or between"),
            }
        }
        let (words, matchers) = self.path_and_exts(&old.name, "templates", path, &exts);
        let templates = match inner.is_empty() {
            true => line(&old.name, "templates", words),
            false => block(&old.name, "templates", words, inner),
        };
        self.step(matchers, templates);
    }

    /// The matcher of a directive for paths below one that end in one of some ways.
    pub(super) fn path_and_exts(
        &mut self,
        from: &Token,
        kind: &str,
        path: &str,
        exts: &[&Token],
    ) -> (Vec<String>, Vec<Directive>) {
        if exts.is_empty() {
            return (prefix(path).into_iter().collect(), Vec::new());
        }
        let globs = exts.iter().map(|ext| {
            let below = prefix(path).unwrap_or_else(|| "*".to_owned());
            format!("{below}{}", ext.text)
        });
        let paths = line(from, "path", globs);
        let (name, matcher) = self.matcher(from, kind, vec![paths]);
        (vec![name], vec![matcher])
    }

    pub(super) fn push(&mut self, old: &Directive) {
        self.differs(
            &old.name,
            "`push` is omitted",
            "browsers no longer support server push",
        );
    }

    pub(super) fn request_id(&mut self, old: &Directive) {
        if let Some(field) = old.args.first() {
            self.differs(
                field,
                "`{request_id}` is always a new ID",
                "the ID that the client sent stays in its header",
            );
        }
    }

    pub(super) fn gzip(&mut self, old: &Directive) {
        let (mut inner, mut not) = (Vec::new(), Vec::new());
        let mut exts: Vec<&Token> = Vec::new();
        let mut level = None;
        for option in old.lines() {
            match (option.name.as_str(), option.args.as_slice()) {
                ("level", [only]) => level = Some(only),
                ("min_length", [only]) => {
                    inner.push(line(&option.name, "minimum_length", [only.as_str()]));
                }
                ("not", paths) => not.extend(paths.iter().filter_map(|path| {
                    let at = path;
                    prefix(path.as_str()).map(|path| (path, at))
                })),
                ("ext", some) => exts.extend(some.iter().filter(|ext| ext.text != "*")),
                _ => self.malformed(option, "ext, not, level or min_length"),
            }
        }
        let mut conditions = Vec::new();
        if !exts.is_empty() {
            let globs = exts.iter().map(|ext| format!("*{}", ext.text));
            conditions.push(line(&old.name, "path", globs));
        }
        if let Some((_, at)) = not.first() {
            let paths = not.iter().map(|(path, _)| path.clone());
            let words = std::iter::once("path".to_owned()).chain(paths);
            conditions.push(line(at, "not", words));
        }
        let mut words = Vec::new();
        let mut matchers = Vec::new();
        if !conditions.is_empty() {
            let (name, matcher) = self.matcher(&old.name, "gzip", conditions);
            words.push(name);
            matchers.push(matcher);
        }
        let encode = match (level, inner.is_empty()) {
            (None, true) => {
                words.push("gzip".to_owned());
                line(&old.name, "encode", words)
            }
            (level, _) => {
                let gzip = match level {
                    Some(level) => line(level, "gzip", [level.as_str()]),
                    None => bare(&old.name, "gzip"),
                };
                inner.insert(0, gzip);
                block(&old.name, "encode", words, inner)
            }
        };
        self.step(matchers, encode);
    }
}

/// Whether a proxy takes all requests of its site.
fn takes_all(proxy: &Directive) -> bool {
    proxy.args.first().is_some_and(|from| from.text == "/")
        && proxy.lines().iter().all(|line| line.name.text != "except")
}
