use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::locks::content;
use super::*;

/// A folder of its own, removed at the end.
struct TempFolder(PathBuf);

impl TempFolder {
    fn new() -> TempFolder {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("sluice-file-store-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        TempFolder(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

const PAIR: [&str; 3] = ["a/b.key", "a/b.crt", "a/old"];

/// A certificate and its key, written together with the end of an older value.
fn with_writes<T>(text: &str, run: impl FnOnce(&[Write<'_>]) -> T) -> T {
    let [private, crt, old] = PAIR.map(key);
    run(&[
        Write::Put(&private, text.as_bytes()),
        Write::Put(&crt, text.as_bytes()),
        Write::Delete(&old),
    ])
}

fn write_all(store: &FileStore, text: &str) {
    with_writes(text, |writes| store.save(writes, Guard::Always)).unwrap();
}

fn put(store: &FileStore, name: &str, text: &str) {
    let key = key(name);
    let write = [Write::Put(&key, text.as_bytes())];
    store.save(&write, Guard::Always).unwrap();
}

fn texts(store: &FileStore, names: &[&str]) -> Vec<Option<String>> {
    let keys: Vec<Key> = names.iter().map(|name| key(name)).collect();
    let keys: Vec<&Key> = keys.iter().collect();
    let values = store.load(&keys).unwrap().into_iter();
    let text = |value: Value| String::from_utf8(value.bytes).unwrap();
    values.map(|value| value.map(text)).collect()
}

fn text(store: &FileStore, name: &str) -> Option<String> {
    texts(store, &[name]).remove(0)
}

#[test]
fn a_crash_after_any_step_leaves_the_old_state_or_the_new_one() {
    let some = |texts: [&str; 3]| texts.map(|text| (!text.is_empty()).then(|| text.to_owned()));
    for old in [["", "", "x"], ["old", "old", "x"]] {
        let count = with_writes("new", |writes| FileStore::new("x").steps(writes).len());
        for done in 0..=count {
            let folder = TempFolder::new();
            let store = FileStore::new(folder.path());
            if old[0] == "old" {
                write_all(&store, "old");
            }
            put(&store, "a/old", "x");
            with_writes("new", |writes| store.run(&store.steps(writes)[..done])).unwrap();
            let found = texts(&store, &PAIR);
            let new = some(["new", "new", ""]);
            assert!(
                found == some(old) || found == new,
                "after {done} steps: {found:?}"
            );
            assert_eq!(texts(&store, &PAIR), found, "reading again");
            for (name, text_now) in PAIR.iter().zip(&found) {
                assert_eq!(text(&store, name), *text_now, "alone, after {done} steps");
            }
            // The next change, of something else, completes it and loses nothing.
            put(&store, "c", "1");
            assert_eq!(
                texts(&store, &PAIR),
                found,
                "after {done} steps and a change"
            );
            write_all(&store, "newer");
            assert_eq!(texts(&store, &PAIR), some(["newer", "newer", ""]));
        }
    }
}

/// The directory of the process to be killed; set only for that process.
const VICTIM: &str = "SLUICE_TEST_VICTIM";

/// Writes two pairs alternately until it is killed. Not a test itself: it returns immediately unless the variable
/// is set.
#[test]
fn victim() {
    let Some(folder) = std::env::var_os(VICTIM) else {
        return;
    };
    let store = FileStore::new(folder);
    loop {
        for text in ["one", "two"] {
            write_all(&store, text);
            put(&store, "a/b.json", text);
        }
    }
}

/// Runs a process that writes until `is_time` and kills it; returns what it left.
fn killed(folder: &Path, is_time: impl Fn() -> bool) -> FileStore {
    // Written last, so its existence shows that one pair is complete.
    for name in ["a/b.json", "a/b.json.next"] {
        let _ = fs::remove_file(folder.join(name));
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "file::tests::victim"])
        .env(VICTIM, folder)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while !folder.join("a/b.json").exists() || !is_time() {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    FileStore::new(folder)
}

#[test]
fn a_process_killed_at_any_moment_leaves_a_whole_pair() {
    let folder = TempFolder::new();
    let next = |name: &str| folder.path().join("a").join(name);
    let check = |store: &FileStore| {
        let found = texts(store, &PAIR);
        assert_eq!(found[0], found[1]);
        assert!(
            matches!(found[0].as_deref(), Some("one" | "two")),
            "{found:?}"
        );
        assert!(matches!(
            text(store, "a/b.json").as_deref(),
            Some("one" | "two")
        ));
        let mode = fs::metadata(next("b.key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        write_all(store, "three");
        let three = Some("three".to_owned());
        assert_eq!(texts(store, &PAIR), [three.clone(), three, None]);
    };
    // In the middle of each step: when a temporary file exists, when only one of the two is left, and at random
    // times.
    for name in ["b.crt.next", "b.key.next", "b.json.next"] {
        check(&killed(folder.path(), || next(name).exists()));
    }
    check(&killed(folder.path(), || {
        next("b.crt.next").exists() && !next("b.key.next").exists()
    }));
    for round in 0..12 {
        let until = Instant::now() + Duration::from_micros(700 * round);
        check(&killed(folder.path(), || Instant::now() > until));
    }
}

#[test]
fn a_crash_while_a_file_is_filled_leaves_the_old_one() {
    let folder = TempFolder::new();
    let store = FileStore::new(folder.path());
    put(&store, "x/y.json", "old");
    fs::write(folder.path().join("x/y.json.next"), b"torn").unwrap();
    assert_eq!(text(&store, "x/y.json").as_deref(), Some("old"));
    put(&store, "x/y.json", "new");
    assert_eq!(text(&store, "x/y.json").as_deref(), Some("new"));
    assert!(!folder.path().join("x/y.json.next").exists());
    assert_eq!(text(&store, "x/none"), None);
}

#[test]
fn a_journal_that_is_not_ours_is_not_executed() {
    let folder = TempFolder::new();
    let store = FileStore::new(folder.path().join("data"));
    put(&store, "a", "1");
    let outside = folder.path().join("outside");
    fs::write(&outside, "x").unwrap();
    let journal = folder.path().join("data/locks/storage.journal");
    for text_there in ["", "{}", r#"{"put":[],"delete":["../outside"]}"#, "[1]"] {
        fs::write(&journal, text_there).unwrap();
        put(&store, "a", "2");
        assert_eq!(text(&store, "a").as_deref(), Some("2"));
        assert!(outside.exists());
    }
}

#[test]
fn keys_are_for_their_owner_alone() {
    let folder = TempFolder::new();
    let store = FileStore::new(folder.path().join("data"));
    fs::create_dir_all(folder.path().join("data/pki")).unwrap();
    let torn = folder.path().join("data/pki/root.key.next");
    fs::write(&torn, b"torn").unwrap();
    fs::set_permissions(&torn, fs::Permissions::from_mode(0o666)).unwrap();
    put(&store, "pki/root.key", "k");
    put(&store, "pki/sub/leaf.key", "k");
    let mode = |name: &str| {
        let about = fs::metadata(folder.path().join("data").join(name)).unwrap();
        about.permissions().mode() & 0o777
    };
    assert_eq!(mode("pki/root.key"), 0o600);
    assert_eq!(mode("pki/sub/leaf.key"), 0o600);
    assert_eq!(mode("pki/sub"), 0o700);
}

#[test]
fn a_huge_file_and_a_folder_are_errors() {
    let folder = TempFolder::new();
    let store = FileStore::new(folder.path());
    let huge = fs::File::create(folder.path().join("huge")).unwrap();
    huge.set_len(VALUE_BYTES_MAX as u64 + 1).unwrap();
    let error = store.load(&[&key("huge")]).unwrap_err();
    assert_eq!(error.fault, Fault::Limit);
    fs::create_dir(folder.path().join("folder")).unwrap();
    let error = store.load(&[&key("folder")]).unwrap_err();
    assert_eq!(error.fault, Fault::System);
    assert!(error.to_string().starts_with("cannot read `"), "{error}");
}

#[test]
fn writers_and_readers_of_several_values_wait_for_a_writer() {
    let folder = TempFolder::new();
    let store = FileStore::new(folder.path());
    write_all(&store, "old");
    let lock = store.write_lock().unwrap();
    let other = store.clone();
    let writer = std::thread::spawn(move || write_all(&other, "new"));
    let other = store.clone();
    let reader = std::thread::spawn(move || texts(&other, &PAIR));
    // That they wait is seen by nothing but the time.
    std::thread::sleep(crate::limits::WRITE_LOCK_PAUSE * 3);
    assert_eq!(text(&store, "a/b.crt").as_deref(), Some("old"));
    assert!(!writer.is_finished() && !reader.is_finished());
    drop(lock);
    writer.join().unwrap();
    let read = reader.join().unwrap();
    assert_eq!(read[0], read[1]);
    assert_eq!(text(&store, "a/b.crt").as_deref(), Some("new"));
}

#[test]
fn a_lock_file_is_the_one_of_caddy_and_goes_at_the_end() {
    let folder = TempFolder::new();
    let store = FileStore::new(folder.path());
    let lease = store.lease("issue_cert_a.test", Duration::ZERO).unwrap();
    let path = folder.path().join("locks/issue_cert_a.test.lock");
    let lock: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert!(lock["created"].is_string() && lock["updated"].is_string());
    drop(lease);
    assert!(!path.exists());
    // A name cannot lead out of the folder.
    let lease = store.lease("../a/b%", Duration::ZERO).unwrap();
    assert_eq!(store.leases().unwrap(), ["../a/b%"]);
    drop(lease);
}

#[test]
fn the_lock_of_a_dead_process_is_taken_over_by_one() {
    let folder = TempFolder::new();
    let store = FileStore::new(folder.path());
    fs::create_dir(folder.path().join("locks")).unwrap();
    let path = folder.path().join("locks/x.lock");
    let old = "2020-01-01T00:00:00.5+01:00";
    for _ in 0..20 {
        fs::write(&path, content(old, old)).unwrap();
        assert_eq!(store.leases().unwrap(), [""; 0]);
        let got: Vec<_> = std::thread::scope(|scope| {
            let each = (0..4).map(|_| scope.spawn(|| store.lease("x", Duration::ZERO)));
            let each: Vec<_> = each.collect();
            each.into_iter().map(|one| one.join().unwrap()).collect()
        });
        // One that came after the first had ended would get it as well, so all are held until here.
        assert_eq!(got.iter().filter(|got| got.is_ok()).count(), 1);
    }
    // An empty file left by a crash is not stale yet.
    fs::write(&path, "").unwrap();
    assert!(store.lease("x", Duration::ZERO).is_err());
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(long_ago).unwrap();
    store.lease("x", Duration::ZERO).unwrap();
}

#[test]
fn a_lock_that_was_taken_over_guards_nothing_and_is_left_alone() {
    let folder = TempFolder::new();
    let store = FileStore::new(folder.path());
    let lease = store.lease("x", Duration::ZERO).unwrap();
    let path = folder.path().join("locks/x.lock");
    let later = "2030-01-01T00:00:00Z";
    fs::write(&path, content(later, later)).unwrap();
    let a = key("a");
    let late = store.save(&[Write::Put(&a, b"late")], Guard::Held(lease.fence()));
    assert_eq!(late.unwrap_err().fault, Fault::Refused);
    drop(lease);
    assert!(path.exists());
}

#[test]
fn files_of_others_are_no_values() {
    let folder = TempFolder::new();
    let store = FileStore::new(folder.path());
    put(&store, "certificates/x/a.test/a.test.crt", "c");
    fs::create_dir(folder.path().join("empty")).unwrap();
    fs::write(folder.path().join("torn.next"), "x").unwrap();
    let all = store.list(&key(""), Reach::All).unwrap();
    assert_eq!(all.len(), 1);
    let children = store.list(&key(""), Reach::Children).unwrap();
    assert_eq!(children, [Entry::Folder(key("certificates"))]);
    // The folder of the last value goes with it, but not the root.
    let crt = key("certificates/x/a.test/a.test.crt");
    store.save(&[Write::Delete(&crt)], Guard::Always).unwrap();
    assert!(!folder.path().join("certificates").exists());
    assert!(folder.path().exists());
}
