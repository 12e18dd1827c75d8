//! Several ranges of a file in one multipart response (RFC 9110, section 14.6). `send` selects the ranges.

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

/// A multipart body.
pub struct Multipart {
    worker: Rc<Worker>,
    boundary: String,
    /// The parts, each with the header before it; the last one is only the closing delimiter.
    parts: Vec<Part>,
    /// The index of the part being sent.
    at: usize,
    /// Bytes of that part's header that were sent.
    head_sent: usize,
    content: Content,
    /// The offset of the content in its file, if it is not in memory.
    base: u64,
    /// Bytes read from a large file that were not sent yet.
    read: Vec<u8>,
    read_sent: usize,
    left: u64,
}

struct Part {
    head: String,
    range: Range,
}

impl Multipart {
    /// The ranges of a file, each with this media type.
    pub fn new(
        worker: Rc<Worker>,
        file: &OpenFile,
        ranges: Vec<Range>,
        media_type: Option<Vec<u8>>,
    ) -> Multipart {
        let content = (file.content.clone(), 0, file.facts.size);
        Multipart::of(worker, content, ranges, media_type)
    }

    /// Parts of a content that starts at `base` in its file and has `size` bytes.
    pub fn of(
        worker: Rc<Worker>,
        (content, base, size): (Content, u64, u64),
        ranges: Vec<Range>,
        media_type: Option<Vec<u8>>,
    ) -> Multipart {
        // 128 random bits do not occur in a file by chance, and cannot be placed there in advance.
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

    /// The media type of the whole, with its boundary.
    pub fn media_type(&self) -> String {
        format!("multipart/byteranges; boundary={}", self.boundary)
    }

    /// Reads the next bytes of a large file.
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

/// Reads `len` bytes from `start` into `buf`. The read blocks, but the data is usually in the page cache.
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
