//! Rotated log files: their names, compression and removal. `file` decides when to rotate.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use flate2::write::GzEncoder;
use sluice_message::layout::Layout;

use super::limits::LOG_NAMES_TRIED_MAX;
use super::zone::Zone;

/// What happens to rotated files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archive {
    /// How many to keep; `None` for all.
    pub files_max: Option<usize>,
    /// How long to keep them; `None` for unlimited.
    pub age_max: Option<Duration>,
    /// How to compress them.
    pub compression: Compression,
    /// The format of the time in their names, if it is not the default.
    pub layout: Option<Arc<Layout>>,
    /// The time zone of that time.
    pub zone: Zone,
}

/// How rotated files are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not compressed.
    None,
    /// gzip.
    Gzip,
    /// Zstandard.
    Zstd,
}

impl Compression {
    /// The suffix of a compressed file.
    const fn suffix(self) -> &'static str {
        match self {
            Compression::None => "",
            Compression::Gzip => ".gz",
            Compression::Zstd => ".zst",
        }
    }
}

/// The reason for rotating a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It reached its maximum size.
    Size,
    /// The interval elapsed or a scheduled time passed.
    Time,
}

impl Reason {
    const ALL: [Reason; 2] = [Reason::Size, Reason::Time];

    /// The word in the file name.
    const fn as_str(self) -> &'static str {
        match self {
            Reason::Size => "-size",
            Reason::Time => "-time",
        }
    }
}

/// The default format of the time. It sorts by age and contains no colons, which some file systems reject.
static USUAL: LazyLock<Layout> = LazyLock::new(|| Layout::new("2006-01-02T15-04-05.000"));

impl Archive {
    /// An unused name next to `path`, such as `access-2006-01-02T15-04-05.000-size.log`, and the time in it: `time`, or
    /// the first unused millisecond after it. If the format does not include milliseconds, a number is appended.
    pub fn free_name(
        &self,
        path: &Path,
        mut time: SystemTime,
        reason: Reason,
    ) -> io::Result<(PathBuf, SystemTime)> {
        let (stem, extension) = parts(path);
        for tried in 1..=LOG_NAMES_TRIED_MAX {
            let mut name = stem.clone().into_bytes();
            self.zone.push(self.layout(), time, &mut name);
            let mut name = String::from_utf8(name).expect("layouts give text");
            name.push_str(reason.as_str());
            if tried > 1 && self.layout.is_some() {
                name.push_str(&format!("-{tried}"));
            }
            name.push_str(&extension);
            let taken = [Compression::None, Compression::Gzip, Compression::Zstd]
                .iter()
                .any(|packed| path.with_file_name(name.clone() + packed.suffix()).exists());
            if !taken {
                return Ok((path.with_file_name(name), time));
            }
            if self.layout.is_none() {
                time += Duration::from_millis(1);
            }
        }
        Err(io::Error::other("all names for an old file are taken"))
    }

    fn layout(&self) -> &Layout {
        self.layout.as_deref().unwrap_or(&USUAL)
    }

    /// Whether [`Archive::free_name`] creates names with `text`; other files are never removed.
    fn is_stamp(&self, text: &str) -> bool {
        let Some(rest) = self.layout().strip(text) else {
            return false;
        };
        // Earlier versions did not include a reason.
        let rest = Reason::ALL
            .iter()
            .find_map(|reason| rest.strip_prefix(reason.as_str()))
            .unwrap_or(rest);
        let number = rest.strip_prefix('-').filter(|_| self.layout.is_some());
        rest.is_empty() || number.is_some_and(|number| number.parse::<u32>().is_ok())
    }
}

/// Compresses and removes rotated files of one log on a thread of its own, because compressing a large file takes
/// seconds.
#[derive(Debug, Default)]
pub struct Worker {
    running: Option<JoinHandle<()>>,
}

impl Worker {
    /// Compresses and removes what is due. Does nothing during an earlier run; the next run handles what this one would
    /// have.
    pub fn tidy(&mut self, path: &Path, archive: Archive) -> io::Result<()> {
        if self
            .running
            .as_ref()
            .is_some_and(|thread| !thread.is_finished())
        {
            return Ok(());
        }
        let path = path.to_path_buf();
        let work = move || {
            // A file that cannot be compressed or removed is found again at the next rotation.
            let _ = tidy(&path, &archive, SystemTime::now());
        };
        self.running = Some(
            thread::Builder::new()
                .name("log-archive".into())
                .spawn(work)?,
        );
        Ok(())
    }

    #[cfg(test)]
    pub fn wait(&mut self) {
        if let Some(thread) = self.running.take() {
            thread.join().expect("archiving does not panic");
        }
    }
}

/// The parts of the names of rotated files before and after the time.
fn parts(path: &Path) -> (String, String) {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path
        .extension()
        .map(|text| format!(".{}", text.to_string_lossy()));
    (format!("{stem}-"), extension.unwrap_or_default())
}

fn tidy(path: &Path, archive: &Archive, now: SystemTime) -> io::Result<()> {
    let mut files = old_files(path, archive)?;
    // Newest last. Default names sort by time; for other formats use the modification time.
    match archive.layout {
        None => files.sort(),
        Some(_) => files.sort_by_cached_key(|file| {
            let changed = fs::metadata(file).and_then(|facts| facts.modified());
            (changed.unwrap_or(SystemTime::UNIX_EPOCH), file.clone())
        }),
    }
    let surplus = archive
        .files_max
        .map_or(0, |max| files.len().saturating_sub(max));
    let mut kept = files.split_off(surplus);
    for file in files {
        fs::remove_file(file)?;
    }
    if let Some(max) = archive.age_max {
        kept.retain(|file| {
            let old = age(file, now).is_some_and(|age| age > max);
            !(old && fs::remove_file(file).is_ok())
        });
    }
    if archive.compression != Compression::None {
        for file in kept.iter().filter(|file| !is_packed(file)) {
            compress(file, archive.compression)?;
        }
    }
    Ok(())
}

fn is_packed(file: &Path) -> bool {
    file.extension()
        .is_some_and(|extension| extension == "gz" || extension == "zst")
}

fn age(file: &Path, now: SystemTime) -> Option<Duration> {
    now.duration_since(fs::metadata(file).ok()?.modified().ok()?)
        .ok()
}

fn old_files(path: &Path, archive: &Archive) -> io::Result<Vec<PathBuf>> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let (stem, extension) = parts(path);
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let Some(text) = name.to_str() else { continue };
        let plain = [".gz", ".zst"]
            .iter()
            .find_map(|suffix| text.strip_suffix(suffix));
        let plain = plain.unwrap_or(text);
        let stamp = plain
            .strip_prefix(&stem)
            .and_then(|rest| rest.strip_suffix(&*extension));
        if stamp.is_some_and(|stamp| archive.is_stamp(stamp)) {
            files.push(folder.join(&name));
        }
    }
    Ok(files)
}

/// Replaces a file by its compressed version atomically and preserves the modification time.
fn compress(file: &Path, compression: Compression) -> io::Result<()> {
    let mut packed = file.as_os_str().to_owned();
    packed.push(compression.suffix());
    let mut unfinished = packed.clone();
    unfinished.push(".part");
    let source = File::open(file)?;
    let facts = source.metadata()?;
    let target = File::create(&unfinished)?;
    let done = target.set_permissions(facts.permissions()).and_then(|()| {
        let target = pack(source, target, compression)?;
        target.set_modified(facts.modified()?)?;
        target.sync_all()?;
        fs::rename(&unfinished, &packed)
    });
    match done {
        Ok(()) => fs::remove_file(file),
        Err(error) => {
            fs::remove_file(&unfinished)?;
            Err(error)
        }
    }
}

fn pack(mut source: File, target: File, compression: Compression) -> io::Result<File> {
    match compression {
        Compression::None => {
            unreachable!("files that stay as they are do not come here");
        }
        Compression::Gzip => {
            let mut encoder = GzEncoder::new(target, flate2::Compression::default());
            io::copy(&mut source, &mut encoder)?;
            encoder.finish()
        }
        Compression::Zstd => {
            let mut encoder = zstd::Encoder::new(target, zstd::DEFAULT_COMPRESSION_LEVEL)?;
            io::copy(&mut source, &mut encoder)?;
            encoder.finish()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(layout: Option<&str>) -> Archive {
        Archive {
            files_max: None,
            age_max: None,
            compression: Compression::None,
            layout: layout.map(|layout| Arc::new(Layout::new(layout))),
            zone: Zone::Utc,
        }
    }

    #[test]
    fn only_names_made_here_count_as_old_files() {
        for (layout, text, expected) in [
            (None, "2026-11-21T21-04-56.910", true),
            (None, "2026-11-21T21-04-56.910-size", true),
            (None, "2026-11-21T21-04-56.910-time", true),
            (None, "2026-11-21T21-04-56.910-2", false),
            (None, "2026-11-21T21-04-56.910-mine", false),
            (None, "2026-11-21", false),
            (None, "2026-11-21T21-04-56.910-", false),
            (None, "2026-11-21T21-04-56.910x", false),
            (None, "", false),
            (None, "ünïcödé-names-are-no-stamps", false),
            (Some("2006-01-02"), "2026-11-21-size", true),
            (Some("2006-01-02"), "2026-11-21-size-2", true),
            (Some("2006-01-02"), "2026-11-21-size-b", false),
            (Some("2006-01-02"), "2026-11-21T21-04-56.910-size", false),
        ] {
            assert_eq!(
                archive(layout).is_stamp(text),
                expected,
                "{layout:?} {text}"
            );
        }
    }
}
