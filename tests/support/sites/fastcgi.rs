//! A PHP double that does not run scripts, but describes the request it received.

use crate::support::fastcgi::{read_request, said};
use crate::support::listen;
use crate::support::wire::Wire;

/// Parameters that the sites check.
const ECHOED: &[&str] = &[
    "CONTENT_LENGTH",
    "MODE",
    "PATH_INFO",
    "QUERY_STRING",
    "REQUEST_METHOD",
    "REQUEST_URI",
    "SCRIPT_NAME",
    "TENANT",
];

/// Starts it on a free port; it runs until the test process ends.
pub fn start() -> u16 {
    listen(|mut wire| while serve(&mut wire).is_some() {})
}

fn serve(wire: &mut Wire) -> Option<()> {
    let asked = read_request(wire)?;
    let mut text = "Content-Type: text/plain\r\nX-Powered-By: PHP\r\n\r\n".to_owned();
    for name in ECHOED {
        let value = asked.param(name);
        text.push_str(&value.map_or(String::new(), |value| format!("{name}={value}\n")));
    }
    text.push_str(&String::from_utf8_lossy(&asked.body));
    wire.try_send(said(text.as_bytes())).ok()
}
