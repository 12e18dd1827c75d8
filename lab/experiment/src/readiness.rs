//! Waits until a server sends the expected response.

use std::thread;
use std::time::{Duration, Instant};

use sluice_load::generator::Plan;
use sluice_load::generator::expect::{BodyExpect, Expect};
use sluice_load::generator::kind;
use sluice_load::generator::probe::Probe;
use sluice_load::process::Started;

/// How long a server may take to its first expected response.
pub const READY_MAX: Duration = Duration::from_secs(15);

/// Pause between two readiness checks.
pub const READY_PAUSE: Duration = Duration::from_millis(20);

/// Whether a server sends the expected response now; the error says what it does instead.
pub fn responds(plan: &Plan) -> Result<Probe, String> {
    match kind::ask(plan) {
        Ok(response) => match wrong(&plan.requests[0].expect, &response) {
            None => Ok(response),
            Some(wrong) => Err(wrong),
        },
        Err(fault) => Err(format!("{} ({})", fault.class.words(), fault.text)),
    }
}

/// Waits until a server sends the expected response.
pub fn ready(plan: &Plan, server: &mut Started) -> Result<Probe, String> {
    let begin = Instant::now();
    loop {
        let wrong = match responds(plan) {
            Ok(response) => return Ok(response),
            Err(wrong) => wrong,
        };
        if let Some(status) = server.ended() {
            return Err(format!(
                "it ended with {status}{}",
                server_words(&server.log())
            ));
        }
        if begin.elapsed() > READY_MAX || plan.interrupt.is_set() {
            return Err(format!(
                "no correct response after {:.0?}: {wrong}{}",
                begin.elapsed(),
                server_words(&server.log())
            ));
        }
        thread::sleep(READY_PAUSE);
    }
}

fn server_words(log: &[String]) -> String {
    match log.last() {
        Some(last) => format!("; last log line: {last}"),
        None => String::new(),
    }
}

fn wrong(expect: &Expect, response: &Probe) -> Option<String> {
    if response.status != expect.status {
        return Some(format!(
            "status {} instead of {}",
            response.status, expect.status
        ));
    }
    match &expect.body {
        BodyExpect::Exact { bytes, .. } if **bytes != *response.body => Some(format!(
            "another body: {} bytes instead of {}",
            response.body.len(),
            bytes.len()
        )),
        BodyExpect::Exact { .. } | BodyExpect::Length(_) | BodyExpect::Any => None,
    }
}
