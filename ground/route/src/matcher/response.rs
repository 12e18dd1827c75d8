//! Response matchers: conditions on status and headers. `sluice-serve` decides where they apply.

use alloc::string::String;
use alloc::vec::Vec;

use sluice_message::ResponseHead;

use super::{HeaderMatcher, MatcherError};
use crate::scratch::Scratch;

/// Statuses and fields that a response has to have.
#[derive(Clone, Debug)]
pub struct ResponseMatcher {
    /// Exact codes, and below 10 whole classes: 4 stands for 400 to 499.
    statuses: Vec<u16>,
    fields: HeaderMatcher,
}

impl ResponseMatcher {
    /// Compiles `statuses` (codes, or single digits for classes) and fields as in
    /// [`HeaderMatcher::new`].
    pub fn new<'a, V>(statuses: &[u16], fields: V) -> Result<ResponseMatcher, MatcherError>
    where
        V: IntoIterator<Item = (&'a str, Option<&'a [String]>)>,
    {
        Ok(ResponseMatcher {
            statuses: statuses.into(),
            fields: HeaderMatcher::new(fields)?,
        })
    }

    /// The statuses as they were given; any where there are none.
    pub fn statuses(&self) -> &[u16] {
        &self.statuses
    }

    /// Whether the response has one of the statuses, if there are any, and all of the fields.
    pub fn matches(&self, head: &ResponseHead, scratch: &Scratch) -> bool {
        let code = head.status.code();
        let status = self.statuses.is_empty()
            || self
                .statuses
                .iter()
                .any(|&wanted| wanted == code || wanted == code / 100);
        status && self.fields.matches_fields(&head.fields, scratch)
    }
}
