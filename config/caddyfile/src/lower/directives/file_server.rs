//! `file_server`.

use sluice_model::Handler;
use sluice_model::handler::{Browse, FileServer, NoSettings};

use super::Outcomes;
use crate::lower::Lowering;
use crate::tree::{Directive, Token};

/// Encodings that are looked for beside a file, in the order they are preferred by default.
const PRECOMPRESSED: [&str; 3] = ["br", "zstd", "gzip"];

impl Lowering<'_> {
    pub(super) fn file_server(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.between(line, args, 0, 1)?;
            let mut server = FileServer::default();
            if let Some(word) = args.first() {
                this.one_of(word, &["browse"])?;
                server.browse = Some(Browse::default());
            }
            this.each(line.lines(), |this, option| {
                this.file_server_option(option, &mut server)?;
                Some(())
            })?;
            server
                .hide
                .extend(this.site_files.iter().map(|name| hidden(name)));
            Some(Handler::FileServer(Box::new(server)))
        })
    }

    fn file_server_option(&mut self, line: &Directive, server: &mut FileServer) -> Option<()> {
        match line.name.text.as_str() {
            "fs" if !server.fs.is_empty() => return self.duplicate(line),
            "fs" => server.fs = self.single_text(line)?,
            "root" => server.root = self.single_text(line)?,
            // Lines add up, so that imported snippets and a site hide what each names.
            "hide" => {
                let mut patterns = self.texts(line)?;
                patterns.retain(|pattern| !server.hide.contains(pattern));
                server.hide.extend(patterns);
            }
            "index" => server.index_names = self.texts(line)?,
            "browse" if server.browse.is_some() => return self.duplicate(line),
            "browse" => server.browse = Some(self.browse(line)?),
            "precompressed" => self.precompressed(line, server)?,
            "status" => {
                let word = self.single(line)?;
                server.status_code = self.status(word)?;
            }
            "disable_canonical_uris" => {
                self.flag(line)?;
                server.canonical_uris = Some(false);
            }
            "pass_thru" => {
                self.flag(line)?;
                server.pass_thru = true;
            }
            "etag_file_extensions" => server.etag_file_extensions = self.texts(line)?,
            _ => return self.unknown_option(line),
        }
        Some(())
    }

    fn browse(&mut self, line: &Directive) -> Option<Browse> {
        self.between(line, &line.args, 0, 1)?;
        let mut browse = Browse::default();
        if let Some(template) = line.args.first() {
            browse.template_file.clone_from(&template.text);
        }
        self.each(line.lines(), |this, option| {
            let place = std::mem::replace(&mut this.place, "browse");
            let done = this.browse_option(option, &mut browse);
            this.place = place;
            done?;
            Some(())
        })?;
        Some(browse)
    }

    fn browse_option(&mut self, line: &Directive, browse: &mut Browse) -> Option<()> {
        match line.name.text.as_str() {
            "reveal_symlinks" if browse.reveal_symlinks => return self.duplicate(line),
            "file_limit" if browse.file_limit != 0 => return self.duplicate(line),
            "reveal_symlinks" => {
                self.flag(line)?;
                browse.reveal_symlinks = true;
            }
            "sort" => {
                self.no_block(line)?;
                self.between(line, &line.args, 1, 2)?;
                for word in &line.args {
                    browse.sort.push(self.sort_word(word)?);
                }
            }
            "file_limit" => browse.file_limit = self.single_number(line, "a number of entries")?,
            _ => return self.unknown_option(line),
        }
        Some(())
    }

    fn sort_word(&mut self, word: &Token) -> Option<String> {
        self.one_of(
            word,
            &["name", "namedirfirst", "size", "time", "asc", "desc"],
        )
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
fn hidden(name: &str) -> String {
    if name.contains('/') {
        name.to_string()
    } else {
        format!("./{name}")
    }
}
