//! A log file with rotation. `archive` compresses and removes rotated files, `output` queues lines.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use super::archive::{self, Archive, Compression, Reason};
use super::limits::{
    LOG_FILE_BYTES_DEFAULT, LOG_FILE_CHECK, LOG_FILES_KEPT_DEFAULT, LOG_KEPT_DEFAULT,
};
use super::zone::{Zone, since_1970};

/// When to rotate a file, and what happens to rotated files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// The maximum size in bytes.
    pub bytes_max: Option<u64>,
    /// The maximum age.
    pub interval: Option<Duration>,
    /// Times of day at which to rotate.
    pub schedule: Option<Schedule>,
    /// What happens to rotated files.
    pub archive: Archive,
}

/// Times of day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Minutes after midnight, ascending; at least one.
    pub minutes: Box<[u16]>,
    /// The time zone.
    pub zone: Zone,
}

impl Schedule {
    /// Whether one of the times is after `from` and not after `to`.
    fn has_between(&self, from: SystemTime, to: SystemTime) -> bool {
        const DAY: u64 = 24 * 60;
        let minute = |time| {
            let ahead = i64::from(self.zone.offset(time).seconds);
            since_1970(time).as_secs().saturating_add_signed(ahead) / 60
        };
        let (from, to) = (minute(from), minute(to));
        let of_day = self.minutes.iter().map(|at| u64::from(*at));
        let today = of_day.clone().find(|at| *at > from % DAY);
        // After the last time of a day, continue with the first of the next.
        let next = today.or_else(|| of_day.map(|at| at + DAY).next());
        next.is_some_and(|next| from - from % DAY + next <= to)
    }
}

/// Permissions of folders that are created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirMode {
    /// These permissions.
    Bits(u32),
    /// Those of the parent folder.
    Inherit,
}

impl DirMode {
    fn bits(self, folder: &Path) -> io::Result<u32> {
        match self {
            DirMode::Bits(bits) => Ok(bits),
            DirMode::Inherit => {
                let there = folder.ancestors().find(|ancestor| ancestor.exists());
                let there = there.unwrap_or(Path::new("."));
                Ok(there.metadata()?.mode() & 0o7777)
            }
        }
    }
}

impl Default for Rotation {
    fn default() -> Self {
        Rotation {
            bytes_max: Some(LOG_FILE_BYTES_DEFAULT),
            interval: None,
            schedule: None,
            archive: Archive {
                files_max: Some(LOG_FILES_KEPT_DEFAULT),
                age_max: Some(LOG_KEPT_DEFAULT),
                compression: Compression::Gzip,
                layout: None,
                zone: Zone::Utc,
            },
        }
    }
}

impl Rotation {
    /// Never rotates.
    pub fn never() -> Self {
        let archive = Archive {
            files_max: None,
            age_max: None,
            compression: Compression::None,
            layout: None,
            zone: Zone::Utc,
        };
        Rotation {
            bytes_max: None,
            interval: None,
            schedule: None,
            archive,
        }
    }
}

/// The state of a compressed piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    /// Nothing was written yet.
    New,
    /// Its beginning was written.
    Begun,
}

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    Regular,
    /// A pipe, a device or a terminal: it is not rotated, and its reader may block writes.
    Stream,
}

/// An open log file.
#[derive(Debug)]
pub struct RollingFile {
    path: PathBuf,
    mode: u32,
    kind: Kind,
    file: File,
    size: u64,
    identity: (u64, u64),
    began: SystemTime,
    checked: Instant,
    /// The time in the name of the most recently rotated file.
    stamped: SystemTime,
    /// Whether a write ended within a line, so that the next one has to start with a newline.
    torn: bool,
    /// The unwritten rest of a compressed piece.
    rest: Vec<u8>,
    archive: archive::Worker,
}

impl RollingFile {
    /// Opens the file for appending; creates it and its folders if necessary.
    pub fn open(path: &Path, mode: u32, dir_mode: DirMode) -> io::Result<RollingFile> {
        if let Some(parent) = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
        {
            let mode = dir_mode.bits(parent)?;
            DirBuilder::new()
                .recursive(true)
                .mode(mode)
                .create(parent)?;
        }
        let file = append_to(path, mode)?;
        let facts = file.metadata()?;
        Ok(RollingFile {
            // With a symbolic link, its target is rotated rather than the link. The target of a link to a pipe or a
            // socket (`/proc/self/fd/3`) is not a path, and is never rotated.
            path: match facts.is_file() {
                true => path.canonicalize()?,
                false => path.to_owned(),
            },
            mode,
            kind: match facts.is_file() {
                true => Kind::Regular,
                false => Kind::Stream,
            },
            size: facts.len(),
            identity: (facts.dev(), facts.ino()),
            began: facts.created().unwrap_or_else(|_| SystemTime::now()),
            file,
            checked: Instant::now(),
            stamped: SystemTime::UNIX_EPOCH,
            torn: false,
            rest: Vec::new(),
            archive: archive::Worker::default(),
        })
    }

    /// What the path leads to.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Writes complete lines. Lines that cannot be written are lost; later ones are tried again.
    pub fn write(&mut self, mut lines: &[u8], rotation: &Rotation) -> io::Result<()> {
        let mut outcome = Ok(());
        if self.checked.elapsed() >= LOG_FILE_CHECK {
            self.checked = Instant::now();
            outcome = self.reopen_if_moved();
        }
        if self.is_old(rotation) {
            outcome = outcome.and(self.put_aside(rotation, Reason::Time));
        }
        while !lines.is_empty() {
            let fitting = self.fitting(lines, rotation);
            if fitting == 0 {
                outcome = outcome.and(self.put_aside(rotation, Reason::Size));
            }
            let (now, later) = lines.split_at(fitting.max(first_line(lines)));
            outcome = outcome.and(self.append(now));
            lines = later;
        }
        outcome
    }

    /// Writes complete lines as a compressed piece. The rest of a partly written piece is written before the next
    /// piece, because nothing after a partial piece could be decompressed.
    pub fn write_compressed(&mut self, lines: &[u8], level: u32) -> io::Result<()> {
        let mut outcome = Ok(());
        if self.checked.elapsed() >= LOG_FILE_CHECK {
            self.checked = Instant::now();
            outcome = self.reopen_if_moved();
        }
        let rest = std::mem::take(&mut self.rest);
        outcome = outcome.and(self.append_piece(rest, Piece::Begun));
        if !self.rest.is_empty() {
            return outcome;
        }
        let piece = super::hold::piece(lines, level)?;
        outcome.and(self.append_piece(piece, Piece::New))
    }

    fn append_piece(&mut self, mut piece: Vec<u8>, which: Piece) -> io::Result<()> {
        let mut written = 0;
        while written < piece.len() {
            match self.file.write(&piece[written..]) {
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // If nothing was written, only these lines are lost.
                    if written > 0 || which == Piece::Begun {
                        self.rest = piece.split_off(written);
                    }
                    return Err(error);
                }
            }
        }
        self.size += written as u64;
        Ok(())
    }

    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.torn {
            self.file.write_all(b"\n")?;
            self.torn = false;
        }
        let mut rest = lines;
        while !rest.is_empty() {
            match self.file.write(rest) {
                Ok(count) => {
                    self.size += count as u64;
                    rest = &rest[count..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.torn = rest.len() < lines.len();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// The number of bytes of `lines`, in complete lines, that fit into the file; at least one line if it is empty.
    fn fitting(&self, lines: &[u8], rotation: &Rotation) -> usize {
        let Some(max) = rotation.bytes_max else {
            return lines.len();
        };
        let room = usize::try_from(max.saturating_sub(self.size)).unwrap_or(usize::MAX);
        if lines.len() <= room {
            return lines.len();
        }
        let whole = memchr::memrchr(b'\n', &lines[..room]).map_or(0, |at| at + 1);
        if whole == 0 && self.size == 0 {
            first_line(lines)
        } else {
            whole
        }
    }

    fn is_old(&mut self, rotation: &Rotation) -> bool {
        let now = SystemTime::now();
        if self.size == 0 {
            // An empty file is not rotated; its age counts from its first line.
            self.began = now;
            return false;
        }
        let age = now.duration_since(self.began).unwrap_or(Duration::ZERO);
        let due = |schedule: &Schedule| schedule.has_between(self.began, now);
        rotation.interval.is_some_and(|interval| age >= interval)
            || rotation.schedule.as_ref().is_some_and(due)
    }

    fn put_aside(&mut self, rotation: &Rotation, reason: Reason) -> io::Result<()> {
        if !std::fs::symlink_metadata(&self.path)?.is_file() {
            // Devices and pipes are not rotated and have no size.
            self.size = 0;
            return Ok(());
        }
        // Always later than the previous time, even within a millisecond or after the clock was set back, because the
        // names of rotated files sort by age.
        let time = SystemTime::now().max(self.stamped + Duration::from_millis(1));
        let (name, stamped) = rotation.archive.free_name(&self.path, time, reason)?;
        std::fs::rename(&self.path, name)?;
        self.stamped = stamped;
        self.reopen()?;
        self.archive.tidy(&self.path, rotation.archive.clone())
    }

    /// Opens the file at the same path again; creates it if it does not exist. On error the previous one stays open.
    pub fn reopen(&mut self) -> io::Result<()> {
        // A pipe that is still there stays open: it may be inherited, and then only root could open it again.
        let same = |facts: Metadata| (facts.dev(), facts.ino()) == self.identity;
        if self.kind == Kind::Stream && std::fs::metadata(&self.path).is_ok_and(same) {
            return Ok(());
        }
        let file = append_to(&self.path, self.mode)?;
        let facts = file.metadata()?;
        self.file = file;
        self.size = facts.len();
        self.identity = (facts.dev(), facts.ino());
        self.began = SystemTime::now();
        self.torn = false;
        self.rest.clear();
        Ok(())
    }

    /// Postpones the check whether the file was moved: held lines belong to the file that was moved.
    pub fn stay(&mut self) {
        self.checked = Instant::now();
    }

    /// Tools such as logrotate move the file and expect a new one to be created.
    fn reopen_if_moved(&mut self) -> io::Result<()> {
        match std::fs::metadata(&self.path) {
            Ok(facts) if (facts.dev(), facts.ino()) == self.identity => {
                // The file may have been truncated (copytruncate).
                self.size = facts.len();
                Ok(())
            }
            Ok(_) => self.reopen(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.reopen(),
            Err(error) => Err(error),
        }
    }
}

fn append_to(path: &Path, mode: u32) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(mode)
        .open(path)
}

fn first_line(lines: &[u8]) -> usize {
    memchr::memchr(b'\n', lines).map_or(lines.len(), |at| at + 1)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Creates a folder that is removed when the test ends.
    pub fn folder() -> Folder {
        use std::sync::atomic::{AtomicU32, Ordering};
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "sluice-log-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("the folder for temporary files is writable");
        Folder(path)
    }

    pub struct Folder(PathBuf);

    impl std::ops::Deref for Folder {
        type Target = Path;
        fn deref(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn open(path: &Path) -> RollingFile {
        RollingFile::open(path, 0o600, DirMode::Bits(0o700)).expect("it opens")
    }

    fn rolled_at(bytes: u64) -> Rotation {
        Rotation {
            bytes_max: Some(bytes),
            ..Rotation::never()
        }
    }

    /// Writes five lines to a file with room for one, and waits for the rotation.
    fn fill_five(file: &mut RollingFile, archive: Archive) {
        let rotation = Rotation {
            archive,
            ..rolled_at(4)
        };
        for line in ["001\n", "002\n", "003\n", "004\n", "005\n"] {
            file.write(line.as_bytes(), &rotation).expect("it writes");
            file.archive.wait();
        }
    }

    fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
        let mut files: Vec<_> = std::fs::read_dir(folder)
            .expect("the folder is there")
            .map(|entry| entry.expect("readable").path())
            .map(|path| {
                let name = path
                    .file_name()
                    .expect("files have names")
                    .to_string_lossy()
                    .into();
                (name, std::fs::read(&path).expect("readable"))
            })
            .collect();
        files.sort();
        files
    }

    #[test]
    fn a_file_never_grows_beyond_its_size_and_lines_stay_whole() {
        let folder = folder();
        let path = folder.join("a.log");
        let mut file = open(&path);
        let rotation = rolled_at(10);
        file.write(b"1234\n1234\n123\nlonger than ten\n1\n", &rotation)
            .expect("it writes");
        let mut contents: Vec<Vec<u8>> = files(&folder).into_iter().map(|(_, text)| text).collect();
        contents.sort();
        let expected: [&[u8]; 4] = [b"123\n", b"1234\n1234\n", b"1\n", b"longer than ten\n"];
        let mut expected = expected.map(<[u8]>::to_vec);
        expected.sort();
        assert_eq!(contents, expected);
        assert_eq!(std::fs::read(&path).expect("readable"), b"1\n");
    }

    #[test]
    fn old_files_are_compressed_and_only_so_many_are_kept() {
        let folder = folder();
        let path = folder.join("a.log");
        let mut file = open(&path);
        let archive = Archive {
            files_max: Some(2),
            compression: Compression::Gzip,
            ..Rotation::never().archive
        };
        fill_five(&mut file, archive);
        let names: Vec<String> = files(&folder).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), 3, "{names:?}");
        assert_eq!(
            names
                .iter()
                .filter(|name| name.ends_with(".log.gz"))
                .count(),
            2,
            "{names:?}"
        );
        let newest = folder.join(&names[1]);
        let mut text = String::new();
        let packed = File::open(newest).expect("it is there");
        io::Read::read_to_string(&mut flate2::read::GzDecoder::new(packed), &mut text)
            .expect("it is gzip");
        assert_eq!(text, "004\n");
    }

    #[test]
    fn a_file_that_others_moved_away_is_made_again() {
        let folder = folder();
        let path = folder.join("a.log");
        let mut file = open(&path);
        file.write(b"1\n", &Rotation::never()).expect("it writes");
        std::fs::rename(&path, folder.join("moved")).expect("it is there");
        file.checked -= LOG_FILE_CHECK;
        file.write(b"2\n", &Rotation::never()).expect("it writes");
        assert_eq!(std::fs::read(&path).expect("it was made"), b"2\n");
    }

    #[test]
    fn behind_a_link_the_file_is_put_aside() {
        let folder = folder();
        std::fs::create_dir(folder.join("real")).expect("writable");
        let link = folder.join("link.log");
        std::os::unix::fs::symlink(folder.join("real/a.log"), &link).expect("writable");
        let mut file = open(&link);
        let rotation = rolled_at(2);
        file.write(b"1\n2\n3\n", &rotation).expect("it writes");
        assert_eq!(files(&folder.join("real")).len(), 3);
        assert_eq!(
            std::fs::read(&link).expect("it leads to the new file"),
            b"3\n"
        );
    }

    #[test]
    fn a_full_disk_is_an_error_and_nothing_more() {
        let mut file = open(Path::new("/dev/full"));
        let rotation = rolled_at(1);
        for _ in 0..3 {
            let error = file
                .write(b"line\n", &rotation)
                .expect_err("the disk is full");
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        }
    }

    #[test]
    fn a_pipe_behind_a_descriptor_is_written_and_never_rotated() {
        use std::os::fd::AsRawFd;
        let (mut reader, writer) = io::pipe().expect("descriptors are left");
        let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
        let mut file = open(Path::new(&path));
        assert_eq!(file.kind(), Kind::Stream);
        file.write(b"1\n2\n", &rolled_at(1)).expect("it writes");
        file.reopen().expect("it is still there");
        file.write(b"3\n", &rolled_at(1)).expect("it writes");
        drop((file, writer));
        let mut text = String::new();
        io::Read::read_to_string(&mut reader, &mut text).expect("it is text");
        assert_eq!(text, "1\n2\n3\n");
    }

    #[test]
    fn old_files_are_named_and_packed_as_asked() {
        let folder = folder();
        let path = folder.join("a.log");
        let mut file = open(&path);
        let archive = Archive {
            files_max: Some(3),
            compression: Compression::Zstd,
            layout: Some(std::sync::Arc::new(sluice_message::layout::Layout::new(
                "2006.Jan.02",
            ))),
            ..Rotation::never().archive
        };
        fill_five(&mut file, archive);
        let files = files(&folder);
        assert_eq!(files.len(), 4, "all of one day have names: {files:?}");
        let mut contents: Vec<_> = files
            .iter()
            .filter(|(name, _)| name.ends_with(".log.zst") && name.contains("-size"))
            .map(|(_, packed)| zstd::decode_all(&packed[..]).expect("it is zstd"))
            .collect();
        contents.sort();
        assert_eq!(
            contents,
            [b"002\n", b"003\n", b"004\n"],
            "the oldest one went"
        );
    }

    #[test]
    fn times_of_the_day_come_between_two_moments() {
        let at = |minutes: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(minutes * 60);
        let schedule = Schedule {
            minutes: [60, 1_410].into(),
            zone: Zone::Utc,
        };
        for (from, to, expected) in [
            (0, 59, false),
            (0, 60, true),
            (60, 61, false),
            (61, 1_409, false),
            (61, 1_410, true),
            (1_410, 1_440 + 59, false),
            (1_410, 1_440 + 60, true),
            (61, 10_000, true),
        ] {
            assert_eq!(
                schedule.has_between(at(from), at(to)),
                expected,
                "{from} {to}"
            );
        }
    }

    #[test]
    fn new_folders_follow_the_one_they_are_made_in() {
        use std::os::unix::fs::PermissionsExt;
        let folder = folder();
        let outer = folder.join("outer");
        std::fs::create_dir(&outer).expect("writable");
        std::fs::set_permissions(&outer, std::fs::Permissions::from_mode(0o750)).expect("ours");
        let path = outer.join("b/c/a.log");
        RollingFile::open(&path, 0o600, DirMode::Inherit).expect("it opens");
        for made in [outer.join("b"), outer.join("b/c")] {
            let mode = made.metadata().expect("it was made").mode();
            assert_eq!(mode & 0o7777, 0o750, "{}", made.display());
        }
    }
}
