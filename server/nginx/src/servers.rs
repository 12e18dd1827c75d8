//! Virtual server selection: exact name, longest name with a leading wildcard, longest with a trailing wildcard,
//! first matching regular expression, default server.

use std::collections::HashMap;
use std::sync::Arc;

use sluice_model::nginx::VirtualServer;

use sluice_route::Provenance;

use super::explained::quoted;
use super::groups::{Case, Pattern};
use sluice_observe::Recorder;
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::refusal::Refusal;

/// How a server was selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The only server of its address.
    None,
    /// An exact name.
    Name,
    /// A name with a leading asterisk.
    Ending,
    /// A name with a trailing asterisk.
    Beginning,
    /// A regular expression.
    Pattern,
    /// No server has the name.
    Default,
}

impl By {
    /// Why the server was selected, for `explain`.
    pub fn words(self, host: &[u8]) -> String {
        let host = quoted(host);
        match self {
            By::None => "the only server of this address".to_owned(),
            By::Name => format!("its name is {host}"),
            By::Ending => format!("its name with an asterisk is the longest that ends {host}"),
            By::Beginning => format!("its name with an asterisk is the longest that begins {host}"),
            By::Pattern => format!("its name is the first pattern that matches {host}"),
            By::Default => format!("no server of this address is called {host}: the default one"),
        }
    }
}

/// The server names of an address.
#[derive(Debug, Default)]
pub struct Names {
    exact: HashMap<Box<[u8]>, u32>,
    /// Suffixes with their dot, from names with a leading wildcard; longest first.
    endings: Vec<(Box<[u8]>, u32)>,
    /// Prefixes with their dot, from names with a trailing wildcard; longest first.
    beginnings: Vec<(Box<[u8]>, u32)>,
    patterns: Vec<(Pattern, u32)>,
    is_alone: bool,
}

impl Names {
    /// Parses the names. Of two servers with the same name the first wins.
    pub fn build(servers: &[VirtualServer], builder: &Builder<'_>) -> Result<Names, Refusal> {
        let mut names = Names {
            is_alone: servers.len() == 1,
            ..Names::default()
        };
        // A single server receives every request.
        if servers.len() == 1 && !servers[0].names.iter().any(|name| name.starts_with('~')) {
            return Ok(names);
        }
        names.add_all(
            servers.iter().map(|server| &*server.names),
            builder.recorder,
        )?;
        Ok(names)
    }

    /// Parses the names that distinguish TLS handshakes.
    pub fn of_handshakes<'n>(all: impl Iterator<Item = &'n [String]>) -> Result<Names, Refusal> {
        let mut names = Names::default();
        names.add_all(all, None)?;
        Ok(names)
    }

    fn add_all<'n>(
        &mut self,
        all: impl Iterator<Item = &'n [String]>,
        recorder: Option<&Arc<Recorder>>,
    ) -> Result<(), Refusal> {
        for (index, list) in all.enumerate() {
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            for name in list {
                self.add(name, index, recorder)?;
            }
        }
        self.endings
            .sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        self.beginnings
            .sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        Ok(())
    }

    fn add(
        &mut self,
        name: &str,
        index: u32,
        recorder: Option<&Arc<Recorder>>,
    ) -> Result<(), Refusal> {
        let bytes = |text: &str| text.to_ascii_lowercase().into_bytes().into_boxed_slice();
        if let Some(pattern) = name.strip_prefix('~') {
            // Names are compared in lowercase.
            let pattern = Pattern::new("server_name", pattern, Case::Folded, recorder)?;
            self.patterns.push((pattern, index));
        } else if let Some(ending) = name.strip_prefix('*') {
            self.endings.push((bytes(ending), index));
        } else if let Some(beginning) = name.strip_suffix('*') {
            self.beginnings.push((bytes(beginning), index));
        } else if let Some(bare) = name.strip_prefix('.') {
            self.exact.entry(bytes(bare)).or_insert(index);
            self.endings.push((bytes(name), index));
        } else {
            self.exact.entry(bytes(name)).or_insert(index);
        }
        Ok(())
    }

    /// The index of the server for the host of a request.
    pub fn choose(&self, exchange: &mut Exchange) -> Result<(u32, By), Fault> {
        let host = exchange
            .req
            .host
            .strip_suffix(b".")
            .unwrap_or(&exchange.req.host);
        if let Some(found) = self.by_text(host) {
            return Ok(found);
        }
        if self.patterns.is_empty() || host.is_empty() {
            return Ok((0, self.by_default()));
        }
        let host = host.to_vec();
        for (pattern, index) in &self.patterns {
            if pattern.matches(exchange, &host, Provenance::Name)? {
                return Ok((*index, By::Pattern));
            }
        }
        Ok((0, self.by_default()))
    }

    fn by_default(&self) -> By {
        match self.is_alone {
            true => By::None,
            false => By::Default,
        }
    }

    /// Whether a server has the SNI name of the handshake; a single server has every name.
    ///
    /// # Errors
    /// A regular expression exceeds its match limit.
    pub fn knows_sni(&self, exchange: &mut Exchange) -> Result<bool, Fault> {
        let tls = exchange.conn.tls.as_ref();
        let name = tls.map(|tls| tls.server_name.clone()).unwrap_or_default();
        let is_only = self.exact.is_empty()
            && self.endings.is_empty()
            && self.beginnings.is_empty()
            && self.patterns.is_empty();
        if name.is_empty() || is_only || self.by_text(name.as_bytes()).is_some() {
            return Ok(!name.is_empty());
        }
        for (pattern, _) in &self.patterns {
            if pattern.matches(exchange, name.as_bytes(), Provenance::Name)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The server for an SNI name; the default server if none matches. A pattern that exceeds its match limit does
    /// not match.
    pub fn by_sni(&self, name: &[u8]) -> u32 {
        self.find_sni(name).unwrap_or(0)
    }

    /// As [`Names::by_sni`], but `None` if no server matches.
    pub fn find_sni(&self, name: &[u8]) -> Option<u32> {
        if name.is_empty() {
            return None;
        }
        if let Some((index, _)) = self.by_text(name) {
            return Some(index);
        }
        let mut patterns = self.patterns.iter();
        let found = patterns.find(|(pattern, _)| pattern.is_match(name).unwrap_or(false));
        found.map(|(_, index)| *index)
    }

    /// The server with this name, regular expressions excluded.
    fn by_text(&self, host: &[u8]) -> Option<(u32, By)> {
        if let Some(index) = self.exact.get(host) {
            return Some((*index, By::Name));
        }
        let longer = |text: &[u8]| host.len() > text.len();
        let ending = self
            .endings
            .iter()
            .find(|(text, _)| longer(text) && host.ends_with(text));
        if let Some((_, index)) = ending {
            return Some((*index, By::Ending));
        }
        let mut beginnings = self.beginnings.iter();
        let found = beginnings.find(|(text, _)| longer(text) && host.starts_with(text));
        found.map(|(_, index)| (*index, By::Beginning))
    }
}
