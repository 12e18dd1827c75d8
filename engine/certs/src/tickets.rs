//! Session tickets: the keys that seal them, and when those change. Each policy has keys of its own, so that a session goes on
//! under the policy it began under and no other; that is left to `policy`.

use std::sync::Arc;
use std::time::Duration;

use rustls::TicketRotator;
use rustls::crypto::GetRandomFailed;
use rustls::crypto::aws_lc_rs::Ticketer;
use rustls::server::ProducesTickets;

use crate::limits::TICKET_ROTATION_MIN;
use crate::policy::PolicyError;

/// How sessions are resumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tickets {
    /// By tickets whose keys change every six hours; those of the time before are still taken.
    #[default]
    Usual,
    /// The same with this pause between two changes, at most six hours.
    Every(Duration),
    /// Not at all.
    Off,
}

/// What seals tickets, with keys that nobody else has.
pub(crate) fn ticketer(tickets: Tickets) -> Result<Arc<dyn ProducesTickets>, PolicyError> {
    let failed = |error: rustls::Error| PolicyError::Tickets(error.to_string());
    match tickets {
        Tickets::Usual => Ticketer::new().map_err(failed),
        Tickets::Every(pause) => {
            let seconds = pause.max(TICKET_ROTATION_MIN).as_secs();
            let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
            let rotator = TicketRotator::new(seconds, one).map_err(failed)?;
            Ok(Arc::new(rotator))
        }
        Tickets::Off => Ok(Arc::new(NoTickets)),
    }
}

/// A key for one turn of a rotation.
fn one() -> Result<Box<dyn ProducesTickets>, GetRandomFailed> {
    match Ticketer::new() {
        Ok(ticketer) => Ok(Box::new(Turn(ticketer))),
        Err(_) => Err(GetRandomFailed),
    }
}

#[derive(Debug)]
struct Turn(Arc<dyn ProducesTickets>);

impl ProducesTickets for Turn {
    fn enabled(&self) -> bool {
        self.0.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.0.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.0.encrypt(plain)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.0.decrypt(cipher)
    }
}

#[derive(Debug)]
struct NoTickets;

impl ProducesTickets for NoTickets {
    fn enabled(&self) -> bool {
        false
    }

    fn lifetime(&self) -> u32 {
        0
    }

    fn encrypt(&self, _plain: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn decrypt(&self, _cipher: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_opens_the_tickets_of_another_key_however_often_they_change() {
        let mut before: Option<Vec<u8>> = None;
        for _ in 0..1000 {
            let turn = one().unwrap();
            let ticket = turn.encrypt(b"session").unwrap();
            assert_eq!(turn.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
            // Tickets of old keys, none at all, and those that an all-zero key or name would take.
            let old = before.replace(ticket.clone());
            assert!(old.is_none_or(|old| turn.decrypt(&old).is_none()));
            let mut forged = ticket.clone();
            forged[..16].fill(0);
            assert_eq!(turn.decrypt(&forged), None);
            assert_eq!(turn.decrypt(&vec![0; ticket.len()]), None);
            assert_eq!(turn.decrypt(&[]), None);
        }
    }

    #[test]
    fn keys_change_as_often_as_is_asked_for() {
        let every = |pause| ticketer(Tickets::Every(pause)).unwrap().lifetime();
        // Those of the time before are still taken, so a ticket lives for two turns at most.
        assert_eq!(every(Duration::from_secs(3600)), 2 * 3600);
        let shortest = TICKET_ROTATION_MIN.as_secs() as u32;
        assert_eq!(every(Duration::ZERO), 2 * shortest);
        assert!(ticketer(Tickets::Usual).unwrap().enabled());
        assert!(!ticketer(Tickets::Off).unwrap().enabled());
    }
}
