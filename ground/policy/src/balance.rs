//! Load-balancing policies: which upstream gets a request. `health` and the caller decide which upstreams are
//! available; the caller reads addresses, headers and cookies from the request.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::limits::{CHOICES_MAX, FALLBACKS_MAX};
use crate::random::Random;
use crate::xxh64;

/// The upstreams to choose from, as a policy sees them. They are numbered from 0; the numbers mean
/// nothing beyond one choice.
pub trait Upstreams {
    /// How many there are.
    fn count(&self) -> usize;
    /// Whether it may get a request: healthy, and not full.
    fn is_available(&self, index: usize) -> bool;
    /// Requests that it is working on for us.
    fn in_flight(&self, index: usize) -> u32;
    /// Its address as the configuration spells it, which hashing policies hash.
    fn address(&self, index: usize) -> &str;
    /// Its weight in place of the configured one.
    fn weight(&self, _index: usize) -> Option<u32> {
        None
    }
}

/// Whose turn it is. All workers of a server share one per proxy.
#[derive(Debug, Default)]
pub struct Turn(AtomicU32);

impl Turn {
    /// Before the first turn.
    pub const fn new() -> Turn {
        Turn(AtomicU32::new(0))
    }

    /// Takes the next turn; the first is 1.
    fn take(&self) -> usize {
        self.0.fetch_add(1, Ordering::Relaxed).wrapping_add(1) as usize
    }
}

/// What of a request is hashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HashBy {
    /// `ip_hash`: the address of the peer.
    RemoteIp,
    /// `client_ip_hash`: the address of the client as trusted proxies name it.
    ClientIp,
    /// `uri_hash`: path and query.
    Uri,
    /// `header`: the first line of that name.
    Header(String),
    /// `query`: the values of that parameter, joined by commas.
    Query(String),
}

/// How to choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Any.
    Random,
    /// The one with the fewest requests among that many chosen at random.
    RandomChoose(usize),
    /// The one with the fewest requests.
    LeastConn,
    /// The first in the order of the configuration.
    First,
    /// One after the other.
    RoundRobin,
    /// One after the other, each as many times in a row as its weight says. Upstreams beyond the
    /// weights have weight 1; a weight of 0 takes an upstream out.
    WeightedRoundRobin(Vec<u32>),
    /// Always the same for the same key; each key moves only when its own upstream becomes
    /// unavailable (rendezvous hashing).
    Hash {
        /// Where the key comes from.
        by: HashBy,
        /// What decides for requests without a key.
        fallback: Box<Policy>,
        /// How many of the requests in progress an upstream may have, in percent of an even share; a key goes to its
        /// next upstream while its own has more.
        bound: Option<u32>,
    },
    /// The one that the client's cookie names.
    Cookie {
        /// What decides for clients without a cookie that counts.
        fallback: Box<Policy>,
    },
}

/// What a policy that looks at the request looks at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hint<'a> {
    /// The key to hash; `None` or empty if the request has none.
    pub key: Option<&'a [u8]>,
    /// The upstream that the cookie names, if it names one of these.
    pub named: Option<usize>,
}

/// The chosen upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its number.
    pub index: usize,
    /// Whether to send the client a cookie that names its upstream.
    pub set_cookie: bool,
}

impl Policy {
    /// What the caller has to find in the request for [`Hint::key`].
    pub fn hash_by(&self) -> Option<&HashBy> {
        match self {
            Policy::Hash { by, .. } => Some(by),
            Policy::Cookie { fallback } => fallback.hash_by(),
            Policy::Random
            | Policy::RandomChoose(_)
            | Policy::LeastConn
            | Policy::First
            | Policy::RoundRobin
            | Policy::WeightedRoundRobin(_) => None,
        }
    }

    /// Whether the policy itself goes by a cookie.
    pub fn is_by_cookie(&self) -> bool {
        matches!(self, Policy::Cookie { .. })
    }

    /// Chooses an available upstream; `None` if there is none.
    pub fn choose(
        &self,
        upstreams: &impl Upstreams,
        hint: Hint<'_>,
        turn: &Turn,
        seed: u64,
    ) -> Option<Choice> {
        let mut policy = self;
        let mut set_cookie = false;
        for _ in 0..FALLBACKS_MAX {
            let index = match policy {
                Policy::Random => random(upstreams, seed),
                Policy::RandomChoose(choices) => random_choose(upstreams, *choices, seed),
                Policy::LeastConn => least_conn(upstreams, seed),
                Policy::First => first(upstreams),
                Policy::RoundRobin => round_robin(upstreams, turn),
                Policy::WeightedRoundRobin(weights) => weighted(upstreams, weights, turn),
                Policy::Hash {
                    fallback, bound, ..
                } => match hint.key.filter(|key| !key.is_empty()) {
                    Some(key) => by_hash(upstreams, key, *bound),
                    None => {
                        policy = fallback;
                        continue;
                    }
                },
                Policy::Cookie { fallback } => match hint.named {
                    Some(index) if index < upstreams.count() && upstreams.is_available(index) => {
                        Some(index)
                    }
                    _ => {
                        set_cookie = true;
                        policy = fallback;
                        continue;
                    }
                },
            };
            return index.map(|index| Choice { index, set_cookie });
        }
        random(upstreams, seed).map(|index| Choice { index, set_cookie })
    }
}

fn available(upstreams: &impl Upstreams) -> impl Iterator<Item = usize> {
    (0..upstreams.count()).filter(|&index| upstreams.is_available(index))
}

fn first(upstreams: &impl Upstreams) -> Option<usize> {
    available(upstreams).next()
}

/// Any of `indices`, each with the same chance, in one pass.
fn any_of(indices: impl Iterator<Item = usize>, random: &mut Random) -> Option<usize> {
    let mut chosen = None;
    for (seen, index) in indices.enumerate() {
        if random.below(seen as u64 + 1) == 0 {
            chosen = Some(index);
        }
    }
    chosen
}

fn random(upstreams: &impl Upstreams, seed: u64) -> Option<usize> {
    any_of(available(upstreams), &mut Random::new(seed))
}

fn least_conn(upstreams: &impl Upstreams, seed: u64) -> Option<usize> {
    let fewest = available(upstreams)
        .map(|index| upstreams.in_flight(index))
        .min()?;
    // The numbers move while we look; if no upstream is as idle any more, any of them will do.
    let idle = available(upstreams).filter(|&index| upstreams.in_flight(index) <= fewest);
    any_of(idle, &mut Random::new(seed)).or_else(|| random(upstreams, seed))
}

/// Draws a sample without drawing twice (algorithm R of Vitter), then takes the idlest of it.
fn random_choose(upstreams: &impl Upstreams, choices: usize, seed: u64) -> Option<usize> {
    let choices = choices.clamp(1, CHOICES_MAX);
    let mut random = Random::new(seed);
    let (mut sample, mut drawn) = ([0; CHOICES_MAX], 0);
    for (seen, index) in available(upstreams).enumerate() {
        if drawn < choices {
            sample[drawn] = index;
            drawn += 1;
        } else {
            let place = random.below(seen as u64 + 1) as usize;
            if place < choices {
                sample[place] = index;
            }
        }
    }
    let sample = &mut sample[..drawn];
    // The sample is in no random order yet; start anywhere so that ties are broken by chance.
    sample.rotate_left(random.below(drawn as u64) as usize);
    sample
        .iter()
        .copied()
        .min_by_key(|&index| upstreams.in_flight(index))
}

fn round_robin(upstreams: &impl Upstreams, turn: &Turn) -> Option<usize> {
    let count = upstreams.count();
    if count == 0 {
        return None;
    }
    let start = turn.take();
    (0..count)
        .map(|step| start.wrapping_add(step) % count)
        .find(|&i| upstreams.is_available(i))
}

/// Counts the turns off against the weights of those that are available, so that the others' shares
/// are divided in proportion.
fn weighted(upstreams: &impl Upstreams, weights: &[u32], turn: &Turn) -> Option<usize> {
    let configured = |index: usize| weights.get(index).copied().unwrap_or(1);
    let weight =
        |index: usize| u64::from(upstreams.weight(index).unwrap_or_else(|| configured(index)));
    let total: u64 = available(upstreams).map(weight).sum();
    if total == 0 {
        return None;
    }
    let mut left = turn.take() as u64 % total;
    let chosen = available(upstreams).find(|&index| {
        let own = weight(index);
        let is_own = left < own;
        left = left.saturating_sub(own);
        is_own
    });
    // One may have become unavailable between the two passes.
    chosen.or_else(|| available(upstreams).find(|&index| weight(index) > 0))
}

fn by_hash(upstreams: &impl Upstreams, key: &[u8], bound: Option<u32>) -> Option<usize> {
    let most = bound.map(|percent| {
        let (count, busy) = available(upstreams).fold((0u64, 0u64), |(count, busy), index| {
            (count + 1, busy + u64::from(upstreams.in_flight(index)))
        });
        // Rounded up, with the request in question: one upstream at least has room.
        ((busy + 1) * u64::from(percent)).div_ceil(count.max(1) * 100)
    });
    let has_room =
        |index: &usize| most.is_none_or(|most| u64::from(upstreams.in_flight(*index)) < most);
    best_hash(upstreams, key, available(upstreams).filter(has_room))
        // The numbers move while we look.
        .or_else(|| best_hash(upstreams, key, available(upstreams)))
}

fn best_hash(
    upstreams: &impl Upstreams,
    key: &[u8],
    indices: impl Iterator<Item = usize>,
) -> Option<usize> {
    indices
        .map(|index| {
            (
                xxh64::hash(&[upstreams.address(index).as_bytes(), key]),
                index,
            )
        })
        // Of equal hashes, which do not happen, the first counts.
        .max_by_key(|&(hash, index)| (hash, core::cmp::Reverse(index)))
        .map(|(_, index)| index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::vec;

    /// Availability, requests in flight and address.
    struct Fixed(Vec<(bool, u32, String)>, Vec<Option<u32>>);

    impl Fixed {
        fn new(list: &[(bool, u32)]) -> Fixed {
            let address =
                |(n, &(up, busy)): (usize, &(bool, u32))| (up, busy, format!("10.0.0.{n}:80"));
            Fixed(list.iter().enumerate().map(address).collect(), Vec::new())
        }
    }

    impl Upstreams for Fixed {
        fn count(&self) -> usize {
            self.0.len()
        }
        fn is_available(&self, index: usize) -> bool {
            self.0[index].0
        }
        fn in_flight(&self, index: usize) -> u32 {
            self.0[index].1
        }
        fn address(&self, index: usize) -> &str {
            &self.0[index].2
        }
        fn weight(&self, index: usize) -> Option<u32> {
            self.1.get(index).copied().flatten()
        }
    }

    fn choose(policy: &Policy, upstreams: &Fixed, turn: &Turn, seed: u64) -> Option<usize> {
        policy
            .choose(upstreams, Hint::default(), turn, seed)
            .map(|choice| choice.index)
    }

    /// How often each of `count` upstreams is chosen in `rounds` choices.
    fn shares(policy: &Policy, upstreams: &Fixed, rounds: u64) -> Vec<usize> {
        let (turn, mut shares) = (Turn::new(), vec![0; upstreams.count()]);
        for seed in 0..rounds {
            shares[choose(policy, upstreams, &turn, seed).unwrap()] += 1;
        }
        shares
    }

    fn hash(by: HashBy, fallback: Policy) -> Policy {
        Policy::Hash {
            by,
            fallback: Box::new(fallback),
            bound: None,
        }
    }

    #[test]
    fn no_upstream_gets_a_request_when_none_is_available() {
        let policies = [
            Policy::Random,
            Policy::RandomChoose(2),
            Policy::LeastConn,
            Policy::First,
            Policy::RoundRobin,
            Policy::WeightedRoundRobin(vec![3, 1]),
            hash(HashBy::Uri, Policy::First),
            Policy::Cookie {
                fallback: Box::new(Policy::Random),
            },
        ];
        let hint = Hint {
            key: Some(b"k"),
            named: Some(0),
        };
        for policy in policies {
            for upstreams in [Fixed::new(&[]), Fixed::new(&[(false, 0), (false, 0)])] {
                assert_eq!(
                    policy.choose(&upstreams, hint, &Turn::new(), 1),
                    None,
                    "{policy:?}"
                );
            }
            let upstreams = Fixed::new(&[(false, 0), (true, 9), (false, 0)]);
            for seed in 0..20 {
                let choice = policy.choose(&upstreams, hint, &Turn::new(), seed);
                assert_eq!(choice.map(|choice| choice.index), Some(1), "{policy:?}");
            }
        }
    }

    #[test]
    fn round_robin_skips_unavailable_upstreams() {
        let (turn, all) = (Turn::new(), Fixed::new(&[(true, 0), (true, 0), (true, 0)]));
        let next = |upstreams: &Fixed| choose(&Policy::RoundRobin, upstreams, &turn, 0).unwrap();
        assert_eq!(
            [next(&all), next(&all), next(&all), next(&all)],
            [1, 2, 0, 1]
        );
        let two = Fixed::new(&[(true, 0), (true, 0), (false, 0)]);
        assert_eq!([next(&two), next(&two), next(&two)], [0, 0, 1]);
        let turn = Turn(AtomicU32::new(u32::MAX));
        assert_eq!(
            choose(&Policy::RoundRobin, &all, &turn, 0),
            Some(0),
            "the count wraps"
        );
    }

    #[test]
    fn weights_divide_the_turns_of_those_available() {
        let weights = Policy::WeightedRoundRobin(vec![3, 0, 1]);
        let all = Fixed::new(&[(true, 0), (true, 0), (true, 0), (true, 0)]);
        assert_eq!(shares(&weights, &all, 500), [300, 0, 100, 100]);
        let some = Fixed::new(&[(false, 0), (true, 0), (true, 0), (true, 0)]);
        assert_eq!(shares(&weights, &some, 500), [0, 0, 250, 250]);
        let other = Fixed(all.0, vec![Some(1), None, Some(4)]);
        assert_eq!(shares(&weights, &other, 600), [100, 0, 400, 100]);
        let none = Fixed::new(&[(false, 0), (true, 0)]);
        assert_eq!(
            choose(
                &Policy::WeightedRoundRobin(vec![1, 0]),
                &none,
                &Turn::new(),
                0
            ),
            None
        );
    }

    #[test]
    fn chance_is_fair() {
        let upstreams = Fixed::new(&[(true, 0), (false, 0), (true, 0), (true, 0)]);
        for policy in [Policy::Random, Policy::RandomChoose(2), Policy::LeastConn] {
            let shares = shares(&policy, &upstreams, 9_000);
            let fair = shares
                .iter()
                .all(|&share| share == 0 || (2_700..3_300).contains(&share));
            assert!(fair && shares[1] == 0, "{policy:?}: {shares:?}");
        }
    }

    #[test]
    fn the_idlest_is_preferred() {
        let upstreams = Fixed::new(&[(true, 5), (true, 1), (false, 0), (true, 1)]);
        assert_eq!(shares(&Policy::LeastConn, &upstreams, 100)[0], 0);
        let shares = shares(&Policy::RandomChoose(2), &upstreams, 9_000);
        assert_eq!(shares[0], 0, "a sample of two always holds an idler one");
        assert!(shares[1] > 4_000 && shares[3] > 4_000, "{shares:?}");
        let many = Fixed::new(&[(true, 1); 100]);
        assert!(choose(&Policy::RandomChoose(1_000), &many, &Turn::new(), 7).is_some());
    }

    #[test]
    fn a_key_keeps_its_upstream_while_that_is_available() {
        let policy = hash(HashBy::ClientIp, Policy::First);
        let choose = |upstreams: &Fixed, key: &str| {
            let hint = Hint {
                key: Some(key.as_bytes()),
                named: None,
            };
            policy
                .choose(upstreams, hint, &Turn::new(), 3)
                .unwrap()
                .index
        };
        let all = Fixed::new(&[(true, 0), (true, 0), (true, 0), (true, 0)]);
        let less = Fixed::new(&[(true, 0), (true, 0), (false, 0), (true, 0)]);
        let mut shares = [0; 4];
        for n in 0..4_000 {
            let key = format!("192.0.2.{n}");
            let chosen = choose(&all, &key);
            shares[chosen] += 1;
            let moved = choose(&less, &key);
            assert!(
                moved != 2 && (chosen == 2 || moved == chosen),
                "{key} moved from {chosen} to {moved}"
            );
        }
        assert!(
            shares.iter().all(|&share| (850..1_150).contains(&share)),
            "{shares:?}"
        );
    }

    #[test]
    fn keys_and_weights_lead_where_they_lead_in_caddy() {
        let addresses = ["127.0.0.1:18481", "127.0.0.1:18482", "127.0.0.1:18483"];
        let upstreams = Fixed(
            addresses
                .iter()
                .map(|&address| (true, 0, address.into()))
                .collect(),
            Vec::new(),
        );
        let policy = hash(HashBy::Header("X-Key".into()), Policy::First);
        let chosen: String = (0..20)
            .map(|n| {
                let key = format!("key-{n}");
                let hint = Hint {
                    key: Some(key.as_bytes()),
                    named: None,
                };
                policy
                    .choose(&upstreams, hint, &Turn::new(), 0)
                    .unwrap()
                    .index
            })
            .map(|index| format!("{index}"))
            .collect();
        assert_eq!(chosen, "10212120202011012111", "as Caddy 2.11.4 answered");
        let (weights, turn) = (Policy::WeightedRoundRobin(vec![3, 0, 1]), Turn::new());
        let turns = (0..12).map(|_| choose(&weights, &upstreams, &turn, 0).unwrap());
        let turns: String = turns.map(|index| format!("{index}")).collect();
        assert_eq!(turns, "002000200020", "as Caddy 2.11.4 answered");
    }

    #[test]
    fn a_popular_key_spills_over_and_others_stay() {
        let policy = Policy::Hash {
            by: HashBy::Uri,
            fallback: Box::new(Policy::First),
            bound: Some(125),
        };
        let mut upstreams = Fixed::new(&[(true, 0), (true, 0), (true, 0), (true, 0)]);
        let choose = |upstreams: &Fixed, key: &str| {
            let key = Some(key.as_bytes());
            let hint = Hint { key, named: None };
            policy
                .choose(upstreams, hint, &Turn::new(), 3)
                .unwrap()
                .index
        };
        let own = choose(&upstreams, "popular");
        for _ in 0..400 {
            let chosen = choose(&upstreams, "popular");
            upstreams.0[chosen].1 += 1;
        }
        let busiest = upstreams.0.iter().map(|upstream| upstream.1).max();
        assert_eq!(busiest, Some(125), "{:?}", upstreams.0);
        assert_eq!(upstreams.0[own].1, 125);
        // Where nothing is crowded each key has its own upstream as without a bound.
        let idle = Fixed::new(&[(true, 0), (true, 0), (true, 0), (true, 0)]);
        let plain = hash(HashBy::Uri, Policy::First);
        for n in 0..50 {
            let key = format!("key-{n}");
            let hint = Hint {
                key: Some(key.as_bytes()),
                named: None,
            };
            let expected = plain.choose(&idle, hint, &Turn::new(), 3).unwrap().index;
            assert_eq!(choose(&idle, &key), expected);
        }
    }

    #[test]
    fn without_a_key_the_fallback_decides() {
        let policy = hash(HashBy::Header("X".into()), Policy::First);
        let upstreams = Fixed::new(&[(false, 0), (true, 0), (true, 0)]);
        for key in [None, Some(&b""[..])] {
            let choice = policy.choose(&upstreams, Hint { key, named: None }, &Turn::new(), 0);
            assert_eq!(
                choice,
                Some(Choice {
                    index: 1,
                    set_cookie: false
                })
            );
        }
    }

    #[test]
    fn a_cookie_is_followed_or_set_anew() {
        let policy = Policy::Cookie {
            fallback: Box::new(Policy::First),
        };
        let upstreams = Fixed::new(&[(true, 0), (true, 0), (false, 0)]);
        let choose = |named| policy.choose(&upstreams, Hint { key: None, named }, &Turn::new(), 0);
        assert_eq!(
            choose(Some(1)),
            Some(Choice {
                index: 1,
                set_cookie: false
            })
        );
        for named in [None, Some(2), Some(9)] {
            assert_eq!(
                choose(named),
                Some(Choice {
                    index: 0,
                    set_cookie: true
                })
            );
        }
    }

    #[test]
    fn deep_fallbacks_end_in_chance() {
        let deep = (0..50).fold(Policy::First, |fallback, _| hash(HashBy::Uri, fallback));
        let upstreams = Fixed::new(&[(true, 0)]);
        assert_eq!(choose(&deep, &upstreams, &Turn::new(), 0), Some(0));
    }
}
