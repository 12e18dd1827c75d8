//! `ngx_http_access_module`: access control by address, and `satisfy`. Passwords and subrequests are in `auth`.

use sluice_diag::Diagnostic;
use sluice_model::Handler;
use sluice_model::nginx::{AccessRule, AccessRules};
use sluice_route::matcher::IpRanges;

use crate::definition::Takes::Words;
use crate::definition::{Definition, many};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::text::Facts;
use crate::modules::auth;

/// The directives.
pub const DIRECTIVES: &[Definition] = &[many("allow", Words(1, 1)), many("deny", Words(1, 1))];

/// The checks of a place, if there are any. Rules of a block replace those of the blocks around it.
pub fn lower(cx: &mut Lowering<'_>, level: &Level<'_>, facts: &Facts) -> Option<Handler> {
    let checks = AccessRules {
        rules: rules(cx, level),
        any: level.word("satisfy") == Some("any"),
        basic: auth::basic(cx, level, facts),
        request: auth::request(cx, level, facts),
        delay: level.time("auth_delay").unwrap_or_default(),
    };
    let asks = checks.basic.is_some() || checks.request.is_some();
    (asks || !checks.rules.is_empty()).then(|| {
        let plain = AccessRules {
            rules: checks.rules.clone(),
            ..AccessRules::default()
        };
        // Of addresses alone there is nothing to choose or to hold back.
        Handler::NginxAccess(Box::new(if asks { checks } else { plain }))
    })
}

fn rules(cx: &mut Lowering<'_>, level: &Level<'_>) -> Vec<AccessRule> {
    let found = level.nearest(&["allow", "deny"]);
    let mut rules = Vec::new();
    for directive in found {
        let word = &directive.args[0];
        let from = word.text.as_str();
        if !matches!(from, "all" | "unix:") && IpRanges::new(&[from.to_owned()]).is_err() {
            cx.report.push(
                Diagnostic::error("invalid-value", format!("`{from}` is not an address"))
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
    rules
}
