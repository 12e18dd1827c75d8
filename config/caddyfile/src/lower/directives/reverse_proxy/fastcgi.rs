//! The transports `fastcgi`, `scgi` and `uwsgi` of `reverse_proxy`; the latter two are sluice's own.

use sluice_model::proxy::{CgiTransport, FastCgiTransport};

use crate::lower::Lowering;
use crate::lower::definition::Read::{Flag, Text, Texts, Time, With};
use crate::lower::definition::{OptionDefinition, Options, option};
use crate::tree::Directive;

/// `transport fastcgi`.
pub(super) static FASTCGI: Options<Cgi> =
    Options::<Cgi>::new("transport fastcgi", SHARED).more(&[option(
        "capture_stderr",
        "capture_stderr",
        Flag(|cgi| &mut cgi.fastcgi.capture_stderr),
    )]);

/// `transport scgi`.
pub(super) static SCGI: Options<Cgi> = Options::<Cgi>::new("transport scgi", SHARED).own();

/// `transport uwsgi`.
pub(super) static UWSGI: Options<Cgi> = Options::<Cgi>::new("transport uwsgi", SHARED)
    .more(&[
        option(
            "modifier1",
            "modifier1 <number>",
            With(|cx, line, cgi| {
                cgi.modifiers[0] = cx.single_number(line, MODIFIER)?;
                Some(())
            }),
        ),
        option(
            "modifier2",
            "modifier2 <number>",
            With(|cx, line, cgi| {
                cgi.modifiers[1] = cx.single_number(line, MODIFIER)?;
                Some(())
            }),
        ),
    ])
    .own();

/// What all three have.
const SHARED: &[OptionDefinition<Cgi>] = &[
    option("root", "root <path>", Text(|cgi| &mut cgi.fastcgi.root)),
    option(
        "split",
        "split <at>",
        Texts(|cgi| &mut cgi.fastcgi.split_path),
    ),
    option(
        "env",
        "env <key> <value>",
        With(|cx, line, cgi| {
            cx.no_block(line)?;
            let [key, value] = cx.exact::<2>(line, &line.args)?;
            let env = &mut cgi.fastcgi.env;
            env.insert(key.text.clone(), value.text.clone());
            Some(())
        }),
    ),
    option(
        "resolve_root_symlink",
        "resolve_root_symlink",
        Flag(|cgi| &mut cgi.fastcgi.resolve_root_symlink),
    ),
    option(
        "dial_timeout",
        "dial_timeout <duration>",
        Time(|cgi| &mut cgi.fastcgi.dial_timeout),
    ),
    option(
        "read_timeout",
        "read_timeout <duration>",
        Time(|cgi| &mut cgi.fastcgi.read_timeout),
    ),
    option(
        "write_timeout",
        "write_timeout <duration>",
        Time(|cgi| &mut cgi.fastcgi.write_timeout),
    ),
];

const MODIFIER: &str = "a number from 0 to 255";

/// The settings of the three transports: those of FastCGI, and the modifiers of uwsgi.
#[derive(Default)]
pub(in crate::lower) struct Cgi {
    pub(in crate::lower) fastcgi: FastCgiTransport,
    modifiers: [u8; 2],
}

impl From<Cgi> for CgiTransport {
    fn from(cgi: Cgi) -> CgiTransport {
        let shared = cgi.fastcgi;
        let [modifier1, modifier2] = cgi.modifiers;
        CgiTransport {
            root: shared.root,
            split_path: shared.split_path,
            resolve_root_symlink: shared.resolve_root_symlink,
            env: shared.env,
            dial_timeout: shared.dial_timeout,
            read_timeout: shared.read_timeout,
            write_timeout: shared.write_timeout,
            modifier1,
            modifier2,
            ..CgiTransport::default()
        }
    }
}

impl Lowering<'_> {
    /// Reads a line of `php_fastcgi` that `transport fastcgi` has as well.
    pub(in crate::lower) fn fastcgi_option(
        &mut self,
        line: &Directive,
        cgi: &mut Cgi,
    ) -> Option<()> {
        self.read_option(&FASTCGI, line, cgi)
    }
}
