//! Connection IDs that lead to the socket of their worker, and to the process of a binary upgrade: both numbers, then
//! random bytes.

use std::time::Duration;

use aws_lc_rs::rand;
use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid};
use sluice_net::datagrams::generation;

/// The bytes of an ID: the number of the socket, that of the process, and 6 random ones. More would make each packet
/// longer.
pub(crate) const ID_BYTES: usize = 8;

const _: () = assert!(ID_BYTES >= 2, "an ID has the numbers of socket and process");

/// Where the length of the connection ID of a long header stands, and the ID (RFC 9000, section 17.2); where that of a
/// short header stands (section 17.3.1).
const LONG_LENGTH_AT: usize = 5;
const LONG_AT: usize = 6;
const SHORT_AT: usize = 1;

/// The bit that tells a long header.
const LONG: u8 = 0x80;

/// Makes the IDs of one endpoint.
pub(crate) struct ConnectionIds {
    /// The number of its socket.
    pub(crate) index: u8,
}

impl ConnectionIdGenerator for ConnectionIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut bytes = [0; ID_BYTES];
        rand::fill(&mut bytes).expect("the system has random bytes");
        bytes[0] = self.index;
        bytes[1] = generation();
        ConnectionId::new(&bytes)
    }

    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        match id[..] {
            [index, of, ..] if index == self.index && of == generation() => Ok(()),
            _ => Err(InvalidCid),
        }
    }

    fn cid_len(&self) -> usize {
        ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// The generation of the process in the connection ID of a datagram, if the ID may be one that was made for the socket with
/// this number.
pub(crate) fn generation_of(index: u8, datagram: &[u8]) -> Option<u8> {
    let first = *datagram.first()?;
    let at = match first & LONG == 0 {
        true => SHORT_AT,
        false if usize::from(*datagram.get(LONG_LENGTH_AT)?) == ID_BYTES => LONG_AT,
        false => return None,
    };
    match datagram.get(at..at + ID_BYTES)? {
        [of, generation, ..] if *of == index => Some(*generation),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_is_found_in_both_kinds_of_headers() {
        let id = ConnectionIds { index: 3 }.generate_cid();
        assert!(ConnectionIds { index: 3 }.validate(&id).is_ok());
        assert!(ConnectionIds { index: 2 }.validate(&id).is_err());
        let short = [&[0x41], &id[..], b"payload"].concat();
        let long = [&[0xe0, 0, 0, 0, 1, 8], &id[..], b"rest"].concat();
        for datagram in [short, long] {
            assert_eq!(generation_of(3, &datagram), Some(generation()));
            assert_eq!(generation_of(2, &datagram), None);
        }
        // An ID of another length was chosen by a client.
        assert_eq!(generation_of(0, &[0xc0, 0, 0, 0, 1, 4, 0, 0, 0, 0]), None);
        assert_eq!(generation_of(0, &[0x40, 0]), None);
        assert_eq!(generation_of(0, &[]), None);
    }
}
