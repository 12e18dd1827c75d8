//! Opens files such that no symbolic link leads out of a directory. The callers decide which directory, and whether
//! links may leave it.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Reading its content. A FIFO without a writer does not block.
    Read,
    /// Reading its metadata only; no permission on the file itself is needed.
    Stat,
}

/// Which symbolic links are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// None: fails with `ELOOP` for a link at the end of the path, with `ENOTDIR` for a link on the way, which is not a
    /// directory itself.
    Never,
    /// Links whose target has the same owner.
    OfOneOwner,
}

/// Retries if a directory on the way was renamed meanwhile; an attacker who renames faster causes an error.
const RENAME_RETRIES_MAX: usize = 8;

/// Opens the relative `path` below the directory `root`. No `..`, absolute link or magic link of /proc leads out of it:
/// an attempt fails with `EXDEV`.
///
/// Uses the kernel's openat2 if it is available and permitted. Otherwise each directory on the way is opened
/// separately, and no symbolic link is followed at all (`ELOOP`).
pub fn open_beneath(root: BorrowedFd<'_>, path: &CStr, purpose: Purpose) -> io::Result<File> {
    for _ in 0..RENAME_RETRIES_MAX {
        match openat2(root, path, flags(purpose)) {
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {}
            // Old kernels lack the call, and containers often forbid it with EPERM.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
                return open_along(root, path, purpose, Links::Never);
            }
            done => return done,
        }
    }
    Err(io::Error::from_raw_os_error(libc::EAGAIN))
}

fn flags(purpose: Purpose) -> libc::c_int {
    libc::O_CLOEXEC
        | match purpose {
            Purpose::Read => libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY,
            Purpose::Stat => libc::O_PATH,
        }
}

fn openat2(root: BorrowedFd<'_>, path: &CStr, flags: libc::c_int) -> io::Result<File> {
    // SAFETY: the structure consists of integers, for which zero is a valid value.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = flags as u64;
    how.resolve = libc::RESOLVE_BENEATH | libc::RESOLVE_NO_MAGICLINKS;
    let how_len = size_of::<libc::open_how>();
    // SAFETY: the path ends with NUL, the structure has the given length, and both live through the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_openat2,
            root.as_raw_fd(),
            path.as_ptr(),
            &raw const how,
            how_len,
        )
    };
    adopt(fd as libc::c_int)
}

/// Opens `path`, which is relative and has no `..`, below the directory `root`, one directory at a time, so that each
/// link on the way is checked.
pub fn open_along(
    root: BorrowedFd<'_>,
    path: &CStr,
    purpose: Purpose,
    links: Links,
) -> io::Result<File> {
    let mut at: OwnedFd = root.try_clone_to_owned()?;
    let mut segments = path
        .to_bytes()
        .split(|&b| b == b'/')
        .filter(|segment| !matches!(*segment, b"" | b"."));
    let mut next = segments.next();
    while let Some(segment) = next {
        if segment == b".." {
            return Err(io::Error::from_raw_os_error(libc::EXDEV));
        }
        next = segments.next();
        let flags = match next {
            Some(_) => libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC,
            None => flags(purpose),
        };
        let name = CString::new(segment).expect("a part of a C string holds no NUL");
        at = OwnedFd::from(step(at.as_fd(), &name, flags, links)?);
    }
    Ok(File::from(at))
}

/// Opens what a name in a directory leads to, if permitted.
fn step(dir: BorrowedFd<'_>, name: &CStr, flags: libc::c_int, links: Links) -> io::Result<File> {
    let refused = || io::Error::from_raw_os_error(libc::ELOOP);
    if links == Links::Never {
        let file = openat(dir, name, flags | libc::O_NOFOLLOW)?;
        // With O_PATH and O_NOFOLLOW a link itself is opened, which must not be mistaken for its target.
        let may_be_link = flags & libc::O_PATH != 0 && flags & libc::O_DIRECTORY == 0;
        return match may_be_link && file.metadata()?.is_symlink() {
            true => Err(refused()),
            false => Ok(file),
        };
    }
    // Open the target first: a link put in place later belongs to the user who put it there.
    let file = openat(dir, name, flags)?;
    let itself =
        openat(dir, name, libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC)?.metadata()?;
    match itself.is_symlink() && itself.uid() != file.metadata()?.uid() {
        true => Err(refused()),
        false => Ok(file),
    }
}

fn openat(dir: BorrowedFd<'_>, name: &CStr, flags: libc::c_int) -> io::Result<File> {
    // SAFETY: the name ends with NUL and lives through the call; the descriptor is borrowed.
    adopt(unsafe { libc::openat(dir.as_raw_fd(), name.as_ptr(), flags) })
}

fn adopt(fd: libc::c_int) -> io::Result<File> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor, so nothing else owns it.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Appends `count` bytes of `file` from `offset` on to `out`, without zeroing the memory first. If the file is shorter
/// or cannot be read, the missing bytes are zero and an error is returned.
pub fn append_at(file: &File, offset: u64, count: usize, out: &mut Vec<u8>) -> io::Result<()> {
    out.reserve(count);
    let start = out.len();
    let mut done = 0;
    let outcome = loop {
        if done == count {
            break Ok(());
        }
        let room = &mut out.spare_capacity_mut()[done..count];
        let Ok(position) = libc::off_t::try_from(offset + done as u64) else {
            break Err(io::ErrorKind::InvalidInput.into());
        };
        // SAFETY: pointer and length describe spare memory of `out`, and the descriptor is borrowed.
        let read = unsafe {
            let to = room.as_mut_ptr().cast();
            libc::pread(file.as_raw_fd(), to, room.len(), position)
        };
        match usize::try_from(read) {
            Ok(0) => break Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => done += read,
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    break Err(error);
                }
            }
        }
    };
    // SAFETY: the kernel has written this many bytes after the existing ones, within the capacity.
    unsafe { out.set_len(start + done) };
    out.resize(start + count, 0);
    outcome
}

/// Bytes available to unprivileged users on the file system of `path`.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the structure consists of integers, for which zero is a valid value.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends with NUL, and both live through the call.
    match unsafe { libc::statvfs(path.as_ptr(), &raw mut found) } {
        0 => Ok(found.f_bavail.saturating_mul(found.f_frsize)),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    type Open = fn(BorrowedFd<'_>, &CStr, Purpose) -> io::Result<File>;

    fn folder(name: &str) -> std::path::PathBuf {
        let dir = std::env::temp_dir().join(format!("sluice-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(dir.join("root/sub")).unwrap();
        std::fs::write(dir.join("secret"), "secret").unwrap();
        std::fs::write(dir.join("root/sub/file"), "content").unwrap();
        symlink("../../secret", dir.join("root/sub/out")).unwrap();
        symlink(dir.join("secret"), dir.join("root/absolute")).unwrap();
        symlink("..", dir.join("root/up")).unwrap();
        symlink("/proc/self/root", dir.join("root/magic")).unwrap();
        symlink("sub/file", dir.join("root/inside")).unwrap();
        dir
    }

    fn nothing_leads_out(name: &str, open: Open) {
        let dir = folder(name);
        let root = File::open(dir.join("root")).unwrap();
        let mut text = String::new();
        open(root.as_fd(), c"sub/file", Purpose::Read)
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "content");
        for purpose in [Purpose::Read, Purpose::Stat] {
            assert!(open(root.as_fd(), c"sub//./file", purpose).is_ok());
            for path in [
                c"../secret",
                c"sub/../../secret",
                c"sub/out",
                c"absolute",
                c"up/secret",
                c"magic/etc/passwd",
                c"none",
                c"sub/file/x",
            ] {
                assert!(
                    open(root.as_fd(), path, purpose).is_err(),
                    "{path:?} {purpose:?}"
                );
            }
        }
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn the_kernel_keeps_links_inside() {
        nothing_leads_out("beneath", open_beneath);
    }

    #[test]
    fn the_walk_keeps_links_inside() {
        nothing_leads_out("walk", |root, path, purpose| {
            open_along(root, path, purpose, Links::Never)
        });
    }

    #[test]
    fn appending_to_a_file_reports_its_end() {
        let dir = folder("append");
        let path = dir.join("some");
        std::fs::write(&path, "0123456789").unwrap();
        let file = File::open(&path).unwrap();
        let mut out = b"before ".to_vec();
        append_at(&file, 3, 4, &mut out).unwrap();
        assert_eq!(out, b"before 3456");
        append_at(&file, 10, 0, &mut out).unwrap();
        let ended = append_at(&file, 8, 4, &mut out).unwrap_err();
        assert_eq!(ended.kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(out, b"before 345689\0\0");
        assert!(append_at(&file, u64::MAX - 9, 4, &mut out).is_err());
        assert_eq!(out.len(), 19);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
