//! Settings that belong to a site in Caddy 1 and to the whole configuration in Caddy 2.

use sluice_model::Duration;

use super::pieces::{block, line};
use crate::tree::{Directive, Token};

/// Settings of the whole configuration, and counters for names.
#[derive(Default)]
pub(super) struct Globals {
    /// Logs of single paths.
    pub logs: u32,
    /// Patterns of rewrites.
    pub patterns: u32,
    /// The endpoint that is asked whether a name may have a certificate.
    pub ask: Option<Token>,
    /// Timeouts by their new names: the shortest of all sites, with its value.
    timeouts: Vec<(&'static str, Token, Duration)>,
    /// The smallest limit of heads, with its value.
    pub head: Option<(Token, i64)>,
}

impl Globals {
    /// The lines of the global block.
    pub fn into_lines(self) -> Vec<Directive> {
        let mut lines = Vec::new();
        if let Some(ask) = &self.ask {
            let endpoint = line(ask, "ask", [ask.as_str()]);
            lines.push(block(ask, "on_demand_tls", [""; 0], vec![endpoint]));
        }
        let at = self.timeouts.first().map(|(_, word, _)| word);
        let Some(at) = at.or(self.head.as_ref().map(|(word, _)| word)) else {
            return lines;
        };
        let mut servers = Vec::new();
        let timeouts: Vec<Directive> = self
            .timeouts
            .iter()
            .map(|(name, word, _)| line(word, name, [word.as_str()]))
            .collect();
        if !timeouts.is_empty() {
            servers.push(block(at, "timeouts", [""; 0], timeouts));
        }
        servers.extend(
            self.head
                .as_ref()
                .map(|(word, _)| line(word, "max_header_size", [word.as_str()])),
        );
        lines.push(block(at, "servers", [""; 0], servers));
        lines
    }

    /// Notes a timeout of one site.
    pub fn timeout(&mut self, name: &'static str, word: &Token, duration: Duration) {
        match self.timeouts.iter_mut().find(|known| known.0 == name) {
            Some(known) if known.2 <= duration => {}
            Some(known) => *known = (name, word.clone(), duration),
            None => self.timeouts.push((name, word.clone(), duration)),
        }
    }
}
