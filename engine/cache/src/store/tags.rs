//! Surrogate keys: names by which an origin groups responses, so that one purge removes all of a group.

use sluice_message::Fields;

use super::digest::Digest;
use crate::limits::TAGS_MAX;

/// The header that lists them, separated by spaces or commas.
const HEADER: &[u8] = b"Surrogate-Key";

/// Stands for all surrogate keys: the response has more than the index keeps.
const EVERY: u64 = u64::MAX;

/// The surrogate keys of a response. The index keeps digests: two keys with the same one are purged together, which costs
/// a fetch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tags(Box<[u64]>);

impl Tags {
    /// Those of a response with these headers.
    pub fn of(fields: &Fields) -> Tags {
        let mut all: Vec<u64> = Vec::new();
        for tag in fields.find(HEADER).flat_map(digests) {
            if all.len() == TAGS_MAX {
                return Tags([EVERY].into());
            }
            all.push(tag);
        }
        Tags(all.into())
    }

    /// Whether a purge of these digests is about the response.
    pub fn has_any(&self, wanted: &[u64]) -> bool {
        self.0
            .iter()
            .any(|tag| *tag == EVERY || wanted.contains(tag))
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}

/// The digests of the surrogate keys in a list.
pub(super) fn digests(list: &[u8]) -> impl Iterator<Item = u64> {
    let names = list.split(|byte| matches!(byte, b' ' | b'\t' | b','));
    names.filter(|name| !name.is_empty()).map(|name| {
        let [a, b, c, d, e, f, g, h, ..] = Digest::of(&[name]).0;
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_message::FieldId;

    fn tags(list: &str) -> Tags {
        let mut fields = Fields::new();
        fields.push_raw(FieldId::of(HEADER), HEADER, list.as_bytes());
        Tags::of(&fields)
    }

    #[test]
    fn keys_are_separated_by_spaces_or_commas() {
        let wanted = |list: &str| digests(list.as_bytes()).collect::<Vec<_>>();
        let some = tags("news, home  article-7,");
        assert_eq!(some.bytes(), 3 * 8);
        for one in ["news", "home", "other article-7"] {
            assert!(some.has_any(&wanted(one)), "{one}");
        }
        assert!(!some.has_any(&wanted("article")) && !some.has_any(&wanted("")));
        assert!(!Tags::default().has_any(&wanted("news")));
    }

    #[test]
    fn a_response_with_too_many_keys_is_purged_with_each() {
        let list = |count: usize| (0..count).map(|key| format!("k{key} ")).collect::<String>();
        let wanted: Vec<u64> = digests(b"other").collect();
        assert!(!tags(&list(TAGS_MAX)).has_any(&wanted));
        let many = tags(&list(TAGS_MAX + 1));
        assert!(many.has_any(&wanted) && many.bytes() == 8);
    }
}
