//! A fake HTTP service for tests: records the requests and responds with the result of a function.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

/// A request as a test sees it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Method and target: `GET /zones`.
    pub(crate) line: String,
    /// The headers in lower case, one per line.
    pub(crate) fields: String,
    pub(crate) body: String,
}

pub(crate) struct Fake {
    pub(crate) base: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Fake {
    /// Starts a service that responds with a status and a body.
    pub(crate) fn start(respond: impl Fn(&Asked) -> (u16, String) + Send + 'static) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let kept = asked.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let mut reader = BufReader::new(client.unwrap());
                let (mut head, mut length) = (String::new(), 0);
                while reader.read_line(&mut head).unwrap() > 2 {
                    let line = head.lines().last().unwrap().to_ascii_lowercase();
                    if let Some(text) = line.strip_prefix("content-length:") {
                        length = text.trim().parse().unwrap();
                    }
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                let (line, fields) = head.split_once("\r\n").unwrap();
                let request = Asked {
                    line: line.trim_end_matches(" HTTP/1.1").to_owned(),
                    fields: fields.to_owned(),
                    body: String::from_utf8(body).unwrap(),
                };
                let (status, text) = respond(&request);
                kept.lock().unwrap().push(request);
                let length = text.len();
                let _ = write!(
                    reader.get_mut(),
                    "HTTP/1.1 {status} x\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
                );
            }
        });
        Fake { base, asked }
    }

    /// The requests so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// The request lines, each followed by the body.
    pub(crate) fn lines(&self) -> Vec<String> {
        let asked = self.asked();
        let lines = asked.iter().map(|one| format!("{} {}", one.line, one.body));
        lines.map(|line| line.trim_end().to_owned()).collect()
    }
}
