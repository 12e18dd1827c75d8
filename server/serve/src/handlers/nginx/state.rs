//! What is remembered of one request among virtual servers and locations.

use std::sync::Arc;
use std::time::Duration;

use sluice_message::Fields;

use sluice_route::Provenance;

use super::explained::Told;
use super::ranges::Taking;
use super::slice::Piece;
use super::ssi::Shared as Pages;
use super::user_id::Known;
use crate::context::Empty;
use crate::failure::Fault;
use crate::filters::encode::Counts;

/// Redirects within the server, and changes of the target that choose a location anew: nginx's number.
pub const REDIRECTS_MAX: u8 = 10;

/// What limits have made of a request. They count it in the first place that has some, and not again after it was
/// redirected within the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limited {
    /// No limit has counted it.
    #[default]
    No,
    /// It was let through.
    Passed,
    /// It was held back for a while.
    Delayed,
    /// It was refused.
    Rejected,
    /// It would have been held back.
    DelayedDryRun,
    /// It would have been refused.
    RejectedDryRun,
}

impl Limited {
    /// What variables show.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Limited::No => "",
            Limited::Passed => "PASSED",
            Limited::Delayed => "DELAYED",
            Limited::Rejected => "REJECTED",
            Limited::DelayedDryRun => "DELAYED_DRY_RUN",
            Limited::RejectedDryRun => "REJECTED_DRY_RUN",
        }
    }
}

/// Where a request is.
#[derive(Clone, Copy, Debug, Default)]
pub struct State {
    /// The virtual server, once one was chosen.
    pub(super) server: Option<u32>,
    /// The place whose rules hold.
    pub(super) place: u32,
    /// A location with a name that the request was sent to.
    pub(super) named: Option<u32>,
    /// An answer that is due once the fields of its place were added.
    pub(super) pending: Option<u32>,
    /// The status that replaces that of the answer; 0 for none.
    pub(super) status: u16,
    /// How often it was redirected, or had a location chosen anew.
    pub(super) redirects: u8,
    /// How many answers it is included in, one in the other.
    pub(super) depth: u8,
    /// The number of the doubt in the certificate that its client has shown; 0 for none.
    pub(super) doubt: u8,
    /// The port of the client that a trusted proxy names, 0 where it names an address alone; `None` while the peer
    /// is the client.
    pub(super) real_port: Option<u16>,
    /// Who takes the part of the answer that it asks for.
    pub(super) ranges: Taking,
    /// What limits of requests have made of it.
    pub(crate) limited_requests: Limited,
    /// What limits of connections have made of it.
    pub(crate) limited_connections: Limited,
    /// Whether the server redirected or changed it: locations that are `internal` are open to it.
    pub(super) internal: bool,
    /// Whether it asks for the page of an error.
    pub(super) is_error_page: bool,
    /// Whether its target was changed since a location was chosen.
    pub(super) changed: bool,
    /// Whether anybody asks for the encoding that an upstream wants.
    pub(super) heeds_charset: bool,
    /// Whether the log was told why it ends.
    pub(crate) is_told: bool,
    /// Whether its target is no longer the one that was sent.
    pub(super) rewritten: bool,
    /// Whether the server asks it of itself.
    pub(super) subrequest: bool,
    /// Whether it asks for a piece of an answer, in the place that was chosen for the first.
    pub(super) is_piece: bool,
    /// Whether `rewrite … break` made its path the one that upstreams are asked for.
    pub(super) has_final_path: bool,
    /// Whether the request is explained.
    pub(super) is_explained: bool,
}

impl State {
    /// Whether the server asks the request of itself.
    pub(crate) fn is_subrequest(&self) -> bool {
        self.subrequest
    }

    /// Whether the path of `proxy_pass` replaces no part of that of the request, as a `rewrite … break` changed it.
    pub(crate) fn has_final_path(&self) -> bool {
        self.has_final_path
    }

    /// Whether the target is the one that was sent, however its path was read.
    pub(crate) fn is_as_sent(&self) -> bool {
        !self.rewritten
    }
}

/// What few requests need.
#[derive(Clone, Debug, Default)]
pub struct Occasional {
    /// Where the request is passed on to, where variables say so.
    pub(super) pass: Pass,
    /// How long a limit holds the request back.
    pub(crate) held_for: Duration,
    /// By how much its answer was compressed.
    pub(super) gzip: Option<Arc<Counts>>,
    /// The first line of a request whose head is none.
    pub(super) refused_line: Option<Box<[u8]>>,
    /// The cookie by which its client is known again.
    pub(super) user_id: Option<Box<Known>>,
    /// The piece of an answer that it asks for.
    pub(super) slice: Option<Arc<Piece>>,
    /// What the pages of its answer share.
    pub(super) ssi: Option<Arc<Pages>>,
    /// The encoding that an upstream wants its answer to have.
    pub(super) charset_wanted: Vec<u8>,
    /// The encoding of the page that its answer becomes a part of.
    pub(super) charset_of_page: Vec<u8>,
    /// What an explanation is told of its way.
    pub(super) explained: Vec<Told>,
    /// The fields that were added behind its answer.
    pub(super) trailers: Fields,
}

/// Where a request is passed on to.
#[derive(Clone, Debug, Default)]
pub(super) struct Pass {
    pub(super) dial: Vec<u8>,
    pub(super) host: Vec<u8>,
    pub(super) port: u16,
    pub(super) uri: Vec<u8>,
}

impl Empty for Occasional {
    fn empty() -> &'static Self {
        static EMPTY: Occasional = Occasional {
            pass: Pass {
                dial: Vec::new(),
                host: Vec::new(),
                port: 0,
                uri: Vec::new(),
            },
            held_for: Duration::ZERO,
            gzip: None,
            refused_line: None,
            user_id: None,
            slice: None,
            ssi: None,
            charset_wanted: Vec::new(),
            charset_of_page: Vec::new(),
            explained: Vec::new(),
            trailers: Fields::new(),
        };
        &EMPTY
    }

    fn clear(&mut self) {
        let Pass {
            dial,
            host,
            port,
            uri,
        } = &mut self.pass;
        *port = 0;
        self.held_for = Duration::ZERO;
        self.gzip = None;
        self.refused_line = None;
        self.user_id = None;
        self.slice = None;
        self.ssi = None;
        self.charset_wanted.clear();
        self.charset_of_page.clear();
        self.explained.clear();
        self.trailers.clear();
        for text in [dial, host, uri] {
            text.clear();
        }
    }
}

/// The groups of the latest regular expression that matched.
#[derive(Clone, Debug, Default)]
pub struct Captures {
    text: Vec<u8>,
    groups: Vec<Option<(u32, u32)>>,
    /// Whether groups are written as a query holds them.
    escapes: bool,
    /// Whether the text is a path.
    is_path: bool,
}

impl Captures {
    /// The group with this number; empty if it took no part in the match.
    pub fn group(&self, index: u8) -> &[u8] {
        let found = self.groups.get(usize::from(index)).copied().flatten();
        found.map_or(&[], |(start, end)| &self.text[start as usize..end as usize])
    }

    /// What the group with this number may contribute to paths. One that is empty was allowed to be by its pattern.
    pub fn provenance(&self, index: u8) -> Provenance {
        match self.is_path || self.group(index).is_empty() {
            true => Provenance::Path,
            false => Provenance::Name,
        }
    }

    /// Whether groups are written as a query holds them: while a query or a redirect is made of a path that was
    /// sent escaped.
    pub(super) fn set_escapes(&mut self, escapes: bool) {
        self.escapes = escapes;
    }

    /// Appends the group with this number.
    pub(super) fn write(&self, index: u8, out: &mut Vec<u8>) {
        match self.escapes {
            true => super::uri::escape_argument(self.group(index), out),
            false => out.extend_from_slice(self.group(index)),
        }
    }

    /// Keeps what `find` finds in `text`, which comes from there; as before if it finds nothing.
    pub(super) fn keep(
        &mut self,
        text: &[u8],
        from: Provenance,
        find: impl FnOnce(&[u8], &mut Vec<Option<(u32, u32)>>) -> Result<bool, Fault>,
    ) -> Result<bool, Fault> {
        if !find(text, &mut self.groups)? {
            return Ok(false);
        }
        self.text.clear();
        self.text.extend_from_slice(text);
        self.is_path = from == Provenance::Path;
        Ok(true)
    }
}

impl Empty for Captures {
    fn empty() -> &'static Self {
        static EMPTY: Captures = Captures {
            text: Vec::new(),
            groups: Vec::new(),
            escapes: false,
            is_path: false,
        };
        &EMPTY
    }

    fn clear(&mut self) {
        self.text.clear();
        self.groups.clear();
        self.escapes = false;
    }
}
