//! `encode`: compressed responses.

use sluice_model::Handler;
use sluice_model::handler::{Encode, LevelEncoder, ZstdEncoder};

use super::Outcomes;
use crate::lower::Lowering;
use crate::tree::{Directive, Token};

/// The encodings there are. Brotli is ours; Caddy has it only for files compressed ahead.
const ENCODINGS: [&str; 3] = ["gzip", "zstd", "br"];

impl Lowering<'_> {
    pub(super) fn encode(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            let mut encode = Encode::default();
            for word in args {
                this.encoding(line, word, &[], &mut encode)?;
            }
            this.each(line.lines(), |this, option| {
                match option.name.text.as_str() {
                    "minimum_length" => {
                        encode.minimum_length = this.single_number(option, "a number of bytes")?;
                    }
                    "match" => encode.r#match = Some(this.response_matcher(option)?),
                    name if ENCODINGS.contains(&name) => {
                        this.encoding(option, &option.name, &option.args, &mut encode)?;
                    }
                    _ => return this.unknown_option(option),
                }
                Some(())
            })?;
            if encode.prefer.is_empty() {
                encode.prefer = vec!["zstd".into(), "gzip".into()];
                encode.encodings.zstd = Some(ZstdEncoder::default());
                encode.encodings.gzip = Some(LevelEncoder::default());
            }
            Some(Handler::Encode(encode))
        })
    }

    fn encoding(
        &mut self,
        line: &Directive,
        name: &Token,
        args: &[Token],
        encode: &mut Encode,
    ) -> Option<()> {
        self.between(
            line,
            args,
            0,
            if line.name.text == "encode" { 0 } else { 1 },
        )?;
        let level = match args.first() {
            Some(word) if name.text != "zstd" => self.number(word, "a level")?,
            _ => 0,
        };
        let encoder = LevelEncoder { level };
        match name.text.as_str() {
            "gzip" => encode.encodings.gzip = Some(encoder),
            "br" => encode.encodings.br = Some(encoder),
            "zstd" => encode.encodings.zstd = Some(self.zstd(line, args.first())?),
            _ => return self.unknown_module(name, "encoding", &ENCODINGS),
        }
        if !encode.prefer.contains(&name.text) {
            encode.prefer.push(name.text.clone());
        }
        Some(())
    }

    fn zstd(&mut self, line: &Directive, level: Option<&Token>) -> Option<ZstdEncoder> {
        let mut zstd = ZstdEncoder::default();
        if let Some(word) = level {
            zstd.level = self.one_of(word, &["fastest", "default", "better", "best"])?;
        }
        if line.name.text == "zstd" {
            self.each(line.lines(), |this, option| {
                match option.name.text.as_str() {
                    "level" => {
                        let word = this.single(option)?;
                        let levels = ["fastest", "default", "better", "best"];
                        zstd.level = this.one_of(word, &levels)?;
                    }
                    "disable_checksum" => {
                        this.flag(option)?;
                        zstd.checksum = Some(false);
                    }
                    _ => return this.unknown_option(option),
                }
                Some(())
            })?;
        }
        Some(zstd)
    }
}
