//! What a process gives to the one that replaces it, beside its sockets: the secrets with which clients resume their
//! sessions, the counts of rate limits, and what is known of upstreams. Cached responses and metrics begin anew in the new process.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sluice_certs::TicketSecret;
use sluice_handlers::rate_limit::{CountedEvents, Zones};
use sluice_observe::metrics::{self, Hub, UpstreamMemory};

/// Secrets that outlive a binary upgrade. They travel through a socket between the two processes, never through a file or
/// the environment.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Secrets {
    tickets: Vec<Ticket>,
    /// For stateless resets and address tokens of QUIC.
    quic: Vec<u8>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Ticket {
    scope: String,
    from: u64,
    bytes: [u8; 32],
}

/// Bytes of the secret for QUIC, from which keys are derived.
const QUIC_SECRET_BYTES: usize = 64;

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

impl Secrets {
    /// New secrets, for a process that replaces none.
    ///
    /// # Errors
    /// The system provides no randomness.
    pub fn random() -> io::Result<Secrets> {
        let mut quic = vec![0; QUIC_SECRET_BYTES];
        File::open("/dev/urandom")?.read_exact(&mut quic)?;
        Ok(Secrets {
            tickets: Vec::new(),
            quic,
        })
    }

    pub(crate) fn new(tickets: &[TicketSecret], own: &Secrets) -> Secrets {
        let tickets = tickets.iter().map(|secret| Ticket {
            scope: secret.scope.clone(),
            from: secret.from,
            bytes: secret.bytes,
        });
        Secrets {
            tickets: tickets.collect(),
            quic: own.quic.clone(),
        }
    }

    pub(crate) fn tickets(&self) -> Vec<TicketSecret> {
        let tickets = self.tickets.iter().map(|ticket| TicketSecret {
            scope: ticket.scope.clone(),
            from: ticket.from,
            bytes: ticket.bytes,
        });
        tickets.collect()
    }

    /// `None` without random bytes, as when a configuration is only validated.
    pub(crate) fn quic(&self) -> Option<Arc<[u8]>> {
        (!self.quic.is_empty()).then(|| self.quic.as_slice().into())
    }
}

/// What rate limits have counted, and the failures and directions of upstreams.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    rate_limits: Vec<Events>,
    /// By address. A process of an earlier version has none.
    #[serde(default)]
    upstreams: BTreeMap<String, Vec<UpstreamMemory>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Events {
    zone: String,
    rate: [u64; 4],
    key: Vec<u8>,
    marks: Vec<(u64, u32)>,
}

impl Counted {
    pub(crate) fn of(zones: &Zones, hub: &Hub) -> Counted {
        let events = zones.counted().into_iter().map(|events| Events {
            zone: events.zone,
            rate: events.rate,
            key: events.key,
            marks: events.marks,
        });
        Counted {
            rate_limits: events.collect(),
            upstreams: metrics::memories(hub),
        }
    }

    pub(crate) fn add_to(self, zones: &Zones, hub: &Hub) {
        metrics::recall(hub, &self.upstreams);
        let events = self.rate_limits.into_iter().map(|events| CountedEvents {
            zone: events.zone,
            rate: events.rate,
            key: events.key,
            marks: events.marks,
        });
        zones.add(&events.collect::<Vec<_>>());
    }
}
