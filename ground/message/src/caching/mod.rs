//! Shared caches (RFC 9111): which answers may be stored, how long they are fresh, what they vary by, and what an
//! answer to a validation changes. Keeping them is left to whoever has a place for them.

mod directives;
mod storing;
mod times;
mod vary;

pub use directives::{ResponseDirectives, forbids_storing};
pub use storing::{Asked, Given, Refused, Rules, lifetime, may_be_stored};
pub use times::{Lifetime, Times};
pub use vary::{Vary, variant, vary};

use crate::fields::Fields;
use crate::name::FieldId;

/// Makes the fields of a stored answer those that an answer 304 to its validation says they are (RFC 9111, section 3.2).
/// What describes the content as it was stored stays: the content is that one.
pub fn merge(stored: &mut Fields, newer: &Fields) {
    const OF_CONTENT: [FieldId; 4] = [
        FieldId::ContentEncoding,
        FieldId::ContentLength,
        FieldId::ContentRange,
        FieldId::ContentType,
    ];
    let is_taken = |id: FieldId| !OF_CONTENT.contains(&id);
    for field in newer.iter().filter(|field| is_taken(field.id)) {
        stored.remove_name(field.name);
    }
    for field in newer.iter().filter(|field| is_taken(field.id)) {
        stored.push_raw(field.id, field.name, field.value);
    }
}

#[cfg(test)]
mod tests;
