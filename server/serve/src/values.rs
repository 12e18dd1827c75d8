//! The values of placeholders for a request.
