//! Routing state of a request among virtual servers and locations.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sluice_diag::OriginId;
use sluice_message::{Fields, Status};

use sluice_route::{Found, Key, Kind, Provenance, Values};

use super::captures::Captures;
use super::connection_zone::Held as Counted;
use super::follow_up::FollowUp;
use super::groups::found_or_fails;
use super::piece::Piece;
use super::ssi::page_state::Shared as Pages;
use super::user_id_value::Known;
use sluice_handlers::filters::encode::Counts;
use sluice_pipeline::context::{Context, Exchange};
use sluice_pipeline::failure::Fault;
use sluice_pipeline::seldom::{Empty, Seldom};
use sluice_pipeline::values::At;
use sluice_tls::handshakes::Handshake;

/// Maximum number of internal redirects and repeated location lookups, as in nginx.
pub const REDIRECTS_MAX: u8 = 10;

/// The outcome of rate or connection limits. A request is counted once, in the first scope that has limits, and not
/// again after an internal redirect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limited {
    /// No limit has been evaluated.
    #[default]
    No,
    /// Within the limits.
    Passed,
    /// Delayed.
    Delayed,
    /// Rejected.
    Rejected,
    /// Would have been delayed (dry run).
    DelayedDryRun,
    /// Would have been rejected (dry run).
    RejectedDryRun,
}

impl Limited {
    /// The value of `$limit_req_status` and `$limit_conn_status`.
    pub fn as_str(self) -> &'static str {
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

/// Which component applies the `Range` of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Taking {
    /// The handler that responds.
    #[default]
    AtOnce,
    /// The filter, if the handler offers ranges.
    Later,
    /// The filter; the handler has offered ranges.
    Offered,
    /// None: the response becomes part of another one.
    Never,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The response to a client.
    Client,
    /// An explanation of how the request would be handled; notes are recorded.
    Explanation,
    /// A part of another response.
    Subrequest {
        /// Nesting depth of includes.
        depth: u8,
    },
    /// A further slice of a response; it stays in the scope of the first slice.
    Slice {
        /// Nesting depth of includes of the response.
        depth: u8,
    },
}

impl Purpose {
    /// Nesting depth of includes.
    pub(super) fn depth(self) -> u8 {
        match self {
            Purpose::Client | Purpose::Explanation => 0,
            Purpose::Subrequest { depth } | Purpose::Slice { depth } => depth,
        }
    }
}

/// The target of a request, compared with the one that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// As sent, apart from normalization.
    AsSent,
    /// Another one.
    Changed {
        /// Whether its location has been looked up.
        search: Search,
        /// The path that upstreams receive.
        upstream_path: UpstreamPath,
    },
}

/// Whether the location of a changed target has been looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Search {
    /// It has, or it does not have to be.
    Done,
    /// It has to be.
    Due,
}

/// The path that upstreams receive for a changed target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UpstreamPath {
    /// The path of `proxy_pass` replaces the part that selected the location.
    OfLocation,
    /// The one that `rewrite … break` has set.
    Final,
}

impl Target {
    /// One that handlers have set.
    pub(super) const CHANGED: Target = Target::Changed {
        search: Search::Done,
        upstream_path: UpstreamPath::OfLocation,
    };

    /// Notes that a handler has changed the target.
    pub(super) fn change(&mut self) {
        if *self == Target::AsSent {
            *self = Target::CHANGED;
        }
    }

    /// Notes that `rewrite` has changed the target, and whether a search follows.
    pub(super) fn rewrite(&mut self, then: Search) {
        self.change();
        if let Target::Changed { search, .. } = self {
            *search = then;
        }
    }

    /// Notes that `rewrite … break` has changed the target.
    pub(super) fn rewrite_finally(&mut self) {
        *self = Target::Changed {
            search: Search::Done,
            upstream_path: UpstreamPath::Final,
        };
    }

    /// Notes that the location of the target is being looked up, or is not to be.
    pub(super) fn end_search(&mut self) {
        if let Target::Changed { search, .. } = self {
            *search = Search::Done;
        }
    }

    /// Leaves the path that upstreams receive to the next location.
    pub(super) fn leave_path_to_location(&mut self) {
        if let Target::Changed { upstream_path, .. } = self {
            *upstream_path = UpstreamPath::OfLocation;
        }
    }

    /// Whether the location of the target has to be looked up.
    pub(super) fn needs_search(self) -> bool {
        matches!(
            self,
            Target::Changed {
                search: Search::Due,
                ..
            }
        )
    }
}

/// What `error_page` has done for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorPage {
    /// Nothing that limits what it does next.
    Unused,
    /// A page makes the response.
    Chosen {
        /// The status of the response.
        status: u16,
        /// What happens if the page fails.
        on_error: OnPageError,
    },
    /// A page has failed, and the built-in page has to do.
    Exhausted,
}

/// What happens if an error page fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnPageError {
    /// `error_page` applies again (`recursive_error_pages`).
    NextPage,
    /// The built-in page is sent.
    BuiltInPage,
}

impl ErrorPage {
    /// Notes an error: a page that fails does not set the status of the response.
    pub(super) fn fail(&mut self) {
        *self = match *self {
            ErrorPage::Unused => ErrorPage::Unused,
            ErrorPage::Exhausted => ErrorPage::Exhausted,
            ErrorPage::Chosen { on_error, .. } => match on_error {
                OnPageError::NextPage => ErrorPage::Unused,
                OnPageError::BuiltInPage => ErrorPage::Exhausted,
            },
        };
    }

    /// The status that replaces that of the response.
    pub(super) fn status(self) -> Option<u16> {
        match self {
            ErrorPage::Chosen { status, .. } => Some(status),
            ErrorPage::Unused | ErrorPage::Exhausted => None,
        }
    }
}

/// The routing state of a request.
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// The virtual server, once selected.
    pub(super) server: Option<u32>,
    /// The index of the scope in effect.
    pub(super) place: u32,
    /// The named location that the request was sent to.
    pub(super) named: Option<u32>,
    /// The response of a `return`, pending until the headers of its scope are added.
    pub(super) pending: Option<u32>,
    /// What the request is for.
    pub(super) purpose: Purpose,
    /// Its target.
    pub(super) target: Target,
    /// The error page in effect.
    pub(super) error_page: ErrorPage,
    /// Internal redirects and repeated location lookups so far.
    pub(super) redirects: u8,
    /// The code of the problem with the client certificate; 0 for none.
    pub(super) doubt: u8,
    /// The client port reported by a trusted proxy, 0 if it reported only an address; `None` while the peer is the
    /// client.
    pub(super) real_port: Option<u16>,
    /// Which component applies the `Range` of the request.
    pub(super) ranges: Taking,
    /// The outcome of rate limits.
    pub limited_requests: Limited,
    /// The outcome of connection limits.
    pub limited_connections: Limited,
    /// Whether the request was redirected internally: `internal` locations are accessible.
    pub(super) is_internal: bool,
    /// Whether the path follows the whole `alias` of its location: `try_files` has chosen it.
    pub(super) follows_alias: bool,
    /// Whether the charset requested by an upstream is evaluated.
    pub(super) heeds_charset: bool,
}

impl Default for State {
    fn default() -> State {
        State::INITIAL
    }
}

impl State {
    /// The state of a request that no server has been selected for.
    const INITIAL: State = State {
        server: None,
        place: 0,
        named: None,
        pending: None,
        purpose: Purpose::Client,
        target: Target::AsSent,
        error_page: ErrorPage::Unused,
        redirects: 0,
        doubt: 0,
        real_port: None,
        ranges: Taking::AtOnce,
        limited_requests: Limited::No,
        limited_connections: Limited::No,
        is_internal: false,
        follows_alias: false,
        heeds_charset: false,
    };

    /// Whether this is a subrequest.
    pub fn is_subrequest(&self) -> bool {
        match self.purpose {
            Purpose::Client | Purpose::Explanation => false,
            Purpose::Subrequest { .. } | Purpose::Slice { .. } => true,
        }
    }

    /// Whether a `rewrite … break` changed the path, so that the path of `proxy_pass` replaces no part of it.
    pub fn has_final_path(&self) -> bool {
        matches!(
            self.target,
            Target::Changed {
                upstream_path: UpstreamPath::Final,
                ..
            }
        )
    }

    /// Whether the target is still the one that was sent, apart from normalization.
    pub fn is_as_sent(&self) -> bool {
        self.target == Target::AsSent
    }
}

/// Everything that a server of an nginx.conf keeps for a request, in the context of the request.
#[derive(Default)]
pub struct RequestState {
    /// The current location.
    pub(super) state: State,
    /// The lookup tables of the configuration, if it has any.
    pub(super) tables: Option<Arc<dyn Lookup>>,
    /// The captures of the latest regular expression that matched.
    pub(super) captures: Seldom<Captures>,
    /// State that few requests need.
    pub(super) occasional: Seldom<Occasional>,
    /// Its entries in connection limits, until the response has ended.
    pub(super) counted: Vec<Counted>,
}

/// Access to the state that a server of an nginx.conf keeps for a request. Other requests have the default state.
pub trait NginxContext {
    /// The routing state.
    fn nginx(&self) -> &State;
    /// The routing state, for changes.
    fn nginx_mut(&mut self) -> &mut State;
    /// The lookup tables of the configuration, if it has any.
    fn tables(&self) -> Option<&Arc<dyn Lookup>>;
    /// Sets the lookup tables.
    fn set_tables(&mut self, tables: Option<&Arc<dyn Lookup>>);
    /// The captures of the latest regular expression that matched.
    fn captures(&self) -> &Captures;
    /// The captures, for changes.
    fn captures_mut(&mut self) -> &mut Seldom<Captures>;
    /// State that few requests need.
    fn occasional(&self) -> &Occasional;
    /// State that few requests need, for changes.
    fn occasional_mut(&mut self) -> &mut Occasional;
    /// The entries in connection limits.
    fn counted_mut(&mut self) -> &mut Vec<Counted>;
}

impl NginxContext for Context {
    fn nginx(&self) -> &State {
        static INITIAL: State = State::INITIAL;
        match self.dialect.find::<RequestState>() {
            Some(request) => &request.state,
            None => &INITIAL,
        }
    }

    fn nginx_mut(&mut self) -> &mut State {
        &mut self.dialect.state::<RequestState>().state
    }

    fn tables(&self) -> Option<&Arc<dyn Lookup>> {
        self.dialect.find::<RequestState>()?.tables.as_ref()
    }

    fn set_tables(&mut self, tables: Option<&Arc<dyn Lookup>>) {
        self.dialect.state::<RequestState>().tables = tables.cloned();
    }

    fn captures(&self) -> &Captures {
        match self.dialect.find::<RequestState>() {
            Some(request) => &request.captures,
            None => Captures::empty(),
        }
    }

    fn captures_mut(&mut self) -> &mut Seldom<Captures> {
        &mut self.dialect.state::<RequestState>().captures
    }

    fn occasional(&self) -> &Occasional {
        match self.dialect.find::<RequestState>() {
            Some(request) => &request.occasional,
            None => Occasional::empty(),
        }
    }

    fn occasional_mut(&mut self) -> &mut Occasional {
        &mut self.dialect.state::<RequestState>().occasional
    }

    fn counted_mut(&mut self) -> &mut Vec<Counted> {
        &mut self.dialect.state::<RequestState>().counted
    }
}

/// One configuration line that was evaluated.
#[derive(Clone, Debug)]
pub struct ExplainedLine {
    /// Where the line was written; `None` stands for the handler's own line.
    pub origin: Option<OriginId>,
    /// Whether the line had an effect, as opposed to being evaluated only.
    pub took_part: bool,
    /// What it matched or did.
    pub text: String,
}

/// The variables of lookup tables (`map`, `geo` and others).
pub trait Lookup: Send + Sync {
    /// Whether there is a variable of this name.
    fn know(&self, name: &str) -> bool;

    /// Appends the value of the variable; returns its provenance.
    fn value(&self, subject: Subject<'_>, name: &str, out: &mut Vec<u8>) -> Provenance;
}

/// What a variable is evaluated for.
#[derive(Clone, Copy)]
pub enum Subject<'a> {
    /// A request.
    Request(&'a Exchange),
    /// A TLS handshake, before there is a request.
    Handshake(&'a Handshake<'a>),
}

impl<'a> Subject<'a> {
    /// The request, if there is one.
    pub fn request(self) -> Option<&'a Exchange> {
        match self {
            Subject::Request(exchange) => Some(exchange),
            Subject::Handshake(_) => None,
        }
    }

    /// The result of a match. One that exceeded the limit counts as no match, and makes a request fail before a response
    /// is sent.
    pub fn found_or_fails(self, found: Result<bool, Fault>) -> bool {
        match self {
            Subject::Request(exchange) => found_or_fails(exchange, found),
            Subject::Handshake(_) => found.unwrap_or(false),
        }
    }
}

impl Values for Subject<'_> {
    fn value(&self, key: &Key, out: &mut Vec<u8>) -> Found {
        match self {
            Subject::Request(exchange) => At(exchange).value(key, out),
            Subject::Handshake(handshake) => handshake.value(key, out),
        }
    }

    fn kind(&self, key: &Key) -> Kind {
        match self {
            Subject::Request(exchange) => At(exchange).kind(key),
            Subject::Handshake(handshake) => handshake.kind(key),
        }
    }

    fn provenance(&self, key: &Key) -> Provenance {
        match self {
            Subject::Request(exchange) => At(exchange).provenance(key),
            Subject::Handshake(handshake) => handshake.provenance(key),
        }
    }
}

/// State that few requests need.
#[derive(Clone, Debug, Default)]
pub struct Occasional {
    /// The upstream address, if it contains variables.
    pub(super) pass: Pass,
    /// How long a rate limit delays the request.
    pub held_for: Duration,
    /// Sizes before and after compression.
    pub(super) gzip: Option<Arc<Counts>>,
    /// The first line of a request with a malformed head.
    pub(super) refused_line: Option<Box<[u8]>>,
    /// The `userid` cookie of the client.
    pub(super) user_id: Option<Box<Known>>,
    /// The slice that the request is for.
    pub(super) slice: Option<Arc<Piece>>,
    /// State shared by the SSI pages of the response.
    pub(super) ssi: Option<Arc<Pages>>,
    /// The charset requested by an upstream.
    pub(super) charset_wanted: Vec<u8>,
    /// The charset of the page that includes the response.
    pub(super) charset_of_page: Vec<u8>,
    /// Notes for `explain`.
    pub(super) explained: Vec<ExplainedLine>,
    /// The trailers added to the response.
    pub(super) trailers: Fields,
    /// The file that holds the request body.
    pub(super) body_file: Option<Arc<Path>>,
    /// The request that follows, and the scope that has it.
    pub(super) post_action: Option<(u32, Arc<FollowUp>)>,
}

/// An upstream address that contains variables, after expansion.
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
            body_file: None,
            post_action: None,
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
        self.body_file = None;
        self.post_action = None;
        for text in [dial, host, uri] {
            text.clear();
        }
    }
}

/// Sets the status requested by `error_page`.
pub fn set_status(exchange: &mut Exchange) {
    let status = exchange.context.nginx().error_page.status();
    if let Some(status) = status.and_then(Status::new) {
        exchange.res.status = status;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_searched_for_until_it_is_found() {
        let mut target = Target::AsSent;
        target.end_search();
        target.leave_path_to_location();
        assert_eq!(target, Target::AsSent);
        target.rewrite(Search::Due);
        assert!(target.needs_search());
        target.change();
        assert!(target.needs_search(), "another change does not end it");
        target.end_search();
        assert_eq!(target, Target::CHANGED);
    }

    #[test]
    fn a_final_path_outlives_searches() {
        let mut state = State::default();
        state.target.rewrite_finally();
        state.target.rewrite(Search::Due);
        state.target.end_search();
        assert!(state.has_final_path() && !state.is_as_sent());
        state.target.leave_path_to_location();
        assert!(!state.has_final_path() && !state.is_as_sent());
    }

    #[test]
    fn a_failed_page_sets_no_status() {
        let chosen = |on_error| ErrorPage::Chosen {
            status: 404,
            on_error,
        };
        for (on_error, after) in [
            (OnPageError::NextPage, ErrorPage::Unused),
            (OnPageError::BuiltInPage, ErrorPage::Exhausted),
        ] {
            let mut page = chosen(on_error);
            assert_eq!(page.status(), Some(404));
            page.fail();
            assert_eq!(page, after);
            page.fail();
            assert_eq!((page, page.status()), (after, None));
        }
    }
}
