//! Log files that were put aside: their names, their compression and their end. Deciding when one is put aside is
//! left to `file`.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::time_text::file_stamp;

/// What becomes of files put aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Archive {
    /// How many are kept; all if `None`.
    pub files_max: Option<usize>,
    /// How long they are kept; for ever if `None`.
    pub age_max: Option<Duration>,
    /// Whether they are compressed.
    pub compress: bool,
}

/// Does the slow work for one log file, on a thread of its own, since compressing a large file takes seconds.
#[derive(Debug, Default)]
pub struct Worker {
    running: Option<JoinHandle<()>>,
}

impl Worker {
    /// Compresses and removes what is due. While an earlier run goes on nothing is started; the next run finds
    /// what this one would have.
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
            // A file that cannot be compressed or removed now is found again at the next rotation.
            let _ = tidy(&path, archive, SystemTime::now());
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

/// A name beside `path` that is not taken, `access-2006-01-02T15-04-05.000.log`, and the time in it: `time`, or
/// the first free millisecond after it.
pub fn free_name(path: &Path, mut time: SystemTime) -> (PathBuf, SystemTime) {
    let (stem, extension) = parts(path);
    loop {
        let stamp = file_stamp(time);
        let name = path.with_file_name(format!("{stem}{stamp}{extension}"));
        let packed = path.with_file_name(format!("{stem}{stamp}{extension}.gz"));
        if !name.exists() && !packed.exists() {
            return (name, time);
        }
        time += Duration::from_millis(1);
    }
}

/// What stands before and after the time in the names of old files.
fn parts(path: &Path) -> (String, String) {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path
        .extension()
        .map(|text| format!(".{}", text.to_string_lossy()));
    (format!("{stem}-"), extension.unwrap_or_default())
}

fn tidy(path: &Path, archive: Archive, now: SystemTime) -> io::Result<()> {
    let mut files = old_files(path)?;
    // Names sort by time, the newest last.
    files.sort();
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
    if archive.compress {
        for file in kept
            .iter()
            .filter(|file| file.extension().is_none_or(|ext| ext != "gz"))
        {
            compress(file)?;
        }
    }
    Ok(())
}

fn age(file: &Path, now: SystemTime) -> Option<Duration> {
    now.duration_since(fs::metadata(file).ok()?.modified().ok()?)
        .ok()
}

fn old_files(path: &Path) -> io::Result<Vec<PathBuf>> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let (stem, extension) = parts(path);
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let Some(text) = name.to_str() else { continue };
        let plain = text.strip_suffix(".gz").unwrap_or(text);
        let stamp = plain
            .strip_prefix(&stem)
            .and_then(|rest| rest.strip_suffix(&*extension));
        if stamp.is_some_and(is_stamp) {
            files.push(folder.join(&name));
        }
    }
    Ok(files)
}

/// Whether `text` is what [`free_name`] puts into a name, so that no other file is ever removed.
fn is_stamp(text: &str) -> bool {
    const SHAPE: &[u8] = b"0000-00-00T00-00-00.000";
    text.len() == SHAPE.len()
        && text.bytes().zip(SHAPE).all(|(byte, shape)| match shape {
            b'0' => byte.is_ascii_digit(),
            mark => byte == *mark,
        })
}

/// Replaces a file by its compressed form. The new one appears whole or not at all.
fn compress(file: &Path) -> io::Result<()> {
    let mut packed = file.as_os_str().to_owned();
    packed.push(".gz");
    let mut unfinished = packed.clone();
    unfinished.push(".part");
    let mut source = File::open(file)?;
    let permissions = source.metadata()?.permissions();
    let target = File::create(&unfinished)?;
    let done = target.set_permissions(permissions).and_then(|()| {
        let mut encoder = GzEncoder::new(target, Compression::default());
        io::copy(&mut source, &mut encoder)?;
        encoder.finish()?.sync_all()?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_made_here_count_as_old_files() {
        for (text, expected) in [
            ("2026-11-21T21-04-56.910", true),
            ("2026-11-21T21-04-56.910-2", false),
            ("2026-11-21", false),
            ("2026-11-21T21-04-56.910-", false),
            ("2026-11-21T21-04-56.910x", false),
            ("", false),
            ("ünïcödé-names-are-no-stamps", false),
        ] {
            assert_eq!(is_stamp(text), expected, "{text}");
        }
    }
}
