//! `ngx_http_access_module`: who may come in, by address.

use sluice_diag::Diagnostic;
use sluice_model::Handler;
use sluice_model::nginx::{AccessRule, AccessRules};
use sluice_route::matcher::IpRanges;

use crate::lower::Lowering;
use crate::lower::level::Level;
use crate::registry::Takes::Words;
use crate::registry::Word;

/// The directives.
pub const WORDS: &[Word] = &[
    Word::many("allow", Words(1, 1)),
    Word::many("deny", Words(1, 1)),
];

/// The rules of a place, if there are any. Rules of a block replace those of the blocks around it.
pub fn lower(cx: &mut Lowering<'_>, level: &Level<'_>) -> Option<Handler> {
    let found = level.nearest(&["allow", "deny"]);
    let mut rules = Vec::new();
    for directive in found {
        let word = &directive.args[0];
        let from = word.text.as_str();
        if !matches!(from, "all" | "unix:") && IpRanges::new(&[from.to_owned()]).is_err() {
            cx.report.push(
                Diagnostic::error("invalid-value", format!("`{from}` is no address"))
                    .at(word.span, "not understood")
                    .imported(word.import)
                    .help("write an address, a range such as `10.0.0.0/8`, `unix:` or `all`"),
            );
            continue;
        }
        rules.push(AccessRule {
            allow: directive.name() == "allow",
            from: from.to_owned(),
        });
    }
    (!rules.is_empty()).then_some(Handler::NginxAccess(AccessRules { rules }))
}
