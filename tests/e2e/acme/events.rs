//! The events of certificates that a real CA issues, renews and refuses, as commands and webhooks get them.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::{TIMEOUT, Visitor};
use crate::acme::pebble::Settings;
use crate::harness::Setup;
use crate::support::wait::until;
use crate::upstream::Upstream;

const NAME: &str = "a.example.test";

/// A webhook, and the events that it has received, in order.
#[derive(Clone, Default)]
struct Received(Arc<Mutex<Vec<Value>>>);

impl Received {
    fn start(&self) -> Upstream {
        let received = self.clone();
        Upstream::start(move |mut wire| {
            while let Some(head) = wire.head() {
                let Some(body) = wire.body(&head) else { return };
                let event = serde_json::from_slice(&body).expect("it is JSON");
                received
                    .0
                    .lock()
                    .expect("nobody panics with it")
                    .push(event);
                wire.send("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n");
            }
        })
    }

    fn all(&self) -> Vec<Value> {
        self.0.lock().expect("nobody panics with it").clone()
    }

    /// Waits for an event, and returns its data.
    fn wait(&self, name: &str, renewal: bool, log: impl Fn() -> String) -> Value {
        let is_it = |event: &Value| event["name"] == name && event["data"]["renewal"] == renewal;
        let find = || self.all().into_iter().find(|event| is_it(event));
        let shown = || format!("{:#?}\n{}", self.all(), log());
        let event = until(TIMEOUT, name, find, shown);
        assert_eq!(event["module"], "tls");
        event["data"].clone()
    }
}

/// A site whose events reach a command and the webhook.
fn caddyfile(settings: &Settings, hook: u16) -> String {
    let lines: String = ["cert_obtaining", "cert_obtained", "cert_failed"]
        .iter()
        .map(|event| {
            format!(
                "\t\ton {event} exec sh -c `echo \"$@\" >> {{folder}}/out` sh {{event.name}} {{event.data.identifier}} \
                 {{event.data.renewal}} {{event.data.issuer}}{{event.data.issuers}}\n\
                 \t\ton {event} webhook http://127.0.0.1:{}/\n",
                hook
            )
        })
        .collect();
    format!(
        "{{\n\t{}\n\tcert_issuer acme {{\n\t\tprofile short\n\t}}\n\tevents {{\n{lines}\t}}\n}}\n{NAME} {{\n\trespond a\n}}\n",
        settings.options()
    )
}

#[test]
#[ignore = "needs pebble: cargo xtask acme"]
fn commands_and_webhooks_hear_of_each_certificate() {
    let mut settings = Settings::new();
    settings.more = r#","profiles":{"short":{"description":"x","validityPeriod":60}}"#.to_owned();
    let received = Received::default();
    let hook = received.start();
    let caddyfile = caddyfile(&settings, hook.port);
    // The CA is not there yet.
    let mut server = Setup::new(&caddyfile).start();
    let folder = server.folder.path().to_owned();
    let log = || std::fs::read_to_string(folder.join("stderr")).unwrap_or_default();
    let ca = settings
        .directory_url()
        .replace("https://", "")
        .replace([':', '/'], "-");
    let obtaining = received.wait("cert_obtaining", false, log);
    assert_eq!(obtaining["identifier"], NAME);
    let failed = received.wait("cert_failed", false, log);
    assert_eq!(failed["identifier"], NAME);
    assert_eq!(failed["issuers"], json!([ca]));
    let error = failed["error"].as_str().expect("a text");
    assert!(error.contains("cannot reach CA"), "{error}");

    let pebble = settings.start();
    assert_eq!(Visitor::new(&pebble).wait(&mut server, NAME), "a");
    let obtained = received.wait("cert_obtained", false, log);
    assert_eq!(obtained["identifier"], NAME);
    assert_eq!(obtained["issuer"], ca.as_str());
    let place = format!("certificates/{ca}/{NAME}");
    assert_eq!(obtained["storage_path"], place.as_str());
    for (member, ending) in [
        ("certificate_path", "crt"),
        ("private_key_path", "key"),
        ("metadata_path", "json"),
    ] {
        let path = format!("{place}/{NAME}.{ending}");
        assert_eq!(obtained[member], path.as_str());
        assert!(folder.join("data/sluice").join(path).is_file(), "{ending}");
    }

    assert_eq!(
        received.wait("cert_obtaining", true, log)["identifier"],
        NAME
    );
    assert_eq!(
        received.wait("cert_obtained", true, log)["issuer"],
        ca.as_str()
    );
    drop(pebble.end());
    let failed = received.wait("cert_failed", true, log);
    assert_eq!(failed["issuers"], json!([ca]));

    let out = || std::fs::read_to_string(folder.join("out")).unwrap_or_default();
    for line in [
        format!("cert_obtaining {NAME} false "),
        format!("cert_failed {NAME} false [\"{ca}\"]"),
        format!("cert_obtained {NAME} false {ca}"),
        format!("cert_obtaining {NAME} true "),
        format!("cert_obtained {NAME} true {ca}"),
        format!("cert_failed {NAME} true [\"{ca}\"]"),
    ] {
        let is_there = || {
            out()
                .lines()
                .any(|known| known.trim() == line.trim())
                .then_some(())
        };
        until(TIMEOUT, &line, is_there, out);
    }
}
