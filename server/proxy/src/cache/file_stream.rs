//! The body of a response that is a part of a file, read as a stream, so that it can be stored on its way.

use std::os::unix::fs::FileExt;
use std::task::{Context, Poll};

use sluice_net::{BodyStream, Failure, FailureKind, FileSlice, Side};

use crate::limits::CACHE_AHEAD_BYTES_MAX;

/// A part of a file.
pub(super) struct FileStream {
    /// What is not read yet.
    rest: FileSlice,
    read: Vec<u8>,
    /// Bytes of `read` that were consumed.
    at: usize,
}

impl FileStream {
    pub fn new(slice: FileSlice) -> FileStream {
        FileStream {
            rest: slice,
            read: Vec::new(),
            at: 0,
        }
    }
}

impl BodyStream for FileStream {
    fn len(&self) -> Option<u64> {
        Some(self.rest.len + (self.read.len() - self.at) as u64)
    }

    fn poll_data(&mut self, _cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        if self.at == self.read.len() {
            let count = self.rest.len.min(CACHE_AHEAD_BYTES_MAX as u64);
            self.at = 0;
            self.read.resize(count as usize, 0);
            let file = &self.rest.file;
            if let Err(error) = file.read_exact_at(&mut self.read, self.rest.start) {
                self.read.clear();
                let failure = Failure::new(Side::Internal, FailureKind::Io);
                return Poll::Ready(Err(failure.because(error)));
            }
            self.rest.start += count;
            self.rest.len -= count;
        }
        Poll::Ready(Ok(&self.read[self.at..]))
    }

    fn consume(&mut self, count: usize) {
        self.at += count;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::rc::Rc;
    use std::task::Waker;

    use super::*;

    fn read(stream: &mut FileStream) -> Result<Vec<u8>, Failure> {
        let mut all = Vec::new();
        let mut cx = Context::from_waker(Waker::noop());
        loop {
            let Poll::Ready(data) = stream.poll_data(&mut cx) else {
                panic!("files are at hand");
            };
            let count = data?.len();
            if count == 0 {
                return Ok(all);
            }
            let Poll::Ready(Ok(data)) = stream.poll_data(&mut cx) else {
                panic!("it was there");
            };
            let some = count.div_ceil(2);
            all.extend_from_slice(&data[..some]);
            stream.consume(some);
        }
    }

    #[test]
    fn a_part_of_a_file_is_read() {
        let path = std::env::temp_dir().join(format!("sluice-part-{}", std::process::id()));
        let mut file = std::fs::File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .unwrap();
        std::fs::remove_file(&path).unwrap();
        let content: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8).collect();
        file.write_all(&content).unwrap();
        let file = Rc::new(file);
        let mut stream = FileStream::new(FileSlice {
            file: file.clone(),
            start: 7,
            len: 150_000,
        });
        assert_eq!(stream.len(), Some(150_000));
        assert_eq!(read(&mut stream).unwrap(), &content[7..150_007]);
        assert_eq!(stream.len(), Some(0));
        let mut short = FileStream::new(FileSlice {
            file,
            start: 199_000,
            len: 2000,
        });
        assert!(read(&mut short).is_err(), "a file that became shorter");
    }
}
