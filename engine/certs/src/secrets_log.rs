//! Writes the secrets of TLS sessions to a file for programs such as Wireshark (NSS key log format). With the file, all
//! traffic of these sessions can be decrypted: it is for debugging only.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustls::KeyLog;

use crate::limits::SECRETS_LOG_BYTES_MAX;

/// The file, open for appending.
#[derive(Debug)]
pub(crate) struct SecretsLog {
    file: File,
    bytes: AtomicU64,
}

impl SecretsLog {
    /// Opens the file; a new one is readable only by its owner.
    pub(crate) fn open(path: &Path) -> io::Result<SecretsLog> {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)?;
        let bytes = AtomicU64::new(file.metadata()?.len());
        Ok(SecretsLog { file, bytes })
    }
}

impl KeyLog for SecretsLog {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let mut line = format!("{label} ");
        push_hex(&mut line, client_random);
        line.push(' ');
        push_hex(&mut line, secret);
        line.push('\n');
        let length = line.len() as u64;
        if self.bytes.fetch_add(length, Ordering::Relaxed) + length > SECRETS_LOG_BYTES_MAX {
            return;
        }
        // A single write, so that lines of several workers do not mix. A full disk must not abort handshakes.
        let _ = (&self.file).write_all(line.as_bytes());
    }
}

fn push_hex(line: &mut String, bytes: &[u8]) {
    for byte in bytes {
        write!(line, "{byte:02x}").expect("writing to memory works");
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn secrets_are_lines_that_only_the_owner_reads_and_the_file_is_bounded() {
        let path = std::env::temp_dir().join(format!("sluice-secrets-{}", std::process::id()));
        let log = SecretsLog::open(&path).unwrap();
        log.log("CLIENT_RANDOM", &[0, 0xab], &[1]);
        let again = SecretsLog::open(&path).unwrap();
        again.log("EXPORTER_SECRET", &[2], &[3]);
        again.bytes.store(SECRETS_LOG_BYTES_MAX, Ordering::Relaxed);
        again.log("CLIENT_RANDOM", &[4], &[5]);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "CLIENT_RANDOM 00ab 01\nEXPORTER_SECRET 02 03\n");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::remove_file(&path).unwrap();
    }
}
