//! Range requests: `max_ranges`, and which handler serves the ranges.

use sluice_model::Handler;
use sluice_model::nginx::Ranges;

use crate::lower::level::Level;

/// Handles ranges of responses that these filters change, and of upstream responses if the block sets `max_ranges`. The
/// ranges of all other responses are up to the handler that produces them.
pub fn lower(level: &Level<'_>, filters: &[Handler], is_passed: bool) -> Option<Handler> {
    let max = level
        .word("max_ranges")
        .and_then(|number| number.parse().ok());
    let changes = filters.iter().any(|filter| match filter {
        Handler::NginxCharset(charset) => !charset.source.is_empty(),
        _ => matches!(
            filter,
            Handler::NginxAddition(_)
                | Handler::NginxSsi(_)
                | Handler::NginxGunzip(_)
                | Handler::NginxGzip(_)
                | Handler::NginxSub(_)
        ),
    });
    (changes || is_passed && max.is_some()).then_some(Handler::NginxRanges(Ranges { max }))
}
