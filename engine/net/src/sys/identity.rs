//! The user and groups of a thread, which determine its permissions. The callers decide which threads change them, and
//! why.

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;

/// A user with its groups.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    user: libc::uid_t,
    group: libc::gid_t,
    /// All groups, including the primary one.
    groups: Vec<libc::gid_t>,
}

/// Buffer for one entry of the user and group databases: a group with thousands of members has a long one.
const ENTRY_BYTES: usize = 256 * 1024;

/// Maximum number of groups of one user: the kernel's own limit (NGROUPS_MAX).
const GROUPS_MAX: usize = 65_536;

/// The number of the user that this process acts as.
pub fn user() -> u32 {
    // SAFETY: the call takes no arguments and cannot fail.
    unsafe { libc::geteuid() }
}

/// Whether this process runs as root, so that it can change users and bind ports below 1024.
pub fn is_root() -> bool {
    user() == 0
}

impl Identity {
    /// The user of this name, with the named group as the primary one, and the user's supplementary groups. The error
    /// says which name is unknown.
    pub fn of(user: &str, group: &str) -> io::Result<Identity> {
        let mut identity = Identity::of_user(user)?;
        let first = group_number(&CString::new(group)?)?;
        identity.group = first.ok_or_else(|| unknown("getgrnam", group))?;
        identity.groups = groups(&CString::new(user)?, identity.group);
        Ok(identity)
    }

    /// The user of this name, with its own primary group and its supplementary groups. The error says that the name is
    /// unknown.
    pub fn of_user(user: &str) -> io::Result<Identity> {
        let name = CString::new(user)?;
        let numbers = user_numbers(&name)?;
        let (user, group) = numbers.ok_or_else(|| unknown("getpwnam", user))?;
        Ok(Identity {
            user,
            group,
            groups: groups(&name, group),
        })
    }

    /// Irrevocably makes the calling thread run as this user. Other threads are unaffected; threads it starts inherit
    /// the user.
    ///
    /// Threads share their memory, so this restricts only what the thread may request from the kernel. From then on,
    /// memory and descriptors of the whole process are inaccessible to other processes of this user
    /// (`PR_SET_DUMPABLE`); otherwise such a process could take over the threads with more privileges.
    pub fn assume(&self) -> io::Result<()> {
        self.assume_ids()?;
        // SAFETY: prctl takes integers here.
        check(i64::from(unsafe {
            libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0)
        }))
    }

    /// Changes groups, group and user of the calling thread. Async-signal-safe.
    fn assume_ids(&self) -> io::Result<()> {
        // The C library's functions of these names change all threads; the system calls change one.
        // SAFETY: the pointer and the length describe a list that lives through the call.
        check(unsafe {
            libc::syscall(libc::SYS_setgroups, self.groups.len(), self.groups.as_ptr())
        })?;
        // SAFETY: the call takes integers only.
        check(unsafe { libc::syscall(libc::SYS_setresgid, self.group, self.group, self.group) })?;
        // SAFETY: the call takes integers only.
        check(unsafe { libc::syscall(libc::SYS_setresuid, self.user, self.user, self.user) })
    }

    /// As [`Identity::assume`], for a new process that executes a program next, which cannot gain privileges any more.
    /// Async-signal-safe; the error is that of the system.
    pub(super) fn assume_for_exec(&self) -> Result<(), i32> {
        let failed = |_| io::Error::last_os_error().raw_os_error().unwrap_or(0);
        // A thread with all privileges of root is the only one that may set groups.
        self.assume_ids().map_err(failed)?;
        // SAFETY: prctl takes integers here.
        let done = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        check(libc::c_long::from(done)).map_err(failed)
    }

    /// Makes this user the owner of a file or directory; its group is unchanged.
    pub fn own(&self, path: &std::path::Path) -> io::Result<()> {
        std::os::unix::fs::lchown(path, Some(self.user), None)
    }
}

fn check(code: libc::c_long) -> io::Result<()> {
    match code {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn unknown(call: &str, name: &str) -> io::Error {
    let text = format!("{call}(\"{name}\") failed");
    io::Error::new(io::ErrorKind::NotFound, text)
}

/// A user and its primary group.
fn user_numbers(name: &CStr) -> io::Result<Option<(libc::uid_t, libc::gid_t)>> {
    let mut entry = MaybeUninit::<libc::passwd>::uninit();
    let mut found = std::ptr::null_mut();
    let mut text = vec![0; ENTRY_BYTES];
    // SAFETY: all pointers refer to memory of ours of the given length; the strings of the entry are stored in `text`.
    let code = unsafe {
        libc::getpwnam_r(
            name.as_ptr(),
            entry.as_mut_ptr(),
            text.as_mut_ptr(),
            text.len(),
            &mut found,
        )
    };
    match (code, found.is_null()) {
        (0, true) => Ok(None),
        // SAFETY: the call succeeded and found an entry, so it is initialized.
        (0, false) => {
            let entry = unsafe { entry.assume_init() };
            Ok(Some((entry.pw_uid, entry.pw_gid)))
        }
        (code, _) => Err(io::Error::from_raw_os_error(code)),
    }
}

fn group_number(name: &CStr) -> io::Result<Option<libc::gid_t>> {
    let mut entry = MaybeUninit::<libc::group>::uninit();
    let mut found = std::ptr::null_mut();
    let mut text = vec![0; ENTRY_BYTES];
    // SAFETY: as above.
    let code = unsafe {
        libc::getgrnam_r(
            name.as_ptr(),
            entry.as_mut_ptr(),
            text.as_mut_ptr(),
            text.len(),
            &mut found,
        )
    };
    match (code, found.is_null()) {
        (0, true) => Ok(None),
        // SAFETY: the call succeeded and found an entry, so it is initialized.
        (0, false) => Ok(Some(unsafe { entry.assume_init() }.gr_gid)),
        (code, _) => Err(io::Error::from_raw_os_error(code)),
    }
}

/// All groups of a user with this primary group.
fn groups(name: &CStr, first: libc::gid_t) -> Vec<libc::gid_t> {
    let mut count = 64;
    loop {
        let mut groups = vec![0; count];
        let mut wanted = libc::c_int::try_from(count).unwrap_or(libc::c_int::MAX);
        // SAFETY: `groups` has room for `wanted` entries, and both live through the call.
        let code =
            unsafe { libc::getgrouplist(name.as_ptr(), first, groups.as_mut_ptr(), &mut wanted) };
        if code >= 0 {
            groups.truncate(usize::try_from(wanted).unwrap_or(0));
            return groups;
        }
        if count >= GROUPS_MAX {
            return vec![first];
        }
        count = (count * 4).min(GROUPS_MAX);
    }
}

#[cfg(test)]
#[allow(dead_code, reason = "the end-to-end tests use the rest of it")]
#[path = "../../../../tests/support/abilities.rs"]
pub(super) mod abilities;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_their_names() {
        let root = Identity::of("root", "root").unwrap();
        assert_eq!((root.user, root.group), (0, 0));
        assert!(root.groups.contains(&0));
        assert_eq!(Identity::of_user("root").unwrap(), root);
        let error = Identity::of_user("no such user").unwrap_err();
        assert_eq!(error.to_string(), "getpwnam(\"no such user\") failed");
        for (user, group, said) in [
            ("no such user", "root", "getpwnam(\"no such user\") failed"),
            (
                "root",
                "no such group",
                "getgrnam(\"no such group\") failed",
            ),
        ] {
            let error = Identity::of(user, group).unwrap_err();
            assert_eq!(error.to_string(), said);
        }
    }

    #[test]
    fn one_thread_becomes_another_user_and_the_others_stay() {
        if !is_root() {
            abilities::skipped("only root may become another user");
            return;
        }
        let nobody = Identity {
            user: 65_534,
            group: 65_534,
            groups: vec![65_534],
        };
        let path = std::env::temp_dir().join(format!("sluice-identity-{}", std::process::id()));
        std::fs::write(&path, "secret").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, mode).unwrap();
        let inside = path.clone();
        let thread = std::thread::spawn(move || {
            nobody.assume().unwrap();
            let own = std::fs::read(&inside).map_err(|error| error.kind());
            // Threads inherit the user of the thread that starts them.
            let child = std::thread::spawn(move || std::fs::read(inside).is_err());
            (own, child.join().unwrap(), nobody.assume().is_err())
        });
        let (own, child, again) = thread.join().unwrap();
        assert_eq!(own, Err(io::ErrorKind::PermissionDenied));
        assert!(child, "a thread of it may no more");
        assert!(again, "there is no way back");
        assert_eq!(std::fs::read(&path).unwrap(), b"secret");
        assert!(is_root());
        std::fs::remove_file(path).unwrap();
    }
}
