//! The matrix of engines, faults and steps of which the other modules run one of each kind, and the long tests.
//! `cargo xtask soak` runs them by the name of this module; `cargo xtask acme` leaves them out.

use super::kills::{STEPS, survive_kills};
use super::outage::{Outage, an_order_goes_on, nothing_fails};
use super::partition::by_a_relay;
use super::{a_dead_node_is_followed_by_another, order_once, three_nodes};
use crate::stores::Kind;

#[test]
#[ignore = "minutes, and needs pebble: cargo xtask soak"]
fn fifty_holders_of_a_lock_are_killed() {
    survive_kills(STEPS.into_iter().cycle().take(50));
}

#[test]
#[ignore = "minutes, and needs pebble: cargo xtask soak"]
fn three_nodes_order_a_hundred_names_exactly_once() {
    order_once(100);
}

#[test]
#[ignore = "needs pebble: cargo xtask soak"]
fn three_nodes_order_each_certificate_once_and_serve_it_with_redis_dead() {
    three_nodes(Kind::Redis);
}

#[test]
#[ignore = "needs pebble: cargo xtask soak"]
fn three_nodes_order_each_certificate_once_and_serve_it_with_postgres_dead() {
    three_nodes(Kind::Postgres);
}

#[test]
#[ignore = "needs pebble: cargo xtask soak"]
fn another_node_takes_over_from_one_that_dies_in_an_order() {
    a_dead_node_is_followed_by_another();
}

#[test]
#[ignore = "needs pebble: cargo xtask soak"]
fn the_write_of_a_node_that_was_cut_off_is_refused_by_etcd() {
    by_a_relay(Kind::Etcd);
}

#[test]
#[ignore = "needs pebble: cargo xtask soak"]
fn the_write_of_a_node_that_was_cut_off_is_refused_by_redis() {
    by_a_relay(Kind::Redis);
}

#[test]
#[ignore = "needs pebble: cargo xtask soak"]
fn an_order_goes_on_when_postgres_is_started_again() {
    an_order_goes_on(Kind::Postgres);
}

#[test]
#[ignore = "needs pebble: cargo xtask soak"]
fn requests_survive_an_etcd_that_is_killed() {
    nothing_fails(Kind::Etcd, Outage::Killed);
}

#[test]
#[ignore = "needs pebble: cargo xtask soak"]
fn requests_survive_a_redis_that_is_killed() {
    nothing_fails(Kind::Redis, Outage::Killed);
}

#[test]
#[ignore = "needs pebble: cargo xtask soak"]
fn requests_survive_a_postgres_that_is_restarted() {
    nothing_fails(Kind::Postgres, Outage::Killed);
}
