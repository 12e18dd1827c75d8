//! The Caddyfile language of Caddy 0 and 1: detects such files and translates them to that of Caddy 2.
//!
//! Both languages have the same lexical syntax, so `parse` reads both; this module converts a tree of the old language
//! to a tree of the new one, in which words still point into the old text. `lower` processes the result: there is one
//! lowering for both.

mod address;
mod auth;
mod conditions;
mod detect;
mod errors;
mod fastcgi;
mod files;
mod globals;
mod headers;
mod limits;
mod logs;
mod pieces;
mod placeholders;
mod print;
mod proxy;

mod rewriting;
mod site;
mod tls;
mod translation;

use std::io;

use sluice_diag::{Diagnostic, Origins, Report};

use crate::lower::{Adapted, lower};
use crate::tree::{self, Directive, File};
use crate::{Loader, Parsed};

pub(crate) use detect::first_old_word;

/// What [`translate()`] made of a text.
#[derive(Clone, Debug)]
pub struct Translated {
    /// A Caddyfile of Caddy 2 that does the same, with comments where something is missing from it;
    /// there is none when the text could not be read.
    pub caddyfile: Option<String>,
    /// What was found, and the texts it points into.
    pub report: Report,
}

/// What becomes of something that the new language cannot say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// A server is to run it: refused.
    Run,
    /// Someone wants to read it: a warning, and a comment in its place.
    Read,
}

/// Translates a Caddyfile of Caddy 0 or 1. Imports are put in; variables stay variables.
pub fn translate(name: &str, text: &str, loader: &dyn Loader) -> Translated {
    let kept = KeptVariables(loader);
    let Parsed { file, mut report } = crate::parse(name, text, &kept);
    if report.has_errors() {
        return Translated {
            caddyfile: None,
            report,
        };
    }
    let pages = pages(&file, &mut report, &kept, Purpose::Read);
    Translated {
        caddyfile: (!report.has_errors()).then(|| print::caddyfile(&pages)),
        report,
    }
}

/// Whether a text is recognised as a Caddyfile of Caddy 0 or 1. Imports are not followed.
pub fn is_v1(name: &str, text: &str) -> bool {
    let nothing = crate::MemoryLoader::default();
    first_old_word(&crate::parse(name, text, &nothing).file).is_some()
}

/// Reads a Caddyfile of Caddy 0 or 1, whatever it looks like, and lowers it.
pub fn adapt_v1(name: &str, text: &str, loader: &dyn Loader) -> Adapted {
    let Parsed { file, report } = crate::parse(name, text, loader);
    adapt_tree(&file, report, loader)
}

/// Lowers a tree of the old language.
pub(crate) fn adapt_tree(file: &File, mut report: Report, loader: &dyn Loader) -> Adapted {
    if report.has_errors() {
        return Adapted {
            config: None,
            report,
            origins: Origins::default(),
            expressions: Vec::new(),
        };
    }
    let translated = pages(file, &mut report, loader, Purpose::Run).into_tree();
    lower(&translated, report, loader)
}

/// Warns that a file is in the old language, at the word that shows it.
pub(crate) fn warn_of_dialect(word: &tree::Token, report: &mut Report) {
    let title = "this Caddyfile uses the syntax of Caddy 0 and 1";
    let found: Diagnostic = word.warning("caddy1-dialect", title, "not valid in Caddy 2");
    let help = "`sluice adapt --from caddy1 --to caddyfile` converts it to the syntax of Caddy 2";
    report.push(found.help(help));
}

/// A whole translated configuration.
struct Pages {
    globals: Vec<Directive>,
    sites: Vec<Page>,
}

/// A translated site.
struct Page {
    site: tree::Site,
    /// Comments by the line of the site that they stand in front of.
    comments: Vec<(usize, String)>,
}

impl Pages {
    fn into_tree(self) -> File {
        let Pages { globals, sites } = self;
        let span = globals.first().map(|first| first.span);
        File {
            global: span.map(|span| tree::Block {
                body: globals,
                span,
            }),
            named_routes: Vec::new(),
            sites: sites.into_iter().map(|page| page.site).collect(),
        }
    }
}

fn pages(file: &File, report: &mut Report, loader: &dyn Loader, purpose: Purpose) -> Pages {
    let mut globals = globals::Globals::default();
    let mut sites = Vec::new();
    if let Some(global) = &file.global {
        let found = Diagnostic::error("caddy1-untranslated", "Caddy 1 has no global options");
        let found = found.at(global.span, "not valid in Caddy 1");
        report.push(found.help("remove it, or translate the rest of the file first"));
    }
    for site in &file.sites {
        let mut site = site.clone();
        put_variables(&mut site.body, loader, report);
        sites
            .push(translation::Translation::new(report, loader, &mut globals, purpose).site(&site));
    }
    Pages {
        globals: globals.into_lines(),
        sites,
    }
}

/// Puts `{%NAME%}` in, the form of variables that came from Windows.
fn put_variables(lines: &mut [Directive], loader: &dyn Loader, report: &mut Report) {
    for line in lines {
        for word in line.args.iter_mut().chain([&mut line.name]) {
            while let Some(start) = word.text.find("{%") {
                let Some(end) = word.text[start..].find("%}").map(|end| start + end) else {
                    break;
                };
                let name = &word.text[start + 2..end];
                let value = loader.variable(name);
                if value.is_none() {
                    let title = format!("environment variable `{name}` is not set");
                    report.push(word.warning("unset-variable", title, "expands to nothing"));
                }
                // A value is not searched again: it could name itself.
                let value = value.unwrap_or_default().replace("{%", "{ %");
                word.text.replace_range(start..end + 2, &value);
            }
        }
        put_variables(
            line.block.as_deref_mut().unwrap_or_default(),
            loader,
            report,
        );
    }
}

/// Gives each variable as its own value, for texts that are to be printed.
struct KeptVariables<'a>(&'a dyn Loader);

impl Loader for KeptVariables<'_> {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        self.0.read(path)
    }

    fn glob(&self, pattern: &str) -> io::Result<Vec<String>> {
        self.0.glob(pattern)
    }

    fn variable(&self, name: &str) -> Option<String> {
        Some(format!("{{${name}}}"))
    }

    fn hash_password(&self, password: &str) -> Option<String> {
        self.0.hash_password(password)
    }
}
