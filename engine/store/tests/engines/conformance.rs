//! The contract of `Store`, as calls on two nodes of one store. Each engine runs all of it.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use sluice_store::limits::VALUE_BYTES_MAX;
use sluice_store::{Change, Entry, Fault, Guard, Key, Reach, Store, Value, Watch, Write};

/// How long a change may take to arrive: only reached when the test fails.
const ARRIVAL: Duration = Duration::from_secs(30);

/// Checks the contract with two nodes of one empty store.
pub fn run(a: &dyn Store, b: &dyn Store) {
    values_are_shared(a, b);
    writes_are_made_together_or_not_at_all(a, b);
    a_stale_version_is_refused(a, b);
    no_swap_is_lost(a, b);
    lists_are_sorted_and_bounded_by_their_prefix(a, b);
    a_lease_has_one_holder(a, b);
    a_broken_lease_guards_no_write(a, b);
    changes_arrive_in_order(a, b);
    limits_are_kept(a);
}

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

fn load(store: &dyn Store, name: &str) -> Option<Value> {
    store.load(&[&key(name)]).unwrap().remove(0)
}

fn text(store: &dyn Store, name: &str) -> Option<String> {
    load(store, name).map(|value| String::from_utf8(value.bytes).unwrap())
}

fn put(store: &dyn Store, name: &str, text: &str) {
    let key = key(name);
    let write = [Write::Put(&key, text.as_bytes())];
    store.save(&write, Guard::Always).unwrap();
}

fn values_are_shared(a: &dyn Store, b: &dyn Store) {
    assert_eq!(text(b, "c/values/one"), None);
    put(a, "c/values/one", "1");
    assert_eq!(text(b, "c/values/one").as_deref(), Some("1"));
    put(b, "c/values/one", "");
    assert_eq!(text(a, "c/values/one").as_deref(), Some(""));
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let binary = key("c/values/binary");
    a.save(&[Write::Put(&binary, &bytes)], Guard::Always)
        .unwrap();
    assert_eq!(load(b, "c/values/binary").unwrap().bytes, bytes);
    // All keys of a call, in its order, with holes.
    let found = b.load(&[&binary, &key("c/values/none"), &key("c/values/one")]);
    let found: Vec<bool> = found.unwrap().iter().map(Option::is_some).collect();
    assert_eq!(found, [true, false, true]);
}

fn writes_are_made_together_or_not_at_all(a: &dyn Store, b: &dyn Store) {
    let (crt, private, old) = (key("c/pair/x.crt"), key("c/pair/x.key"), key("c/pair/old"));
    put(a, "c/pair/old", "old");
    let writes = [
        Write::Put(&crt, b"C"),
        Write::Put(&private, b"K"),
        Write::Delete(&old),
    ];
    let missing = Guard::Unchanged(&old, None);
    assert_eq!(a.save(&writes, missing).unwrap_err().fault, Fault::Refused);
    assert_eq!(b.load(&[&crt, &private]).unwrap(), [None, None]);
    a.save(&writes, Guard::Always).unwrap();
    assert_eq!(text(b, "c/pair/x.crt").as_deref(), Some("C"));
    assert_eq!(text(b, "c/pair/x.key").as_deref(), Some("K"));
    assert_eq!(text(b, "c/pair/old"), None);
    // What is absent can be deleted.
    b.save(&[Write::Delete(&old)], Guard::Always).unwrap();
}

fn a_stale_version_is_refused(a: &dyn Store, b: &dyn Store) {
    let name = key("c/versions/one");
    let create = Guard::Unchanged(&name, None);
    a.save(&[Write::Put(&name, b"1")], create).unwrap();
    let second = b.save(&[Write::Put(&name, b"2")], create).unwrap_err();
    assert_eq!(second.fault, Fault::Refused);
    let read = load(b, "c/versions/one").unwrap().version;
    let unchanged = Guard::Unchanged(&name, Some(&read));
    b.save(&[Write::Put(&name, b"2")], unchanged).unwrap();
    let stale = a.save(&[Write::Put(&name, b"3")], unchanged).unwrap_err();
    assert_eq!(stale.fault, Fault::Refused);
    assert_eq!(text(a, "c/versions/one").as_deref(), Some("2"));
    a.save(&[Write::Delete(&name)], Guard::Always).unwrap();
    let gone = a.save(&[Write::Put(&name, b"3")], unchanged).unwrap_err();
    assert_eq!(gone.fault, Fault::Refused);
}

/// Counts on both nodes at once: each reads a number and writes the next, unless the other was faster.
fn no_swap_is_lost(a: &dyn Store, b: &dyn Store) {
    const EACH: u32 = 20;
    put(a, "c/counter", "0");
    let name = key("c/counter");
    let count = |store: &dyn Store| {
        for _ in 0..EACH {
            loop {
                let value = load(store, "c/counter").unwrap();
                let number: u32 = String::from_utf8(value.bytes).unwrap().parse().unwrap();
                let next = (number + 1).to_string();
                let write = [Write::Put(&name, next.as_bytes())];
                match store.save(&write, Guard::Unchanged(&name, Some(&value.version))) {
                    Ok(()) => break,
                    Err(error) => assert_eq!(error.fault, Fault::Refused, "{error}"),
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| count(b));
        count(a);
        other.join().unwrap();
    });
    let counted = text(a, "c/counter");
    assert_eq!(counted, Some((2 * EACH).to_string()));
}

fn lists_are_sorted_and_bounded_by_their_prefix(a: &dyn Store, b: &dyn Store) {
    for name in ["l/b/2", "l/b/1", "l/a", "l/bc/3", "lx/4"] {
        put(a, name, name);
    }
    let names = |prefix: &str, reach| -> Vec<String> {
        let entries = b.list(&key(prefix), reach).unwrap();
        let names = entries.iter().map(|entry| match entry {
            Entry::Value { key, size, .. } => {
                assert_eq!(*size, key.as_str().len() as u64);
                key.to_string()
            }
            Entry::Folder(key) => format!("{key}/"),
        });
        names.collect()
    };
    assert_eq!(names("l", Reach::All), ["l/a", "l/b/1", "l/b/2", "l/bc/3"]);
    assert_eq!(names("l", Reach::Children), ["l/a", "l/b/", "l/bc/"]);
    assert_eq!(names("l/b", Reach::Children), ["l/b/1", "l/b/2"]);
    assert_eq!(names("l/none", Reach::All), [""; 0]);
    // A value is not below itself.
    assert_eq!(names("l/a", Reach::All), [""; 0]);
    for name in ["l/b/2", "l/b/1", "l/a", "l/bc/3", "lx/4"] {
        a.save(&[Write::Delete(&key(name))], Guard::Always).unwrap();
    }
    assert_eq!(names("l", Reach::Children), [""; 0]);
}

fn a_lease_has_one_holder(a: &dyn Store, b: &dyn Store) {
    let held = a.lease("order a.test", Duration::ZERO).unwrap();
    assert_eq!(a.leases().unwrap(), ["order a.test"]);
    let refused = b.lease("order a.test", Duration::ZERO).unwrap_err();
    assert_eq!(refused.fault, Fault::Held);
    let other = b.lease("order b.test", Duration::ZERO).unwrap();
    let name = key("c/lease/one");
    let write = [Write::Put(&name, b"a")];
    a.save(&write, Guard::Held(held.fence())).unwrap();
    drop(other);
    // The one that waits gets it once it is released.
    let took = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| b.lease("order a.test", ARRIVAL).unwrap());
        let stale = held.fence().clone();
        drop(held);
        (waiting.join().unwrap(), stale)
    });
    let (took, stale) = took;
    let late = a.save(&[Write::Put(&name, b"late")], Guard::Held(&stale));
    assert_eq!(late.unwrap_err().fault, Fault::Refused);
    b.save(&[Write::Put(&name, b"b")], Guard::Held(took.fence()))
        .unwrap();
    assert_eq!(text(a, "c/lease/one").as_deref(), Some("b"));
    drop(took);
    assert_eq!(b.leases().unwrap(), [""; 0]);
}

fn a_broken_lease_guards_no_write(a: &dyn Store, b: &dyn Store) {
    assert!(!b.break_lease("broken").unwrap());
    let held = a.lease("broken", Duration::ZERO).unwrap();
    assert!(b.break_lease("broken").unwrap());
    let name = key("c/lease/broken");
    let late = a.save(&[Write::Put(&name, b"late")], Guard::Held(held.fence()));
    assert_eq!(late.unwrap_err().fault, Fault::Refused);
    // Dropping the old one does not end the new one.
    let next = b.lease("broken", Duration::ZERO).unwrap();
    drop(held);
    let write = [Write::Put(&name, b"next")];
    b.save(&write, Guard::Held(next.fence())).unwrap();
}

fn changes_arrive_in_order(a: &dyn Store, b: &dyn Store) {
    put(a, "w/before", "0");
    let mut watch = b.watch(&key("w")).unwrap();
    let mut until = |wanted: &str, value: Option<&str>| -> Vec<Change> {
        let mut seen = Vec::new();
        loop {
            let changes = watch.next(ARRIVAL).unwrap();
            assert!(
                !changes.is_empty(),
                "{wanted} did not arrive; seen: {seen:?}"
            );
            seen.extend(changes);
            let last = |change: &Change| {
                let bytes = change.value.as_ref().map(|value| value.bytes.as_slice());
                change.key.as_str() == wanted && bytes == value.map(str::as_bytes)
            };
            if seen.last().is_some_and(last) {
                return seen;
            }
        }
    };
    put(a, "wx/other", "9");
    put(a, "w/one", "1");
    let seen = until("w/one", Some("1"));
    assert_eq!(seen.len(), 1, "{seen:?}");
    let found = load(a, "w/one");
    assert_eq!(
        seen[0].value.as_ref().map(|v| &v.version),
        found.as_ref().map(|v| &v.version)
    );
    put(a, "w/one", "2");
    a.save(&[Write::Delete(&key("w/one"))], Guard::Always)
        .unwrap();
    put(a, "w/two", "3");
    let seen = until("w/two", Some("3"));
    let gone = seen.iter().rfind(|change| change.key.as_str() == "w/one");
    assert_eq!(gone.unwrap().value, None);
    assert_eq!(quiet(&mut *b.watch(&key("w")).unwrap()), []);
}

fn quiet(watch: &mut dyn Watch) -> Vec<Change> {
    watch.next(Duration::ZERO).unwrap()
}

fn limits_are_kept(a: &dyn Store) {
    let name = key("c/limits/large");
    let large = vec![b'x'; VALUE_BYTES_MAX];
    a.save(&[Write::Put(&name, &large)], Guard::Always).unwrap();
    assert_eq!(
        load(a, "c/limits/large").unwrap().bytes.len(),
        VALUE_BYTES_MAX
    );
    let larger = vec![b'x'; VALUE_BYTES_MAX + 1];
    let refused = a.save(&[Write::Put(&name, &larger)], Guard::Always);
    assert_eq!(refused.unwrap_err().fault, Fault::Limit);
}
