//! Prints the cost of patterns with lookaround on long targets that repeat a text which nearly matches: `cargo run
//! --release -p sluice-route --example pattern_speed`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use sluice_route::pcre::{Case, Pattern};

/// How often each is measured; the shortest time counts, as others use the machine, too.
const RUNS: usize = 30;

/// A name, a pattern, and the part of a target.
const PATTERNS: [(&str, &str, &str); 5] = [
    ("scripts, none there", r"/pg/.*(?<!\.min)\.js", "/pg/"),
    ("scripts, minified", r"/pg/.*(?<!\.min)\.js", "/pg/a.min.js"),
    ("Laravel", r"/\.(?!well-known).*", "/.well-known"),
    (
        "Nextcloud",
        r"^/(?!index|remote|public|cron|core/ajax/update|status|ocs/v[12]|updater/.+|ocs-provider/.+|.+/richdocumentscode(_arm64)?/proxy)",
        "/a/richdocumentscode",
    ),
    (
        "WordPress",
        r"^/wp-content/(?!uploads/2).*/(?!index)\w+\.php$",
        "/wp-content/index.php",
    ),
];

fn main() {
    println!("{:<22} {:>8} {:>12} result", "pattern", "bytes", "µs");
    for (name, pattern, part) in PATTERNS {
        let pattern = Pattern::new(pattern, Case::Kept).expect("it is a pattern");
        for bytes in [8_000, 32_000] {
            let target = part.repeat(bytes / part.len());
            let mut result = Ok(false);
            let mut shortest = Duration::MAX;
            for _ in 0..RUNS {
                let begun = Instant::now();
                result = black_box(&pattern).is_match(black_box(target.as_bytes()));
                shortest = shortest.min(begun.elapsed());
            }
            let micros = shortest.as_secs_f64() * 1e6;
            let result = match result {
                Ok(true) => "match",
                Ok(false) => "no match",
                Err(_) => "given up",
            };
            println!("{name:<22} {bytes:>8} {micros:>12.1} {result}");
        }
    }
}
