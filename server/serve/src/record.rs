//! Exactly one log line and one count for each request, failed ones included.
