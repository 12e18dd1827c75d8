//! A page in Chromium, driven with the DevTools protocol.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::exchange;
use crate::harness::Folder;
use crate::python::ws_client::WebSocket;
use crate::support::wait::until;

/// A browser takes some seconds to start, and more while other tests run.
pub const BROWSER_TIMEOUT: Duration = Duration::from_secs(90);

/// A page of a browser, which ends with it.
pub struct Page {
    browser: Child,
    socket: WebSocket,
    calls: u64,
    folder: Folder,
}

impl Page {
    /// Starts the browser with an empty page.
    pub fn open(program: &str) -> Page {
        let folder = Folder::new();
        let file = std::fs::File::create(folder.path().join("stderr")).expect("it is writable");
        let profile = folder.path().join("profile");
        let browser = Command::new(program)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--remote-debugging-port=0",
                "--window-size=1000,700",
                &format!("--user-data-dir={}", profile.display()),
                "about:blank",
            ])
            .env("HOME", folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .expect("it starts");
        let said = || folder.read("stderr");
        let find = || {
            let text = said();
            let (_, rest) = text.split_once("DevTools listening on ws://127.0.0.1:")?;
            let (port, _) = rest.split_once('/')?;
            port.parse::<u16>().ok()
        };
        let port = until(BROWSER_TIMEOUT, "DevTools", find, said);
        let request = format!(
            "PUT /json/new?about:blank HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        let made = exchange(port, request);
        let made: Value = serde_json::from_slice(&made.body).expect("it is JSON");
        let url = made["webSocketDebuggerUrl"].as_str().expect("a URL");
        let at = url.find("/devtools").expect("a path");
        Page {
            browser,
            socket: WebSocket::open(port, &url[at..], ""),
            calls: 0,
            folder,
        }
    }

    /// Calls a method of the protocol; returns its result.
    pub fn call(&mut self, method: &str, params: &Value) -> Value {
        self.calls += 1;
        let call = json!({"id": self.calls, "method": method, "params": params});
        self.socket.say(&call.to_string());
        loop {
            let heard: Value = serde_json::from_str(&self.socket.hear()).expect("it is JSON");
            // Events have no number.
            if heard["id"] == self.calls {
                assert!(heard["error"].is_null(), "{method}: {heard}");
                return heard["result"].clone();
            }
        }
    }

    /// The value of an expression in the page. While the page is being replaced there is none.
    pub fn value(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true});
        self.call("Runtime.evaluate", &params)["result"]["value"].clone()
    }

    /// Waits until a page with this title is complete.
    pub fn wait_for_title(&mut self, title: &str) {
        let shown = "document.readyState == 'complete' ? document.title : ''";
        let mut last = Value::Null;
        let seen = std::cell::RefCell::new(Value::Null);
        let find = || {
            last = self.value(shown);
            *seen.borrow_mut() = last.clone();
            (last == title).then_some(())
        };
        until(BROWSER_TIMEOUT, title, find, || seen.borrow().to_string());
    }

    /// Waits until the page shows these words.
    pub fn wait_for_words(&mut self, words: &str) {
        let text = "document.body ? document.body.innerText : ''";
        let seen = std::cell::RefCell::new(String::new());
        let find = || {
            *seen.borrow_mut() = self.value(text).as_str().unwrap_or_default().to_owned();
            seen.borrow().contains(words).then_some(())
        };
        until(BROWSER_TIMEOUT, words, find, || seen.borrow().clone());
    }

    /// Keeps pictures of the page in light and dark, `NAME-light.png` and `NAME-dark.png`, which differ.
    pub fn shows_both_schemes(&mut self, name: &str) {
        let mut colors = Vec::new();
        for scheme in ["light", "dark"] {
            let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
            self.call("Emulation.setEmulatedMedia", &json!({"features": features}));
            self.screenshot(&format!("{name}-{scheme}"));
            colors.push(self.value("getComputedStyle(document.body).backgroundColor"));
        }
        assert_ne!(colors[0], colors[1]);
    }

    /// Keeps a picture of the page for people, at `target/tmp/NAME.png`.
    pub fn screenshot(&mut self, name: &str) {
        let picture = self.call("Page.captureScreenshot", &json!({"format": "png"}));
        let text = picture["data"].as_str().expect("a picture");
        let path = format!("{}/{name}.png", env!("CARGO_TARGET_TMPDIR"));
        let file = std::fs::File::create(path).expect("the folder is writable");
        let mut decoder = Command::new("base64")
            .arg("-d")
            .stdin(Stdio::piped())
            .stdout(file)
            .spawn()
            .expect("base64 is there");
        let mut input = decoder.stdin.take().expect("it is piped");
        input.write_all(text.as_bytes()).expect("it reads");
        drop(input);
        assert!(decoder.wait().expect("it ends").success());
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.browser.kill();
        let _ = self.browser.wait();
        if std::thread::panicking() {
            eprintln!("---- the browser said:\n{}", self.folder.read("stderr"));
        }
    }
}
