//! `ngx_http_mirror_module`: sends copies of requests elsewhere.

use sluice_diag::Diagnostic;
use sluice_model::Handler;
use sluice_model::nginx::Mirror;

use crate::definition::Takes::{Flag, Words};
use crate::definition::Verdict::Partly;
use crate::definition::{Definition, many, once};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;

/// The directives.
pub const DIRECTIVES: &[Definition] = &[
    many("mirror", Words(1, 1)),
    once("mirror_request_body", Flag).but(Partly(
        "bodies of up to 1 MiB; requests with longer bodies are served but not mirrored",
    )),
];

/// Where copies of the requests of a place are sent.
pub fn lower(cx: &mut Lowering<'_>, level: &Level<'_>) -> Option<Handler> {
    let lines = level.nearest(&["mirror"]);
    let (mut uris, mut off) = (Vec::new(), None);
    for line in &lines {
        let word = line.args.first()?;
        match word.text.as_str() {
            "off" => off = Some(word),
            uri if uri.starts_with('/') && !uri.contains(['?', '$']) => uris.push(uri.to_owned()),
            _ => {
                return cx.invalid(
                    word,
                    "mirror",
                    "a path without query and variables that begins with a slash, or `off`",
                );
            }
        }
    }
    if let Some(word) = off
        && let Some(other) = lines.iter().find(|line| line.arg(0) != Some("off"))
    {
        cx.report.push(
            Diagnostic::error("invalid-value", "`mirror off` beside another `mirror`")
                .at(word.span, "this says that there is none")
                .imported(word.import)
                .also(other.span(), "and this names one")
                .help("remove one of the two"),
        );
        return None;
    }
    (!uris.is_empty()).then(|| {
        Handler::NginxMirror(Mirror {
            uris,
            without_body: !level.is_on("mirror_request_body", true),
        })
    })
}
