//! The header by which the nodes of a cache recognize requests and responses of one another.
//!
//! A request has the name of the node that sends it, what it wants, a digest of the key as that node sees it, and a MAC over
//! these with the secret of the nodes. A response says what it is: without that, the port of a node may belong to
//! something else.

use aws_lc_rs::{digest, hmac};
use sluice_message::Fields;
use sluice_message::hex::{hex_pair, hex_text};
use sluice_pipeline::context::CacheStatus;

/// The name of the header.
pub(super) const HEADER: &[u8] = b"Sluice-Cache-Peer";

/// What a node wants from another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Errand {
    /// The response of a key that it owns.
    Get,
    /// That it drops the response of a key.
    Drop,
}

impl Errand {
    const fn as_str(self) -> &'static str {
        match self {
            Errand::Get => "get",
            Errand::Drop => "drop",
        }
    }

    fn parse(text: &str) -> Option<Errand> {
        [Errand::Get, Errand::Drop]
            .into_iter()
            .find(|errand| errand.as_str() == text)
    }
}

/// What the header of a request is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// The request has none.
    None,
    /// Somebody has written it who does not know the secret.
    Stranger,
    /// It is of another node, for which the request has another key.
    OtherKey,
    /// It is of another node.
    Peer(Errand),
}

/// The secret of the nodes.
pub(super) struct Seal(hmac::Key);

impl Seal {
    pub fn new(secret: &str) -> Seal {
        Seal(hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()))
    }

    /// The value of the header for a request of `node`.
    pub fn mark(&self, node: &str, errand: Errand, key: &[u8]) -> String {
        let words = words(node, errand, &digest_of(key));
        let tag = hmac::sign(&self.0, words.as_bytes());
        format!("{words} {}", hex_text(tag.as_ref()))
    }

    /// Checks the header of a request with this key. `is_node` says whether another node has that name.
    pub fn check(&self, fields: &Fields, key: &[u8], is_node: impl Fn(&str) -> bool) -> Mark {
        let mut values = fields.find(HEADER);
        let Some(value) = values.next() else {
            return Mark::None;
        };
        let own = digest_of(key);
        match self.sender(value).filter(|_| values.next().is_none()) {
            Some((node, ..)) if !is_node(node) => Mark::Stranger,
            Some((_, _, digest)) if digest != own => Mark::OtherKey,
            Some((_, errand, _)) => Mark::Peer(errand),
            None => Mark::Stranger,
        }
    }

    /// The node, what it wants and its digest, if the MAC is right.
    fn sender<'v>(&self, value: &'v [u8]) -> Option<(&'v str, Errand, &'v str)> {
        let value = std::str::from_utf8(value).ok()?;
        let (signed, tag) = value.rsplit_once(' ')?;
        let tag: Option<Vec<u8>> = tag.as_bytes().chunks(2).map(hex_pair).collect();
        hmac::verify(&self.0, signed.as_bytes(), &tag?).ok()?;
        let mut words = signed.split(' ');
        let (node, errand, digest) = (words.next()?, words.next()?, words.next()?);
        Some((node, Errand::parse(errand)?, digest))
    }
}

fn words(node: &str, errand: Errand, digest: &str) -> String {
    format!("{node} {} {digest}", errand.as_str())
}

fn digest_of(key: &[u8]) -> String {
    hex_text(digest::digest(&digest::SHA256, key).as_ref())
}

/// Whether a request has the header.
pub(in crate::cache) fn is_marked(fields: &Fields) -> bool {
    fields.find_first(HEADER).is_some()
}

/// What a node replies to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// This is the response of the key.
    Response(Option<CacheStatus>),
    /// The request has failed.
    Fault,
    /// The request has another key here.
    OtherKey,
    /// The response of the key was dropped.
    Dropped,
}

/// The statuses that a response may have.
const STATUSES: [CacheStatus; 7] = [
    CacheStatus::Hit,
    CacheStatus::Miss,
    CacheStatus::Expired,
    CacheStatus::Stale,
    CacheStatus::Updating,
    CacheStatus::Revalidated,
    CacheStatus::Bypass,
];

impl Reply {
    /// The value of the header.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reply::Response(Some(status)) => status.as_str(),
            Reply::Response(None) => "RESPONSE",
            Reply::Fault => "fault",
            Reply::OtherKey => "other-key",
            Reply::Dropped => "dropped",
        }
    }

    /// What the header of a response says; `None` if it was not sent by a node of a cache.
    pub fn of(fields: &Fields) -> Option<Reply> {
        let value = fields.find_first(HEADER)?;
        let responses = STATUSES
            .into_iter()
            .map(|status| Reply::Response(Some(status)));
        let others = [
            Reply::Response(None),
            Reply::Fault,
            Reply::OtherKey,
            Reply::Dropped,
        ];
        responses
            .chain(others)
            .find(|reply| reply.as_str().as_bytes() == value)
    }
}

#[cfg(test)]
mod tests {
    use sluice_message::FieldId;

    use super::*;

    fn marked(value: &str) -> Fields {
        let mut fields = Fields::new();
        fields.push_raw(FieldId::of(HEADER), HEADER, value.as_bytes());
        fields
    }

    fn checked(fields: &Fields) -> Mark {
        let seal = Seal::new("a secret of the nodes");
        seal.check(fields, b"key", |node| node == "b")
    }

    #[test]
    fn only_other_nodes_mark_requests() {
        let seal = Seal::new("a secret of the nodes");
        for errand in [Errand::Get, Errand::Drop] {
            let mark = seal.mark("b", errand, b"key");
            assert_eq!(checked(&marked(&mark)), Mark::Peer(errand), "{mark}");
        }
        assert_eq!(checked(&Fields::new()), Mark::None);
        let get = seal.mark("b", Errand::Get, b"key");
        assert_eq!(
            checked(&marked(&seal.mark("b", Errand::Get, b"other"))),
            Mark::OtherKey
        );
        for stranger in [
            seal.mark("c", Errand::Get, b"key"),
            Seal::new("another secret").mark("b", Errand::Get, b"key"),
            get.replace("get", "drop"),
            get[..get.len() - 2].to_owned(),
            format!("{get}0"),
            format!("{get} "),
            String::new(),
            "b get".to_owned(),
        ] {
            assert_eq!(checked(&marked(&stranger)), Mark::Stranger, "{stranger:?}");
        }
        let mut twice = marked(&get);
        twice.append(&marked(&get));
        assert_eq!(checked(&twice), Mark::Stranger);
    }

    #[test]
    fn replies_are_read_as_they_are_written() {
        let replies = [
            Reply::Response(Some(CacheStatus::Hit)),
            Reply::Response(None),
            Reply::Fault,
            Reply::OtherKey,
            Reply::Dropped,
        ];
        for reply in replies {
            assert_eq!(Reply::of(&marked(reply.as_str())), Some(reply));
        }
        assert_eq!(Reply::of(&marked("x")), None);
        assert_eq!(Reply::of(&Fields::new()), None);
    }
}
