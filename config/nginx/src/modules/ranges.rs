//! Parts of answers: `max_ranges`, and what else decides who takes them.

use sluice_model::Handler;
use sluice_model::nginx::Ranges;

use crate::lower::level::Level;

/// Takes the parts of answers that a place changes with these filters, or that come from elsewhere in a place that says how
/// many parts there may be. Of all others whoever answers takes them.
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
