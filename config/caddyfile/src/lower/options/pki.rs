//! The global option `pki`.

use sluice_model::pki::{CertificateAuthority, KeyPair};

use super::super::Lowering;
use super::super::definition::Read::{Text, Time, With};
use super::super::definition::{Block, Options, option};
use crate::tree::Directive;

/// `pki`.
pub(super) static PKI: Options<()> = Options::new(
    "pki",
    &[option::<()>(
        "ca",
        "ca [<id>] [{ … }]",
        With(|cx, line, ()| cx.authority(line)),
    )
    .holding(Block::Options(&CA))],
);

static CA: Options<CertificateAuthority> = Options::new(
    "ca",
    &[
        option("name", "name <name>", Text(|authority| &mut authority.name)),
        option(
            "root_cn",
            "root_cn <name>",
            Text(|authority| &mut authority.root_common_name),
        ),
        option(
            "intermediate_cn",
            "intermediate_cn <name>",
            Text(|authority| &mut authority.intermediate_common_name),
        ),
        option(
            "intermediate_lifetime",
            "intermediate_lifetime <duration>",
            Time(|authority| &mut authority.intermediate_lifetime),
        ),
        option(
            "maintenance_interval",
            "maintenance_interval <duration>",
            Time(|authority| &mut authority.maintenance_interval),
        ),
        option(
            "renewal_window_ratio",
            "renewal_window_ratio <ratio>",
            With(|cx, line, authority| {
                authority.renewal_window_ratio = cx.window_ratio(line)?;
                Some(())
            }),
        ),
        option::<CertificateAuthority>(
            "root",
            "root { … }",
            With(|cx, line, authority| {
                authority.root = Some(cx.key_pair(line)?);
                Some(())
            }),
        )
        .holding(Block::Options(&KEY_PAIR)),
        option::<CertificateAuthority>(
            "intermediate",
            "intermediate { … }",
            With(|cx, line, authority| {
                authority.intermediate = Some(cx.key_pair(line)?);
                Some(())
            }),
        )
        .holding(Block::Options(&KEY_PAIR)),
    ],
);

static KEY_PAIR: Options<KeyPair> = Options::new(
    "key pair",
    &[
        option("format", "format <format>", Text(|pair| &mut pair.format)),
        option("cert", "cert <path>", Text(|pair| &mut pair.certificate)),
        option("key", "key <path>", Text(|pair| &mut pair.private_key)),
    ],
);

impl Lowering<'_> {
    pub(super) fn pki_option(&mut self, line: &Directive) -> Option<()> {
        self.between(line, &line.args, 0, 0)?;
        // Of several such options the last one counts.
        self.options.authorities.clear();
        self.read_options(&PKI, line.lines(), &mut ())
    }

    fn authority(&mut self, line: &Directive) -> Option<()> {
        self.between(line, &line.args, 0, 1)?;
        let id = line
            .args
            .first()
            .map_or("local", |word| word.text.as_str())
            .to_string();
        let mut authority = CertificateAuthority::default();
        self.read_options(&CA, line.lines(), &mut authority)?;
        self.options.authorities.insert(id, authority);
        Some(())
    }

    fn key_pair(&mut self, line: &Directive) -> Option<KeyPair> {
        self.between(line, &line.args, 0, 0)?;
        let mut pair = KeyPair::default();
        self.read_options(&KEY_PAIR, line.lines(), &mut pair)?;
        Some(pair)
    }
}
