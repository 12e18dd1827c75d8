//! Caddyfile text to the model, with diagnostics.
