//! A TCP proxy between a store and its engine, which delays, stops or cuts connections.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Bytes in one direction are not limited.
const UNLIMITED: i64 = i64::MAX;

pub struct Proxy {
    pub port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    engine: u16,
    delay: Mutex<Duration>,
    /// How many bytes may still pass in each direction before connections are cut.
    requests: AtomicI64,
    responses: AtomicI64,
    is_silent: Mutex<bool>,
    silence_ended: Condvar,
    /// How often connections were lost.
    losses: AtomicU64,
}

impl Proxy {
    /// A proxy for the engine on this port of the loopback address.
    pub fn new(engine: u16) -> Proxy {
        Proxy::at(Ipv4Addr::LOCALHOST, engine)
    }

    /// The same at another address of this machine.
    pub fn at(address: Ipv4Addr, engine: u16) -> Proxy {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            engine,
            delay: Mutex::new(Duration::ZERO),
            requests: AtomicI64::new(UNLIMITED),
            responses: AtomicI64::new(UNLIMITED),
            is_silent: Mutex::new(false),
            silence_ended: Condvar::new(),
            losses: AtomicU64::new(0),
        });
        let all = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                all.connect(client);
            }
        });
        Proxy { port, shared }
    }

    /// From now on responses arrive after this time.
    pub fn delay(&self, delay: Duration) {
        *self.shared.delay.lock().unwrap() = delay;
    }

    /// From now on nothing arrives in either direction, as between two parts of a network; `false` ends that, and the
    /// connections on which something was lost.
    pub fn silence(&self, is_silent: bool) {
        *self.shared.is_silent.lock().unwrap() = is_silent;
        self.shared.silence_ended.notify_all();
    }

    /// From now on nothing arrives on the present connections, for good and without a sign to either side, as after a
    /// relay on the way has forgotten them. Later ones work.
    pub fn lose_connections(&self) {
        self.shared.losses.fetch_add(1, Ordering::SeqCst);
    }

    /// Cuts the connection that exceeds one of these numbers of bytes, once; later ones are not cut.
    pub fn cut_after(&self, requests: Option<i64>, responses: Option<i64>) {
        let limit = |bytes: Option<i64>| bytes.unwrap_or(UNLIMITED);
        self.shared
            .requests
            .store(limit(requests), Ordering::SeqCst);
        self.shared
            .responses
            .store(limit(responses), Ordering::SeqCst);
    }

    /// Whether a connection was cut since the last call of `cut_after`.
    pub fn has_cut(&self) -> bool {
        let is_unlimited = |left: &AtomicI64| left.load(Ordering::SeqCst) == UNLIMITED;
        is_unlimited(&self.shared.requests) && is_unlimited(&self.shared.responses)
    }
}

impl Shared {
    fn connect(self: &Arc<Shared>, client: TcpStream) {
        let Ok(engine) = TcpStream::connect((Ipv4Addr::LOCALHOST, self.engine)) else {
            return;
        };
        let pair = (client.try_clone().unwrap(), engine.try_clone().unwrap());
        let losses = self.losses.load(Ordering::SeqCst);
        let all = Arc::clone(self);
        std::thread::spawn(move || all.copy(pair, false, losses));
        let all = Arc::clone(self);
        std::thread::spawn(move || all.copy((engine, client), true, losses));
    }

    /// Copies in one direction of a connection that was made after so many losses.
    fn copy(&self, (mut from, mut to): (TcpStream, TcpStream), is_response: bool, losses: u64) {
        let left = match is_response {
            true => &self.responses,
            false => &self.requests,
        };
        let is_lost = || self.losses.load(Ordering::SeqCst) > losses;
        let mut buf = [0; 16 * 1024];
        while let Ok(count @ 1..) = from.read(&mut buf) {
            if is_lost() {
                continue;
            }
            if is_response {
                // The delay is what is tested.
                std::thread::sleep(*self.delay.lock().unwrap());
            }
            let mut is_silent = self.is_silent.lock().unwrap();
            if *is_silent {
                while *is_silent {
                    is_silent = self.silence_ended.wait(is_silent).unwrap();
                }
                break;
            }
            drop(is_silent);
            let may_pass = left.load(Ordering::SeqCst);
            let passed = may_pass.min(count as i64).max(0) as usize;
            if to.write_all(&buf[..passed]).is_err() {
                break;
            }
            if may_pass == UNLIMITED {
                continue;
            }
            if passed < count {
                self.requests.store(UNLIMITED, Ordering::SeqCst);
                self.responses.store(UNLIMITED, Ordering::SeqCst);
                break;
            }
            left.fetch_sub(passed as i64, Ordering::SeqCst);
        }
        if is_lost() {
            return;
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }
}
