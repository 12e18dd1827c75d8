//! Handlers: each directive that answers or changes a request has one file.
