//! Messages over a stream: a length of four bytes, then JSON.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::limits::{GREETING_BYTES_MAX, MESSAGE_BYTES_MAX};

/// Whether the other side is trusted with large messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// It has not proved anything yet.
    Unknown,
    /// It has.
    Known,
}

/// Reads a message. At the end of the stream the error is of kind `UnexpectedEof`.
pub fn receive<T: DeserializeOwned>(stream: &mut impl Read, peer: Peer) -> io::Result<T> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    let most = match peer {
        Peer::Unknown => GREETING_BYTES_MAX,
        Peer::Known => MESSAGE_BYTES_MAX,
    };
    let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
    if length > most {
        return Err(invalid(format!(
            "a message of {length} bytes; at most {most}"
        )));
    }
    // Memory grows with what arrives, not with what is announced.
    let mut bytes = Vec::new();
    stream.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    serde_json::from_slice(&bytes).map_err(|error| invalid(format!("not a message: {error}")))
}

/// When the other side was last heard, shared by threads.
#[derive(Clone, Debug)]
pub struct Heard(Arc<Mutex<Instant>>);

impl Heard {
    /// Just now.
    pub fn now() -> Self {
        Heard(Arc::new(Mutex::new(Instant::now())))
    }

    /// It was heard again.
    pub fn again(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// How long it has been silent.
    pub fn silent_for(&self) -> Duration {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.elapsed()
    }
}

/// The sending side of a stream, shared by threads.
pub struct Sender(Mutex<Box<dyn Write + Send>>);

impl std::fmt::Debug for Sender {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("Sender")
    }
}

impl Sender {
    /// Sends over this stream.
    pub fn new(stream: impl Write + Send + 'static) -> Self {
        Sender(Mutex::new(Box::new(stream)))
    }

    /// Closes the stream, unless a message is stuck in it. Later messages go nowhere.
    pub fn close(&self) {
        if let Ok(mut stream) = self.0.try_lock() {
            *stream = Box::new(io::sink());
        }
    }

    /// Sends a message.
    pub fn send(&self, message: &impl Serialize) -> io::Result<()> {
        let bytes = serde_json::to_vec(message).map_err(io::Error::other)?;
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err(io::Error::other(format!(
                "a message of {} bytes; at most {MESSAGE_BYTES_MAX}",
                bytes.len()
            )));
        }
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stream.write_all(&(bytes.len() as u32).to_be_bytes())?;
        stream.write_all(&bytes)?;
        stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_bounded_and_whole() {
        let frame = |text: &str| {
            let mut bytes = (text.len() as u32).to_be_bytes().to_vec();
            bytes.extend_from_slice(text.as_bytes());
            bytes
        };
        let read = |bytes: &[u8], peer| receive::<Vec<u32>>(&mut &bytes[..], peer);
        assert_eq!(read(&frame("[1,2]"), Peer::Unknown).unwrap(), [1, 2]);
        let kind = |bytes: &[u8], peer| read(bytes, peer).unwrap_err().kind();
        for cut in 0..8 {
            let bytes = &frame("[1,2]")[..cut];
            assert_eq!(kind(bytes, Peer::Known), io::ErrorKind::UnexpectedEof);
        }
        assert_eq!(kind(&frame("{}"), Peer::Known), io::ErrorKind::InvalidData);
        let large = frame(&format!("[{}1]", "1,".repeat(GREETING_BYTES_MAX)));
        assert_eq!(kind(&large, Peer::Unknown), io::ErrorKind::InvalidData);
        assert!(read(&large, Peer::Known).is_ok());
        let announced = [0xFF; 8];
        assert_eq!(kind(&announced, Peer::Known), io::ErrorKind::InvalidData);
    }
}
