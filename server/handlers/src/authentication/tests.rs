use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc as StdArc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use sluice_message::{ConnInfo, Remote};
use sluice_model::handler::Account;
use sluice_net::Worker;

use super::*;

/// `pw`, created with `caddy hash-password --bcrypt-cost 4`.
pub(super) const BCRYPT_PW: &str = "$2a$04$ZIeeTt6DRkM.doP6dq0fueBjR8z0GfGk6k5DSrkEuZsIBQ7i4saqy";

fn argon2_of(password: &str) -> String {
    use argon2::password_hash::SaltString;
    use argon2::{Algorithm, Argon2, Params, PasswordHasher, Version};
    let params = Params::new(64, 1, 1, None).unwrap();
    let salt = SaltString::encode_b64(b"0123456789abcdef").unwrap();
    let hasher = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    hasher
        .hash_password(password.as_bytes(), &salt)
        .unwrap()
        .to_string()
}

fn config(accounts: &[(&str, &str)]) -> HttpBasic {
    let account = |(name, hash): &(&str, &str)| Account {
        username: (*name).into(),
        password: (*hash).into(),
    };
    HttpBasic {
        accounts: accounts.iter().map(account).collect(),
        hash_cache: Some(Default::default()),
        ..HttpBasic::default()
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: StdArc<Self>) {
        self.0.unpark();
    }
}

fn wait(handler: &Authentication, exchange: &mut Exchange) -> Step {
    let waker = Waker::from(StdArc::new(Unpark(thread::current())));
    let mut future = pin!(handler.wait(exchange));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(step) => return step,
            Poll::Pending => thread::park(),
        }
    }
}

fn new_exchange(worker: &Rc<Worker>, authorization: Option<&str>) -> Exchange {
    let conn = ConnInfo {
        remote: Remote::Unix,
        local: None.into(),
        tls: None,
        facts: Default::default(),
    };
    let mut exchange = Exchange::new(Rc::new(conn), worker.clone());
    if let Some(value) = authorization {
        exchange
            .req
            .fields
            .push(FieldId::Authorization, value.as_bytes());
    }
    exchange
}

fn basic(credentials: &str) -> String {
    format!("Basic {}", STANDARD.encode(credentials))
}

/// The authenticated user, if any, and whether the result had to be awaited.
fn ask(
    handler: &Authentication,
    worker: &Rc<Worker>,
    field: Option<&str>,
) -> (Option<String>, bool) {
    let mut exchange = new_exchange(worker, field);
    let step = handler.serve(&mut exchange);
    let awaited = matches!(step, Step::Later);
    let step = if awaited {
        wait(handler, &mut exchange)
    } else {
        step
    };
    match step {
        Step::Next => (exchange.context.log.user.take(), awaited),
        Step::Fail(fault) => {
            assert_eq!(fault.status, Status::UNAUTHORIZED);
            assert!(exchange.res.fields.has(FieldId::WwwAuthenticate));
            (None, awaited)
        }
        Step::Done(_) | Step::Enter(_) | Step::Later => panic!("neither let in nor refused"),
    }
}

#[test]
fn the_right_password_lets_in_and_is_remembered() {
    let argon2 = argon2_of("secret");
    let handler =
        Authentication::build(&config(&[("bob", BCRYPT_PW), ("eve", argon2.as_str())])).unwrap();
    let worker = Rc::new(Worker::default());
    for (credentials, name) in [("bob:pw", "bob"), ("eve:secret", "eve")] {
        let field = basic(credentials);
        assert_eq!(
            ask(&handler, &worker, Some(&field)),
            (Some(name.into()), true)
        );
        assert_eq!(
            ask(&handler, &worker, Some(&field)),
            (Some(name.into()), false)
        );
        let lower = field.replace("Basic", "basic");
        assert_eq!(ask(&handler, &worker, Some(&lower)).0, Some(name.into()));
    }
}

#[test]
fn wrong_passwords_and_unknown_names_are_both_checked_and_refused() {
    let handler = Authentication::build(&config(&[("bob", BCRYPT_PW)])).unwrap();
    let worker = Rc::new(Worker::default());
    // The password of the decoy hash does not authenticate an unknown user.
    for credentials in ["bob:wrong", "eve:pw", "bob:", ":pw", "Bob:pw"] {
        for _ in 0..2 {
            let asked = ask(&handler, &worker, Some(&basic(credentials)));
            assert_eq!(asked, (None, true), "{credentials}");
        }
    }
}

#[test]
fn malformed_fields_are_refused_at_once() {
    let handler = Authentication::build(&config(&[("bob", BCRYPT_PW)])).unwrap();
    let worker = Rc::new(Worker::default());
    let long = basic(&"x".repeat(5000));
    for field in [
        "",
        "Basic",
        "Basic !!!",
        "Bearer Ym9iOnB3",
        &basic("bob"),
        &long,
    ] {
        assert_eq!(
            ask(&handler, &worker, Some(field)),
            (None, false),
            "{field}"
        );
    }
    assert_eq!(ask(&handler, &worker, None), (None, false));
}

#[test]
fn nothing_is_remembered_where_the_configuration_does_not_ask_for_it() {
    let without = HttpBasic {
        hash_cache: None,
        ..config(&[("bob", BCRYPT_PW)])
    };
    let handler = Authentication::build(&without).unwrap();
    let worker = Rc::new(Worker::default());
    for _ in 0..2 {
        assert_eq!(
            ask(&handler, &worker, Some(&basic("bob:pw"))),
            (Some("bob".into()), true)
        );
    }
}

#[test]
fn realms_are_quoted() {
    assert_eq!(challenge("a \"b\" \\"), br#"Basic realm="a \"b\" \\""#);
    assert_eq!(challenge("a\r\nb"), b"Basic realm=\"a  b\"");
}

#[test]
fn accounts_that_cannot_work_are_refused() {
    for accounts in [
        &[][..],
        &[("", BCRYPT_PW)],
        &[("bob", "")],
        &[("bob", "plain")],
        &[("bob", "$2a$04$tooshort")],
        &[("bob", "$argon2id$v=19$m=64,t=1,p=1$c2FsdA")],
        &[("bob", BCRYPT_PW), ("bob", BCRYPT_PW)],
    ] {
        assert!(
            Authentication::build(&config(accounts)).is_err(),
            "{accounts:?}"
        );
    }
    let old = STANDARD.encode(BCRYPT_PW);
    assert!(Authentication::build(&config(&[("bob", &old)])).is_ok());
}

#[test]
fn a_full_queue_sends_clients_away() {
    // Slow enough to fill the queue before the threads can empty it.
    let hash = StdArc::new(
        Hash::parse(&bcrypt::hash_with_salt("x", 6, [1; 16]).unwrap().to_string()).unwrap(),
    );
    // Not the one that the other tests use.
    let queue = password::Queue::start().unwrap();
    let mut checks = Vec::new();
    let refused = (0..500).find_map(|_| match queue.check(hash.clone(), b"x".to_vec()) {
        Ok(check) => {
            checks.push(check);
            None
        }
        Err(Busy) => Some(()),
    });
    assert!(refused.is_some());
    // All accepted verifications complete.
    let waker = Waker::from(StdArc::new(Unpark(thread::current())));
    for check in checks {
        let mut check = pin!(check);
        while check.as_mut().poll(&mut Context::from_waker(&waker)) != Poll::Ready(true) {
            thread::park();
        }
    }
}
