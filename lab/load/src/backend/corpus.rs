//! Responses of a JSON-RPC server that look like blocks of a chain: many bodies of very different sizes, identical in
//! the test upstream that sends them and in the generator that verifies them.

use std::sync::Arc;

use crate::random::Random;
use crate::random::made_body;

/// Body size in bytes by quantile, interpolated linearly between points. Study 003 prints 1,479 and 1,387,712 as its
/// ends, steps of up to 131,072 for half and 262,144 for 90 % of them, and 138 to 141 KB for the mean.
const SIZES: [(f64, f64); 8] = [
    (0.0, 1_479.0),
    (0.05, 20_000.0),
    (0.25, 80_000.0),
    (0.5, 125_000.0),
    (0.75, 175_000.0),
    (0.9, 225_000.0),
    (0.99, 400_000.0),
    (1.0, 1_387_712.0),
];

/// The number of the first block. It is large, as real block numbers are.
const FIRST: u64 = 15_000_000;

/// Seed for sizes and contents.
const SEED: u64 = 3;

/// The bodies.
#[derive(Clone, Debug, Default)]
pub struct Corpus(Vec<Arc<[u8]>>);

impl Corpus {
    /// Generates `count` bodies; the same ones every time.
    pub fn make(count: usize) -> Self {
        let mut places: Vec<usize> = (0..count).collect();
        Random::new(SEED).shuffle(&mut places);
        let bodies = places.into_iter().enumerate().map(|(at, place)| {
            let share = place as f64 / (count.max(2) - 1) as f64;
            body(FIRST + at as u64, size(share)).into()
        });
        Corpus(bodies.collect())
    }

    /// The request body for each response body, with that response body.
    pub fn questions(&self) -> impl Iterator<Item = (Vec<u8>, Arc<[u8]>)> {
        let numbered = self.0.iter().zip(FIRST..);
        numbered.map(|(body, number)| {
            let question = format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_getBlockByNumber\",\"params\":[\"{number:#x}\",true]}}"
            );
            (question.into_bytes(), body.clone())
        })
    }

    /// All bodies in order.
    pub fn bodies(&self) -> &[Arc<[u8]>] {
        &self.0
    }

    /// The index of the body that a request asks for, from the first hexadecimal number in it.
    pub fn asked(&self, question: &[u8]) -> Option<usize> {
        let text = std::str::from_utf8(question).ok()?;
        let (_, rest) = text.split_once("\"0x")?;
        let digits = rest.split('"').next()?;
        let number = u64::from_str_radix(digits, 16).ok()?;
        let at = usize::try_from(number.checked_sub(FIRST)?).ok()?;
        (at < self.0.len()).then_some(at)
    }
}

fn size(share: f64) -> usize {
    let pairs = SIZES.windows(2);
    let mut size = SIZES[0].1;
    for pair in pairs {
        let ((from, low), (to, high)) = (pair[0], pair[1]);
        if share >= from {
            size = low + (high - low) * ((share - from) / (to - from)).min(1.0);
        }
    }
    size as usize
}

/// A JSON-RPC response of exactly `size` bytes.
fn body(number: u64, size: usize) -> Vec<u8> {
    let before = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{\"number\":\"{number:#x}\",\"transactions\":[\""
    );
    let after = "\"]}}";
    let middle = size.saturating_sub(before.len() + after.len());
    let mut body = before.into_bytes();
    body.extend(made_body(middle as u64, SEED ^ number));
    body.extend_from_slice(after.as_bytes());
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_study() {
        let corpus = Corpus::make(128);
        let mut sizes: Vec<usize> = corpus.bodies().iter().map(|body| body.len()).collect();
        sizes.sort_unstable();
        assert_eq!((sizes[0], sizes[127]), (1_479, 1_387_712));
        let within = |most: usize| sizes.iter().filter(|size| **size <= most).count();
        assert!((64..80).contains(&within(131_072)), "{}", within(131_072));
        assert!(within(262_144) * 10 >= 128 * 9);
        let mean = sizes.iter().sum::<usize>() / 128;
        assert!((137_000..160_000).contains(&mean), "{mean}");
    }

    #[test]
    fn each_corpus_query_has_its_response() {
        let corpus = Corpus::make(5);
        for (at, (question, body)) in corpus.questions().enumerate() {
            assert_eq!(corpus.asked(&question), Some(at));
            assert_eq!(body, corpus.bodies()[at]);
            let number = format!("\"number\":\"{:#x}\"", FIRST + at as u64);
            assert!(String::from_utf8_lossy(&body).contains(&number));
        }
        for strange in [
            &b""[..],
            b"{}",
            b"[\"0x1\"]",
            b"[\"0xffffffff\"]",
            b"\"0xzz\"",
        ] {
            assert_eq!(corpus.asked(strange), None);
        }
    }
}
