//! `ngx_http_realip_module`: the address of clients behind proxies.

use sluice_diag::Diagnostic;
use sluice_model::Server;
use sluice_model::http::IpSource;
use sluice_model::matcher::IpRanges as Ranges;
use sluice_route::matcher::IpRanges;

use crate::lower::Lowering;
use crate::lower::level::Level;
use crate::registry::Takes::{Flag, Words};
use crate::registry::Verdict::Partly;
use crate::registry::Word;

/// The directives.
pub const WORDS: &[Word] = &[
    Word::once("real_ip_header", Words(1, 1))
        .but(Partly("a field; `proxy_protocol` is not built yet")),
    Word::once("real_ip_recursive", Flag).but(Partly(
        "always `on`: of several addresses the last one that is not trusted counts",
    )),
    Word::many("set_real_ip_from", Words(1, 1)).but(Partly(
        "in `http` and `server`; those of the default server count for all servers of an address",
    )),
];

/// Whom the connections of a default server believe.
pub fn lower(cx: &mut Lowering<'_>, level: &Level<'_>, server: &mut Server) {
    let mut ranges = Vec::new();
    for directive in level.nearest(&["set_real_ip_from"]) {
        let word = &directive.args[0];
        match word.text.as_str() {
            "unix:" => server.trusted_proxies_unix = true,
            text if IpRanges::new(&[text]).is_ok() => ranges.push(text.to_owned()),
            _ => {
                let wanted = "an address, a network such as `10.0.0.0/8` or `unix:`";
                let _: Option<()> = cx.invalid(word, "set_real_ip_from", wanted);
            }
        }
    }
    if ranges.is_empty() && !server.trusted_proxies_unix {
        return;
    }
    let header = level
        .find("real_ip_header")
        .and_then(|line| line.args.first());
    if let Some(word) = header.filter(|word| word.text == "proxy_protocol") {
        cx.report.push(
            Diagnostic::error(
                "unsupported-directive",
                "`real_ip_header proxy_protocol` is not built yet",
            )
            .at(word.span, "known, but not built")
            .imported(word.import)
            .help("name a field"),
        );
    }
    server.trusted_proxies = Some(IpSource::Static(Ranges { ranges }));
    server.trusted_proxies_strict = 1;
    server.client_ip_headers = vec![header.map_or("X-Real-IP", |word| &word.text).to_owned()];
}
