//! End-to-end tests of the real binary: started as users start it, with requests over raw sockets. One file per topic;
//! shared code is in `../support`. The comparison with other servers is one of the modules, so that both are linked
//! once.

#[path = "../peer/mod.rs"]
mod peer;
#[path = "../support/mod.rs"]
mod support;

use support::{abilities, client, harness, ports, service, temp_folder, upstream, wait, wire};

mod acme;
mod acme_server;
mod admin;
mod bad_input;
mod browser;
mod caddy_parity;
mod cgi;
mod client_text;
mod command_line;
mod config_load;
mod connection_memory;
mod containment;
mod directed_upstreams;
mod directives;
mod documents;
mod dynamic_checks;
mod etcd_upstreams;
mod events;
mod explain;
mod expressions;
mod fastcgi;
mod files;
mod get_certificate;
mod h2;
mod h3;
mod handshakes;
mod hedging;
mod herd;
mod intercept;
mod limits;
mod live_config;
mod logs;
mod memory_limit;
mod metrics;
mod nginx;
mod ocsp;
mod odd_headers;
mod overload;
mod pages;
mod peer_certificates;
mod php;
mod policy_storage;
mod process;
mod proxy;
mod proxy_header;
mod push;
mod python;
mod rare_options;
mod redis_upstreams;
mod reload;
mod remote_admin;
mod request_ids;
mod request_paths;
mod responders;
mod response_cache;
mod shared_flight;
mod shared_limits;
mod sites;
mod slow_clients;
mod soak;
mod status;
mod storage_state;
#[allow(
    clippy::unwrap_used,
    dead_code,
    reason = "the servers of the store's own tests, of which these use a part"
)]
mod stores;
mod studies;
mod templates;
mod tls;
mod tracing;
mod trust;
mod upgrade;
mod upstreams;
mod volume;
mod welcome;
mod zerossl;
