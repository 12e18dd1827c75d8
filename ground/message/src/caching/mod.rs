//! Rules of shared caches (RFC 9111): which responses may be stored, how long they are fresh, which request headers
//! they vary by, and how a validation updates them. Storing them is up to the caller.

mod directives;
mod storing;
mod times;
mod vary;

pub use directives::{RequestDirectives, ResponseDirectives, forbids_storing};
pub use storing::{Asked, Given, Refused, Rules, lifetime, may_be_stored};
pub use times::{Lifetime, Times};
pub use vary::{Vary, joined, names_all, variant, vary};

use crate::fields::Fields;
use crate::name::FieldId;

/// Updates the headers of a cached response from the 304 response to its validation (RFC 9111, section 3.2). Headers
/// that describe the cached body keep their values, because the body does not change.
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
