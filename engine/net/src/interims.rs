//! Interim answers (1xx) on their way from an upstream to the client: whoever awaits a final answer leaves them here,
//! and the connection that polls it takes them out right after. Encoding and sending is left to the connection.

use std::cell::{Cell, RefCell};

use sluice_message::hop_by_hop::strip_hop_by_hop;
use sluice_message::{FieldId, Fields, ResponseHead, Status};

/// One interim answer.
pub struct Interim {
    /// Its status: 1xx other than 100 and 101.
    pub status: Status,
    /// Its fields, without those of the upstream's connection.
    pub fields: Fields,
}

/// The interim answers of one worker that are between a handler and its connection. A worker polls one connection
/// at a time, so one place serves all of them: it is open only while a connection that can pass them on is polled.
#[derive(Default)]
pub struct Interims {
    gate: Cell<Gate>,
    left: RefCell<Vec<Interim>>,
}

/// Whether anybody would take an interim answer.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Gate {
    #[default]
    Closed,
    Open,
}

impl Interims {
    /// Runs `step` of a connection that passes interim answers on, and gives those that were left.
    pub(crate) fn during<T>(&self, step: impl FnOnce() -> T) -> (T, Vec<Interim>) {
        self.gate.set(Gate::Open);
        let done = step();
        self.gate.set(Gate::Closed);
        // An empty list takes no memory.
        (done, self.left.take())
    }

    /// Runs `step` of somebody who asks on our own account: interim answers to that are not for the client.
    pub fn apart<T>(&self, step: impl FnOnce() -> T) -> T {
        let before = self.gate.replace(Gate::Closed);
        let done = step();
        self.gate.set(before);
        done
    }

    /// Leaves an interim answer for the client, if it can get one. `100 Continue` is between each pair of
    /// neighbours (RFC 9110, section 10.1.1) and stays here.
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
