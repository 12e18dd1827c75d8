//! Listeners, connections, TLS, upstream pools, timers, workers.
