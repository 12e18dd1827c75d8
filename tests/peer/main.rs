//! Tests beside Caddy.
