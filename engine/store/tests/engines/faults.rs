//! What a store does while its engine is slow, silent, or loses connections in the middle of a write.

use std::time::{Duration, Instant};

use sluice_store::{Fault, Guard, Key, Reach, Store, Value, Watch, Write};

use crate::servers::proxy::Proxy;
use crate::wait::{TIMEOUT, eventually, until};

/// How slow the engine is.
const SLOW: Duration = Duration::from_millis(500);

/// Opens a store at a port, with a time limit.
pub type Open<'a> = &'a dyn Fn(u16, Duration) -> Box<dyn Store>;

/// A time limit that only a fault exceeds.
const LONG: Duration = Duration::from_secs(20);

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

/// Checks a store through a proxy. `direct` is another on the same engine.
pub fn check(engine: &str, port: u16, direct: &dyn Store, open: Open<'_>) {
    let proxy = Proxy::new(port);
    a_slow_engine_is_waited_for(engine, &proxy, open);
    a_silent_engine_is_given_up(engine, &proxy, open);
    a_watch_that_was_cut_off_misses_nothing(engine, &proxy, direct, open);
    a_holder_that_was_cut_off_is_refused(engine, &proxy, direct, open);
    nothing_is_torn_by_a_cut(engine, &proxy, direct, open);
}

fn a_slow_engine_is_waited_for(engine: &str, proxy: &Proxy, open: Open<'_>) {
    proxy.delay(SLOW);
    let store = open(proxy.port, LONG);
    let name = key("slow/one");
    let began = Instant::now();
    store
        .save(&[Write::Put(&name, b"1")], Guard::Always)
        .unwrap();
    let first = began.elapsed();
    let began = Instant::now();
    store
        .save(&[Write::Put(&name, b"2")], Guard::Always)
        .unwrap();
    let second = began.elapsed();
    let began = Instant::now();
    assert_eq!(
        store.load(&[&name]).unwrap()[0].as_ref().unwrap().bytes,
        b"2"
    );
    println!(
        "{engine}: {SLOW:?} slower, the first write takes {first:?}, a write {second:?}, a read {:?}",
        began.elapsed()
    );
    let lease = store.lease("slow", Duration::ZERO).unwrap();
    let guard = Guard::Held(lease.fence());
    store.save(&[Write::Delete(&name)], guard).unwrap();
    drop(lease);
    proxy.delay(Duration::ZERO);
}

fn a_silent_engine_is_given_up(engine: &str, proxy: &Proxy, open: Open<'_>) {
    let store = open(proxy.port, Duration::from_millis(500));
    let name = key("silent/one");
    store
        .save(&[Write::Put(&name, b"1")], Guard::Always)
        .unwrap();
    proxy.silence(true);
    let began = Instant::now();
    let write = store.save(&[Write::Put(&name, b"2")], Guard::Always);
    assert_eq!(write.unwrap_err().fault, Fault::Away);
    let read = store.load(&[&name]).unwrap_err();
    assert_eq!(read.fault, Fault::Away);
    assert!(read.to_string().contains("does not respond"), "{read}");
    // So is a new connection, which is taken and gets no response.
    let new = open(proxy.port, Duration::from_millis(500));
    let read = new.load(&[&name]).unwrap_err();
    assert_eq!(read.fault, Fault::Away);
    let watch = new.watch(&name).err();
    assert_eq!(watch.map(|error| error.fault), Some(Fault::Away));
    println!(
        "{engine}: two reads, a write and a watch were given up in {:?}",
        began.elapsed()
    );
    proxy.silence(false);
    // The next call does not meet the connection of those.
    store
        .save(&[Write::Put(&name, b"3")], Guard::Always)
        .unwrap();
    assert!(store.statistics().failures >= 2);
}

/// A watch continues on another connection, or reports that it has ended; then a new one and a read find the change.
fn a_watch_that_was_cut_off_misses_nothing(
    engine: &str,
    proxy: &Proxy,
    direct: &dyn Store,
    open: Open<'_>,
) {
    let store = open(proxy.port, LONG);
    let name = key("watched/one");
    let (mut continued, mut ended) = (0, 0);
    for bytes in [0, 1, 100] {
        let mut watch = store.watch(&key("watched")).unwrap();
        let text = format!("after {bytes}");
        proxy.cut_after(None, Some(bytes));
        direct
            .save(&[Write::Put(&name, text.as_bytes())], Guard::Always)
            .unwrap();
        let found = match watch.next(LONG) {
            Ok(changes) => {
                continued += 1;
                let last = changes.last().expect("the change arrives");
                last.value.clone()
            }
            Err(error) => {
                assert_eq!(error.fault, Fault::Away, "{error}");
                ended += 1;
                watch = store.watch(&key("watched")).unwrap();
                store.load(&[&name]).unwrap().remove(0)
            }
        };
        assert_eq!(found.unwrap().bytes, text.as_bytes());
        proxy.cut_after(None, None);
        // Later changes arrive whatever happened before.
        direct.save(&[Write::Delete(&name)], Guard::Always).unwrap();
        let gone = watch.next(LONG).unwrap();
        assert_eq!(gone.last().unwrap().value, None);
    }
    println!(
        "{engine}: of three watches that were cut, {continued} continued, {ended} reported it"
    );
}

/// The holder of a short lease does not reach the engine for longer than that, and writes when it does again.
fn a_holder_that_was_cut_off_is_refused(
    engine: &str,
    proxy: &Proxy,
    direct: &dyn Store,
    open: Open<'_>,
) {
    let store = open(proxy.port, Duration::from_millis(500));
    let name = key("partition/one");
    let held = store.lease("partition", Duration::ZERO).unwrap();
    proxy.silence(true);
    let began = Instant::now();
    let took = direct.lease("partition", LONG).unwrap();
    println!(
        "{engine}: the lease of a holder without a connection passed on after {:?}",
        began.elapsed()
    );
    let write = [Write::Put(&name, b"new")];
    direct.save(&write, Guard::Held(took.fence())).unwrap();
    proxy.silence(false);
    eventually("the loss", || held.is_lost(), String::new);
    let late = store.save(&[Write::Put(&name, b"late")], Guard::Held(held.fence()));
    assert_eq!(late.unwrap_err().fault, Fault::Refused);
    assert_eq!(
        direct.load(&[&name]).unwrap()[0].as_ref().unwrap().bytes,
        b"new"
    );
    // Its end does not end the lease of the other.
    drop(held);
    direct.save(&write, Guard::Held(took.fence())).unwrap();
}

/// A time limit of calls that a busy machine keeps, for tests that wait until it is over.
pub const PATIENT: Duration = Duration::from_secs(2);

/// How often a watch is probed in the tests of dead connections.
pub const PROBE: Duration = Duration::from_millis(300);

/// Checks a store whose connections die without a sign, through a proxy. Its watches are probed after every [`PROBE`].
pub fn check_dead_connections(engine: &str, port: u16, direct: &dyn Store, open: Open<'_>) {
    let proxy = Proxy::new(port);
    a_watch_on_a_dead_connection_misses_nothing(engine, &proxy, direct, open);
    dead_idle_connections_cost_one_call(engine, &proxy, open);
}

/// Waits until a change below `prefix` arrives, or until the watch reports its end; then a new one is begun, and what it
/// has missed is read. Returns the value of `name`.
fn found_after_all(
    store: &dyn Store,
    watch: &mut Box<dyn Watch>,
    name: &Key,
) -> (Option<Value>, &'static str) {
    let error = match watch.next(TIMEOUT) {
        Ok(changes) => {
            let last = changes.last().expect("a dead connection is noticed");
            return (last.value.clone(), "went on");
        }
        Err(error) => error,
    };
    assert_eq!(error.fault, Fault::Away, "{error}");
    let again = || store.watch(&key("dead")).ok();
    *watch = until(TIMEOUT, "another watch", again, || error.to_string());
    let listed = || store.list_latest(&key("dead"), Reach::All).ok();
    let listed = until(TIMEOUT, "a list", listed, String::new);
    assert_eq!(listed.len(), 1, "{listed:?}");
    let read = || store.load_latest(&[name]).ok();
    let mut read = until(TIMEOUT, "a value", read, String::new);
    (read.remove(0), "reported it")
}

fn a_watch_on_a_dead_connection_misses_nothing(
    engine: &str,
    proxy: &Proxy,
    direct: &dyn Store,
    open: Open<'_>,
) {
    let store = open(proxy.port, PATIENT);
    let name = key("dead/one");
    let mut watch = store.watch(&key("dead")).unwrap();
    // Once before anything was announced on the connection, and once after that.
    for text in ["1", "2"] {
        proxy.lose_connections();
        let began = Instant::now();
        direct
            .save(&[Write::Put(&name, text.as_bytes())], Guard::Always)
            .unwrap();
        let (found, how) = found_after_all(&*store, &mut watch, &name);
        assert_eq!(found.unwrap().bytes, text.as_bytes());
        println!(
            "{engine}: a watch on a dead connection {how} after {:?}",
            began.elapsed()
        );
        // Later changes arrive at once.
        let noise = format!("{text} again");
        direct
            .save(&[Write::Put(&name, noise.as_bytes())], Guard::Always)
            .unwrap();
        let seen = until(
            TIMEOUT,
            "the next change",
            || watch.next(TIMEOUT).unwrap().pop(),
            String::new,
        );
        assert_eq!(seen.value.unwrap().bytes, noise.as_bytes());
    }
}

/// Connections that were idle while the link died are not tried one after the other.
fn dead_idle_connections_cost_one_call(engine: &str, proxy: &Proxy, open: Open<'_>) {
    const CALLERS: usize = 3;
    let store = open(proxy.port, PATIENT);
    let name = key("dead/idle");
    // As many connections as there are callers at once: each waits a moment for its response.
    proxy.delay(Duration::from_millis(50));
    let all_at_once = std::sync::Barrier::new(CALLERS);
    std::thread::scope(|scope| {
        for _ in 0..CALLERS {
            scope.spawn(|| {
                store.load_latest(&[&name]).unwrap();
                all_at_once.wait();
                store.load_latest(&[&name]).unwrap();
            });
        }
    });
    proxy.delay(Duration::ZERO);
    proxy.lose_connections();
    let mut failed = 0;
    while let Err(error) = store.load_latest(&[&name]) {
        assert_eq!(error.fault, Fault::Away, "{error}");
        failed += 1;
    }
    println!("{engine}: {failed} calls failed after all connections had died");
    assert_eq!(failed, 1, "{engine}");
}

/// Writes a certificate and its key of one generation, on condition that nobody else has written, while connections
/// are cut. Returns how many writes failed.
pub fn nothing_is_torn_by_a_cut(
    engine: &str,
    proxy: &Proxy,
    direct: &dyn Store,
    open: Open<'_>,
) -> u32 {
    let (crt, private) = (key("cut/x.crt"), key("cut/x.key"));
    let present = || -> Vec<Option<Value>> { direct.load(&[&crt, &private]).unwrap() };
    let write = |store: &dyn Store, generation: u32, guard: Guard<'_>| {
        let text = generation.to_string();
        let writes = [
            Write::Put(&crt, text.as_bytes()),
            Write::Put(&private, text.as_bytes()),
        ];
        store.save(&writes, guard)
    };
    let mut generation = 0;
    write(direct, generation, Guard::Always).unwrap();
    let (mut kept, mut unknown, mut cuts) = (0, 0, 0);
    // In turn: the request is cut, ever later, and the response, until neither is as long.
    let mut passed = [false; 2];
    for step in 0_u32.. {
        let bytes = i64::from(step / 2) * 24;
        proxy.cut_after(None, None);
        let store = open(proxy.port, LONG);
        // An open connection, as in a server that has been running.
        store.load(&[&crt]).unwrap();
        match step % 2 {
            0 => proxy.cut_after(Some(bytes), None),
            _ => proxy.cut_after(None, Some(bytes)),
        }
        let before = present().remove(0).unwrap();
        generation += 1;
        let written = write(
            &*store,
            generation,
            Guard::Unchanged(&crt, Some(&before.version)),
        );
        let after = present();
        let texts: Vec<String> = after
            .into_iter()
            .map(|value| String::from_utf8(value.unwrap().bytes).unwrap())
            .collect();
        assert_eq!(texts[0], texts[1], "{engine}: torn at {step}");
        let is_new = texts[0] == generation.to_string();
        match written {
            Ok(()) => assert!(is_new, "{engine}: lost at {step}"),
            // Nobody else writes.
            Err(error) => {
                assert_eq!(error.fault, Fault::Away, "{engine} at {step}: {error}");
                unknown += u32::from(is_new);
                kept += u32::from(!is_new);
            }
        }
        let has_cut = proxy.has_cut();
        cuts += u32::from(has_cut);
        passed[step as usize % 2] = !has_cut;
        if passed == [true; 2] {
            break;
        }
    }
    println!(
        "{engine}: cut {cuts} times in a write: {kept} reported as not made, {unknown} made without a report"
    );
    assert!(cuts > 10, "{engine}: {cuts}");
    kept + unknown
}
