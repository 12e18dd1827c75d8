//! `geo`: maps client addresses to values by binary search, as tables may hold all networks of the Internet.

use std::cmp::Reverse;
use std::net::IpAddr;

use sluice_model::nginx::{RealIp as Proxies, VariableTable as Config};
use sluice_route::Template;
use sluice_route::matcher::AddressSpan;

use super::realip::RealIp;
use sluice_pipeline::build::template;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::refusal::Refusal;

/// The table of one variable.
#[derive(Debug)]
pub struct Geo {
    /// Ranges of IPv4 and of IPv6, ascending and disjoint.
    pieces: [Vec<Piece>; 2],
    values: Vec<Template>,
    proxies: Option<RealIp>,
}

/// A range of addresses with one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    first: u128,
    last: u128,
    value: usize,
}

impl Geo {
    /// Parses the table.
    pub fn build(config: &Config) -> Result<Geo, Refusal> {
        let (mut values, mut spans) = (Vec::new(), [Vec::new(), Vec::new()]);
        for row in &config.rows {
            let span = match row.key.contains('-') {
                true => AddressSpan::of_range(&row.key),
                false => AddressSpan::of_network(&row.key),
            };
            let span = span.ok_or_else(|| {
                Refusal::new(format!("geo: `{}` is not a valid network", row.key))
            })?;
            spans[usize::from(span.is_v6)].push(Piece {
                first: span.first,
                last: span.last,
                value: values.len(),
            });
            values.push(template(&row.value)?);
        }
        let proxies = Proxies {
            from: config.proxies.clone(),
            field: "X-Forwarded-For".to_owned(),
            recursive: config.proxy_recursive,
            ..Proxies::default()
        };
        Ok(Geo {
            pieces: spans.map(flat),
            values,
            proxies: match config.proxies.is_empty() {
                true => None,
                false => Some(RealIp::build(&proxies)?),
            },
        })
    }

    /// The value of an address; `source` is the client's address as text. Only a request can name a client behind
    /// proxies.
    pub fn find(&self, exchange: Option<&Exchange>, source: &[u8]) -> Option<&Template> {
        let ip: IpAddr = std::str::from_utf8(source).ok()?.parse().ok()?;
        let ip = match (&self.proxies, exchange) {
            (Some(proxies), Some(exchange)) => proxies.behind(exchange, ip),
            (None, _) | (_, None) => ip,
        };
        let (is_v6, number) = AddressSpan::number(ip);
        let pieces = &self.pieces[usize::from(is_v6)];
        let at = pieces.partition_point(|piece| piece.last < number);
        let piece = pieces.get(at).filter(|piece| piece.first <= number)?;
        self.values.get(piece.value)
    }
}

/// Turns nested ranges into disjoint ones. The narrower range wins, and the later of two equal ones.
fn flat(mut spans: Vec<Piece>) -> Vec<Piece> {
    spans.sort_by_key(|span| (span.first, Reverse(span.last), span.value));
    let mut out: Vec<Piece> = Vec::with_capacity(spans.len());
    let mut open: Vec<Piece> = Vec::new();
    // The first address that is not covered yet.
    let mut at = 0;
    let mut add = |first: u128, last: u128, value: usize| {
        if first <= last {
            out.push(Piece { first, last, value });
        }
    };
    for span in spans {
        while let Some(outer) = open.last().filter(|outer| outer.last < span.first) {
            add(at, outer.last, outer.value);
            at = at.max(outer.last + 1);
            open.pop();
        }
        if let Some(outer) = open.last().filter(|_| at < span.first) {
            add(at, span.first - 1, outer.value);
        }
        at = span.first;
        open.push(span);
    }
    while let Some(outer) = open.pop() {
        add(at, outer.last, outer.value);
        match outer.last.checked_add(1) {
            Some(next) => at = at.max(next),
            None => break,
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(spans: &[(u128, u128)]) -> Vec<(u128, u128, usize)> {
        let spans = spans.iter().enumerate();
        let spans = spans.map(|(value, (first, last))| Piece {
            first: *first,
            last: *last,
            value,
        });
        let pieces = flat(spans.collect()).into_iter();
        pieces.map(|one| (one.first, one.last, one.value)).collect()
    }

    #[test]
    fn the_narrower_piece_counts() {
        assert_eq!(cut(&[]), []);
        assert_eq!(cut(&[(1, 9)]), [(1, 9, 0)]);
        assert_eq!(
            cut(&[(10, 90), (20, 30), (25, 26), (90, 90)]),
            [
                (10, 19, 0),
                (20, 24, 1),
                (25, 26, 2),
                (27, 30, 1),
                (31, 89, 0),
                (90, 90, 3)
            ]
        );
        assert_eq!(cut(&[(1, 4), (1, 9)]), [(1, 4, 0), (5, 9, 1)]);
        assert_eq!(cut(&[(1, 4), (1, 4), (8, 9)]), [(1, 4, 1), (8, 9, 2)]);
        let all = u128::MAX;
        assert_eq!(
            cut(&[(0, all), (all, all)]),
            [(0, all - 1, 0), (all, all, 1)]
        );
        assert_eq!(
            cut(&[(all, all), (0, all)]),
            [(0, all - 1, 1), (all, all, 0)]
        );
    }

    #[test]
    fn each_address_has_the_value_of_the_narrowest_piece_around_it() {
        // Networks within 8 bits, which are nested or disjoint.
        let mut seed = 7u64;
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as u128
        };
        for _ in 0..200 {
            let spans: Vec<(u128, u128)> = (0..next() % 12)
                .map(|_| {
                    let mask = (1 << (next() % 9)) - 1;
                    let number = next() % 256;
                    (number & !mask, number | mask)
                })
                .collect();
            let pieces = cut(&spans);
            for number in 0..256 {
                let around = spans.iter().enumerate();
                let around = around.filter(|(_, span)| span.0 <= number && number <= span.1);
                let narrowest =
                    around.min_by_key(|(value, span)| (span.1 - span.0, Reverse(*value)));
                let found = pieces.iter().find(|one| one.0 <= number && number <= one.1);
                assert_eq!(
                    found.map(|one| one.2),
                    narrowest.map(|(value, _)| value),
                    "{number} in {spans:?}"
                );
            }
        }
    }
}
