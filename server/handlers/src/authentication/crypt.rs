//! Password hashes in the formats of `htpasswd` and `crypt(3)`. The cost of slow hashes is limited: a line in a file
//! must not occupy a core for minutes. The threads of `password` verify them.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};

use crate::limits::{BCRYPT_COST_MAX, SHA_CRYPT_ROUNDS_MAX};

/// A password hash with its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Crypt {
    /// `{PLAIN}`: the password itself.
    Plain(Vec<u8>),
    /// `{SHA}` and `{SSHA}`: SHA-1 of the password and of the salt that follows the digest.
    Sha1 { digest: Vec<u8>, salt: Vec<u8> },
    /// `$apr1$` and `$1$`: a thousand rounds of MD5; they differ only in the prefix.
    Md5 {
        magic: &'static str,
        salt: String,
        hash: String,
    },
    /// `$5$`.
    Sha256 {
        rounds: usize,
        salt: String,
        hash: String,
    },
    /// `$6$`.
    Sha512 {
        rounds: usize,
        salt: String,
        hash: String,
    },
}

/// The default number of rounds of `$5$` and `$6$`, and the minimum.
const ROUNDS: usize = 5_000;
const ROUNDS_MIN: usize = 1_000;

/// Size of a SHA-1 digest in bytes.
const SHA1_BYTES: usize = 20;

impl Crypt {
    /// Parses a hash; `None` if the format is not supported or if verification would take too long.
    pub(super) fn parse(text: &str) -> Option<Crypt> {
        if let Some(plain) = text.strip_prefix("{PLAIN}") {
            return Some(Crypt::Plain(plain.as_bytes().to_vec()));
        }
        if let Some(encoded) = text.strip_prefix("{SHA}") {
            let digest = STANDARD.decode(encoded).ok()?;
            let salt = Vec::new();
            return (digest.len() == SHA1_BYTES).then_some(Crypt::Sha1 { digest, salt });
        }
        if let Some(encoded) = text.strip_prefix("{SSHA}") {
            let mut digest = STANDARD.decode(encoded).ok()?;
            if digest.len() < SHA1_BYTES {
                return None;
            }
            let salt = digest.split_off(SHA1_BYTES);
            return Some(Crypt::Sha1 { digest, salt });
        }
        for magic in ["$apr1$", "$1$"] {
            if let Some(rest) = text.strip_prefix(magic) {
                let (salt, hash) = rest.split_once('$')?;
                let salt = first_bytes(salt, 8).to_owned();
                let hash = hash.to_owned();
                return Some(Crypt::Md5 { magic, salt, hash });
            }
        }
        if let Some(rest) = text.strip_prefix("$5$") {
            let (rounds, salt, hash) = sha_parts(rest)?;
            return Some(Crypt::Sha256 { rounds, salt, hash });
        }
        let (rounds, salt, hash) = sha_parts(text.strip_prefix("$6$")?)?;
        Some(Crypt::Sha512 { rounds, salt, hash })
    }

    /// Whether verification takes less than a millisecond.
    pub(super) fn is_quick(&self) -> bool {
        match self {
            Crypt::Plain(_) | Crypt::Sha1 { .. } => true,
            Crypt::Md5 { .. } | Crypt::Sha256 { .. } | Crypt::Sha512 { .. } => false,
        }
    }

    /// Whether the hash is that of `password`.
    pub(super) fn verify(&self, password: &[u8]) -> bool {
        match self {
            Crypt::Plain(plain) => is_same(plain, password),
            Crypt::Sha1 {
                digest: known,
                salt,
            } => {
                let salted = [password, salt].concat();
                is_same(known, digest(&SHA1_FOR_LEGACY_USE_ONLY, &salted).as_ref())
            }
            Crypt::Md5 { magic, salt, hash } => {
                is_same(hash.as_bytes(), md5_crypt(password, salt, magic).as_bytes())
            }
            Crypt::Sha256 { rounds, salt, hash } => sha_crypt::Sha256Params::new(*rounds)
                .and_then(|params| sha_crypt::sha256_crypt_b64(password, salt.as_bytes(), &params))
                .is_ok_and(|made| is_same(hash.as_bytes(), made.as_bytes())),
            Crypt::Sha512 { rounds, salt, hash } => sha_crypt::Sha512Params::new(*rounds)
                .and_then(|params| sha_crypt::sha512_crypt_b64(password, salt.as_bytes(), &params))
                .is_ok_and(|made| is_same(hash.as_bytes(), made.as_bytes())),
        }
    }
}

/// Whether the cost of a bcrypt hash is acceptable: each step doubles the time.
pub(super) fn is_affordable(hash: &str) -> bool {
    let cost = hash
        .split('$')
        .nth(2)
        .and_then(|cost| cost.parse::<u32>().ok());
    cost.is_some_and(|cost| cost <= BCRYPT_COST_MAX)
}

fn is_same(known: &[u8], made: &[u8]) -> bool {
    verify_slices_are_equal(known, made).is_ok()
}

/// Parses the part of a SHA-crypt hash after the prefix: `[rounds=N$]salt$hash`.
fn sha_parts(text: &str) -> Option<(usize, String, String)> {
    let (rounds, rest) = match text.strip_prefix("rounds=") {
        None => (ROUNDS, text),
        Some(rest) => {
            let (rounds, rest) = rest.split_once('$')?;
            (rounds.parse().ok()?, rest)
        }
    };
    let (salt, hash) = rest.split_once('$')?;
    (ROUNDS_MIN..=SHA_CRYPT_ROUNDS_MAX)
        .contains(&rounds)
        .then(|| (rounds, first_bytes(salt, 16).to_owned(), hash.to_owned()))
}

fn first_bytes(text: &str, count: usize) -> &str {
    let mut end = count.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The MD5 algorithm of FreeBSD's `crypt`, for which Apache uses another prefix.
fn md5_crypt(password: &[u8], salt: &str, magic: &str) -> String {
    let salt = salt.as_bytes();
    let between = Md5::digest([password, salt, password].concat());
    let mut begun = Md5::new();
    begun.update([password, magic.as_bytes(), salt].concat());
    for left in (0..password.len()).step_by(16) {
        begun.update(&between[..(password.len() - left).min(16)]);
    }
    let mut bits = password.len();
    while bits > 0 {
        match bits & 1 {
            1 => begun.update([0]),
            _ => begun.update(&password[..1]),
        }
        bits >>= 1;
    }
    let mut sum: [u8; 16] = begun.finalize().into();
    for round in 0..1000 {
        let mut next = Md5::new();
        let is_odd = round % 2 == 1;
        next.update(if is_odd { password } else { &sum[..] });
        if round % 3 != 0 {
            next.update(salt);
        }
        if round % 7 != 0 {
            next.update(password);
        }
        next.update(if is_odd { &sum[..] } else { password });
        sum = next.finalize().into();
    }
    md5_text(&sum)
}

fn md5_text(sum: &[u8; 16]) -> String {
    const LETTERS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    const ORDER: [[usize; 3]; 5] = [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]];
    let mut out = String::with_capacity(22);
    let mut push = |mut value: u32, letters: usize| {
        for _ in 0..letters {
            out.push(char::from(LETTERS[(value & 63) as usize]));
            value >>= 6;
        }
    };
    for [high, middle, low] in ORDER {
        let value = [sum[high], sum[middle], sum[low]].map(u32::from);
        push(value[0] << 16 | value[1] << 8 | value[2], 4);
    }
    push(u32::from(sum[11]), 2);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_right(hash: &str, password: &str) -> bool {
        let crypt = Crypt::parse(hash).unwrap_or_else(|| panic!("{hash}"));
        crypt.verify(password.as_bytes())
    }

    /// Created with `openssl passwd` and, for SHA-1, with `openssl dgst`.
    #[test]
    fn hashes_of_other_programs_are_checked() {
        for (hash, password) in KNOWN {
            assert!(is_right(hash, password), "{hash}");
            for wrong in ["", "x", &format!("{password}x"), &password.to_uppercase()] {
                assert!(!is_right(hash, wrong), "{hash}: {wrong}");
            }
        }
    }

    #[test]
    fn what_is_no_hash_or_takes_too_long_is_refused() {
        for text in [
            "",
            "plain",
            "{SHA}",
            "{SHA}!!!",
            "{SHA}YWJj",
            "{SSHA}YWJj",
            "$apr1$salt",
            "$6$rounds=x$a$b",
            "$6$a",
            "$7$a$b",
            "$5$rounds=1000001$a$b",
            "$6$rounds=99999999999999999999$a$b",
            "rqXexS6ZhobKA",
            "$y$j9T$a$b",
        ] {
            assert_eq!(Crypt::parse(text), None, "{text}");
        }
        assert!(is_affordable("$2y$17$xxxx") && !is_affordable("$2y$18$xxxx"));
        assert!(!is_affordable("$2y$x") && !is_affordable(""));
    }

    const KNOWN: &[(&str, &str)] = &[
        ("$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0", "secret"),
        ("$1$abc$iCQ2D3nhptRYi27fDYv2s1", "secret"),
        (
            "$5$saltsalt$0IyaXrmV7.sGNS6tirgqHLqX/G.FBvgkYA.lpPdS5sA",
            "secret",
        ),
        (
            "$6$0123456789abcdef$8CGkKDSyVpVlVNcs5PssRw/Tb8EgfecuA6D/zsRQFumJaU.s8KgTWWc2HfgkB7h2n1qIKiJFeSyUFrwvhILXy.",
            "secret",
        ),
        ("$apr1$saltsalt$OEnK0QmmvoDzFw9W2yFYT/", "a"),
        ("$1$abc$uAXS.Zj1ZDNcW9iX1TVH2/", "a"),
        (
            "$5$saltsalt$Mtm6KOxb.PwaKES1sp80SDYOu1T0RdwsBVakhLiqA64",
            "a",
        ),
        (
            "$6$0123456789abcdef$qn2kMgR/Cs9pZI2hZfok3cbi0oHyRjH7NUyfGhPKp6EBvlZWbL3JMmASYlyEBxhP4jB3zti0119AKDkHdAVHI0",
            "a",
        ),
        (
            "$apr1$saltsalt$fQOsGdVFkAc33miSw81BR1",
            "a longer password than sixteen bytes",
        ),
        (
            "$1$abc$1/Fg2e9LbCGZYz2aEd3EN0",
            "a longer password than sixteen bytes",
        ),
        (
            "$5$saltsalt$sDs3HFq1LyHOcXEVHlMVN74vN9OuURfwF0dNjnz4.S3",
            "a longer password than sixteen bytes",
        ),
        (
            "$6$0123456789abcdef$kh701FVmZOwqjVQNxoJ7Ui2EwQ6wtZKpo4MN1GqYmcLOyAVE5tTmgTWU9addLdfoZiIZB3u1nsflPx46kQU4N0",
            "a longer password than sixteen bytes",
        ),
        ("{PLAIN}secret", "secret"),
        ("{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", "secret"),
        ("{SSHA}gVK8WC9YyFT1gMsQHTGCgT3sSv5zYWx0", "secret"),
        (
            "$5$rounds=1400$salt$2fFvde0ya.7YCJuuveeW8BMd6nZAqN/hS4I.vgIDEZ5",
            "secret",
        ),
    ];
}
