use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::rc::Rc;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll, Waker};

use sluice_message::FieldId;
use sluice_message::caching::Lifetime;

use super::*;
use crate::files::Content;
use crate::limits::{CONTENT_BYTES_MAX, NODE_BYTES};

#[allow(dead_code, reason = "other tests use more of it")]
#[path = "../../../../tests/support/wait.rs"]
mod wait;

pub(super) struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let dir = std::env::temp_dir().join(format!("sluice-store-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        Folder(dir)
    }

    pub fn settings(&self) -> Settings {
        Settings {
            path: self.0.clone(),
            levels: vec![1, 2],
            index_bytes: 1 << 20,
            inactive: Duration::from_secs(600),
            bytes_max: 0,
            free_min: 0,
            loader: Pace {
                files: 100,
                threshold: Duration::from_millis(200),
                sleep: Duration::from_millis(1),
            },
            manager: None,
        }
    }

    pub fn open(&self) -> Arc<Store> {
        self.open_with(&self.settings())
    }

    fn open_with(&self, settings: &Settings) -> Arc<Store> {
        let store = Store::open(settings, Box::new(|_, _, _| {})).unwrap();
        eventually(|| !store.is_loading());
        store
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(super) fn eventually(is_true: impl Fn() -> bool) {
    wait::eventually("the store", is_true, String::new);
}

fn times() -> Times {
    Times {
        since: unix_now(),
        lifetime: Lifetime {
            fresh: 60,
            ..Lifetime::default()
        },
    }
}

fn head(text: &str) -> ResponseHead {
    let mut head = ResponseHead::default();
    head.fields.push(FieldId::ContentType, text.as_bytes());
    head
}

fn request(accept: &str) -> Fields {
    let mut fields = Fields::new();
    fields.push(FieldId::Accept, accept.as_bytes());
    fields
}

pub(super) fn put(store: &Arc<Store>, key: &str, content: &[u8]) {
    let mut fill = begin(store, key, b"", &Fields::new()).unwrap();
    content.chunks(1000).for_each(|part| fill.write(part));
    fill.finish();
}

fn begin(store: &Arc<Store>, key: &str, names: &[u8], request: &Fields) -> Option<Fill> {
    let head = head("text/plain");
    store.begin(key.as_bytes(), names, request, (&head, times()), None)
}

fn find_at(store: &Store, opened: &Opened, key: &str, millis: u64) -> Option<Rc<Stored>> {
    let moment = Moment::START + Duration::from_millis(millis);
    let now = (unix_now(), moment);
    match store.find(opened, key.as_bytes(), &Fields::new(), now).1 {
        Found::Stored(stored) => Some(stored),
        Found::Failed(_) | Found::Nothing => None,
    }
}

pub(super) fn find(store: &Store, key: &str) -> Option<Vec<u8>> {
    find_at(store, &Opened::default(), key, 0).map(|stored| content(&stored))
}

fn content(stored: &Stored) -> Vec<u8> {
    use std::os::unix::fs::FileExt;
    match &stored.content {
        Content::Bytes(bytes) => bytes.to_vec(),
        Content::Handle(file) => {
            let mut bytes = vec![0; stored.len() as usize];
            file.read_exact_at(&mut bytes, stored.start).unwrap();
            bytes
        }
    }
}

#[test]
fn cached_responses_are_found_again_after_a_restart() {
    let folder = Folder::new("again");
    let store = folder.open();
    let large = vec![7; CONTENT_BYTES_MAX as usize * 3 + 1];
    put(&store, "small", b"content");
    put(&store, "empty", b"");
    put(&store, "large", &large);
    let check = |store: &Store| {
        assert_eq!(find(store, "small").unwrap(), b"content");
        assert_eq!(find(store, "empty").unwrap(), b"");
        assert_eq!(find(store, "large").unwrap(), large);
        assert_eq!(find(store, "other"), None);
    };
    check(&store);
    let before = store.fullness();
    assert_eq!(before.entries, 3);
    drop(store);
    let store = folder.open();
    check(&store);
    assert_eq!(store.fullness().bytes, before.bytes);
    // nginx uses the same name: the digest of the key, below directories named by its last digits.
    let name = Digest::of(&[b"small"]).hex();
    let path = folder.0.join(&name[31..]).join(&name[29..31]).join(&name);
    assert!(path.is_file(), "{path:?}");
}

#[test]
fn what_is_not_finished_is_not_there() {
    let folder = Folder::new("unfinished");
    let store = folder.open();
    put(&store, "a", b"old");
    let mut fill = begin(&store, "a", b"", &Fields::new()).unwrap();
    fill.write(b"new but not who");
    assert_eq!(find(&store, "a").unwrap(), b"old");
    drop(fill);
    assert_eq!(find(&store, "a").unwrap(), b"old");
    let left = || fs::read_dir(folder.0.join(fill::FOLDER)).unwrap().count();
    assert_eq!(left(), 0);
    // A file left by a killed process: nobody holds the lock.
    fs::write(folder.0.join(fill::FOLDER).join("0123"), b"part").unwrap();
    let mut going_on = begin(&store, "b", b"", &Fields::new()).unwrap();
    going_on.write(b"part");
    assert_eq!(left(), 2);
    let other = folder.open();
    assert_eq!(left(), 1, "one that is being written stays");
    going_on.finish();
    assert_eq!(find(&store, "b").unwrap(), b"part");
    drop(other);
}

#[test]
fn variants_are_stored_side_by_side() {
    let folder = Folder::new("vary");
    let store = folder.open();
    for accept in ["a", "b"] {
        let mut fill = begin(&store, "k", b"accept,", &request(accept)).unwrap();
        fill.write(accept.as_bytes());
        fill.finish();
    }
    let look = |store: &Store, accept: &str| {
        let now = (unix_now(), Moment::START);
        match store
            .find(&Opened::default(), b"k", &request(accept), now)
            .1
        {
            Found::Stored(stored) => Some(content(&stored)),
            Found::Failed(_) | Found::Nothing => None,
        }
    };
    for store in [&store, &folder.open()] {
        assert_eq!(look(store, "a").unwrap(), b"a");
        assert_eq!(look(store, "b").unwrap(), b"b");
        assert_eq!(look(store, "c"), None);
    }
    assert_eq!(store.purge(b"k"), 2);
    assert_eq!(look(&store, "a"), None);
    // A response without `Vary` replaces all variants.
    put(&store, "k", b"same");
    assert_eq!(look(&store, "c").unwrap(), b"same");
}

#[test]
fn purging_is_by_key_or_by_what_keys_begin_with() {
    let folder = Folder::new("purge");
    let store = folder.open();
    for key in ["/a/1", "/a/2", "/b"] {
        put(&store, key, b"x");
    }
    assert_eq!(store.purge(b"/a"), 0);
    assert_eq!(store.purge(b"/b"), 1);
    assert_eq!(store.purge_beginning(b"/a/"), 2);
    assert_eq!(store.fullness().entries, 0);
    drop(store);
    assert_eq!(folder.open().fullness().entries, 0, "no file was left");
}

#[test]
fn files_that_are_removed_or_broken_are_not_there_any_more() {
    let folder = Folder::new("broken");
    let store = folder.open();
    let opened = Opened::default();
    for key in ["removed", "broken", "short"] {
        put(&store, key, b"content");
        assert!(find_at(&store, &opened, key, 0).is_some());
    }
    let file = |key: &str| store.file(Digest::of(&[key.as_bytes()]));
    fs::remove_file(file("removed")).unwrap();
    assert!(find_at(&store, &opened, "removed", 899).is_some());
    assert!(find_at(&store, &opened, "removed", 900).is_none());
    let mut bytes = fs::read(file("broken")).unwrap();
    bytes[40] ^= 1;
    fs::write(file("broken"), &bytes).unwrap();
    assert_eq!(find(&store, "broken"), None);
    let bytes = fs::read(file("short")).unwrap();
    fs::write(file("short"), &bytes[..bytes.len() - 1]).unwrap();
    assert_eq!(find(&store, "short"), None);
    assert_eq!(store.counts.failures.load(Ordering::Relaxed), 2);
    // Files of other programs are left alone; our broken ones are removed.
    let foreign = folder.0.join("a/bc/0000000000000000000000000000bca0");
    fs::create_dir_all(foreign.parent().unwrap()).unwrap();
    fs::write(&foreign, b"\x05\0\0\0\0\0\0\0 nginx").unwrap();
    put(&store, "broken", b"again");
    let bytes = fs::read(file("broken")).unwrap();
    fs::write(file("broken"), &bytes[..100]).unwrap();
    let broken = file("broken");
    drop(store);
    folder.open();
    assert!(foreign.is_file() && !broken.exists());
}

#[test]
fn a_store_keeps_to_its_room() {
    let paced = Pace {
        files: 2,
        threshold: Duration::from_millis(200),
        sleep: Duration::from_millis(1),
    };
    for manager in [None, Some(paced)] {
        let folder = Folder::new("room");
        keeps_to_its_room(&folder.open_with(&Settings {
            bytes_max: 3 * DISK,
            manager,
            ..folder.settings()
        }));
    }
}

fn keeps_to_its_room(store: &Arc<Store>) {
    for number in 0..20 {
        put(store, &format!("key {number}"), b"x");
    }
    eventually(|| store.fullness().bytes <= 3 * DISK);
    assert_eq!(store.fullness().entries, 3);
    assert!(find(store, "key 19").is_some() && find(store, "key 0").is_none());
    // A response larger than the whole cache is rejected at the start, or given up while it is written.
    let head = head("x");
    let large = store.begin(b"l", b"", &Fields::new(), (&head, times()), Some(4 * DISK));
    assert!(large.is_none());
    let mut fill = begin(store, "l", b"", &Fields::new()).unwrap();
    fill.write(&vec![0; 4 * DISK as usize]);
    assert!(!fill.is_going_on());
    fill.finish();
    assert_eq!(find(store, "l"), None);
}

const DISK: u64 = crate::limits::DISK_BLOCK_BYTES;

#[test]
fn an_index_keeps_to_its_memory() {
    let folder = Folder::new("index");
    let settings = Settings {
        index_bytes: 10 * (NODE_BYTES + 8),
        ..folder.settings()
    };
    let store = folder.open_with(&settings);
    for number in 0..100 {
        put(&store, &format!("key {number:04}"), b"x");
    }
    assert_eq!(store.fullness().entries, 10);
    for number in 0..100 {
        let key = format!("other {number}");
        let (place, _) = store.find(
            &Opened::default(),
            key.as_bytes(),
            &Fields::new(),
            (unix_now(), Moment::START),
        );
        assert_eq!(store.count_use(&place, unix_now()), 1);
    }
    assert!(store.fullness().index_bytes <= settings.index_bytes);
    let files = || {
        let mut count = 0;
        let mut folders = vec![folder.0.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                match entry.path().is_dir() {
                    true => folders.push(entry.path()),
                    false => count += 1,
                }
            }
        }
        count
    };
    eventually(|| files() == 0);
}

#[test]
fn what_nobody_asks_for_goes() {
    let folder = Folder::new("inactive");
    let settings = Settings {
        inactive: Duration::from_secs(1),
        ..folder.settings()
    };
    let store = folder.open_with(&settings);
    put(&store, "a", b"x");
    eventually(|| store.fullness().entries == 0);
    assert!(!store.file(Digest::of(&[b"a"])).exists());
}

#[test]
fn free_room_is_kept_where_it_is_asked_for() {
    let folder = Folder::new("free");
    let settings = Settings {
        free_min: u64::MAX,
        ..folder.settings()
    };
    let store = folder.open_with(&settings);
    put(&store, "a", b"x");
    eventually(|| store.fullness().entries == 0);
}

#[test]
fn a_validation_changes_the_beginning_of_the_file() {
    let folder = Folder::new("renew");
    let store = folder.open();
    let opened = Opened::default();
    put(&store, "a", b"content");
    let before = find_at(&store, &opened, "a", 0).unwrap();
    let later = Times {
        since: unix_now() + 50,
        ..times()
    };
    store.renew(&before, head("text/other"), later);
    for store in [&store, &folder.open()] {
        let found = find_at(store, &opened, "a", 0).unwrap();
        assert_eq!(
            found.head().fields.first(FieldId::ContentType),
            Some(&b"text/other"[..])
        );
        assert_eq!(found.times(), later);
        assert_eq!(content(&found), b"content");
    }
    // The headers exceed the spare room: the file is written anew.
    let found = find_at(&store, &opened, "a", 0).unwrap();
    let long = "x".repeat(5000);
    store.renew(&found, head(&long), later);
    let found = find_at(&store, &opened, "a", 0).unwrap();
    assert_eq!(
        found.head().fields.first(FieldId::ContentType),
        Some(long.as_bytes())
    );
    // A response cached by another request in the meantime is not touched.
    put(&store, "a", b"newer");
    store.renew(&found, head("text/late"), later);
    let found = find_at(&store, &opened, "a", 0).unwrap();
    assert_eq!(content(&found), b"newer");
    assert_eq!(
        found.head().fields.first(FieldId::ContentType),
        Some(&b"text/plain"[..])
    );
    store.forget(&found);
    assert_eq!(find(&store, "a"), None);
}

#[test]
fn an_unwritable_folder_is_reported_once_and_breaks_nothing() {
    let folder = Folder::new("unwritable");
    let reports = Arc::new(AtomicUsize::new(0));
    let count = reports.clone();
    let report = Box::new(move |_: &str, _: &Path, _: &io::Error| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let store = Store::open(&folder.settings(), report).unwrap();
    // A file in place of the directory: that fails for root, too.
    let filling = folder.0.join(fill::FOLDER);
    fs::remove_dir(&filling).unwrap();
    fs::write(&filling, b"").unwrap();
    fs::set_permissions(&filling, fs::Permissions::from_mode(0o400)).unwrap();
    for _ in 0..3 {
        assert!(begin(&store, "a", b"", &Fields::new()).is_none());
    }
    assert_eq!(store.counts.failures.load(Ordering::Relaxed), 3);
    assert_eq!(reports.load(Ordering::Relaxed), 1);
}

#[test]
fn one_request_fills_and_the_others_wait() {
    let folder = Folder::new("turns");
    let store = folder.open();
    let place = Place {
        digest: Digest::of(&[b"a"]),
    };
    let second = Duration::from_secs(1);
    let at = |seconds: u64| Moment::START + Duration::from_secs(seconds);
    let mut cx = Context::from_waker(Waker::noop());
    let Turn::Lead(lead) = store.turn(&place, second, at(5)) else {
        panic!("it is the first")
    };
    let wait = |now: u64| match store.turn(&place, second, at(now)) {
        Turn::Wait(wait) => wait,
        Turn::Lead(_) | Turn::Full => panic!("another one is at it"),
    };
    let (mut one, mut other) = (wait(5), wait(5));
    assert!(one.poll(&mut cx).is_pending() && other.poll(&mut cx).is_pending());
    drop(lead);
    assert_eq!(one.poll(&mut cx), Poll::Ready(Outcome::Look));
    let Turn::Lead(lead) = store.turn(&place, second, at(5)) else {
        panic!("nobody is at it")
    };
    let mut third = wait(5);
    assert!(third.poll(&mut cx).is_pending());
    // After a second one more request may try; the first to finish ends the waiting.
    let Turn::Lead(late) = store.turn(&place, second, at(6)) else {
        panic!("it took too long")
    };
    late.pass();
    assert_eq!(third.poll(&mut cx), Poll::Ready(Outcome::Pass));
    drop(lead);
    assert!(matches!(store.turn(&place, second, at(6)), Turn::Lead(_)));
}

#[test]
fn a_folder_has_one_store_whatever_the_configurations() {
    let folder = Folder::new("stores");
    let stores = Stores::default();
    let settings = folder.settings();
    let open = |settings: &Settings| stores.open(settings, Box::new(|_, _, _| {})).unwrap();
    let one = open(&settings).unwrap();
    let wider = Settings {
        bytes_max: 77,
        ..settings.clone()
    };
    assert!(Arc::ptr_eq(&one, &open(&wider).unwrap()));
    assert_eq!(lock(&one.bounds).bytes_max, 77);
    let other = Settings {
        levels: vec![2],
        ..settings
    };
    assert!(open(&other).is_none());
    drop(one);
    assert!(open(&other).is_some());
    assert_eq!(stores.all().len(), 0);
}

#[test]
fn a_response_that_was_requested_before_a_purge_is_not_cached() {
    let folder = Folder::new("purged-while-filling");
    let store = folder.open();
    let requested = |key| {
        let mut fill = begin(&store, key, b"", &Fields::new()).unwrap();
        fill.write(b"old");
        fill
    };
    let (alone, by_beginning, other) = (requested("/a"), requested("/b/c"), requested("/d"));
    assert_eq!(store.purge(b"/a"), 0);
    assert_eq!(store.purge_beginning(b"/b/"), 0);
    put(&store, "/a", b"new");
    [alone, by_beginning, other]
        .into_iter()
        .for_each(Fill::finish);
    assert_eq!(find(&store, "/a").unwrap(), b"new");
    assert_eq!(find(&store, "/b/c"), None);
    assert_eq!(find(&store, "/d").unwrap(), b"old");
    let left = fs::read_dir(folder.0.join(fill::FOLDER)).unwrap().count();
    assert_eq!(left, 0);
    assert!(lock(&store.filling).is_empty());
    drop(store);
    assert_eq!(find(&folder.open(), "/b/c"), None);
}

#[test]
fn a_purge_removes_variants_that_a_later_response_has_hidden() {
    let folder = Folder::new("hidden-variants");
    let store = folder.open();
    let vary = |accept: &str, content: &[u8]| {
        let mut fill = begin(&store, "/a", b"accept,", &request(accept)).unwrap();
        fill.write(content);
        fill.finish();
    };
    let found = |accept: &str| {
        let now = (unix_now(), Moment::START);
        let found = store.find(&Opened::default(), b"/a", &request(accept), now);
        match found.1 {
            Found::Stored(stored) => Some(content(&stored)),
            Found::Failed(_) | Found::Nothing => None,
        }
    };
    vary("text", b"old text");
    vary("image", b"old image");
    put(&store, "/a", b"for all");
    assert_eq!(found("text").unwrap(), b"for all");
    assert_eq!(store.purge(b"/a"), 3);
    vary("image", b"new image");
    assert_eq!(found("image").unwrap(), b"new image");
    assert_eq!(found("text"), None);
    assert_eq!(store.purge(b"/a"), 1);
}

#[test]
fn responses_are_purged_by_surrogate_keys() {
    let folder = Folder::new("surrogate-keys");
    let store = folder.open();
    let tagged = |tags: &str| {
        let mut head = head("text/plain");
        let name = b"Surrogate-Key";
        head.fields
            .push_raw(FieldId::of(name), name, tags.as_bytes());
        head
    };
    let requested = |key: &[u8], tags: &str| {
        let mut fill = store
            .begin(key, b"", &Fields::new(), (&tagged(tags), times()), None)
            .unwrap();
        fill.write(b"old");
        fill
    };
    for (key, tags) in [
        ("/a", "news home"),
        ("/b", "news"),
        ("/c", "home"),
        ("/d", ""),
    ] {
        requested(key.as_bytes(), tags).finish();
    }
    let late = requested(b"/e", "news");
    assert_eq!(store.purge_tagged(b"news, none"), 2);
    late.finish();
    let is_there = |store: &Arc<Store>, key: &str| find(store, key).is_some();
    for (key, expected) in [
        ("/a", false),
        ("/b", false),
        ("/c", true),
        ("/d", true),
        ("/e", false),
    ] {
        assert_eq!(is_there(&store, key), expected, "{key}");
    }
    // A validation may change them.
    let opened = Opened::default();
    let found = find_at(&store, &opened, "/d", 0).unwrap();
    store.renew(&found, tagged("shop"), times());
    assert_eq!(store.purge_tagged(b"shop"), 1);
    drop(found);
    drop(store);
    // The index has those of earlier runs.
    let store = folder.open();
    assert!(is_there(&store, "/c"));
    assert_eq!(store.purge_tagged(b"other"), 0);
    assert_eq!(store.purge_tagged(b"home"), 1);
    assert!(!is_there(&store, "/c"));
}

#[test]
fn a_purge_also_removes_what_is_not_loaded_yet() {
    let folder = Folder::new("purged-while-loading");
    let store = folder.open();
    for key in ["/a", "/b", "/c"] {
        put(&store, key, b"old");
    }
    drop(store);
    let mut settings = folder.settings();
    // The loader rests after the first file.
    settings.loader.files = 1;
    settings.loader.sleep = Duration::from_secs(3600);
    let store = Store::open(&settings, Box::new(|_, _, _| {})).unwrap();
    assert!(store.is_loading());
    assert_eq!(find(&store, "/a").unwrap(), b"old");
    store.purge_beginning(b"/");
    for key in ["/a", "/b", "/c"] {
        assert_eq!(find(&store, key), None, "{key}");
    }
    put(&store, "/b", b"new");
    assert_eq!(find(&store, "/b").unwrap(), b"new");
}
