//! `proxy_store` and its variants for other protocols: saves upstream responses as files. Storing while forwarding
//! is done by `cache::tee`.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sluice_message::date::parse_http;
use sluice_message::{FieldId, Method, Status};
use sluice_model::nginx::KeepFile as Config;
use sluice_net::Body;
use sluice_route::Template;

use sluice_observe::log::Log;
use sluice_observe::random;
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::values::expand_path;
use sluice_proxy::cache::tee::{Sink, Tee};

/// The settings of the directive.
pub struct Keep {
    path: Template,
    mode: u32,
    log: Option<Log>,
}

/// Read permissions; a directory gets execute permission wherever it is readable.
const READ_BITS: u32 = 0o444;

impl Keep {
    /// Parses the directives.
    pub fn build(config: &Config, builder: &Builder<'_>) -> Result<Keep, Refusal> {
        Ok(Keep {
            path: builder.template(&config.path)?,
            mode: config.mode,
            log: builder.recorder.map(|recorder| recorder.log().clone()),
        })
    }

    /// Stores the response whose head is in `exchange.res`, if it is a 200 with a body.
    pub fn keep(&self, exchange: &mut Exchange, body: Body) -> Body {
        if exchange.res.status != Status::OK || exchange.req.method == Method::Head {
            return body;
        }
        let mut path = Vec::new();
        let fits = expand_path(&self.path, exchange, &mut path);
        let begun = match fits.ok().and_then(|()| target(&path)) {
            Some(target) => KeptFile::begin(target, self.mode),
            None => Err(io::ErrorKind::InvalidFilename.into()),
        };
        let mut file = match begun {
            Ok(file) => file,
            Err(error) => {
                self.log_failure(&path, &error);
                return body;
            }
        };
        file.modified = modified(exchange);
        file.log.clone_from(&self.log);
        match body {
            Body::Stream(stream) => {
                let tee = Tee::new(&exchange.worker, stream, Box::new(file), (None, None));
                Body::Stream(Box::new(tee))
            }
            Body::Inline => {
                file.write(&exchange.inline);
                Box::new(file).finish();
                Body::Inline
            }
            Body::Empty => {
                Box::new(file).finish();
                Body::Empty
            }
            body => body,
        }
    }

    fn log_failure(&self, path: &[u8], error: &io::Error) {
        if let Some(log) = &self.log {
            log_failure(log, &String::from_utf8_lossy(path), error);
        }
    }
}

fn log_failure(log: &Log, path: &str, error: &io::Error) {
    log.error("http.handlers.nginx", "cannot save a response as a file")
        .text("path", path)
        .shown("error", error)
        .send();
}

/// The file that a path names. It may contain client input, so `..` is rejected.
fn target(path: &[u8]) -> Option<PathBuf> {
    let text = std::str::from_utf8(path).ok()?;
    let leads_up = text.split('/').any(|part| part == "..");
    let is_file = text.starts_with('/') && !text.ends_with('/') && !text.contains('\0');
    (is_file && !leads_up).then(|| PathBuf::from(text))
}

/// The time of the `Last-Modified` header.
fn modified(exchange: &Exchange) -> Option<SystemTime> {
    let text = exchange.res.fields.first(FieldId::LastModified)?;
    let seconds = parse_http(text, exchange.worker.clock.unix_seconds())?;
    let seconds = Duration::from_secs(u64::try_from(seconds).ok()?);
    SystemTime::UNIX_EPOCH.checked_add(seconds)
}

/// A file being written. It has a temporary name and is not readable by others until it is complete.
struct KeptFile {
    target: PathBuf,
    temporary: PathBuf,
    /// `None` after a write error or once complete.
    file: Option<File>,
    mode: u32,
    modified: Option<SystemTime>,
    log: Option<Log>,
}

impl KeptFile {
    fn begin(target: PathBuf, mode: u32) -> io::Result<KeptFile> {
        let folder = target.parent().unwrap_or(Path::new("/"));
        if !folder.is_dir() {
            let passes = (mode & READ_BITS) >> 2;
            let mut builder = DirBuilder::new();
            builder.recursive(true).mode(mode | passes).create(folder)?;
        }
        let temporary = folder.join(format!(".storing-{:032x}", random::bits()));
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)?;
        Ok(KeptFile {
            target,
            temporary,
            file: Some(file),
            mode,
            modified: None,
            log: None,
        })
    }

    fn put_in_place(&self, file: &File) -> io::Result<()> {
        if let Some(time) = self.modified {
            file.set_modified(time)?;
        }
        file.set_permissions(Permissions::from_mode(self.mode))?;
        std::fs::rename(&self.temporary, &self.target)
    }

    fn give_up(&mut self) {
        if self.file.take().is_some() {
            let _ = std::fs::remove_file(&self.temporary);
        }
    }

    fn fail(&mut self, error: &io::Error) {
        if let Some(log) = &self.log {
            log_failure(log, &self.target.to_string_lossy(), error);
        }
        self.give_up();
    }
}

impl Sink for KeptFile {
    fn write(&mut self, content: &[u8]) {
        let written = self.file.as_mut().map(|file| file.write_all(content));
        if let Some(Err(error)) = written {
            self.fail(&error);
        }
    }

    fn finish(mut self: Box<Self>) {
        let Some(file) = self.file.take() else { return };
        if let Err(error) = self.put_in_place(&file) {
            self.file = Some(file);
            self.fail(&error);
        }
    }

    fn is_going_on(&self) -> bool {
        self.file.is_some()
    }

    fn reader(&self) -> Option<(File, u64)> {
        let file = self.file.as_ref()?.try_clone().ok()?;
        Some((file, 0))
    }
}

impl Drop for KeptFile {
    fn drop(&mut self) {
        self.give_up();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_lie_where_they_are_named() {
        assert_eq!(target(b"/a/b"), Some(PathBuf::from("/a/b")));
        for wrong in [
            &b"/a/"[..],
            b"a",
            b"",
            b"/a/../b",
            b"/a/..",
            b"/a\0b",
            b"/\xff",
        ] {
            assert_eq!(target(wrong), None, "{wrong:?}");
        }
    }
}
