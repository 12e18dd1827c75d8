//! The transports `fastcgi`, `scgi` and `uwsgi` of `reverse_proxy`; the latter two are sluice's own.

use sluice_model::proxy::{CgiTransport, FastCgiTransport};

use crate::lower::Lowering;
use crate::lower::definition::Read::{Flag, Text, Texts, Time, With};
use crate::lower::definition::{Options, option};
use crate::tree::Directive;

/// `transport fastcgi`.
pub(super) static FASTCGI: Options<FastCgiTransport> = Options::new(
    "transport fastcgi",
    &[
        option("root", "root <path>", Text(|cgi| &mut cgi.root)),
        option("split", "split <at>", Texts(|cgi| &mut cgi.split_path)),
        option(
            "env",
            "env <key> <value>",
            With(|cx, line, cgi| {
                let (key, value) = cx.variable_of_cgi(line)?;
                cgi.env.insert(key, value);
                Some(())
            }),
        ),
        option(
            "resolve_root_symlink",
            "resolve_root_symlink",
            Flag(|cgi| &mut cgi.resolve_root_symlink),
        ),
        option(
            "dial_timeout",
            "dial_timeout <duration>",
            Time(|cgi| &mut cgi.dial_timeout),
        ),
        option(
            "read_timeout",
            "read_timeout <duration>",
            Time(|cgi| &mut cgi.read_timeout),
        ),
        option(
            "write_timeout",
            "write_timeout <duration>",
            Time(|cgi| &mut cgi.write_timeout),
        ),
        option(
            "capture_stderr",
            "capture_stderr",
            Flag(|cgi| &mut cgi.capture_stderr),
        ),
    ],
);

/// `transport scgi`.
pub(super) static SCGI: Options<CgiTransport> = Options::<CgiTransport>::new(
    "transport scgi",
    &[
        option("root", "root <path>", Text(|cgi| &mut cgi.root)),
        option("split", "split <at>", Texts(|cgi| &mut cgi.split_path)),
        option("env", "env <key> <value>", With(cgi_variable)),
        option(
            "resolve_root_symlink",
            "resolve_root_symlink",
            Flag(|cgi| &mut cgi.resolve_root_symlink),
        ),
        option(
            "dial_timeout",
            "dial_timeout <duration>",
            Time(|cgi| &mut cgi.dial_timeout),
        ),
        option(
            "read_timeout",
            "read_timeout <duration>",
            Time(|cgi| &mut cgi.read_timeout),
        ),
        option(
            "write_timeout",
            "write_timeout <duration>",
            Time(|cgi| &mut cgi.write_timeout),
        ),
    ],
)
.own();

/// `transport uwsgi`.
pub(super) static UWSGI: Options<CgiTransport> = Options::<CgiTransport>::new(
    "transport uwsgi",
    &[
        option("root", "root <path>", Text(|cgi| &mut cgi.root)),
        option("split", "split <at>", Texts(|cgi| &mut cgi.split_path)),
        option("env", "env <key> <value>", With(cgi_variable)),
        option(
            "resolve_root_symlink",
            "resolve_root_symlink",
            Flag(|cgi| &mut cgi.resolve_root_symlink),
        ),
        option(
            "dial_timeout",
            "dial_timeout <duration>",
            Time(|cgi| &mut cgi.dial_timeout),
        ),
        option(
            "read_timeout",
            "read_timeout <duration>",
            Time(|cgi| &mut cgi.read_timeout),
        ),
        option(
            "write_timeout",
            "write_timeout <duration>",
            Time(|cgi| &mut cgi.write_timeout),
        ),
        option(
            "modifier1",
            "modifier1 <number>",
            With(|cx, line, cgi| {
                cgi.modifier1 = cx.single_number(line, MODIFIER)?;
                Some(())
            }),
        ),
        option(
            "modifier2",
            "modifier2 <number>",
            With(|cx, line, cgi| {
                cgi.modifier2 = cx.single_number(line, MODIFIER)?;
                Some(())
            }),
        ),
    ],
)
.own();

const MODIFIER: &str = "a number from 0 to 255";

fn cgi_variable(cx: &mut Lowering<'_>, line: &Directive, cgi: &mut CgiTransport) -> Option<()> {
    let (key, value) = cx.variable_of_cgi(line)?;
    cgi.env.insert(key, value);
    Some(())
}

impl Lowering<'_> {
    /// Reads a line of `php_fastcgi` that `transport fastcgi` has as well.
    pub(in crate::lower) fn fastcgi_option(
        &mut self,
        line: &Directive,
        transport: &mut FastCgiTransport,
    ) -> Option<()> {
        self.read_option(&FASTCGI, line, transport)
    }

    /// The name and the value of a variable for the application: `env <key> <value>`.
    fn variable_of_cgi(&mut self, line: &Directive) -> Option<(String, String)> {
        self.no_block(line)?;
        let [key, value] = self.exact::<2>(line, &line.args)?;
        Some((key.text.clone(), value.text.clone()))
    }
}
