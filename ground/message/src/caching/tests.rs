use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::*;
use crate::date::format_http;
use crate::status::Status;

const NOW: u64 = 1_700_000_000;

fn fields(text: &str) -> Fields {
    let mut fields = Fields::new();
    for line in text.lines() {
        let (name, value) = line.split_once(": ").unwrap();
        let id = FieldId::of(name.as_bytes());
        fields.push_raw(id, name.as_bytes(), value.as_bytes());
    }
    fields
}

fn stored(request: &str, response: &str, rules: Rules) -> Result<Lifetime, Refused> {
    let (request, response) = (fields(request), fields(response));
    may_be_stored(
        Asked { fields: &request },
        Given {
            status: Status::OK,
            fields: &response,
            at: NOW,
        },
        &rules,
    )
}

fn fresh(response: &str, rules: Rules) -> Result<u32, Refused> {
    stored("", response, rules).map(|lifetime| lifetime.fresh)
}

fn http_date(seconds: u64) -> String {
    String::from_utf8(format_http(seconds).to_vec()).unwrap()
}

#[test]
fn a_response_declares_its_freshness() {
    let none = Rules::default();
    for (response, expected) in [
        ("Cache-Control: max-age=60", Ok(60)),
        ("Cache-Control: MAX-AGE = 60", Ok(60)),
        ("Cache-Control: max-age=\"60\"", Ok(60)),
        ("Cache-Control: max-age=60, s-maxage=10", Ok(10)),
        (
            "Cache-Control: s-maxage=10\nCache-Control: max-age=60",
            Ok(10),
        ),
        ("Cache-Control: max-age=60\nAge: 20", Ok(40)),
        ("Cache-Control: max-age=60\nAge: 60", Err(Refused::Stale)),
        ("Cache-Control: max-age=60, max-age=5", Ok(5)),
        ("Cache-Control: max-age=0", Err(Refused::Stale)),
        ("Cache-Control: max-age=x", Err(Refused::Stale)),
        ("Cache-Control: max-age", Err(Refused::Stale)),
        ("Cache-Control: max-age=99999999999999999999", Ok(1 << 31)),
        ("Cache-Control: ext=\"a, no-store\", max-age=9", Ok(9)),
        ("Cache-Control: ext=\"a\\\", no-store\", max-age=9", Ok(9)),
        (
            "Cache-Control: no-cache=\"Set-Cookie\", max-age=9",
            Err(Refused::Private),
        ),
        ("Cache-Control: private, max-age=9", Err(Refused::Private)),
        ("Cache-Control: no-store, max-age=9", Err(Refused::Private)),
        ("Cache-Control: public", Err(Refused::Unknown)),
        ("Expires: 0", Err(Refused::Stale)),
        ("X-Accel-Expires: 30\nCache-Control: max-age=5", Ok(30)),
        ("X-Accel-Expires: 30\nCache-Control: private", Ok(30)),
        (
            "X-Accel-Expires: 0\nCache-Control: max-age=5",
            Err(Refused::Stale),
        ),
        ("X-Accel-Expires: off", Err(Refused::Stale)),
        ("X-Accel-Expires: @1700000007", Ok(7)),
        ("X-Accel-Expires: @1600000007", Err(Refused::Stale)),
        ("X-Accel-Expires: soon\nCache-Control: max-age=5", Ok(5)),
        (
            "Cache-Control: max-age=5\nSet-Cookie: a=b",
            Err(Refused::Cookie),
        ),
        ("Cache-Control: max-age=5\nVary: a, *", Err(Refused::Vary)),
        ("", Err(Refused::Unknown)),
    ] {
        assert_eq!(fresh(response, none), expected, "{response}");
    }
}

#[test]
fn expires_is_relative_to_the_date_of_the_response() {
    let response = |date: i64, expires: u64| {
        let date = NOW.checked_add_signed(date).unwrap();
        format!(
            "Date: {}\nExpires: {}",
            http_date(date),
            http_date(NOW + expires)
        )
    };
    let none = Rules::default();
    assert_eq!(fresh(&response(0, 60), none), Ok(60));
    // It is ten seconds old, so that of its seventy seconds sixty are left.
    assert_eq!(fresh(&response(-10, 60), none), Ok(60));
    // A clock ahead of ours does not make it live longer.
    assert_eq!(fresh(&response(10, 60), none), Ok(50));
    let alone = format!("Expires: {}", http_date(NOW + 9));
    assert_eq!(fresh(&alone, none), Ok(9));
}

#[test]
fn a_configuration_fills_in_and_overrides() {
    let usual = Rules {
        usual: Some(100),
        ..Rules::default()
    };
    assert_eq!(fresh("", usual), Ok(100));
    assert_eq!(fresh("Cache-Control: max-age=5", usual), Ok(5));
    assert_eq!(
        fresh("Cache-Control: private", usual),
        Err(Refused::Private)
    );
    let deaf = Rules {
        ignores_accel_expires: true,
        ignores_cache_control: true,
        ignores_expires: true,
        ignores_set_cookie: true,
        ignores_vary: true,
        ..usual
    };
    let all = "X-Accel-Expires: 1\nCache-Control: no-store\nExpires: 0\nSet-Cookie: a\nVary: *";
    assert_eq!(fresh(all, deaf), Ok(100));
}

#[test]
fn responses_to_authorized_requests_are_stored_only_if_public() {
    let asked = "Authorization: Basic eDp5";
    let none = Rules::default();
    let refused = Err(Refused::Credentials);
    assert_eq!(stored(asked, "Cache-Control: max-age=5", none), refused);
    for more in ["public", "must-revalidate", "s-maxage=9"] {
        let response = format!("Cache-Control: max-age=5, {more}");
        assert!(stored(asked, &response, none).is_ok(), "{more}");
    }
    let admitted = Rules {
        has_credentials: true,
        ..none
    };
    assert_eq!(stored("", "Cache-Control: max-age=5", admitted), refused);
    assert!(stored("", "Cache-Control: s-maxage=5", admitted).is_ok());
    let known = Rules {
        ignores_authorization: true,
        ..none
    };
    assert!(stored(asked, "Cache-Control: max-age=5", known).is_ok());
}

#[test]
fn requests_can_forbid_it_and_parts_are_not_stored() {
    let none = Rules::default();
    let response = "Cache-Control: max-age=5";
    assert_eq!(
        stored("Cache-Control: no-store", response, none),
        Err(Refused::Request)
    );
    assert!(stored("Cache-Control: no-cache", response, none).is_ok());
    let response = fields(response);
    let request = Fields::new();
    for code in [103, 206, 304, 416] {
        let given = Given {
            status: Status::new(code).unwrap(),
            fields: &response,
            at: NOW,
        };
        let found = may_be_stored(Asked { fields: &request }, given, &none);
        assert_eq!(found, Err(Refused::Status), "{code}");
    }
}

#[test]
fn stale_responses_may_be_used_if_they_allow_it() {
    let lifetime = |response: &str| {
        let response = format!("Cache-Control: max-age=10, {response}");
        stored("", &response, Rules::default()).unwrap()
    };
    let times = |response: &str| Times {
        since: NOW,
        lifetime: lifetime(response),
    };
    let both = times("stale-while-revalidate=5, stale-if-error=20");
    assert!(both.is_fresh(NOW + 9) && !both.is_fresh(NOW + 10));
    assert!(both.outlasts_updates(NOW + 14) && !both.outlasts_updates(NOW + 15));
    assert!(both.outlasts_errors(NOW + 29) && !both.outlasts_errors(NOW + 30));
    assert!(!both.lifetime.is_strict);
    let strict = times("stale-if-error=20, must-revalidate");
    assert!(strict.lifetime.is_strict && !strict.outlasts_errors(NOW + 11));
    let shared = times("s-maxage=10, stale-if-error=20");
    assert!(shared.lifetime.is_strict && shared.outlasts_errors(NOW + 11));
    let plain = times("public");
    assert!(!plain.outlasts_errors(NOW + 10) && !plain.outlasts_updates(NOW + 10));
    assert_eq!(plain.age(NOW + 25), 25);
    // A clock that was set back: nobody knows how old it is.
    assert!(!plain.is_fresh(NOW - 11) && !both.outlasts_errors(NOW - 11));
    // Another worker's clock is a little behind.
    assert!(plain.is_fresh(NOW - 1) && plain.age(NOW - 1) == 0);
}

#[test]
fn requests_choose_among_cached_responses() {
    let times = |response: &str| Times {
        since: NOW,
        lifetime: stored("", response, Rules::default()).unwrap(),
    };
    let plain = times("Cache-Control: max-age=60\nAge: 10");
    let strict = times("Cache-Control: max-age=50, must-revalidate");
    for (request, at, expected, of_strict) in [
        ("", 49, true, true),
        ("", 50, false, false),
        ("Cache-Control: no-cache", 0, false, false),
        ("Cache-Control: max-age=0", 1, false, false),
        ("Cache-Control: max-age=20", 10, true, true),
        ("Cache-Control: max-age=20", 11, false, true),
        ("Cache-Control: max-age=soon", 1, false, false),
        ("Cache-Control: min-fresh=20", 30, true, true),
        ("Cache-Control: min-fresh=20", 31, false, false),
        ("Cache-Control: min-fresh=5, min-fresh=20", 31, false, false),
        ("Cache-Control: max-stale", 5000, true, false),
        ("Cache-Control: max-stale=10", 59, true, false),
        ("Cache-Control: max-stale=10", 60, false, false),
        ("Cache-Control: max-stale, max-stale=10", 60, false, false),
        ("Cache-Control: max-stale=10, min-fresh=1", 55, false, false),
        ("Cache-Control: max-stale=100, max-age=70", 61, false, false),
        ("Cache-Control: only-if-cached, no-store", 0, true, true),
    ] {
        let asked = RequestDirectives::read(&fields(request));
        assert_eq!(plain.suits(NOW + at, &asked), expected, "{request} {at}");
        assert_eq!(strict.suits(NOW + at, &asked), of_strict, "{request} {at}");
    }
    let asked = RequestDirectives::read(&fields("Cache-Control: only-if-cached, No-Store"));
    assert!(asked.only_if_cached && asked.no_store && !asked.no_cache);
}

#[test]
fn lists_of_names_are_joined() {
    assert_eq!(joined(b"a,c,".to_vec(), b"b,c,"), b"a,b,c,");
    assert_eq!(joined(Vec::new(), b"b,"), b"b,");
    assert_eq!(joined(b"a,".to_vec(), b""), b"a,");
    assert!(names_all(b"a,b,", b"b,") && names_all(b"a,", b"") && names_all(b"", b""));
    assert!(!names_all(b"a,", b"a,b,") && !names_all(b"", b"a,") && !names_all(b"aa,", b"a,"));
}

#[test]
fn variants_are_distinguished_by_the_headers_that_vary_names() {
    let names = match vary(&fields("Vary: Accept-Encoding , X-B\nVary: x-b")) {
        Vary::Names(names) => names,
        other => panic!("{other:?}"),
    };
    assert_eq!(names, b"accept-encoding,x-b,");
    let of = |request: &str| {
        let mut out = Vec::new();
        variant(&names, &fields(request), &mut out);
        out
    };
    assert_eq!(
        of("Accept-Encoding: gzip,  br"),
        of("accept-encoding: gzip\nAccept-Encoding: br\nX-C: other")
    );
    for (one, other) in [
        ("Accept-Encoding: gzip", "Accept-Encoding: br"),
        ("Accept-Encoding: a", "X-B: a"),
        ("X-B: a", ""),
        ("Accept-Encoding: a\nX-B: b", "Accept-Encoding: b\nX-B: a"),
    ] {
        assert_ne!(of(one), of(other), "{one} / {other}");
    }
    assert_eq!(vary(&fields("A: b")), Vary::Nothing);
    assert_eq!(vary(&fields("Vary: a\nVary: *")), Vary::Everything);
    let many = |count: usize| {
        let names: Vec<String> = (0..count).map(|number| format!("x-{number}")).collect();
        vary(&fields(&format!("Vary: {}", names.join(","))))
    };
    assert!(matches!(
        many(crate::limits::VARY_NAMES_MAX),
        Vary::Names(_)
    ));
    assert_eq!(many(crate::limits::VARY_NAMES_MAX + 1), Vary::Everything);
}

#[test]
fn a_304_response_updates_the_cached_response() {
    let mut stored = fields(
        "Content-Type: text/plain\nContent-Length: 4\nEtag: \"a\"\nX-A: 1\nX-A: 2\nX-B: kept\nCache-Control: max-age=1",
    );
    let newer = fields(
        "Content-Type: wrong\nContent-Length: 0\nEtag: \"a\"\nx-a: 3\nCache-Control: max-age=9\nX-C: new",
    );
    merge(&mut stored, &newer);
    let text: Vec<String> = stored
        .iter()
        .map(|field| {
            let name = String::from_utf8_lossy(field.name).to_lowercase();
            format!("{name}: {}", String::from_utf8_lossy(field.value))
        })
        .collect();
    assert_eq!(
        text,
        [
            "content-type: text/plain",
            "content-length: 4",
            "x-b: kept",
            "etag: \"a\"",
            "x-a: 3",
            "cache-control: max-age=9",
            "x-c: new"
        ]
    );
}

/// Whatever is sent, reading it ends and gives numbers within their bounds.
#[test]
fn no_text_breaks_the_reading() {
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    const PIECES: [&str; 14] = [
        "max-age",
        "s-maxage",
        "=",
        "\"",
        ",",
        "\\",
        "60",
        "999999999999",
        " ",
        "private",
        "no-store",
        "stale-if-error",
        "@",
        "x",
    ];
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..next() % 12 {
            text.push_str(PIECES[(next() % PIECES.len() as u64) as usize]);
        }
        let response =
            format!("Cache-Control: {text}\nX-Accel-Expires: {text}\nAge: {text}\nExpires: {text}");
        if let Ok(lifetime) = stored("", &response, Rules::default()) {
            assert!(lifetime.fresh > 0 && lifetime.fresh <= 1 << 31, "{text}");
        }
    }
}
