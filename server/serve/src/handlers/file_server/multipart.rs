//! Several ranges of a file in one answer (RFC 9110, section 14.6). Which ranges is left to `send`.

use std::fmt::Write;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::task::{Context, Poll};

use sluice_cache::{Content, OpenFile};
use sluice_message::range::Range;
use sluice_net::{BodyStream, Failure, FailureKind, Side, Worker};

use sluice_observe::random;

/// The parts with what stands between them.
pub(crate) struct Multipart {
    worker: Rc<Worker>,
    boundary: String,
    /// Each part with its head before it; the last is only what ends the whole.
    parts: Vec<Part>,
    /// The part that is being sent.
    at: usize,
    /// Bytes of that part's head that are sent.
    head_sent: usize,
    content: Content,
    /// Where the content begins in its file, if it is not in memory.
    base: u64,
    /// What was read of a large file and is not sent yet.
    read: Vec<u8>,
    read_sent: usize,
    left: u64,
}

struct Part {
    head: String,
    range: Range,
}

impl Multipart {
    pub(crate) fn new(
        worker: Rc<Worker>,
        file: &OpenFile,
        ranges: Vec<Range>,
        media_type: Option<Vec<u8>>,
    ) -> Multipart {
        let content = (file.content.clone(), 0, file.facts.size);
        Multipart::of(worker, content, ranges, media_type)
    }

    /// Parts of a content that begins there in its file, and has this size.
    pub(crate) fn of(
        worker: Rc<Worker>,
        (content, base, size): (Content, u64, u64),
        ranges: Vec<Range>,
        media_type: Option<Vec<u8>>,
    ) -> Multipart {
        // 128 random bits: no file holds them by chance, and nobody can prepare one that does.
        let boundary = format!("{:032x}", random::bits());
        let media_type = media_type.map(|text| String::from_utf8_lossy(&text).into_owned());
        let mut parts = Vec::with_capacity(ranges.len() + 1);
        for range in ranges {
            let lead = if parts.is_empty() { "" } else { "\r\n" };
            let last = range.start + range.len - 1;
            let mut head = format!("{lead}--{boundary}\r\n");
            write!(
                head,
                "Content-Range: bytes {}-{last}/{size}\r\n",
                range.start
            )
            .expect("writing to memory does not fail");
            if let Some(media_type) = &media_type {
                write!(head, "Content-Type: {media_type}\r\n")
                    .expect("writing to memory does not fail");
            }
            head.push_str("\r\n");
            parts.push(Part { head, range });
        }
        let end = format!("\r\n--{boundary}--\r\n");
        parts.push(Part {
            head: end,
            range: Range { start: 0, len: 0 },
        });
        let left = parts
            .iter()
            .map(|part| part.head.len() as u64 + part.range.len)
            .sum();
        Multipart {
            worker,
            boundary,
            parts,
            at: 0,
            head_sent: 0,
            content,
            base,
            read: Vec::new(),
            read_sent: 0,
            left,
        }
    }

    pub(crate) fn media_type(&self) -> String {
        format!("multipart/byteranges; boundary={}", self.boundary)
    }

    /// Reads on in a large file.
    fn fill(&mut self) -> io::Result<()> {
        let Content::Handle(file) = &self.content else {
            return Ok(());
        };
        if self.read.capacity() == 0 {
            self.read = self.worker.buffers.large();
        }
        let range = self.parts[self.at].range;
        let wanted = range.len.min(self.read.capacity() as u64) as usize;
        read_exactly(file, self.base + range.start, wanted, &mut self.read)?;
        self.read_sent = 0;
        Ok(())
    }
}

/// Reads `len` bytes from `start` on into `buf`. The blocking read mostly finds them in the system's cache.
fn read_exactly(file: &File, start: u64, len: usize, buf: &mut Vec<u8>) -> io::Result<()> {
    buf.clear();
    buf.resize(len, 0);
    file.read_exact_at(buf, start)
}

impl BodyStream for Multipart {
    fn len(&self) -> Option<u64> {
        Some(self.left)
    }

    fn poll_data(&mut self, _cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        let Some(part) = self.parts.get(self.at) else {
            return Poll::Ready(Ok(&[]));
        };
        let head_left = self.head_sent < part.head.len();
        let unread =
            matches!(self.content, Content::Handle(_)) && self.read_sent == self.read.len();
        if !head_left
            && unread
            && let Err(error) = self.fill()
        {
            return Poll::Ready(Err(
                Failure::new(Side::Internal, FailureKind::Io).because(error)
            ));
        }
        let part = &self.parts[self.at];
        Poll::Ready(Ok(match &self.content {
            _ if head_left => &part.head.as_bytes()[self.head_sent..],
            Content::Bytes(bytes) => {
                let start = part.range.start as usize;
                &bytes[start..start + part.range.len as usize]
            }
            Content::Handle(_) => &self.read[self.read_sent..],
        }))
    }

    fn consume(&mut self, count: usize) {
        self.left -= count as u64;
        let part = &mut self.parts[self.at];
        if self.head_sent < part.head.len() {
            self.head_sent += count;
        } else {
            part.range.start += count as u64;
            part.range.len -= count as u64;
            self.read_sent += count;
        }
        if self.head_sent == part.head.len() && part.range.len == 0 {
            self.at += 1;
            self.head_sent = 0;
            self.read.clear();
            self.read_sent = 0;
        }
    }
}

impl Drop for Multipart {
    fn drop(&mut self) {
        self.worker
            .buffers
            .give_back(std::mem::take(&mut self.read));
    }
}
