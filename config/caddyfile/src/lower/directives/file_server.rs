//! `file_server`.

use sluice_model::Handler;
use sluice_model::handler::{Browse, FileServer, NoSettings};

use crate::lower::Lowering;
use crate::lower::definition::Block;
use crate::lower::definition::Read::{Flag, MoreTexts, Text, Texts, With};
use crate::lower::definition::{Definition, Options, directive, option};
use crate::lower::outcome::Outcomes;
use crate::tree::Directive;

/// `file_server`.
pub(super) static FILE_SERVER: Definition = directive(
    "file_server",
    "file_server [<matcher>] [browse] [{ … }]",
    |cx, line| cx.file_server(line),
)
.with(&OPTIONS);

static OPTIONS: Options<FileServer> = Options::new(
    "file_server",
    &[
        option(
            "fs",
            "fs <backend...>",
            With(|cx, line, server| {
                if !server.fs.is_empty() {
                    return cx.duplicate(line);
                }
                server.fs = cx.single_text(line)?;
                Some(())
            }),
        ),
        option("root", "root <path>", Text(|server| &mut server.root)),
        option(
            "hide",
            "hide <files...>",
            // Lines add up, so that imported snippets and a site hide what each names.
            MoreTexts(|server| &mut server.hide),
        ),
        option(
            "index",
            "index <filenames...>",
            Texts(|server| &mut server.index_names),
        ),
        option::<FileServer>(
            "browse",
            "browse [<template_file>] [{ … }]",
            With(|cx, line, server| {
                if server.browse.is_some() {
                    return cx.duplicate(line);
                }
                server.browse = Some(cx.browse(line)?);
                Some(())
            }),
        )
        .holding(Block::Options(&BROWSE)),
        option(
            "precompressed",
            "precompressed [<formats...>]",
            With(|cx, line, server| cx.precompressed(line, server)),
        ),
        option(
            "status",
            "status <status>",
            With(|cx, line, server| {
                let word = cx.single(line)?;
                server.status_code = cx.status(word)?;
                Some(())
            }),
        ),
        option(
            "disable_canonical_uris",
            "disable_canonical_uris",
            With(|cx, line, server| {
                cx.flag(line)?;
                server.canonical_uris = Some(false);
                Some(())
            }),
        ),
        option(
            "pass_thru",
            "pass_thru",
            Flag(|server| &mut server.pass_thru),
        ),
        option(
            "etag_file_extensions",
            "etag_file_extensions <extensions...>",
            Texts(|server| &mut server.etag_file_extensions),
        ),
    ],
);

static BROWSE: Options<Browse> = Options::new(
    "browse",
    &[
        option(
            "reveal_symlinks",
            "reveal_symlinks",
            With(|cx, line, browse| {
                if browse.reveal_symlinks {
                    return cx.duplicate(line);
                }
                cx.flag(line)?;
                browse.reveal_symlinks = true;
                Some(())
            }),
        ),
        option(
            "sort",
            "sort <sort_field> [<direction>]",
            With(|cx, line, browse| {
                cx.no_block(line)?;
                cx.between(line, &line.args, 1, 2)?;
                for word in &line.args {
                    let words = ["name", "namedirfirst", "size", "time", "asc", "desc"];
                    browse.sort.push(cx.one_of(word, &words)?);
                }
                Some(())
            }),
        ),
        option(
            "plain_time_format",
            "plain_time_format <layout>",
            With(|cx, line, browse| {
                if !browse.plain_time_format.is_empty() {
                    return cx.duplicate(line);
                }
                browse.plain_time_format = cx.single_text(line)?;
                match browse.plain_time_format.is_empty() {
                    true => cx.missing(line, "a layout such as `2006-01-02 15:04`"),
                    false => Some(()),
                }
            }),
        ),
        option(
            "file_limit",
            "file_limit <number>",
            With(|cx, line, browse| {
                if browse.file_limit != 0 {
                    return cx.duplicate(line);
                }
                browse.file_limit = cx.single_number(line, "a number of entries")?;
                Some(())
            }),
        ),
    ],
);

/// Encodings that are looked for beside a file, in the order they are preferred by default.
const PRECOMPRESSED: [&str; 3] = ["br", "zstd", "gzip"];

impl Lowering<'_> {
    fn file_server(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.between(line, args, 0, 1)?;
            let mut server = FileServer::default();
            if let Some(word) = args.first() {
                this.one_of(word, &["browse"])?;
                server.browse = Some(Browse::default());
            }
            this.read_options(&OPTIONS, line.lines(), &mut server)?;
            server
                .hide
                .extend(this.site_files.iter().map(|name| hidden(name)));
            Some(Handler::FileServer(Box::new(server)))
        })
    }

    fn browse(&mut self, line: &Directive) -> Option<Browse> {
        self.between(line, &line.args, 0, 1)?;
        let mut browse = Browse::default();
        if let Some(template) = line.args.first() {
            browse.template_file.clone_from(&template.text);
        }
        self.read_options(&BROWSE, line.lines(), &mut browse)?;
        Some(browse)
    }

    fn precompressed(&mut self, line: &Directive, server: &mut FileServer) -> Option<()> {
        self.no_block(line)?;
        let mut names: Vec<String> = Vec::new();
        for word in &line.args {
            if !PRECOMPRESSED.contains(&word.text.as_str()) {
                return self.unknown_module(word, "precompressed encoding", &PRECOMPRESSED);
            }
            names.push(word.text.clone());
        }
        if names.is_empty() {
            names = PRECOMPRESSED.map(str::to_string).to_vec();
        }
        for name in &names {
            let settings = Some(NoSettings::default());
            match name.as_str() {
                "br" => server.precompressed.br = settings,
                "zstd" => server.precompressed.zstd = settings,
                _ => server.precompressed.gzip = settings,
            }
        }
        server.precompressed_order = names;
        Some(())
    }
}

/// The path under which a configuration file is hidden: a bare name would hide every file so named.
pub(super) fn hidden(name: &str) -> String {
    if name.contains('/') {
        name.to_string()
    } else {
        format!("./{name}")
    }
}
