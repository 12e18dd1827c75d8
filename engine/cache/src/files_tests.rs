use super::*;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::limits::HANDLES_MAX;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let dir = std::env::temp_dir().join(format!("sluice-files-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        Folder(dir)
    }

    fn path(&self, name: &str) -> Vec<u8> {
        self.0.join(name).as_os_str().as_bytes().to_vec()
    }

    fn write(&self, name: &str, content: &[u8]) {
        fs::write(self.0.join(name), content).unwrap();
    }

    /// Backdates the file so that its metadata is not doubtful.
    fn age(&self, name: &str, seconds: u64) {
        let then = std::time::UNIX_EPOCH + Duration::from_secs(seconds);
        let file = File::options()
            .append(true)
            .open(self.0.join(name))
            .unwrap();
        file.set_modified(then).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn at(millis: u64) -> Moment {
    Moment::new(Duration::from_millis(millis))
}

fn opened(found: Found) -> Rc<OpenFile> {
    match found {
        Found::File(file) => file,
        other => panic!("expected a file, found {other:?}"),
    }
}

fn content(found: Found) -> Vec<u8> {
    match &opened(found).content {
        Content::Bytes(bytes) => bytes.to_vec(),
        Content::Handle(file) => fs::read(format!("/proc/self/fd/{}", {
            use std::os::fd::AsRawFd;
            file.as_raw_fd()
        }))
        .unwrap(),
    }
}

#[test]
fn a_small_file_is_read_once_within_a_second() {
    let (folder, files) = (Folder::new("once"), OpenFiles::default());
    folder.write("a.html", b"first");
    let path = folder.path("a.html");
    let first = opened(files.open(&path, Reach::Anywhere, at(0)));
    folder.write("a.html", b"second, longer");
    let again = opened(files.open(&path, Reach::Anywhere, at(800)));
    assert!(Rc::ptr_eq(&first, &again));
    assert_eq!(
        content(files.open(&path, Reach::Anywhere, at(900))),
        b"second, longer"
    );
    assert_eq!(first.media_type, Some("text/html; charset=utf-8"));
}

#[test]
fn a_change_that_leaves_size_and_time_is_seen_within_a_second() {
    let (folder, files) = (Folder::new("unseen"), OpenFiles::default());
    folder.write("a", b"one");
    let path = folder.path("a");
    assert_eq!(content(files.open(&path, Reach::Anywhere, at(0))), b"one");
    // Same size, and most likely within the same tick of the file system's clock.
    folder.write("a", b"two");
    assert_eq!(content(files.open(&path, Reach::Anywhere, at(950))), b"two");
}

#[test]
fn an_unchanged_file_keeps_its_content_over_checks() {
    let (folder, files) = (Folder::new("keeps"), OpenFiles::default());
    folder.write("a", b"one");
    folder.age("a", 1_000_000_000);
    // The change time (`ctime`) is still recent, so wait for that as well.
    std::thread::sleep(crate::limits::CHANGE_UNSEEN);
    let path = folder.path("a");
    let first = opened(files.open(&path, Reach::Anywhere, at(0)));
    let later = opened(files.open(&path, Reach::Anywhere, at(5000)));
    assert!(Rc::ptr_eq(&first, &later));
    assert_eq!(
        first.last_modified.as_ref(),
        Some(b"Sun, 09 Sep 2001 01:46:40 GMT")
    );
}

#[test]
fn appearing_and_vanishing_files_are_noticed_within_a_second() {
    let (folder, files) = (Folder::new("appear"), OpenFiles::default());
    let path = folder.path("a");
    let missing = |now| {
        matches!(
            files.open(&path, Reach::Anywhere, at(now)),
            Found::Missing(Missing::NotFound)
        )
    };
    assert!(missing(0));
    folder.write("a", b"x");
    assert!(missing(800));
    assert!(!missing(900));
    fs::remove_file(folder.0.join("a")).unwrap();
    assert!(!missing(1700));
    assert!(missing(1800));
}

#[test]
fn large_files_stay_open_and_replaced_ones_are_opened_anew() {
    let (folder, files) = (Folder::new("large"), OpenFiles::default());
    let big = vec![b'x'; CONTENT_BYTES_MAX as usize + 1];
    folder.write("a", &big);
    let path = folder.path("a");
    let first = opened(files.open(&path, Reach::Anywhere, at(0)));
    assert!(matches!(first.content, Content::Handle(_)));
    assert_eq!(first.facts.size, big.len() as u64);
    folder.write("b", &vec![b'y'; big.len()]);
    fs::rename(folder.0.join("b"), folder.0.join("a")).unwrap();
    assert_eq!(
        content(files.open(&path, Reach::Anywhere, at(100)))[0],
        b'x'
    );
    assert_eq!(
        content(files.open(&path, Reach::Anywhere, at(950)))[0],
        b'y'
    );
}

#[test]
fn open_handles_are_bounded() {
    let (folder, files) = (Folder::new("handles"), OpenFiles::default());
    let big = vec![b'x'; CONTENT_BYTES_MAX as usize + 1];
    for number in 0..2 * HANDLES_MAX {
        let name = number.to_string();
        folder.write(&name, &big);
        opened(files.open(&folder.path(&name), Reach::Anywhere, at(0)));
        assert!(files.entries.borrow().held().1.handles <= HANDLES_MAX);
    }
}

#[test]
fn other_file_types_are_distinguished() {
    let (folder, files) = (Folder::new("kinds"), OpenFiles::default());
    folder.write("a", b"x");
    let open = |name: &str| files.open(&folder.path(name), Reach::Anywhere, at(0));
    assert!(matches!(open(""), Found::Directory(_)));
    assert!(matches!(open("a/b"), Found::Missing(Missing::Impossible)));
    assert!(matches!(open("nul\0"), Found::Missing(Missing::Impossible)));
    assert!(matches!(
        open(&"n".repeat(300)),
        Found::Missing(Missing::Impossible)
    ));
    let _socket = std::os::unix::net::UnixListener::bind(folder.0.join("s")).unwrap();
    assert!(matches!(open("s"), Found::Special));
    let null = files.open(b"/dev/null", Reach::Anywhere, at(0));
    assert!(matches!(null, Found::Special));
    assert!(
        matches!(files.facts(b"/", Reach::Anywhere, at(0)), Ok(facts) if facts.kind == Kind::Directory)
    );
}

#[test]
fn links_out_of_the_root_are_followed_only_where_that_is_allowed() {
    let (folder, files) = (Folder::new("links"), OpenFiles::default());
    fs::create_dir(folder.0.join("root")).unwrap();
    folder.write("outside", b"secret");
    folder.write("root/inside", b"page");
    std::os::unix::fs::symlink("../outside", folder.0.join("root/out")).unwrap();
    std::os::unix::fs::symlink("inside", folder.0.join("root/in")).unwrap();
    let confined = Reach::Beneath(folder.path("root").len());
    let out = folder.path("root/out");
    assert_eq!(content(files.open(&out, Reach::Anywhere, at(0))), b"secret");
    assert!(matches!(
        files.open(&out, confined, at(0)),
        Found::Missing(Missing::Denied)
    ));
    assert_eq!(files.facts(&out, confined, at(0)), Err(Missing::Denied));
    assert_eq!(content(files.open(&out, Reach::Anywhere, at(0))), b"secret");
    // Where openat2 is forbidden, no link is followed at all.
    let inside = files.open(&folder.path("root/in"), confined, at(0));
    assert!(matches!(
        inside,
        Found::File(_) | Found::Missing(Missing::Denied)
    ));
    assert_eq!(
        content(files.open(&folder.path("root/inside"), confined, at(0))),
        b"page"
    );
    assert!(matches!(
        files.open(&folder.path("root"), confined, at(0)),
        Found::Directory(_)
    ));
}

#[test]
fn links_are_followed_nowhere_or_to_their_owner_only() {
    let (folder, files) = (Folder::new("nolinks"), OpenFiles::default());
    fs::create_dir(folder.0.join("real")).unwrap();
    folder.write("real/page", b"page");
    let link = |to: &str, name: &str| {
        std::os::unix::fs::symlink(to, folder.0.join(name)).unwrap();
    };
    link("real", "linked");
    link("page", "real/link");
    link("/proc/version", "foreign");
    let is_denied = |path: &[u8], reach| {
        let facts = files.facts(path, reach, at(0));
        let opened = files.open(path, reach, at(0));
        let is_refused = |missing| matches!(missing, Missing::Denied | Missing::Impossible);
        let is_denied = matches!(opened, Found::Missing(missing) if is_refused(missing));
        assert_eq!(facts.is_err_and(is_refused), is_denied);
        is_denied
    };
    let (page, link) = (folder.path("real/page"), folder.path("real/link"));
    let (way, foreign) = (folder.path("linked/page"), folder.path("foreign"));
    assert!(!is_denied(&page, Reach::NoLinks(0)));
    assert!(is_denied(&link, Reach::NoLinks(0)) && is_denied(&way, Reach::NoLinks(0)));
    let behind = folder.path("linked").len();
    assert!(
        !is_denied(&way, Reach::NoLinks(behind)),
        "so far links may lead"
    );
    assert!(!is_denied(&link, Reach::OwnLinks(0)) && !is_denied(&way, Reach::OwnLinks(0)));
    let is_root = fs::metadata(&folder.0).unwrap().uid() == 0;
    assert_eq!(
        is_denied(&foreign, Reach::OwnLinks(0)),
        !is_root,
        "root owns /proc"
    );
    if is_root {
        std::os::unix::fs::lchown(folder.0.join("real/link"), Some(12_345), None).unwrap();
        let files = OpenFiles::default();
        let denied = files.facts(&link, Reach::OwnLinks(0), at(0));
        assert_eq!(denied, Err(Missing::Denied));
    }
    // A result found with one `Reach` is not reused for another.
    assert!(!is_denied(&way, Reach::Anywhere) && is_denied(&way, Reach::NoLinks(0)));
}

#[test]
fn files_without_a_time_have_no_validators() {
    let (folder, files) = (Folder::new("epoch"), OpenFiles::default());
    folder.write("a", b"x");
    folder.age("a", 0);
    let file = opened(files.open(&folder.path("a"), Reach::Anywhere, at(0)));
    assert!(file.etag.is_none() && file.last_modified.is_none());
}

/// What an `open_file_cache` that is off promises: also within one tick of the coarse clock each change shows at once.
#[test]
fn with_no_age_each_change_shows_at_once() {
    let folder = Folder::new("no-age");
    let (files, path) = (OpenFiles::default(), folder.path("a"));
    let access = Access {
        reach: Reach::Anywhere,
        age: MaxAge::ZERO,
    };
    let missing = |found| matches!(found, Found::Missing(Missing::NotFound));
    assert!(missing(files.open(&path, access, at(0))));
    folder.write("a", b"one");
    assert!(files.facts(&path, access, at(0)).is_ok());
    assert_eq!(content(files.open(&path, access, at(0))), b"one");
    folder.write("a", b"two");
    assert_eq!(content(files.open(&path, access, at(0))), b"two");
    fs::remove_file(folder.0.join("a")).unwrap();
    assert!(files.facts(&path, access, at(0)).is_err());
    assert!(missing(files.open(&path, access, at(0))));
}

#[test]
fn found_and_missing_paths_have_ages_of_their_own() {
    let folder = Folder::new("ages");
    let (files, path) = (OpenFiles::default(), folder.path("a"));
    let access = Access {
        reach: Reach::Anywhere,
        age: MaxAge {
            found: Duration::from_secs(60),
            missing: Duration::ZERO,
        },
    };
    assert!(files.facts(&path, access, at(0)).is_err());
    folder.write("a", b"one");
    assert_eq!(content(files.open(&path, access, at(0))), b"one");
    folder.write("a", b"another");
    assert_eq!(content(files.open(&path, access, at(59_000))), b"one");
    assert_eq!(content(files.open(&path, access, at(60_000))), b"another");
}
