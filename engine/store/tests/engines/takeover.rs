//! The end of a lease whose holder has died: a child process of the test, killed while it holds it.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sluice_store::{Fault, Fence, Guard, Key, Store, Write};

/// The variable that makes this program the holder of a lease: an engine, and where it is.
pub const HOLDER: &str = "SLUICE_TEST_HOLDER";

/// The lease that the child takes.
const NAME: &str = "order dying.test";

/// Starts a child that takes a lease with the store of `a`, kills it, and checks that `b` gets the lease, and that
/// the dead holder could not write any more.
pub fn check(engine: &str, place: &str, b: &dyn Store, ttl: Duration) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["takeover::holder", "--exact", "--nocapture"])
        .env(HOLDER, format!("{engine} {place}"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let held = lines
        .map_while(Result::ok)
        .find_map(|line| Some(line.split_once("held ")?.1.to_owned()));
    let token = held.expect("the child takes the lease");
    let refused = b.lease(NAME, Duration::ZERO).unwrap_err();
    assert_eq!(refused.fault, Fault::Held);
    child.kill().unwrap();
    let began = Instant::now();
    child.wait().unwrap();
    let took = b.lease(NAME, crate::wait::TIMEOUT).unwrap();
    println!(
        "{engine}: a lease of {ttl:?} passed on {:?} after its holder was killed",
        began.elapsed()
    );
    let key = Key::new("takeover/written").unwrap();
    let stale = Fence {
        name: NAME.to_owned(),
        token,
    };
    let late = b.save(&[Write::Put(&key, b"late")], Guard::Held(&stale));
    assert_eq!(late.unwrap_err().fault, Fault::Refused);
    b.save(&[Write::Put(&key, b"new")], Guard::Held(took.fence()))
        .unwrap();
}

/// The child: takes the lease, says so, and holds it until it is killed.
#[test]
fn holder() {
    let Some(place) = std::env::var_os(HOLDER) else {
        return;
    };
    let place = place.into_string().unwrap();
    let (engine, place) = place.split_once(' ').unwrap();
    let store = crate::servers::open(engine, place);
    let lease = store.lease(NAME, Duration::ZERO).unwrap();
    println!("held {}", lease.fence().token);
    loop {
        std::thread::park();
    }
}
