//! Prints the cost of one lookup among 10, 1,000 and 10,000 sites, and for comparison the cost of trying each site's
//! matcher in turn: `cargo run --release -p sluice-route --example router_speed`.

use std::hint::black_box;
use std::time::Instant;

use sluice_message::{ConnInfo, Remote, RequestHead};
use sluice_route::placeholder::NoValues;
use sluice_route::{Input, Matcher, MatcherSet, MatcherSets, RouteIndex, Scratch};

const LOOKUPS: usize = 1_000_000;

fn main() {
    println!(
        "{:>8} {:>16} {:>22} {:>22}",
        "sites", "index, ns", "index + match, ns", "one by one, ns"
    );
    for sites in [10, 100, 1_000, 10_000] {
        let routes: Vec<MatcherSets> = (0..sites).map(site).collect();
        let keys: Vec<_> = routes.iter().map(MatcherSets::key).collect();
        let index = RouteIndex::build(&keys);
        let heads: Vec<RequestHead> = (0..1_024).map(|n| head((n * 7_919) % sites)).collect();
        let lookup = measure(LOOKUPS, &heads, |head| {
            index.candidate(&head.host, head.uri.path(), 0)
        });
        let matched = measure(LOOKUPS, &heads, |head| find(&index, &routes, head));
        let linear = measure(LOOKUPS / sites, &heads, |head| {
            routes.iter().position(|route| is_met(route, head))
        });
        println!("{sites:>8} {lookup:>16.1} {matched:>22.1} {linear:>22.1}");
    }
}

fn site(number: usize) -> MatcherSets {
    let host =
        Matcher::host(&[format!("www.site-{number}.example.com")]).expect("a plain host compiles");
    MatcherSets::new(vec![MatcherSet::new(vec![host])])
}

fn head(site: usize) -> RequestHead {
    let mut head = RequestHead::default();
    head.uri.set(b"/index.html");
    head.set_authority(format!("www.site-{site}.example.com").as_bytes());
    head
}

/// The nanoseconds that one call of `look` takes.
fn measure(
    calls: usize,
    heads: &[RequestHead],
    look: impl Fn(&RequestHead) -> Option<usize>,
) -> f64 {
    let calls = calls.max(1);
    let begin = Instant::now();
    for call in 0..calls {
        assert!(
            black_box(look(black_box(&heads[call % heads.len()]))).is_some(),
            "every site is there"
        );
    }
    begin.elapsed().as_nanos() as f64 / calls as f64
}

fn find(index: &RouteIndex, routes: &[MatcherSets], head: &RequestHead) -> Option<usize> {
    let mut candidates = index.lookup(&head.host, head.uri.path());
    let mut from = 0;
    while let Some(route) = candidates.next_from(from) {
        if is_met(&routes[route], head) {
            return Some(route);
        }
        from = route + 1;
    }
    None
}

fn is_met(route: &MatcherSets, head: &RequestHead) -> bool {
    let conn = ConnInfo {
        remote: Remote::Unix,
        local: None.into(),
        tls: None,
        facts: Default::default(),
    };
    let scratch = Scratch::new();
    let input = Input {
        head,
        conn: &conn,
        client_ip: None,
        values: &NoValues,
        scratch: &scratch,
    };
    route.matches(&input).unwrap_or(false)
}
