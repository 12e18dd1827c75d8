//! Test requests and seeded randomness. The tests state their expectations.
#![allow(dead_code, clippy::unwrap_used)]

use sluice_message::{ConnInfo, FieldId, Method, Remote, RequestHead};
use sluice_route::{Found, Input, Key, RequestValues, Scratch, Values};

/// A request and what matching it leaves behind.
pub struct Request {
    /// The head.
    pub head: RequestHead,
    /// The connection.
    pub conn: ConnInfo,
    /// Variables.
    pub vars: Vec<(String, String)>,
    /// The memory of matching.
    pub scratch: Scratch,
}

/// A GET request for `target` of `host`.
pub fn get(host: &str, target: &str) -> Request {
    let mut head = RequestHead {
        target: target.into(),
        ..RequestHead::default()
    };
    head.uri.set(target.as_bytes());
    head.set_authority(host.as_bytes());
    let conn = ConnInfo {
        remote: Remote::Ip("192.0.2.7:40000".parse().unwrap()),
        local: Some("192.0.2.1:80".parse().unwrap()).into(),
        tls: None,
        facts: Default::default(),
    };
    Request {
        head,
        conn,
        vars: Vec::new(),
        scratch: Scratch::new(),
    }
}

impl Request {
    /// The same with another field line.
    pub fn field(mut self, name: &str, value: &str) -> Request {
        self.head.fields.push_raw(
            FieldId::of(name.as_bytes()),
            name.as_bytes(),
            value.as_bytes(),
        );
        self
    }

    /// The same with another method.
    pub fn method(mut self, method: &str) -> Request {
        self.head.method = Method::from_token(method.as_bytes()).unwrap();
        self
    }

    /// The same with a variable.
    pub fn var(mut self, name: &str, value: &str) -> Request {
        self.vars.push((name.into(), value.into()));
        self
    }

    /// Runs `f` with what matchers look at.
    pub fn with<T>(&self, f: impl FnOnce(&Input<'_>) -> T) -> T {
        let values = AllValues {
            request: RequestValues {
                head: &self.head,
                conn: &self.conn,
                client_ip: None,
                original_method: None,
                scratch: &self.scratch,
            },
            vars: &self.vars,
        };
        f(&Input {
            head: &self.head,
            conn: &self.conn,
            client_ip: None,
            values: &values,
            scratch: &self.scratch,
        })
    }
}

struct AllValues<'a> {
    request: RequestValues<'a>,
    vars: &'a [(String, String)],
}

impl Values for AllValues<'_> {
    fn value(&self, key: &Key, out: &mut Vec<u8>) -> Found {
        if self.request.value(key, out) == Found::Known {
            return Found::Known;
        }
        match key {
            Key::Env(_) => out.extend_from_slice(b"SECRET"),
            Key::Var(name) => {
                let var = self.vars.iter().find(|(var, _)| **var == **name);
                out.extend_from_slice(var.map_or(b"", |(_, value)| value.as_bytes()));
            }
            _ => return Found::Unknown,
        }
        Found::Known
    }
}

/// A seeded source of random numbers (SplitMix64).
pub struct Random(pub u64);

impl Random {
    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    /// One of `choices`.
    pub fn one_of<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }

    /// Up to `count` of `choices`, one after another.
    pub fn text(&mut self, choices: &[&str], count: usize) -> String {
        (0..self.below(count + 1))
            .map(|_| self.one_of(choices))
            .collect()
    }
}
