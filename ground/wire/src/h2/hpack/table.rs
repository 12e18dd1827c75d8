//! The static and the dynamic table of header compression (RFC 7541, section 2.3). `encode` decides which fields enter
//! the dynamic table.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use sluice_message::FieldId;

use super::kind::{NameKind, Pseudo};

/// The fixed table, with what its names are; the first entry has the number 1 (RFC 7541, appendix A).
#[rustfmt::skip]
pub(super) static FIXED: [(NameKind, &str, &str); 61] = {
    use FieldId::*;
    use NameKind::{Field as F, Pseudo as P};
    use Pseudo::{Authority, Method, Path, Scheme, Status};
    [
        (P(Authority), ":authority", ""),
        (P(Method), ":method", "GET"),
        (P(Method), ":method", "POST"),
        (P(Path), ":path", "/"),
        (P(Path), ":path", "/index.html"),
        (P(Scheme), ":scheme", "http"),
        (P(Scheme), ":scheme", "https"),
        (P(Status), ":status", "200"),
        (P(Status), ":status", "204"),
        (P(Status), ":status", "206"),
        (P(Status), ":status", "304"),
        (P(Status), ":status", "400"),
        (P(Status), ":status", "404"),
        (P(Status), ":status", "500"),
        (F(AcceptCharset), "accept-charset", ""),
        (F(AcceptEncoding), "accept-encoding", "gzip, deflate"),
        (F(AcceptLanguage), "accept-language", ""),
        (F(AcceptRanges), "accept-ranges", ""),
        (F(Accept), "accept", ""),
        (F(AccessControlAllowOrigin), "access-control-allow-origin", ""),
        (F(Age), "age", ""),
        (F(Allow), "allow", ""),
        (F(Authorization), "authorization", ""),
        (F(CacheControl), "cache-control", ""),
        (F(ContentDisposition), "content-disposition", ""),
        (F(ContentEncoding), "content-encoding", ""),
        (F(ContentLanguage), "content-language", ""),
        (F(ContentLength), "content-length", ""),
        (F(ContentLocation), "content-location", ""),
        (F(ContentRange), "content-range", ""),
        (F(ContentType), "content-type", ""),
        (F(Cookie), "cookie", ""),
        (F(Date), "date", ""),
        (F(Etag), "etag", ""),
        (F(Expect), "expect", ""),
        (F(Expires), "expires", ""),
        (F(From), "from", ""),
        (F(Host), "host", ""),
        (F(IfMatch), "if-match", ""),
        (F(IfModifiedSince), "if-modified-since", ""),
        (F(IfNoneMatch), "if-none-match", ""),
        (F(IfRange), "if-range", ""),
        (F(IfUnmodifiedSince), "if-unmodified-since", ""),
        (F(LastModified), "last-modified", ""),
        (F(Link), "link", ""),
        (F(Location), "location", ""),
        (F(MaxForwards), "max-forwards", ""),
        (F(ProxyAuthenticate), "proxy-authenticate", ""),
        (F(ProxyAuthorization), "proxy-authorization", ""),
        (F(Range), "range", ""),
        (F(Referer), "referer", ""),
        (F(Other), "refresh", ""),
        (F(RetryAfter), "retry-after", ""),
        (F(Server), "server", ""),
        (F(SetCookie), "set-cookie", ""),
        (F(StrictTransportSecurity), "strict-transport-security", ""),
        (F(TransferEncoding), "transfer-encoding", ""),
        (F(UserAgent), "user-agent", ""),
        (F(Vary), "vary", ""),
        (F(Via), "via", ""),
        (F(WwwAuthenticate), "www-authenticate", ""),
    ]
};

/// The number of the first fixed entry with each known name; 0 where there is none.
pub(super) static FIXED_NAMES: [u8; 256] = {
    let mut numbers = [0; 256];
    let mut i = 0;
    while i < FIXED.len() {
        if let NameKind::Field(id) = FIXED[i].0
            && numbers[id as usize] == 0
            && !matches!(id, FieldId::Other)
        {
            numbers[id as usize] = i as u8 + 1;
        }
        i += 1;
    }
    numbers
};

/// What an entry takes beside its text (RFC 7541, section 4.1).
const ENTRY_BYTES: usize = 32;

/// The table that grows. Texts stand one behind the other in a buffer of up to twice the table's size, so that
/// moving them to its front costs little per entry, and nothing is allocated once the buffer has grown.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    bytes: Vec<u8>,
    /// The newest first.
    entries: VecDeque<Entry>,
    /// The sum over entries as the standard counts it.
    size: usize,
    size_max: usize,
}

/// An entry of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    at: u32,
    name_len: u16,
    value_len: u16,
    /// What the name is.
    pub kind: NameKind,
    /// Whether the value may stand in a field.
    pub clean: bool,
    /// The hash for lookups.
    pub hash: u32,
}

impl Table {
    /// An empty table of at most `size_max` bytes, below 65,536.
    pub fn new(size_max: usize) -> Table {
        debug_assert!(size_max <= usize::from(u16::MAX));
        Table {
            bytes: Vec::new(),
            entries: VecDeque::new(),
            size: 0,
            size_max,
        }
    }

    /// Its largest size now.
    pub fn size_max(&self) -> usize {
        self.size_max
    }

    /// Memory held, in bytes.
    pub fn capacity_bytes(&self) -> usize {
        self.bytes.capacity() + self.entries.capacity() * size_of::<Entry>()
    }

    /// Changes the largest size and drops what has no room (RFC 7541, section 4.3).
    pub fn resize(&mut self, size_max: usize) {
        debug_assert!(size_max <= usize::from(u16::MAX));
        self.size_max = size_max;
        self.make_room(0);
    }

    /// The entry `at` places after the newest.
    pub fn entry(&self, at: usize) -> Option<&Entry> {
        self.entries.get(at)
    }

    /// The name of an entry of this table.
    pub fn name(&self, entry: &Entry) -> &[u8] {
        &self.bytes[entry.at as usize..][..entry.name_len as usize]
    }

    /// The value of an entry of this table.
    pub fn value(&self, entry: &Entry) -> &[u8] {
        let value_at = entry.at as usize + entry.name_len as usize;
        &self.bytes[value_at..][..entry.value_len as usize]
    }

    /// The place of the newest entry with this hash, name and value.
    pub fn find(&self, hash: u32, name: &[u8], value: &[u8]) -> Option<usize> {
        let is_same = |entry: &Entry| {
            entry.hash == hash && self.name(entry) == name && self.value(entry) == value
        };
        self.entries.iter().position(is_same)
    }

    /// Adds an entry and drops the oldest for it (RFC 7541, section 4.4). One that is larger than the table leaves
    /// it empty.
    pub fn insert(&mut self, name: &[u8], value: &[u8], kind: NameKind, clean: bool, hash: u32) {
        let size = name.len() + value.len() + ENTRY_BYTES;
        self.make_room(size);
        if size > self.size_max {
            return;
        }
        if self.bytes.len() + name.len() + value.len() > 2 * self.size_max {
            self.compact();
        }
        self.entries.push_front(Entry {
            at: self.bytes.len() as u32,
            name_len: name.len() as u16,
            value_len: value.len() as u16,
            kind,
            clean,
            hash,
        });
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        self.size += size;
    }

    fn make_room(&mut self, size: usize) {
        while self.size + size > self.size_max
            && let Some(oldest) = self.entries.pop_back()
        {
            self.size -= usize::from(oldest.name_len) + usize::from(oldest.value_len) + ENTRY_BYTES;
        }
        if self.entries.is_empty() {
            self.bytes.clear();
        }
    }

    /// Moves the texts to the front of the buffer.
    fn compact(&mut self) {
        let Some(first) = self.entries.back().map(|oldest| oldest.at) else {
            return self.bytes.clear();
        };
        self.bytes.drain(..first as usize);
        for entry in &mut self.entries {
            entry.at -= first;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn insert(table: &mut Table, name: &[u8], value: &[u8]) {
        table.insert(name, value, NameKind::look(name), true, 0);
    }

    #[test]
    fn known_names_have_their_first_number() {
        assert_eq!(FIXED_NAMES[FieldId::AcceptEncoding as usize], 16);
        assert_eq!(FIXED_NAMES[FieldId::WwwAuthenticate as usize], 61);
        assert_eq!(FIXED_NAMES[FieldId::Other as usize], 0);
        assert_eq!(FIXED_NAMES[FieldId::Origin as usize], 0);
        for (kind, name, value) in FIXED {
            assert_eq!(kind, NameKind::look(name.as_bytes()), "{name}");
            assert!(value.is_ascii());
        }
    }

    #[test]
    fn the_oldest_leave_and_the_memory_stays_bounded() {
        let mut table = Table::new(1000);
        for n in 0..10_000 {
            let value = format!("{:0>1$}", n, 1 + n % 60);
            insert(&mut table, b"x-name", value.as_bytes());
            let newest = table.entry(0).unwrap();
            assert_eq!(table.name(newest), b"x-name");
            assert_eq!(table.value(newest), value.as_bytes());
            let sum: usize = (0..)
                .map_while(|at| table.entry(at))
                .map(|entry| table.name(entry).len() + table.value(entry).len() + 32)
                .sum();
            assert!(sum == table.size && sum <= 1000);
            assert!(table.capacity_bytes() <= 2 * 2000 + 64 * size_of::<Entry>());
        }
    }

    /// RFC 7541, section 4.4: an entry larger than the table empties it and is not an error.
    #[test]
    fn too_large_an_entry_empties_the_table() {
        let mut table = Table::new(100);
        insert(&mut table, b"a", b"b");
        insert(&mut table, b"name", &[b'v'; 65]);
        assert!(table.entry(0).is_none());
        insert(&mut table, b"name", &[b'v'; 64]);
        assert!(table.entry(0).is_some());
        table.resize(99);
        assert!(table.entry(0).is_none() && table.size == 0);
    }
}
