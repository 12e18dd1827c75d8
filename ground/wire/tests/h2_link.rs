//! Two state machines on a simulated link that splits and delays data: everything that is exchanged arrives complete,
//! in order and within the windows. Each random test prints its seed when it fails.

use std::collections::{BTreeMap, VecDeque};

use sluice_message::{FieldId, Fields, Method, RequestHead, ResponseHead, Status};
use sluice_wire::h1::BodyFraming;
use sluice_wire::h2::{
    Client, ClientEvent, End, ErrorCode, Event, Limits, OpenRefused, Server, Side, StreamId,
};

use crate::support::Random;

const DATE: &[u8; 29] = b"Sun, 22 Nov 2026 04:00:00 GMT";

/// What one side has still to send on a stream, and what it has got.
#[derive(Debug, Default)]
struct Half {
    out: Vec<u8>,
    trailers: bool,
    sent_end: bool,
    got: Vec<u8>,
    got_end: bool,
    unread: usize,
}

/// Both ends, what is under way between them, and what their owners know.
struct Link {
    client: Client,
    server: Server,
    up: VecDeque<u8>,
    down: VecDeque<u8>,
    asking: BTreeMap<StreamId, Half>,
    responding: BTreeMap<StreamId, Half>,
    responses: usize,
    resets: usize,
    random: Random,
}

/// The content of a stream's request or response, which is derived from its number and direction.
fn content(number: u32, response: bool) -> Vec<u8> {
    let mut random = Random(u64::from(number) * 7919 + 1 + u64::from(response));
    random.next();
    let len = [0, 1, 100, 5000, 70_000][random.below(5)] + random.below(50);
    (0..len).map(|_| random.next() as u8).collect()
}

impl Link {
    fn new(seed: u64, limits: &Limits) -> Link {
        Link {
            client: Client::new(limits),
            server: Server::new(limits, false),
            up: VecDeque::new(),
            down: VecDeque::new(),
            asking: BTreeMap::new(),
            responding: BTreeMap::new(),
            responses: 0,
            resets: 0,
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        }
    }

    fn ask(&mut self, number: u32) -> Result<(), OpenRefused> {
        let mut head = RequestHead {
            method: Method::Post,
            ..RequestHead::default()
        };
        head.uri.set(format!("/{number}").as_bytes());
        head.set_authority(b"a.example");
        head.fields.push(FieldId::UserAgent, b"link");
        let out = content(number, false);
        let declared = if self.random.below(2) == 0 {
            BodyFraming::Length(out.len() as u64)
        } else {
            BodyFraming::Chunked
        };
        let end = End::here_if(out.is_empty());
        let id = self.client.open(&head, true, declared, end)?;
        assert_eq!(id.number(), number);
        let half = Half {
            trailers: self.random.below(4) == 0,
            sent_end: end.is_here(),
            out,
            ..Half::default()
        };
        self.asking.insert(id, half);
        Ok(())
    }

    /// Moves some bytes from an output to the link.
    fn flush(&mut self) {
        for (out, link) in [
            (self.client.output(), &mut self.up),
            (self.server.output(), &mut self.down),
        ] {
            let len = out.len().min(1 + (self.random.next() as usize) % 40_000);
            link.extend(out.drain(..len));
        }
    }

    fn take_up(&mut self) {
        let len = self.up.len().min(1 + self.random.below(30_000));
        let bytes: Vec<u8> = self.up.iter().take(len).copied().collect();
        let (mut rest, mut head) = (&bytes[..], RequestHead::default());
        loop {
            let received = self.server.receive(rest, &mut head).expect("right frames");
            rest = &rest[received.consumed..];
            match received.event {
                None => break,
                Some(Event::Head { id, end, .. }) => {
                    assert_eq!(head.target, format!("/{}", id.number()).into_bytes());
                    let half = Half {
                        got_end: end.is_here(),
                        ..Half::default()
                    };
                    self.responding.insert(id, half);
                }
                Some(Event::Data { id, data, end }) => {
                    let half = self.responding.get_mut(&id).expect("an open stream");
                    take_data(half, data, end);
                }
                Some(Event::Trailers { id, fields }) => {
                    let half = self.responding.get_mut(&id).expect("an open stream");
                    assert_eq!(fields.find_first(b"x-sum"), Some(&b"1"[..]));
                    half.got_end = true;
                }
                Some(Event::Reset { id, .. }) => {
                    self.responding.remove(&id);
                    self.server.release(id);
                }
                Some(Event::Window { .. }) => {}
                Some(event) => panic!("{event:?}"),
            }
        }
        self.up.drain(..len - rest.len());
    }

    fn take_down(&mut self) {
        let len = self.down.len().min(1 + self.random.below(30_000));
        let bytes: Vec<u8> = self.down.iter().take(len).copied().collect();
        let (mut rest, mut head) = (&bytes[..], ResponseHead::default());
        loop {
            let received = self.client.receive(rest, &mut head).expect("right frames");
            rest = &rest[received.consumed..];
            match received.event {
                None => break,
                Some(ClientEvent::Head { id, end, .. }) => {
                    assert_eq!(head.status, Status::OK);
                    self.asking.get_mut(&id).expect("an open stream").got_end = end.is_here();
                }
                Some(ClientEvent::Interim { .. }) => assert_eq!(head.status.code(), 103),
                Some(ClientEvent::Data { id, data, end }) => {
                    take_data(self.asking.get_mut(&id).expect("an open stream"), data, end);
                }
                Some(ClientEvent::Trailers { id, fields }) => {
                    assert_eq!(fields.find_first(b"x-sum"), Some(&b"1"[..]));
                    self.asking.get_mut(&id).expect("an open stream").got_end = true;
                }
                Some(ClientEvent::Reset { id, code, .. }) => {
                    assert!(code == ErrorCode::NO_ERROR || code == ErrorCode::REFUSED_STREAM);
                    self.resets += 1;
                    self.asking.remove(&id);
                    self.client.release(id);
                }
                Some(
                    ClientEvent::Window { .. } | ClientEvent::Settings | ClientEvent::GoAway { .. },
                ) => {}
            }
        }
        self.down.drain(..len - rest.len());
    }

    /// Lets both owners make progress: they read, respond and send, some each.
    fn work(&mut self) {
        let ids: Vec<StreamId> = self.asking.keys().copied().collect();
        for id in ids {
            let half = self.asking.get_mut(&id).expect("an open stream");
            self.client.consumed(id, std::mem::take(&mut half.unread));
            if !half.sent_end {
                let end = End::here_if(!half.trailers);
                let sent = self
                    .client
                    .send_data(id, &half.out, end)
                    .expect("an open stream");
                half.out.drain(..sent);
                if half.out.is_empty() {
                    if half.trailers {
                        self.client
                            .send_trailers(id, &sum())
                            .expect("an open stream");
                    }
                    half.sent_end = true;
                }
            }
            if half.sent_end && half.got_end {
                assert_eq!(half.got, content(id.number(), true));
                self.asking.remove(&id);
                self.client.release(id);
                self.responses += 1;
            }
        }
        let ids: Vec<StreamId> = self.responding.keys().copied().collect();
        for id in ids {
            self.response(id);
        }
        let ready = self
            .responding
            .iter()
            .filter(|(_, half)| !half.out.is_empty());
        let ready: Vec<StreamId> = ready.map(|(id, _)| *id).collect();
        if let Some(id) = self.server.next_to_send(ready) {
            self.send_some(id);
        }
    }

    fn response(&mut self, id: StreamId) {
        let half = self.responding.get_mut(&id).expect("an open stream");
        if self.random.below(2) == 0 {
            self.server.consumed(id, std::mem::take(&mut half.unread));
        }
        if half.got_end && !half.trailers && half.out.is_empty() && !half.sent_end {
            assert_eq!(half.got, content(id.number(), false));
            half.out = content(id.number(), true);
            let mut fields = Fields::new();
            fields.push(FieldId::Server, b"link");
            self.server
                .send_interim(id, Status::EARLY_HINTS, &fields)
                .expect("an open stream");
            let framing = BodyFraming::Length(half.out.len() as u64);
            let end = End::here_if(half.out.is_empty());
            self.server
                .send_head(id, Status::OK, &fields, framing, DATE, end)
                .expect("an open stream");
            half.sent_end = end.is_here();
            half.trailers = id.number().is_multiple_of(3);
        }
        if half.sent_end {
            self.responding.remove(&id);
            self.server.release(id);
        }
    }

    fn send_some(&mut self, id: StreamId) {
        let half = self.responding.get_mut(&id).expect("an open stream");
        let end = End::here_if(!half.trailers);
        let sent = if self.random.below(2) == 0 {
            self.server
                .send_data(id, &half.out, end)
                .expect("an open stream")
        } else {
            let len = self.server.capacity(id).min(half.out.len());
            if len > 0 {
                let ends = End::here_if(end.is_here() && len == half.out.len());
                self.server
                    .send_data_head(id, len, ends)
                    .expect("an open stream");
                self.server.output().extend_from_slice(&half.out[..len]);
            }
            len
        };
        half.out.drain(..sent);
        if half.out.is_empty() {
            if half.trailers {
                self.server
                    .send_trailers(id, &sum())
                    .expect("an open stream");
            }
            half.sent_end = true;
        }
    }
}

fn take_data(half: &mut Half, data: &[u8], end: End) {
    half.got.extend_from_slice(data);
    half.unread += data.len();
    half.got_end = end.is_here();
}

fn sum() -> Fields {
    let mut fields = Fields::new();
    fields.push_raw(FieldId::Other, b"X-Sum", b"1");
    fields
}

/// Runs until `count` requests have a response or are lost.
fn run(seed: u64, limits: &Limits, count: usize, drain_at: Option<usize>) -> Link {
    let mut link = Link::new(seed, limits);
    let (mut next, mut closing) = (1, false);
    for round in 0..200_000 {
        while (next as usize) < 2 * count && !closing && link.random.below(3) > 0 {
            match link.ask(next) {
                Ok(()) => next += 2,
                Err(OpenRefused::Full) => break,
                Err(OpenRefused::Closing) => closing = true,
                Err(OpenRefused::Unfit(unfit)) => panic!("{unfit}"),
            }
        }
        if drain_at.is_some_and(|at| link.responses >= at) {
            link.server.drain();
        }
        link.flush();
        link.take_up();
        link.work();
        link.flush();
        link.take_down();
        let asked = (next - 1) as usize / 2;
        if link.responses + link.resets == asked && (asked == count || closing) {
            // What is still under way says nothing new.
            for _ in 0..50 {
                link.flush();
                link.take_up();
                link.take_down();
                link.work();
            }
            return link;
        }
        assert!(
            round < 199_999,
            "it ends: {} of {asked} answered",
            link.responses
        );
    }
    link
}

#[test]
fn all_requests_get_complete_responses() {
    for seed in 1..=25 {
        println!("seed {seed}");
        let limits = Limits {
            streams_max: [1, 3, 100][seed as usize % 3],
            output_bytes_max: [3000, 65_536][seed as usize % 2],
            table_bytes_max: [0, 100, 4096][seed as usize / 2 % 3],
            ..Limits::DEFAULT
        };
        let link = run(seed, &limits, 60, None);
        assert_eq!((link.responses, link.resets), (60, 0));
        assert_eq!(link.client.open_streams() + link.server.open_streams(), 0);
        assert!(link.server.glitch_points() < 3000 && !link.server.is_done());
    }
}

#[test]
fn draining_loses_no_request_silently() {
    for seed in 1..=25 {
        println!("seed {seed}");
        let link = run(seed, &Limits::DEFAULT, 60, Some(10));
        assert!(link.responses >= 10);
        assert!(link.server.is_done() && link.client.is_done());
        assert_eq!(link.client.streams_free(), 0);
    }
}

/// RFC 9113, section 6.8: what the server did not look at can be sent again elsewhere.
#[test]
fn requests_after_goaway_are_returned() {
    let mut client = Client::new(&Limits::DEFAULT);
    let mut request = RequestHead::default();
    request.uri.set(b"/");
    request.set_authority(b"a");
    let open = |client: &mut Client| {
        client
            .open(&request, false, BodyFraming::None, End::Here)
            .expect("an open stream")
    };
    let ids: Vec<StreamId> = (0..4).map(|_| open(&mut client)).collect();
    let mut head = ResponseHead::default();
    let mut bytes = vec![0, 0, 0, 4, 0, 0, 0, 0, 0];
    bytes.extend([0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0]);
    let (mut events, mut rest) = (Vec::new(), &bytes[..]);
    loop {
        let received = client.receive(rest, &mut head).expect("an open stream");
        rest = &rest[received.consumed..];
        match received.event {
            Some(event) => events.push(format!("{event:?}")),
            None => break,
        }
    }
    assert_eq!(events.len(), 4, "{events:?}");
    assert_eq!(events[1], "GoAway { code: NO_ERROR }");
    for (line, id) in events[2..].iter().zip(&ids[2..]) {
        let (code, by, fault) = (ErrorCode::REFUSED_STREAM, Side::Peer, None);
        let id = *id;
        assert_eq!(
            *line,
            format!(
                "{:?}",
                ClientEvent::Reset {
                    id,
                    code,
                    by,
                    fault
                }
            )
        );
    }
    let again = client.open(&request, false, BodyFraming::None, End::Here);
    assert_eq!(again, Err(OpenRefused::Closing));
    assert!(!client.is_done());
    ids.iter().for_each(|id| client.release(*id));
    assert!(client.is_done());
}
