//! What happens to a request: from the model to a running server.
