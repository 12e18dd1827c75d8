//! `encode`: compressed responses.

use sluice_model::Handler;
use sluice_model::handler::{Encode, LevelEncoder, ZstdEncoder};

use crate::lower::Lowering;
use crate::lower::definition::Read::{Choice, Elsewhere, With};
use crate::lower::definition::{Definition, Options, directive, option};
use crate::lower::outcome::Outcomes;
use crate::tree::{Directive, Token};

/// `encode`.
pub(super) static ENCODE: Definition = directive(
    "encode",
    "encode [<matcher>] [<formats...>] [{ … }]",
    |cx, line| cx.encode(line),
)
.with(&OPTIONS);

static OPTIONS: Options<Encode> = Options::new(
    "encode",
    &[
        option(
            "gzip",
            "gzip [<level>]",
            With(|cx, line, encode| cx.encoding(line, &line.name, &line.args, encode)),
        ),
        option(
            "zstd",
            "zstd [<level>]",
            With(|cx, line, encode| cx.encoding(line, &line.name, &line.args, encode)),
        ),
        option(
            "br",
            "br [<level>]",
            With(|cx, line, encode| cx.encoding(line, &line.name, &line.args, encode)),
        ),
        option(
            "minimum_length",
            "minimum_length <length>",
            With(|cx, line, encode| {
                encode.minimum_length = cx.single_number(line, "a number of bytes")?;
                Some(())
            }),
        ),
        option(
            "match",
            "match <inline_response_matcher>",
            With(|cx, line, encode| {
                encode.r#match = Some(cx.response_matcher(line)?);
                Some(())
            }),
        ),
        option("level", "level <level>", Elsewhere),
        option("disable_checksum", "disable_checksum", Elsewhere),
    ],
);

static ZSTD: Options<ZstdEncoder> = Options::new(
    "encode",
    &[
        option(
            "level",
            "level <level>",
            Choice(&ZSTD_LEVELS, |zstd| &mut zstd.level),
        ),
        option(
            "disable_checksum",
            "disable_checksum",
            With(|cx, line, zstd| {
                cx.flag(line)?;
                zstd.checksum = Some(false);
                Some(())
            }),
        ),
    ],
);

/// The supported encodings. Brotli is ours; Caddy has it only for files compressed ahead.
const ENCODINGS: [&str; 3] = ["gzip", "zstd", "br"];

const ZSTD_LEVELS: [&str; 4] = ["fastest", "default", "better", "best"];

impl Lowering<'_> {
    fn encode(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            let mut encode = Encode::default();
            for word in args {
                this.encoding(line, word, &[], &mut encode)?;
            }
            this.read_options(&OPTIONS, line.lines(), &mut encode)?;
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
            zstd.level = self.one_of(word, &ZSTD_LEVELS)?;
        }
        if line.name.text == "zstd" {
            self.read_lines(&ZSTD, line.lines(), &mut zstd)?;
        }
        Some(zstd)
    }
}
