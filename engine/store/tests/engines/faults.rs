//! What a store does while its engine is slow, silent, or loses connections in the middle of a write.

use std::time::{Duration, Instant};

use sluice_store::{Fault, Guard, Key, Store, Value, Write};

use crate::servers::proxy::Proxy;
use crate::wait::eventually;

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
