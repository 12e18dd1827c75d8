//! Protocols as state machines: the tests of the package in one program.

mod bodies;
mod cgi;
mod fastcgi;
mod feed;
mod feed_fastcgi;
mod feed_h2;
mod feed_proxy;
mod feed_python;
mod feed_websocket;
mod h2_attacks;
mod h2_client;
mod h2_hpack;
mod h2_link;
mod h2_server;
mod h2_translate;
mod leniency;
mod proxy_protocol;
mod python_lane;
mod python_values;
mod replay;
mod requests;
mod responses;
mod round_trip;
mod support;
mod websocket;
