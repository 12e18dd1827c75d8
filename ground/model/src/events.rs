//! Event handlers: what runs when something happens to the server.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::Duration;
use crate::object::{objects, tagged};

objects! {
    /// Event handlers.
    pub struct EventsApp {
        /// Which handlers run on which events.
        pub subscriptions: Vec<Subscription>,
    }

    /// Handlers of some events.
    pub struct Subscription {
        /// The events; all when empty.
        pub events: Vec<String>,
        /// The modules they come from, with those below them; all when empty.
        pub modules: Vec<String>,
        /// What is done, in this order.
        pub handlers: Vec<EventHandler>,
    }

    /// Runs a command. The words are those of the Caddy plugin `mholt/caddy-events-exec`.
    pub struct ExecEvent {
        /// The program, without placeholders.
        pub command: String,
        /// Its arguments, which may have placeholders.
        pub args: Vec<String>,
        /// The folder to run it in; that of the server when empty.
        pub dir: String,
        /// How long it may take; 30 s when zero.
        pub timeout: Duration,
        /// Whether the next handler waits for its end.
        pub foreground: bool,
        /// Exit codes that cancel the event. Not supported.
        pub abort_codes: Vec<i64>,
    }

    /// Sends a request with the event as JSON. Our own module.
    pub struct WebhookEvent {
        /// Where to send it.
        pub url: String,
        /// Headers, whose values may have placeholders.
        pub headers: BTreeMap<String, String>,
        /// How long it may take; 10 s when zero.
        pub timeout: Duration,
        /// Whether the next handler waits for the response.
        pub foreground: bool,
    }
}

tagged! {
    /// What is done on an event.
    pub enum EventHandler by "handler" {
        /// Runs a command.
        Exec(ExecEvent) = "exec",
        /// Sends a request.
        Webhook(WebhookEvent) = "webhook",
    }
}
