//! Interim responses (1xx) from an upstream to the client: the upstream call leaves them here, and the connection that
//! polls it takes them right after. The connection encodes and sends them.

use std::cell::{Cell, RefCell};

use sluice_message::hop_by_hop::strip_hop_by_hop;
use sluice_message::{FieldId, Fields, ResponseHead, Status};

/// An interim response.
pub struct Interim {
    /// Its status: 1xx other than 100 and 101.
    pub status: Status,
    /// Its headers, without hop-by-hop headers.
    pub fields: Fields,
}

/// The interim responses of one worker between a handler and its connection. A worker polls one connection at a time,
/// so one instance serves all of them; it accepts responses only while a connection that can forward them is polled.
#[derive(Default)]
pub struct Interims {
    gate: Cell<Gate>,
    left: RefCell<Vec<Interim>>,
}

/// Whether interim responses are accepted.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Gate {
    #[default]
    Closed,
    Open,
}

impl Interims {
    /// Runs `step` of a connection that forwards interim responses; also returns those it left.
    pub(crate) fn during<T>(&self, step: impl FnOnce() -> T) -> (T, Vec<Interim>) {
        self.gate.set(Gate::Open);
        let done = step();
        self.gate.set(Gate::Closed);
        // An empty list does not allocate.
        (done, self.left.take())
    }

    /// Runs `step` of a request of our own, such as a subrequest: its interim responses are not for the client.
    pub fn apart<T>(&self, step: impl FnOnce() -> T) -> T {
        let before = self.gate.replace(Gate::Closed);
        let done = step();
        self.gate.set(before);
        done
    }

    /// Leaves an interim response for the client, if one can be forwarded. `100 Continue` is hop-by-hop (RFC 9110,
    /// section 10.1.1) and is dropped.
    pub fn leave(&self, head: &ResponseHead) {
        if self.gate.get() == Gate::Closed || head.status == Status::CONTINUE {
            return;
        }
        let mut fields = Fields::new();
        fields.append(&head.fields);
        strip_hop_by_hop(&mut fields);
        fields.remove(FieldId::ContentLength);
        self.left.borrow_mut().push(Interim {
            status: head.status,
            fields,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(code: u16) -> ResponseHead {
        let mut head = ResponseHead {
            status: Status::new(code).unwrap(),
            ..ResponseHead::default()
        };
        head.fields.push(FieldId::Connection, b"x-hop");
        head.fields.push(FieldId::ContentLength, b"3");
        let hop = sluice_message::FieldName::new("X-Hop").unwrap();
        head.fields.push_name(&hop, b"1");
        head.fields.push(FieldId::Link, b"</a>; rel=preload");
        head
    }

    #[test]
    fn they_pass_only_while_their_connection_is_polled() {
        let interims = Interims::default();
        interims.leave(&head(103));
        let ((), left) = interims.during(|| {});
        assert!(left.is_empty(), "nobody was there for it");
        let ((), left) = interims.during(|| {
            interims.leave(&head(103));
            interims.apart(|| interims.leave(&head(102)));
            interims.leave(&head(100));
            interims.leave(&head(104));
        });
        let statuses: Vec<u16> = left.iter().map(|interim| interim.status.code()).collect();
        assert_eq!(statuses, [103, 104]);
        let ids: Vec<FieldId> = left[0].fields.iter().map(|field| field.id).collect();
        assert_eq!(ids, [FieldId::Link]);
    }
}
