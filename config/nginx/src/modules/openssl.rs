//! Translates OpenSSL settings for rustls: lists of cipher suites, key exchange groups, and the commands of
//! `ssl_conf_command`.

use sluice_diag::Diagnostic;

use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::tree::Directive;

/// A cipher suite of TLS 1.2 that is spoken.
struct Suite {
    openssl: &'static str,
    iana: &'static str,
    /// The words of OpenSSL that mean it among others.
    words: &'static [&'static str],
    bits: u16,
}

const EC: &str = "ECDSA";

/// In OpenSSL's order.
const SUITES: [Suite; 6] = [
    Suite {
        openssl: "ECDHE-ECDSA-AES256-GCM-SHA384",
        iana: "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        words: &[EC, "aECDSA", "AES256", "AES", "AESGCM", "FIPS", "SUITEB192"],
        bits: 256,
    },
    Suite {
        openssl: "ECDHE-RSA-AES256-GCM-SHA384",
        iana: "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        words: &["aRSA", "AES256", "AES", "AESGCM", "FIPS"],
        bits: 256,
    },
    Suite {
        openssl: "ECDHE-ECDSA-CHACHA20-POLY1305",
        iana: "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        words: &[EC, "aECDSA", "CHACHA20"],
        bits: 256,
    },
    Suite {
        openssl: "ECDHE-RSA-CHACHA20-POLY1305",
        iana: "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        words: &["aRSA", "CHACHA20"],
        bits: 256,
    },
    Suite {
        openssl: "ECDHE-ECDSA-AES128-GCM-SHA256",
        iana: "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        words: &[EC, "aECDSA", "AES128", "AES", "AESGCM", "FIPS", "SUITEB128"],
        bits: 128,
    },
    Suite {
        openssl: "ECDHE-RSA-AES128-GCM-SHA256",
        iana: "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        words: &["aRSA", "AES128", "AES", "AESGCM", "FIPS"],
        bits: 128,
    },
];

/// What means all of them.
const ALL: [&str; 11] = [
    "ALL", "DEFAULT", "HIGH", "TLSv1.2", "AEAD", "ECDHE", "EECDH", "kECDHE", "kEECDH", "ECDH",
    "kECDH",
];

impl Suite {
    /// Whether a word such as `EECDH+AESGCM` means it among others.
    fn is_meant_by(&self, word: &str) -> bool {
        let one = |part: &str| {
            part == self.openssl
                || part == self.iana
                || ALL.contains(&part)
                || self.words.contains(&part)
        };
        !word.is_empty() && word.split('+').all(one)
    }
}

/// The suites of TLS 1.2 that a list of OpenSSL leaves, by their names in the IANA registry and in the order of the list. Names
/// that are not known are passed over, as OpenSSL does.
pub fn suites(list: &str) -> Vec<&'static str> {
    let mut kept: Vec<&Suite> = Vec::new();
    let mut barred: Vec<&'static str> = Vec::new();
    for word in list.split([':', ',', ' ']).filter(|word| !word.is_empty()) {
        let (sign, name) = match word.chars().next() {
            Some(sign @ ('!' | '-' | '+')) => (sign, &word[1..]),
            _ => (' ', word),
        };
        let is_meant = |suite: &&Suite| suite.is_meant_by(name);
        match sign {
            _ if word == "@STRENGTH" => {
                kept.sort_by_key(|suite| std::cmp::Reverse(suite.bits));
            }
            '!' => {
                barred.extend(SUITES.iter().filter(is_meant).map(|suite| suite.iana));
                kept.retain(|suite| !suite.is_meant_by(name));
            }
            '-' => kept.retain(|suite| !suite.is_meant_by(name)),
            '+' => kept.sort_by_key(|suite| suite.is_meant_by(name)),
            _ => {
                for suite in SUITES.iter().filter(is_meant) {
                    let is_new = !kept.iter().any(|other| other.iana == suite.iana);
                    if is_new && !barred.contains(&suite.iana) {
                        kept.push(suite);
                    }
                }
            }
        }
    }
    kept.into_iter().map(|suite| suite.iana).collect()
}

/// The suites of TLS 1.3, in OpenSSL's order.
const MODERN: [&str; 3] = [
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_AES_128_GCM_SHA256",
];

/// The suites of TLS 1.3 that a list of `Ciphersuites` names, in its order; `None` where it names none that is spoken. OpenSSL
/// passes over names that it does not know.
pub fn modern_suites(list: &str) -> Option<Vec<String>> {
    let mut found: Vec<String> = Vec::new();
    for name in list.split(':') {
        if MODERN.contains(&name) && !found.iter().any(|known| known == name) {
            found.push(name.to_owned());
        }
    }
    (!found.is_empty()).then_some(found)
}

/// How many suites of TLS 1.2 are spoken.
pub const SUITES_COUNT: usize = SUITES.len();

/// The groups for the key exchange in a list of OpenSSL that are spoken; `None` for `auto`.
pub fn groups(list: &str) -> Option<Vec<&'static str>> {
    if list == "auto" {
        return None;
    }
    let names = list
        .split([':', '/'])
        .map(|name| name.trim_start_matches(['?', '*']));
    let mut found = Vec::new();
    for name in names {
        let known = match name.to_ascii_lowercase().as_str() {
            "x25519mlkem768" => "x25519mlkem768",
            "x25519" => "x25519",
            "prime256v1" | "p-256" | "secp256r1" => "secp256r1",
            "secp384r1" | "p-384" => "secp384r1",
            _ => continue,
        };
        if !found.contains(&known) {
            found.push(known);
        }
    }
    Some(found)
}

/// The versions of TLS that are spoken, from the lowest to the highest; empty where none is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// TLS 1.2.
    pub has_12: bool,
    /// TLS 1.3.
    pub has_13: bool,
}

impl Versions {
    /// Both.
    pub const ALL: Versions = Versions {
        has_12: true,
        has_13: true,
    };

    /// Removes the versions beyond a bound of `ssl_conf_command`; returns whether any version can be left.
    pub fn limit(&mut self, bound: &Command, version: &str) -> bool {
        let version = match version {
            "TLSv1.3" => 3,
            "TLSv1.2" => 2,
            "TLSv1.1" | "TLSv1" | "SSLv3" | "None" => 1,
            _ => return false,
        };
        match bound {
            Command::Lowest => self.has_12 &= version < 3,
            Command::Highest => {
                self.has_12 &= version > 1;
                self.has_13 &= version > 2;
            }
            _ => {}
        }
        self.has_12 || self.has_13
    }

    /// The lowest and the highest, as the model names them.
    pub fn bounds(self) -> (String, String) {
        match (self.has_12, self.has_13) {
            (true, false) => (String::new(), "tls1.2".to_owned()),
            (false, true) => ("tls1.3".to_owned(), String::new()),
            _ => (String::new(), String::new()),
        }
    }
}

/// The versions that a list of nginx names; both where there is none.
pub fn versions(cx: &mut Lowering<'_>, level: &Level<'_>, directive: &str) -> Versions {
    let Some(line) = level.find(directive) else {
        return Versions::ALL;
    };
    for word in &line.args {
        let known = ["SSLv2", "SSLv3", "TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"];
        if !known.contains(&word.text.as_str()) {
            let _: Option<()> = cx.invalid(word, directive, "`TLSv1.2` and `TLSv1.3`");
        }
    }
    let has = |name: &str| line.args.iter().any(|word| word.text == name);
    let found = Versions {
        has_12: has("TLSv1.2"),
        has_13: has("TLSv1.3"),
    };
    if found.has_12 || found.has_13 {
        return found;
    }
    cx.report.push(
        Diagnostic::error("old-tls", format!("`{directive}` without TLS 1.2 or 1.3"))
            .at(line.span(), "older versions are never spoken")
            .imported(line.name.import)
            .help("add `TLSv1.2 TLSv1.3`"),
    );
    Versions::ALL
}

/// Refuses a command that is not built, by name.
pub fn refuse_command(cx: &mut Lowering<'_>, line: &Directive, directive: &str) {
    let words: Vec<&str> = line.args.iter().map(|word| word.text.as_str()).collect();
    let title = format!("`{}` of `{directive}` is not built", words.join(" "));
    cx.report.push(
        Diagnostic::error("unsupported-directive", title)
            .at(line.span(), "known to OpenSSL only")
            .imported(line.name.import)
            .help(
                "supported: `CipherString`, `Groups`, `Curves`, `MinProtocol`, `MaxProtocol`, \
                 `Ciphersuites` with AES in GCM or ChaCha20, and `Options` that hold anyway",
            ),
    );
}

/// What a command of `ssl_conf_command` comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// It is as it says anyway.
    Already,
    /// Suites of TLS 1.2, as `ssl_ciphers` has them.
    Suites,
    /// These suites of TLS 1.3.
    ModernSuites(Vec<String>),
    /// Groups for the key exchange, as `ssl_ecdh_curve` has them.
    Groups,
    /// The lowest version.
    Lowest,
    /// The highest version.
    Highest,
    /// Session tickets are off.
    NoTickets,
}

/// What a command comes to; `None` where it is not built.
pub fn command(name: &str, value: &str) -> Option<Command> {
    Some(match name {
        "CipherString" => Command::Suites,
        "Ciphersuites" => Command::ModernSuites(modern_suites(value)?),
        "Curves" | "Groups" => Command::Groups,
        "MinProtocol" => Command::Lowest,
        "MaxProtocol" => Command::Highest,
        "Options" => match value {
            "-SessionTicket" => Command::NoTickets,
            "SessionTicket"
            | "PrioritizeChaCha"
            | "ServerPreference"
            | "NoRenegotiation"
            | "-UnsafeLegacyRenegotiation"
            | "-Compression"
            | "-UnsafeLegacyServerConnect"
            | "EncryptThenMac"
            | "NoResumptionOnRenegotiation"
            | "AntiReplay" => Command::Already,
            _ => return None,
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names without what they share.
    fn left(list: &str) -> String {
        let short = suites(list).into_iter().map(|name| {
            let (kind, rest) = name["TLS_ECDHE_".len()..]
                .split_once("_WITH_")
                .expect("a name");
            let what = rest.split("_GCM").next().unwrap_or_default();
            format!(
                "{}{}",
                &kind[..1],
                what.replace("AES_", "")
                    .replace("CHACHA20_POLY1305_SHA256", "C")
            )
        });
        short.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn lists_of_suites_leave_what_openssl_leaves() {
        // What `openssl ciphers` gives for the same lists, without what is not spoken.
        for (list, expected) in [
            ("HIGH:!aNULL:!MD5", "E256 R256 EC RC E128 R128"),
            ("DEFAULT", "E256 R256 EC RC E128 R128"),
            ("ECDHE+AESGCM", "E256 R256 E128 R128"),
            (
                "EECDH+CHACHA20:EECDH+AES128:RSA+AES128:EECDH+AES256:!MD5",
                "EC RC E128 R128 E256 R256",
            ),
            (
                "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES128-GCM-SHA256",
                "R128 E128",
            ),
            ("HIGH:!ECDSA:-AES256", "RC R128"),
            ("HIGH:!CHACHA20:CHACHA20", "E256 R256 E128 R128"),
            ("HIGH:-CHACHA20:CHACHA20", "E256 R256 E128 R128 EC RC"),
            ("HIGH:+AES256", "EC RC E128 R128 E256 R256"),
            ("AES128:AES256:@STRENGTH", "E256 R256 E128 R128"),
            ("ALL:@SECLEVEL=0", "E256 R256 EC RC E128 R128"),
            ("AES128-SHA:kRSA:DHE-RSA-AES128-GCM-SHA256", ""),
            ("nonsense", ""),
        ] {
            assert_eq!(left(list), expected, "{list}");
        }
    }

    #[test]
    fn groups_that_are_not_spoken_are_left_out() {
        assert_eq!(groups("auto"), None);
        assert_eq!(
            groups("X25519:prime256v1:secp521r1:P-256"),
            Some(vec!["x25519", "secp256r1"])
        );
        assert_eq!(
            groups("?X25519MLKEM768 / *X25519".replace(' ', "").as_str()),
            Some(vec!["x25519mlkem768", "x25519"])
        );
        assert_eq!(groups("secp521r1"), Some(Vec::new()));
    }

    #[test]
    fn commands_act_or_are_not_built() {
        assert_eq!(
            command("Options", "PrioritizeChaCha"),
            Some(Command::Already)
        );
        assert_eq!(command("Options", "KTLS"), None);
        let named = "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_CCM_SHA256:TLS_AES_256_GCM_SHA384";
        let kept = ["TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_256_GCM_SHA384"];
        let kept = Command::ModernSuites(kept.map(str::to_owned).to_vec());
        assert_eq!(command("Ciphersuites", named), Some(kept));
        assert_eq!(command("Ciphersuites", "TLS_AES_128_CCM_SHA256"), None);
        assert_eq!(command("VerifyMode", "Peer"), None);
    }
}
