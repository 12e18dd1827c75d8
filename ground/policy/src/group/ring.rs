//! The ring of consistent hashing. The points of a server depend only on its name, as in nginx and in Perl's
//! Cache::Memcached::Fast, so keys map to the same servers.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Server, TooMany};
use crate::crc32::Crc32;
use crate::limits::RING_POINTS_MAX;

/// Points for each unit of weight.
const POINTS: usize = 160;

/// The ring.
#[derive(Debug)]
pub struct Ring {
    points: Box<[Point]>,
    /// The servers of each name.
    names: Box<[Box<[usize]>]>,
}

#[derive(Clone, Copy, Debug)]
struct Point {
    hash: u32,
    name: u32,
}

impl Ring {
    /// The ring of those of `servers` whose numbers are given.
    pub fn new(servers: &[Server], members: &[usize]) -> Result<Ring, TooMany> {
        let weight = |index: &usize| servers[*index].weight as usize;
        let count = members.iter().map(weight).sum::<usize>();
        let count = count.saturating_mul(POINTS);
        if count > RING_POINTS_MAX {
            return Err(TooMany::Points(count));
        }
        let mut points = Vec::with_capacity(count);
        let mut names: Vec<(&str, Vec<usize>)> = Vec::new();
        for index in members {
            let server = &servers[*index];
            let known = names.iter().position(|(name, _)| *name == server.name);
            let name = known.unwrap_or_else(|| {
                names.push((&server.name, Vec::new()));
                names.len() - 1
            });
            names[name].1.push(*index);
            add_points(server, name as u32, &mut points);
        }
        // Of two points at one place the first counts.
        points.sort_by_key(|point| point.hash);
        points.dedup_by_key(|point| point.hash);
        Ok(Ring {
            points: points.into(),
            names: names.into_iter().map(|(_, same)| same.into()).collect(),
        })
    }

    /// The place of the first point at or behind `hash`.
    pub fn place(&self, hash: u32) -> usize {
        self.points.partition_point(|point| point.hash < hash)
    }

    /// The name at a place; the ring begins anew behind its last one.
    pub fn name_at(&self, place: usize) -> u32 {
        match self.points.len() {
            0 => u32::MAX,
            count => self.points[place % count].name,
        }
    }

    /// The servers of a name.
    pub fn members(&self, name: u32) -> &[usize] {
        self.names.get(name as usize).map_or(&[], |same| same)
    }
}

fn add_points(server: &Server, name: u32, points: &mut Vec<Point>) {
    let (host, port) = split(&server.name);
    let base = Crc32::new()
        .with(host.as_bytes())
        .with(b"\0")
        .with(port.as_bytes());
    let mut before = 0u32;
    for _ in 0..server.weight as usize * POINTS {
        let hash = base.with(&before.to_le_bytes()).sum();
        points.push(Point { hash, name });
        before = hash;
    }
}

/// Host and port of a name: a port is made of digits behind the last colon.
fn split(name: &str) -> (&str, &str) {
    let is_unix = |start: &str| start.eq_ignore_ascii_case("unix:");
    if name.get(.."unix:".len()).is_some_and(is_unix) {
        return (&name["unix:".len()..], "");
    }
    match name.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (host, port),
        _ => (name, ""),
    }
}
