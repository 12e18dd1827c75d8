//! Two connections joined after an upgrade: bytes go both ways until both have ended. Deciding that a request
//! may become a tunnel is left to the handler.
