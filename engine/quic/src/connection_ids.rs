//! Connection IDs that lead to the socket of their worker: its number, then random bytes.

use std::time::Duration;

use aws_lc_rs::rand;
use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid};

/// The bytes of an ID: the number of the socket, and 7 random ones. More would make each packet longer.
pub(crate) const ID_BYTES: usize = 8;

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
        ConnectionId::new(&bytes)
    }

    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        match id.first() {
            Some(index) if *index == self.index => Ok(()),
            Some(_) | None => Err(InvalidCid),
        }
    }

    fn cid_len(&self) -> usize {
        ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}
