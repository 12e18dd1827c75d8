//! Shared parts of this package's tests, and tests of the acceptor with a real client.

use std::io::{self, IoSlice, Write};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use sluice_net::tls::{
    Acceptor, ClientIdentity, Connector, ConnectorOptions, Ends, Identity, ServerTrust, Session,
    SessionError,
};

use crate::client_auth::{ClientAuth, ClientAuthMode};
use crate::policy::{Policy, TlsPolicies};
use crate::selection::KeyAlgorithm;
use crate::storage::StoredPair;
use crate::store::{CertStore, Fallback};
use crate::{
    Issuer, KeyType, LocalCa, LocalCaOptions, Maintainer, Pair, Plan, Request, Selection, Storage,
    Subject, When,
};

#[allow(dead_code, reason = "other tests use more of it")]
#[path = "../../../tests/support/abilities.rs"]
pub(crate) mod abilities;

#[allow(dead_code, reason = "other tests use more of it")]
#[path = "../../../tests/support/wait.rs"]
pub(crate) mod wait;

#[allow(dead_code, reason = "other tests use more of it")]
#[path = "../../../tests/support/temp_folder.rs"]
mod temp_folder;
pub(crate) use temp_folder::TempFolder;

/// A local CA in its own directory.
pub(crate) struct TestCa {
    pub(crate) ca: LocalCa,
    pub(crate) folder: TempFolder,
}

impl TestCa {
    pub(crate) fn new() -> Self {
        let folder = TempFolder::new();
        let storage = Storage::new(folder.path());
        let ca = LocalCa::open(storage, LocalCaOptions::default(), SystemTime::now()).unwrap();
        TestCa { ca, folder }
    }

    pub(crate) fn issue(&self, subject: &str) -> StoredPair {
        let key = KeyType::default().generate().unwrap();
        let request = Request {
            subject: &Subject::parse(subject).unwrap(),
            key: &key,
            replaces: None,
            failures: 0,
            must_staple: false,
        };
        StoredPair {
            certificate: self.ca.issue(&request, SystemTime::now()).unwrap().chain,
            key: key.serialize_pem().into_bytes(),
        }
    }

    pub(crate) fn pair(&self, subject: &str) -> Arc<Pair> {
        let path = Path::new(subject);
        let origin = crate::pair::Origin {
            certificate: path,
            key: path,
        };
        Arc::new(Pair::from_pem(&self.issue(subject), origin).unwrap())
    }

    pub(crate) fn client(&self) -> Connector {
        self.client_with(|_| ())
    }

    pub(crate) fn client_with(&self, change: impl FnOnce(&mut ConnectorOptions)) -> Connector {
        let trust = ServerTrust::Pool(vec![self.ca.root_der().to_vec()]);
        let mut options = ConnectorOptions {
            trust,
            ..Default::default()
        };
        change(&mut options);
        Connector::new(options).unwrap()
    }

    fn identity(&self, subject: &str) -> ClientIdentity {
        let pair = self.issue(subject);
        ClientIdentity::from_pem(&pair.certificate, &pair.key).unwrap()
    }
}

fn output(session: &mut dyn Session) -> Vec<u8> {
    struct Sink(Vec<u8>);
    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut sink = Sink(Vec::new());
    while session.has_output() {
        session.transmit(&mut sink).unwrap();
    }
    sink.0
}

fn input(session: &mut dyn Session, bytes: &[u8]) -> Result<(), SessionError> {
    let mut rest = bytes;
    while !rest.is_empty() {
        rest = &rest[session.receive(rest)?..];
    }
    Ok(())
}

type Both = (Box<dyn Session>, Box<dyn Session>);

/// Performs a handshake; the error is the first one of either side.
pub(crate) fn shake(
    client: &Connector,
    host: &str,
    acceptor: &dyn Acceptor,
    local: Option<IpAddr>,
) -> Result<Both, SessionError> {
    let (mut client, mut server) = {
        let ends = Ends {
            local,
            remote: None,
        };
        (client.connect(host).unwrap(), acceptor.accept_at(ends))
    };
    while client.has_output() || server.has_output() {
        input(&mut *server, &output(&mut *client))?;
        input(&mut *client, &output(&mut *server))?;
    }
    assert!(!client.is_handshaking() && !server.is_handshaking());
    assert_eq!(server.write(&[IoSlice::new(b"hello")]).unwrap(), 5);
    input(&mut *client, &output(&mut *server))?;
    let mut greeting = [0; 5];
    assert_eq!(client.read(&mut greeting), 5);
    assert_eq!(&greeting, b"hello");
    Ok((client, server))
}

fn acceptor(policies: Vec<Policy>, store: &Arc<CertStore>) -> Arc<dyn Acceptor> {
    Arc::new(TlsPolicies::build(policies, store, None).unwrap()).acceptor()
}

/// The certificate that the server presents to a client that accepts any.
fn shown(acceptor: &dyn Acceptor, host: &str, local: Option<IpAddr>) -> Option<Vec<u8>> {
    let options = ConnectorOptions {
        trust: ServerTrust::Anyone,
        ..Default::default()
    };
    let (client, _) = shake(&Connector::new(options).unwrap(), host, acceptor, local).ok()?;
    client.info().client_certs.first().cloned()
}

#[test]
fn a_client_that_trusts_the_root_believes_every_certificate_made() {
    let test = TestCa::new();
    let subjects = ["localhost", "*.example.test", "127.0.0.1", "::1"];
    let store = CertStore::new(subjects.map(|subject| test.pair(subject)));
    let acceptor = acceptor(vec![Policy::default()], &store);
    let client = test.client();
    for host in ["localhost", "a.example.test", "LOCALHOST"] {
        shake(&client, host, &*acceptor, None).unwrap();
    }
    for host in ["127.0.0.1", "::1"] {
        shake(&client, host, &*acceptor, Some(host.parse().unwrap())).unwrap();
    }
    assert!(shake(&client, "a.b.example.test", &*acceptor, None).is_err());
    assert!(shake(&client, "example.test", &*acceptor, None).is_err());
    let stranger = TestCa::new();
    assert!(shake(&stranger.client(), "localhost", &*acceptor, None).is_err());
}

/// A policy with a condition on certificates.
fn ecdsa_only() -> Policy {
    let selection = Selection {
        key_algorithm: KeyAlgorithm::parse("ecdsa"),
        ..Selection::default()
    };
    Policy {
        selection,
        ..Policy::default()
    }
}

#[test]
fn the_name_asked_for_decides_which_certificate_is_shown() {
    let test = TestCa::new();
    let [first, exact, wild, ip, assumed, last_resort] = [
        "first.test",
        "www.a.test",
        "*.a.test",
        "10.0.0.1",
        "assumed.test",
        "last.test",
    ]
    .map(|subject| test.pair(subject));
    let all = [&first, &exact, &wild, &ip, &assumed, &last_resort].map(Arc::clone);
    let store = CertStore::new(all);
    let parse = |name: &str| Some(Subject::parse(name).unwrap());
    let with = |default: Option<Subject>, fallback: Option<Subject>| {
        let fallback = Fallback {
            default_sni: default,
            fallback_sni: fallback,
        };
        acceptor(
            vec![Policy {
                fallback,
                ..Default::default()
            }],
            &store,
        )
    };
    let plain = with(None, None);
    let tagged = acceptor(vec![ecdsa_only()], &store);
    let full = with(parse("assumed.test"), parse("last.test"));
    let default_only = with(parse("assumed.test"), None);
    let ten: Option<IpAddr> = Some("10.0.0.1".parse().unwrap());
    let eleven: Option<IpAddr> = Some("10.0.0.11".parse().unwrap());
    // A client that connects to an IP address sends no SNI.
    let cases = [
        (&plain, "www.a.test", None, Some(&exact)),
        (&plain, "WWW.A.TEST", None, Some(&exact)),
        (&plain, "other.a.test", None, Some(&wild)),
        (&plain, "a.test", None, None),
        (&plain, "x.y.a.test", None, None),
        (&plain, "9.9.9.9", ten, Some(&ip)),
        (&plain, "9.9.9.9", eleven, None),
        (&plain, "9.9.9.9", None, None),
        (&full, "www.a.test", None, Some(&exact)),
        (&full, "unknown.test", None, Some(&last_resort)),
        (&full, "9.9.9.9", ten, Some(&ip)),
        (&full, "9.9.9.9", eleven, Some(&assumed)),
        (&default_only, "unknown.test", None, None),
        (&default_only, "9.9.9.9", None, Some(&assumed)),
        // With conditions on certificates, any that meets them will do.
        (&tagged, "x.y.a.test", None, Some(&first)),
        (&tagged, "9.9.9.9", ten, Some(&ip)),
        (&tagged, "9.9.9.9", None, Some(&first)),
    ];
    for (number, (acceptor, host, local, wanted)) in cases.into_iter().enumerate() {
        let shown = shown(&**acceptor, host, local);
        let wanted = wanted.map(|pair| pair.certified.cert[0].to_vec());
        assert!(shown == wanted, "case {number}: {host}");
    }
    assert_eq!(
        shown(
            &*acceptor(vec![Policy::default()], &CertStore::new([])),
            "a.test",
            None
        ),
        None
    );
}

#[test]
fn a_renewed_certificate_is_shown_at_once() {
    let test = TestCa::new();
    let store = CertStore::new([]);
    let acceptor = acceptor(vec![Policy::default()], &store);
    let (old, new) = (test.pair("a.test"), test.pair("a.test"));
    store.put(old.clone());
    assert_eq!(
        shown(&*acceptor, "a.test", None).unwrap(),
        old.certified.cert[0].to_vec()
    );
    store.put(new.clone());
    assert_eq!(
        shown(&*acceptor, "a.test", None).unwrap(),
        new.certified.cert[0].to_vec()
    );
    assert_eq!(store.len(), 1);
}

#[test]
fn sessions_resume_under_the_same_policy_and_over_a_reload() {
    let test = TestCa::new();
    let store = CertStore::new([test.pair("a.test")]);
    for version in ["tls1.2", "tls1.3"] {
        let policy = Policy {
            version_max: version.to_owned(),
            ..Default::default()
        };
        let policies = Arc::new(TlsPolicies::build(vec![policy.clone()], &store, None).unwrap());
        let acceptor = policies.clone().acceptor();
        let client = test.client();
        assert!(
            !shake(&client, "a.test", &*acceptor, None)
                .unwrap()
                .1
                .info()
                .resumed
        );
        let (_, server) = shake(&client, "a.test", &*acceptor, None).unwrap();
        assert!(server.info().resumed && server.info().version == version);
        let reloaded = TlsPolicies::build(vec![policy.clone()], &store, Some(&policies)).unwrap();
        let reloaded = Arc::new(reloaded).acceptor();
        assert!(
            shake(&client, "a.test", &*reloaded, None)
                .unwrap()
                .1
                .info()
                .resumed
        );
        let changed = Policy {
            alpn: vec!["http/1.1".to_owned()],
            ..policy
        };
        let changed = TlsPolicies::build(vec![changed], &store, Some(&policies)).unwrap();
        let changed = Arc::new(changed).acceptor();
        assert!(
            !shake(&client, "a.test", &*changed, None)
                .unwrap()
                .1
                .info()
                .resumed
        );
    }
}

#[test]
fn a_ticket_of_one_policy_does_not_get_past_the_client_auth_of_another() {
    let test = TestCa::new();
    let store = CertStore::new([test.pair("open.test"), test.pair("closed.test")]);
    let authorities = vec![test.ca.root_der().to_vec()];
    let closed = Policy {
        names: vec!["closed.test".to_owned()],
        client_auth: Some(ClientAuth {
            authorities,
            ..Default::default()
        }),
        ..Default::default()
    };
    for (policies, version) in [
        (vec![closed.clone(), Policy::default()], "tls1.3"),
        (
            vec![
                closed,
                Policy {
                    version_max: "tls1.2".into(),
                    ..Default::default()
                },
            ],
            "tls1.2",
        ),
    ] {
        let acceptor = acceptor(policies, &store);
        // The server name is the same each time, so that the tickets are offered; only the policy differs.
        let open = test.client_with(|options| options.server_name = Some("open.test".to_owned()));
        assert!(
            !shake(&open, "x", &*acceptor, None)
                .unwrap()
                .1
                .info()
                .resumed
        );
        let again = shake(&open, "x", &*acceptor, None).unwrap().1.info();
        assert!(again.resumed && again.version == version);
        assert!(shake(&test.client(), "closed.test", &*acceptor, None).is_err());
        let with_cert = test
            .client_with(|options| options.identity = Identity::Fixed(test.identity("me.test")));
        let (_, server) = shake(&with_cert, "closed.test", &*acceptor, None).unwrap();
        assert_eq!(server.info().client_certs.len(), 2);
    }
    // The same ticket, for the same name, whose policy now requires a certificate.
    let name = |auth| Policy {
        names: vec!["open.test".to_owned()],
        client_auth: auth,
        ..Default::default()
    };
    let before = Arc::new(TlsPolicies::build(vec![name(None)], &store, None).unwrap());
    let client = test.client();
    shake(&client, "open.test", &*before.clone().acceptor(), None).unwrap();
    let auth = ClientAuth {
        authorities: vec![test.ca.root_der().to_vec()],
        ..Default::default()
    };
    let after = TlsPolicies::build(vec![name(Some(auth))], &store, Some(&before)).unwrap();
    assert!(shake(&client, "open.test", &*Arc::new(after).acceptor(), None).is_err());
}

#[test]
fn without_tickets_nothing_is_resumed() {
    let test = TestCa::new();
    let store = CertStore::new([test.pair("a.test")]);
    for version in ["tls1.2", "tls1.3"] {
        let policy = Policy {
            version_max: version.to_owned(),
            tickets: crate::Tickets::Off,
            ..Default::default()
        };
        let acceptor = acceptor(vec![policy], &store);
        let client = test.client();
        for _ in 0..2 {
            let info = shake(&client, "a.test", &*acceptor, None).unwrap().1.info();
            assert!(!info.resumed && info.version == version);
        }
    }
}

#[test]
fn each_mode_of_client_auth_admits_the_right_clients() {
    use ClientAuthMode::{Request, Require, RequireAndVerify, VerifyIfGiven};
    let (test, other) = (TestCa::new(), TestCa::new());
    let store = CertStore::new([test.pair("a.test")]);
    let anonymous = test.client();
    let known =
        test.client_with(|options| options.identity = Identity::Fixed(test.identity("me.test")));
    let stranger =
        test.client_with(|options| options.identity = Identity::Fixed(other.identity("me.test")));
    let cases = [
        (Request, [true, true, true]),
        (Require, [false, true, true]),
        (VerifyIfGiven, [true, true, false]),
        (RequireAndVerify, [false, true, false]),
    ];
    for (mode, wanted) in cases {
        let authorities = vec![test.ca.root_der().to_vec()];
        let auth = ClientAuth {
            mode: Some(mode),
            authorities,
            leafs: Vec::new(),
        };
        let policy = Policy {
            client_auth: Some(auth),
            ..Default::default()
        };
        let acceptor = acceptor(vec![policy], &store);
        let taken = [&anonymous, &known, &stranger]
            .map(|client| shake(client, "a.test", &*acceptor, None).is_ok());
        assert_eq!(taken, wanted, "{mode:?}");
    }
    let leaf =
        crate::pair::chain_from_pem(&test.issue("x.test").certificate, Path::new("x")).unwrap();
    let auth = ClientAuth {
        leafs: vec![leaf[0].to_vec()],
        ..Default::default()
    };
    let policy = Policy {
        client_auth: Some(auth),
        ..Default::default()
    };
    assert!(shake(&known, "a.test", &*acceptor(vec![policy], &store), None).is_err());
}

#[test]
fn versions_ciphers_and_protocols_are_as_the_policy_says() {
    let test = TestCa::new();
    let store = CertStore::new([test.pair("a.test")]);
    let info = |policy: Policy| {
        shake(
            &test.client(),
            "a.test",
            &*acceptor(vec![policy], &store),
            None,
        )
        .map(|(_, s)| s.info())
    };
    let default = info(Policy::default()).unwrap();
    assert_eq!(
        (default.version, default.cipher),
        ("tls1.3", "TLS_AES_128_GCM_SHA256")
    );
    assert_eq!((&*default.server_name, default.alpn.len()), ("a.test", 0));
    let chosen = info(Policy {
        version_max: "tls1.2".into(),
        cipher_suites: vec!["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384".into()],
        curves: vec!["secp256r1".into()],
        alpn: vec!["h2".into(), "http/1.1".into()],
        ..Default::default()
    });
    let chosen = chosen.unwrap();
    assert_eq!(chosen.version, "tls1.2");
    assert_eq!(chosen.cipher, "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384");
    assert_eq!(chosen.alpn, b"http/1.1");
    assert!(
        info(Policy {
            refuse: true,
            ..Default::default()
        })
        .is_err()
    );
    assert!(
        info(Policy {
            names: vec!["b.test".into()],
            ..Default::default()
        })
        .is_err()
    );
    assert!(
        info(Policy {
            alpn: vec!["acme-tls/1".into()],
            ..Default::default()
        })
        .is_err()
    );
}

#[test]
fn the_first_policy_for_a_name_decides() {
    let test = TestCa::new();
    let store =
        CertStore::new(["a.test", "*.b.test", "c.test", "late.test"].map(|name| test.pair(name)));
    let policy = |names: &[&str], alpn: &str| Policy {
        names: names.iter().map(|&name| name.to_owned()).collect(),
        alpn: vec![alpn.to_owned(), "http/1.1".to_owned()],
        ..Default::default()
    };
    let policies = vec![
        policy(&["a.test"], "one"),
        policy(&["*.b.test", "a.test"], "two"),
        policy(&["x.b.test"], "three"),
        policy(&[], "four"),
        policy(&["late.test"], "five"),
    ];
    let acceptor = acceptor(policies, &store);
    for (host, wanted) in [
        ("a.test", "one"),
        ("x.b.test", "two"),
        ("c.test", "four"),
        ("late.test", "four"),
    ] {
        let alpn = ["one", "two", "three", "four", "five"].map(|name| name.as_bytes().to_vec());
        let client = test.client_with(|options| {
            options.trust = ServerTrust::Anyone;
            options.alpn = alpn.to_vec();
        });
        let (_, server) = shake(&client, host, &*acceptor, None).unwrap();
        assert_eq!(server.info().alpn, wanted.as_bytes(), "{host}");
    }
}

/// The first matching policy is used, whether or not it has further conditions.
#[test]
fn policies_may_be_for_some_connections_only() {
    let test = TestCa::new();
    let store = CertStore::new([test.pair("a.test"), test.pair("b.test")]);
    let policy = |protocol: &str, names: &[&str], local: &str| Policy {
        alpn: vec![protocol.to_owned()],
        names: names.iter().map(ToString::to_string).collect(),
        when: When {
            local: Some(local.to_owned())
                .filter(|text| !text.is_empty())
                .into_iter()
                .collect(),
            ..When::default()
        },
        ..Default::default()
    };
    let acceptor = acceptor(
        vec![
            policy("inner", &["*.test"], "10.0.0.0/8"),
            policy("a", &["a.test"], ""),
            policy("late", &["a.test"], "192.0.2.1"),
            policy("all", &[], "192.0.2.0/24"),
            policy("rest", &[], ""),
        ],
        &store,
    );
    let protocols = ["inner", "a", "late", "all", "rest"];
    for (host, local, expected) in [
        ("a.test", "10.0.0.1", "inner"),
        ("b.test", "10.0.0.1", "inner"),
        ("a.test", "192.0.2.1", "a"),
        ("b.test", "192.0.2.1", "all"),
        ("b.test", "198.51.100.1", "rest"),
    ] {
        let client = test.client_with(|options| {
            options.alpn = protocols
                .iter()
                .map(|name| name.as_bytes().to_vec())
                .collect();
        });
        let local = local.parse().ok();
        let (_, server) = shake(&client, host, &*acceptor, local).unwrap();
        assert_eq!(
            server.info().alpn,
            expected.as_bytes(),
            "{host} at {local:?}"
        );
    }
}

#[test]
fn invalid_policies_are_named() {
    let store = CertStore::new([]);
    let error = |change: fn(&mut Policy)| {
        let mut policy = Policy::default();
        change(&mut policy);
        match TlsPolicies::build(vec![policy], &store, None) {
            Ok(_) => "built".to_owned(),
            Err(error) => error.to_string(),
        }
    };
    type Change = fn(&mut Policy);
    let cases: [(Change, &str); 7] = [
        (|p| p.version_min = "tls1.1".into(), "`tls1.1`"),
        (
            |p| (p.version_min, p.version_max) = ("tls1.3".into(), "tls1.2".into()),
            "above",
        ),
        (
            |p| p.cipher_suites = vec!["TLS_RSA_WITH_RC4_128_SHA".into()],
            "TLS_RSA_WITH_RC4_128_SHA",
        ),
        (
            |p| p.curves = vec!["secp521r1".into()],
            "x25519mlkem768, x25519",
        ),
        (|p| p.names = vec!["a b".into()], "`a b`"),
        (
            |p| {
                let mode = Some(ClientAuthMode::RequireAndVerify);
                p.client_auth = Some(ClientAuth {
                    mode,
                    ..Default::default()
                });
            },
            "client certificates",
        ),
        (
            |p| {
                let authorities = vec![b"junk".to_vec()];
                p.client_auth = Some(ClientAuth {
                    authorities,
                    ..Default::default()
                });
            },
            "client certificates",
        ),
    ];
    for (change, wanted) in cases {
        let error = error(change);
        assert!(error.contains(wanted), "{error} lacks {wanted}");
    }
}

#[test]
fn certificates_are_provided_from_storage_after_a_restart() {
    let test = TestCa::new();
    let subjects = [
        Subject::parse("a.test").unwrap(),
        Subject::parse("*.b.test").unwrap(),
    ];
    let start = || {
        let storage = Storage::new(test.folder.path());
        let maintainer = Maintainer::new(storage.clone());
        let ca = LocalCa::open(storage, LocalCaOptions::default(), SystemTime::now()).unwrap();
        let store = CertStore::new([]);
        let plan = Arc::new(Plan::of(Arc::new(ca)));
        let found = maintainer.provide(&store, &plan, &subjects, SystemTime::now());
        maintainer.keep(found.unwrap());
        shown(
            &*acceptor(vec![Policy::default()], &store),
            "x.b.test",
            None,
        )
        .unwrap()
    };
    assert_eq!(start(), start());
    let folder = test
        .folder
        .path()
        .join("certificates/local/wildcard_.b.test");
    for ending in ["crt", "key", "json"] {
        assert!(
            folder.join(format!("wildcard_.b.test.{ending}")).exists(),
            "{ending}"
        );
    }
}

#[test]
fn a_policy_with_tags_shows_only_certificates_that_have_one() {
    let test = TestCa::new();
    let tagged = |subject: &str, tag: &str| {
        let path = Path::new(subject);
        let origin = crate::pair::Origin {
            certificate: path,
            key: path,
        };
        let pair = Pair::from_pem(&test.issue(subject), origin).unwrap();
        Arc::new(Pair {
            tags: vec![tag.to_owned()],
            ..pair
        })
    };
    let [one, two] = [tagged("a.test", "one"), tagged("a.test", "two")];
    let store = CertStore::new([one, two.clone()]);
    let policy = |tag: &str| Policy {
        selection: Selection {
            any_tag: vec![tag.to_owned()],
            ..Selection::default()
        },
        ..Default::default()
    };
    let two_only = acceptor(vec![policy("two")], &store);
    for host in ["a.test", "other.test"] {
        assert!(
            shown(&*two_only, host, None).unwrap() == two.certified.cert[0].to_vec(),
            "{host}"
        );
    }
    assert_eq!(
        shown(&*acceptor(vec![policy("three")], &store), "a.test", None),
        None
    );
}
