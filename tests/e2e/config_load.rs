//! `admin.config.load`: a configuration that the running server fetches from another one, and Caddy beside it.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::client::ask;
use crate::harness::{Server, Setup, eventually, run_to_end, text};
use crate::support::servers;
use crate::upstream::Upstream;

/// A server of configurations: what it sends, and the heads of its requests.
#[derive(Clone, Default)]
struct Place(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    response: String,
    heads: Vec<Vec<String>>,
}

impl Place {
    fn start(&self) -> Upstream {
        let place = self.clone();
        Upstream::start(move |mut wire| {
            while let Some(head) = wire.head() {
                let response = {
                    let mut state = place.0.lock().expect("nobody panics with it");
                    state.heads.push(head);
                    state.response.clone()
                };
                if wire.try_send(response).is_err() {
                    return;
                }
            }
        })
    }

    fn set(&self, response: String) {
        self.0.lock().expect("nobody panics with it").response = response;
    }

    /// Responds with this configuration.
    fn offer(&self, media_type: &str, body: &str) {
        self.set(format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
    }

    fn heads(&self) -> Vec<Vec<String>> {
        let state = self.0.lock().expect("nobody panics with it");
        state.heads.clone()
    }

    /// Waits for so many further requests.
    fn wait_for_requests(&self, count: usize, server: &Server) {
        let wanted = self.heads().len() + count;
        let are_there = || self.heads().len() >= wanted;
        eventually("further requests", are_there, || server.stderr());
    }
}

/// A configuration whose site says `word`, and that fetches another one.
fn config(setup: &Setup, word: &str, load: Option<(Value, &str)>) -> String {
    let mut admin = json!({"listen": "localhost:{admin}"});
    if let Some((load, delay)) = load {
        admin["config"] = json!({"load": load});
        if !delay.is_empty() {
            admin["config"]["load_delay"] = json!(delay);
        }
    }
    let config = json!({
        "admin": admin,
        "apps": {"http": {"servers": {"site": {
            "listen": ["127.0.0.1:{port}"],
            "routes": [{"handle": [{"handler": "static_response", "body": word}]}],
        }}}},
    });
    setup.fill(&config.to_string())
}

fn http(place: &Upstream) -> Value {
    json!({"module": "http", "url": format!("http://127.0.0.1:{}/node.json?token=secret", place.port)})
}

fn start(setup: Setup, config: &str) -> Server {
    setup.folder().write("sluice.json", config);
    setup.args(&["run", "--config", "sluice.json"]).start()
}

fn wait_for_word(server: &Server, word: &str) {
    let says = || server.ask("/").text() == word;
    eventually(word, says, || server.stderr());
}

#[test]
fn a_configuration_is_fetched_at_the_start() {
    let (place, setup) = (Place::default(), Setup::bare());
    let upstream = place.start();
    let mut load = http(&upstream);
    load["method"] = json!("POST");
    load["headers"] = json!({"X-Node": ["{env.NODE}"]});
    place.offer("application/json", &config(&setup, "two", None));
    let first = config(&setup, "one", Some((load, "")));
    let server = start(setup.env("NODE", "seven"), &first);
    wait_for_word(&server, "two");
    let heads = place.heads();
    assert_eq!(heads.len(), 1, "{heads:?}");
    assert!(
        heads[0][0].starts_with("POST /node.json?token=secret "),
        "{heads:?}"
    );
    let has = |line: &str| heads[0].iter().any(|head| head.eq_ignore_ascii_case(line));
    assert!(has("X-Node: seven"), "{heads:?}");
    server.wait_for_words("\"trigger\":\"admin.config.load\"");
    assert!(!server.stderr().contains("secret"), "{}", server.stderr());
    // It is not saved for `--resume`, which would then know nothing of the place.
    let saved = server.folder.path().join("config/sluice/autosave.json");
    let saved = std::fs::read_to_string(saved).unwrap_or_default();
    assert!(!saved.contains("two"), "{saved}");
}

#[test]
fn changes_are_found_again_and_again_and_mistakes_change_nothing() {
    let (place, setup) = (Place::default(), Setup::bare());
    let upstream = place.start();
    let load = |delay: &'static str| Some((http(&upstream), delay));
    let [one, two, three] = ["one", "two", "three"].map(|word| config(&setup, word, load("20ms")));
    place.offer("application/json", &one);
    let endless = config(&setup, "endless", load(""));
    let server = start(setup, &one);
    // The same text changes nothing.
    place.wait_for_requests(3, &server);
    assert!(
        !server.stderr().contains("configuration loaded"),
        "{}",
        server.stderr()
    );
    place.offer("application/json", &two);
    wait_for_word(&server, "two");
    let rejected = || server.stderr().matches("configuration rejected").count();
    for (count, mistake) in [
        "{\"apps\":{\"http\":7}}",
        ":80 {\n\tnonsense\n}\n",
        &endless,
    ]
    .into_iter()
    .enumerate()
    {
        place.offer("text/plain", mistake);
        eventually("the refusal", || rejected() > count, || server.stderr());
        // It is not logged again as long as it is the same.
        place.wait_for_requests(3, &server);
        assert_eq!(rejected(), count + 1, "{}", server.stderr());
        assert_eq!(server.ask("/").text(), "two");
    }
    // A server that fails is asked again, and its end of failure is noticed.
    place.set("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n".to_owned());
    server.wait_for_words("the configuration cannot be fetched");
    assert_eq!(server.ask("/").text(), "two");
    place.offer("application/json", &three);
    wait_for_word(&server, "three");
    assert!(!server.stderr().contains("secret"), "{}", server.stderr());
}

#[test]
fn texts_without_end_are_not_read_to_their_end() {
    let (place, setup) = (Place::default(), Setup::bare());
    let upstream = place.start();
    let large = "#".repeat(9 << 20);
    place.offer("text/caddyfile", &large);
    let first = config(&setup, "one", Some((http(&upstream), "20ms")));
    let server = start(setup, &first);
    server.wait_for_words("the response is too large");
    assert_eq!(server.ask("/").text(), "one");
}

#[test]
fn a_caddyfile_takes_the_loader_away() {
    let (place, setup) = (Place::default(), Setup::bare());
    let upstream = place.start();
    let caddyfile =
        setup.fill("{\n\tadmin localhost:{admin}\n}\n:{port} {\n\trespond caddyfile\n}\n");
    let mut load = http(&upstream);
    load["adapter"] = json!("caddyfile");
    place.offer("application/octet-stream", &caddyfile);
    let first = config(&setup, "one", Some((load, "20ms")));
    let server = start(setup, &first);
    wait_for_word(&server, "caddyfile");
    let asked = place.heads().len();
    // A reload reads the file, which has a loader.
    server.signal(sluice_net::sys::process::Signal::Hangup);
    let again = || place.heads().len() > asked;
    eventually("the loader of the file", again, || server.stderr());
    wait_for_word(&server, "caddyfile");
}

#[test]
fn mistakes_of_the_loader_are_refused_at_their_place() {
    let setup = Setup::bare();
    let load = json!({"module": "http", "url": "https://a.test", "tls": {"root_ca_pem_files": ["/none.pem"]}});
    let text_of = config(&setup, "one", Some((load, "")));
    setup.folder().write("sluice.json", text_of);
    let output = run_to_end(setup.folder(), &["validate", "--config", "sluice.json"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("admin.config.load") && said.contains("/none.pem"),
        "{said}"
    );
}

/// Both fetch, take the configuration, and go on to fetch what that names.
#[test]
fn caddy_takes_the_same_configurations() {
    let Some(caddy) = servers::caddy() else {
        return;
    };
    let (place, setup) = (Place::default(), Setup::bare());
    let upstream = place.start();
    let load = || Some((http(&upstream), "100ms"));
    let [one, two] = ["one", "two"].map(|word| config(&setup, word, load()));
    place.offer("application/json", &two);
    let path = setup.folder().write("caddy.json", &one);
    let mut child = std::process::Command::new(caddy)
        .args(["run", "--config"])
        .arg(path)
        .env("HOME", setup.folder().path())
        .env("XDG_CONFIG_HOME", setup.folder().path())
        .env("XDG_DATA_HOME", setup.folder().path())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("it starts");
    let port = setup.port;
    let says = |word: &str| {
        let connected = std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        connected && ask(port, "/").text() == word
    };
    eventually("Caddy has the second", || says("two"), String::new);
    place.offer("application/json", &one);
    eventually("Caddy has the first", || says("one"), String::new);
    child.kill().expect("it runs");
    child.wait().expect("it ends");

    place.offer("application/json", &two);
    let server = start(setup, &one);
    wait_for_word(&server, "two");
    place.offer("application/json", &one);
    wait_for_word(&server, "one");
}
