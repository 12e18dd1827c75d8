//! `errors`: error pages, and the log of failed requests.

use super::pieces::{block, line};
use super::translation::Translation;
use crate::tree::{Directive, Token};

impl Translation<'_> {
    /// `errors`: a log of failed requests, and pages for them.
    pub(super) fn errors(&mut self, old: &Directive) {
        let mut log = None;
        match old.args.as_slice() {
            [] => {}
            [only] => log = Some((only, old.lines())),
            _ => return self.malformed(old, "errors [<file>] [{ <status> <page> }]"),
        }
        let is_rotation = |line: &Directive| line.name.text.starts_with("rotate_");
        for inner in old.lines().iter().filter(|line| !is_rotation(line)) {
            match (inner.name.as_str(), inner.args.as_slice()) {
                ("log", [file]) => log = Some((file, inner.lines())),
                (status, [page]) if status == "*" || status.parse::<u16>().is_ok() => {
                    self.error_page(&inner.name, page);
                }
                _ => self.malformed(inner, "<status> <page>, * <page> or log <file>"),
            }
        }
        match log {
            Some((file, _)) if file.text == "visible" => {
                let title = "errors are never shown to clients";
                self.differs(file, title, "they are logged");
            }
            Some((file, rotation)) => self.error_log(file, rotation),
            None if old.lines().iter().any(is_rotation) => {
                self.malformed(old, "errors <file> { rotate_size <megabytes> }");
            }
            None => {}
        }
    }

    fn error_page(&mut self, status: &Token, page: &Token) {
        let path = page.text.as_str();
        let mut lines = Vec::new();
        match path
            .strip_prefix('/')
            .and_then(|path| path.rsplit_once('/'))
        {
            // A whole path is one of the machine, not of the site.
            Some((folder, name)) => {
                lines.push(line(page, "root", ["*".to_owned(), format!("/{folder}")]));
                lines.push(line(page, "rewrite", ["*".to_owned(), format!("/{name}")]));
            }
            None => {
                let page_path = format!("/{}", path.trim_start_matches('/'));
                lines.push(line(page, "rewrite", ["*".to_owned(), page_path]));
            }
        }
        lines.push(super::pieces::bare(page, "file_server"));
        let statuses = Some(status.text.clone()).filter(|status| status != "*");
        self.set_up(block(status, "handle_errors", statuses, lines));
    }
}
