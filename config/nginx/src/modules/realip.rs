//! `ngx_http_realip_module`: the address of clients behind trusted proxies.

use sluice_model::Handler;
use sluice_model::nginx::RealIp;
use sluice_route::matcher::IpRanges;

use crate::arguments::each;
use crate::definition::Takes::{Flag, Words};
use crate::definition::Verdict::Partly;
use crate::definition::Wrong;
use crate::definition::{Definition, many, once};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::tree::Directive;

/// The directives.
pub const DIRECTIVES: &[Definition] = &[
    once("real_ip_header", Words(1, 1)),
    once("real_ip_recursive", Flag),
    many("set_real_ip_from", Words(1, 1))
        .but(Partly(
            "addresses, networks and `unix:`; host names are not resolved",
        ))
        .checked(check_network),
];

/// The trusted proxies of a block.
pub fn settings(cx: &mut Lowering<'_>, level: &Level<'_>) -> Option<RealIp> {
    let mut real = RealIp {
        recursive: level.is_on("real_ip_recursive", false),
        ..RealIp::default()
    };
    for directive in level.nearest(&["set_real_ip_from"]) {
        let word = &directive.args[0];
        match word.text.as_str() {
            "unix:" => real.from_unix = true,
            text if IpRanges::new(&[text]).is_ok() => real.from.push(text.to_owned()),
            _ => {
                let wanted = "an address, a network such as `10.0.0.0/8` or `unix:`";
                let _: Option<()> = cx.invalid(word, "set_real_ip_from", wanted);
            }
        }
    }
    if real.from.is_empty() && !real.from_unix {
        return None;
    }
    real.field = match level.word("real_ip_header") {
        None => "X-Real-IP".to_owned(),
        Some("proxy_protocol") => String::new(),
        Some(field) => field.to_owned(),
    };
    Some(real)
}

/// The trusted proxies of a location, if it or an enclosing location sets any. Those of its server were applied before
/// the location was selected.
pub fn of_location(cx: &mut Lowering<'_>, level: &Level<'_>) -> Option<Handler> {
    let names = ["set_real_ip_from", "real_ip_header", "real_ip_recursive"];
    let says = |level: &Level<'_>| names.iter().any(|name| level.own(name).next().is_some());
    if !level.locations().any(says) {
        return None;
    }
    let around = level.server().and_then(|level| settings(cx, level));
    let real = settings(cx, level).filter(|real| Some(real) != around.as_ref());
    real.map(Handler::NginxRealIp)
}

/// An address, a network or `unix:`; nginx also takes names.
pub fn check_network(directive: &Directive) -> Option<Wrong> {
    each(directive, "an address, a network or `unix:`", |word| {
        word == "unix:" || IpRanges::new(&[word]).is_ok() || is_host(word)
    })
}

/// Whether a text may be the name of a host.
fn is_host(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    text.trim_end_matches('.').split('.').all(is_label)
}
