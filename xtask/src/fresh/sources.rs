//! The Debian mirrors of this machine, so that a clean root uses the same ones.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Two Debian archives: the release and its security updates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sources {
    /// The archive itself.
    pub debian: String,
    /// Security updates.
    pub security: String,
}

impl Default for Sources {
    fn default() -> Sources {
        Sources {
            debian: "http://deb.debian.org/debian".to_owned(),
            security: "http://deb.debian.org/debian-security".to_owned(),
        }
    }
}

impl Sources {
    /// Reads apt's own sources in both formats; falls back to Debian's defaults.
    pub fn read(apt: &Path) -> Sources {
        let mut texts = vec![fs::read_to_string(apt.join("sources.list")).unwrap_or_default()];
        for entry in fs::read_dir(apt.join("sources.list.d"))
            .into_iter()
            .flatten()
            .flatten()
        {
            texts.push(fs::read_to_string(entry.path()).unwrap_or_default());
        }
        Sources::of(&texts.join("\n\n"))
    }

    fn of(text: &str) -> Sources {
        let mut sources = Sources::default();
        let lines = text
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'));
        // Both `deb [options] URI suite …` and `URIs: URI …` have addresses as words.
        for word in lines.flat_map(str::split_whitespace) {
            let address = word.trim_end_matches('/');
            if !address.contains("://") {
                continue;
            }
            if address.ends_with("/debian") {
                sources.debian = address.to_owned();
            } else if address.ends_with("/debian-security") {
                sources.security = address.to_owned();
            }
        }
        sources
    }

    /// The file `sources.list` for a release.
    pub fn list(&self, release: &str) -> String {
        let Sources { debian, security } = self;
        format!(
            "deb {debian} {release} main\ndeb {debian} {release}-updates main\n\
             deb {security} {release}-security main\n"
        )
    }
}

/// apt's settings for fetching on this machine: proxies, and which dates it checks. Empty if apt is not installed.
pub fn settings() -> String {
    let output = Command::new("apt-config")
        .args(["dump", "Acquire"])
        .output();
    let text = output.map_or_else(|_| Vec::new(), |output| output.stdout);
    let text = String::from_utf8_lossy(&text).into_owned();
    let is_passed = |line: &&str| {
        ["http", "https", "Check-", "Retries"].iter().any(|name| {
            line.strip_prefix("Acquire::")
                .is_some_and(|rest| rest.starts_with(name))
        })
    };
    let lines = text.lines().filter(is_passed);
    lines.map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_sources_are_read() {
        let lines = "# deb http://old.test/debian x main\n\
                     deb [signed-by=/k.gpg] http://mirror.test/debian/ bookworm main\n\
                     deb http://mirror.test/debian-security bookworm-security main\n\
                     deb https://apt.other.test/apt other main\n";
        let stanzas = "Types: deb\n# http://old.test/archive/debian/2025\nURIs: http://mirror.test/debian\n\
                       Suites: bookworm\n\nTypes: deb\nURIs: http://mirror.test/debian-security/\n";
        for text in [lines, stanzas] {
            let sources = Sources::of(text);
            assert_eq!(sources.debian, "http://mirror.test/debian");
            assert_eq!(sources.security, "http://mirror.test/debian-security");
        }
        assert_eq!(
            Sources::of("deb https://apt.other.test/apt x main"),
            Sources::default()
        );
        assert!(
            Sources::default()
                .list("trixie")
                .contains(" trixie-security main\n")
        );
    }
}
