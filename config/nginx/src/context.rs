//! The kinds of blocks that directives stand in.

/// A kind of block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// Outside of all blocks.
    Main,
    /// `events`
    Events,
    /// `http`
    Http,
    /// `server`
    Server,
    /// `location`
    Location,
    /// `if` in a server.
    IfInServer,
    /// `if` in a location.
    IfInLocation,
    /// `limit_except`
    LimitExcept,
    /// `upstream`
    Upstream,
    /// `acme_issuer`
    AcmeIssuer,
}

impl Context {
    /// What messages call it.
    pub fn name(self) -> &'static str {
        match self {
            Context::Main => "the main context",
            Context::Events => "`events`",
            Context::Http => "`http`",
            Context::Server => "`server`",
            Context::Location => "`location`",
            Context::IfInServer => "`if` in a `server`",
            Context::IfInLocation => "`if` in a `location`",
            Context::LimitExcept => "`limit_except`",
            Context::Upstream => "`upstream`",
            Context::AcmeIssuer => "`acme_issuer`",
        }
    }

    /// Whether a place of the documentation is this one.
    pub(crate) fn is(self, place: &str) -> bool {
        match self {
            Context::Main => place == "main",
            Context::Events => place == "events",
            Context::Http => place == "http",
            Context::Server => place == "server",
            Context::Location => place == "location",
            Context::IfInServer => place == "if",
            Context::IfInLocation => matches!(place, "if" | "if in location"),
            Context::LimitExcept => place == "limit_except",
            Context::Upstream => place == "upstream",
            Context::AcmeIssuer => place == "acme_issuer",
        }
    }
}
