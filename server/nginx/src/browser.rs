//! `modern_browser` and `ancient_browser`: classifies browsers by their `User-Agent`.

use sluice_model::nginx::VariableTable as Config;

use sluice_pipeline::refusal::Refusal;

/// Number of version components that are compared: `1.2.3.4`.
const VERSION_PARTS: usize = 4;

/// A browser version.
type Version = [u32; VERSION_PARTS];

/// The rules of `modern_browser` and `ancient_browser`.
#[derive(Debug, Default)]
pub struct Browsers {
    /// Minimum versions, in the order in which families are tried.
    modern: Vec<(Family, Version)>,
    /// Whether unlisted browsers are modern.
    others_are_modern: bool,
    /// Substrings of ancient browsers.
    ancient: Vec<Box<[u8]>>,
    /// Whether Netscape up to version 4, and user agents that imitate it, are ancient.
    netscape_is_ancient: bool,
}

/// Browser families with a known version format. Some imitate others, so the order matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Family {
    Opera,
    Msie,
    Gecko,
    Safari,
    Konqueror,
}

/// The variable to evaluate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `$modern_browser`
    Modern,
    /// `$ancient_browser`
    Ancient,
}

impl Family {
    fn parse(name: &str) -> Option<Family> {
        Some(match name {
            "opera" => Family::Opera,
            "msie" => Family::Msie,
            "gecko" => Family::Gecko,
            "safari" => Family::Safari,
            "konqueror" => Family::Konqueror,
            _ => return None,
        })
    }

    /// The text that precedes the version, and the minimum number of bytes before that text.
    fn mark(self) -> (&'static [u8], usize) {
        match self {
            Family::Opera => (b"Opera", 0),
            Family::Msie => (b"MSIE ", b"Mozilla/4.0 (compatible; ".len()),
            Family::Gecko => (b"rv:", b"Mozilla/5.0 (".len()),
            Family::Safari => (b"Safari/", b"Mozilla/5.0 (".len()),
            Family::Konqueror => (b"Konqueror/", b"Mozilla/5.0 (compatible; ".len()),
        }
    }

    /// The version in a user agent, if it is of this family.
    fn version(self, agent: &[u8]) -> Option<Version> {
        let (mark, ahead) = self.mark();
        let rest = agent.get(ahead..)?;
        let at = memchr::memmem::find(rest, mark)? + mark.len();
        let behind = &rest[at..];
        // `Opera 7.50` and `Opera/7.50`.
        let behind = match self {
            Family::Opera => behind.get(1..).unwrap_or_default(),
            _ => behind,
        };
        Some(version(behind))
    }
}

/// Parses the version at the beginning of a text.
fn version(text: &[u8]) -> Version {
    let mut found = Version::default();
    let mut part = 0;
    for byte in text {
        match byte {
            b'0'..=b'9' => {
                let digit = u32::from(byte - b'0');
                found[part] = found[part].saturating_mul(10).saturating_add(digit);
            }
            b'.' if part + 1 < VERSION_PARTS => part += 1,
            _ => break,
        }
    }
    found
}

impl Browsers {
    /// Parses the rows: `modern` with a browser and its version, or with `unlisted`; `ancient` with a substring.
    pub fn build(config: &Config) -> Result<Browsers, Refusal> {
        let mut browsers = Browsers::default();
        for row in &config.rows {
            match (row.key.as_str(), row.value.split_once(' ')) {
                ("modern", None) if row.value == "unlisted" => browsers.others_are_modern = true,
                ("modern", Some((name, text))) => {
                    let family = Family::parse(name)
                        .ok_or_else(|| Refusal::new(format!("`{name}` is not a known browser")))?;
                    browsers.modern.push((family, version(text.as_bytes())));
                }
                ("ancient", _) if row.value == "netscape4" => browsers.netscape_is_ancient = true,
                ("ancient", _) => browsers.ancient.push(row.value.as_bytes().into()),
                (other, _) => return Err(Refusal::new(format!("`{other}` says of no browser"))),
            }
        }
        // The first rule of a family wins. Opera imitates other browsers, so unless a rule names its minimum
        // version it is never modern.
        let modern = &mut browsers.modern;
        if !modern.is_empty() && !modern.iter().any(|(family, _)| *family == Family::Opera) {
            modern.push((Family::Opera, [u32::MAX; VERSION_PARTS]));
        }
        modern.sort_by_key(|(family, _)| *family);
        Ok(browsers)
    }

    /// Whether a user agent is modern.
    fn is_modern(&self, agent: &[u8]) -> bool {
        let mut known = self.modern.iter();
        let found = known.find_map(|(family, least)| Some(family.version(agent)? >= *least));
        if let Some(is_modern) = found {
            return is_modern;
        }
        if self.netscape_is_ancient && is_netscape4(agent) {
            return false;
        }
        let mut ancient = self.ancient.iter();
        let is_ancient = ancient.any(|word| memchr::memmem::find(agent, word).is_some());
        !is_ancient && self.others_are_modern
    }

    /// Whether a variable is set.
    pub fn says(&self, class: Class, agent: &[u8]) -> bool {
        self.is_modern(agent) == (class == Class::Modern)
    }
}

/// Whether a user agent claims to be Netscape 1 to 4. A bare `Mozilla/4.0` is not specific enough.
fn is_netscape4(agent: &[u8]) -> bool {
    agent.len() > b"Mozilla/4.72 ".len() - 1
        && agent.starts_with(b"Mozilla/")
        && matches!(agent.get(8), Some(b'1'..=b'4'))
}

/// Whether `$msie` is set: the user agent claims to be MSIE. Old versions of Opera did so, too.
pub(super) fn is_msie(agent: &[u8]) -> bool {
    let at = memchr::memmem::find(agent, b"MSIE ");
    at.is_some_and(|at| agent.len() > at + b"MSIE 6.".len())
        && memchr::memmem::find(agent, b"Opera").is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_model::nginx::TableRow;

    fn browsers(rows: &[(&str, &str)]) -> Browsers {
        let row = |(key, value): &(&str, &str)| TableRow {
            key: (*key).to_owned(),
            value: (*value).to_owned(),
        };
        let config = Config {
            rows: rows.iter().map(row).collect(),
            ..Config::default()
        };
        Browsers::build(&config).expect("the rows are right")
    }

    const MSIE6: &str = "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)";
    const MSIE5: &str = "Mozilla/4.0 (compatible; MSIE 5.0; Windows NT 5.1)";

    #[test]
    fn browsers_are_modern_from_a_version_on() {
        let all = browsers(&[
            ("modern", "msie 5.5"),
            ("modern", "gecko 1.0.0"),
            ("modern", "opera 9.0"),
            ("modern", "safari 413"),
            ("modern", "konqueror 3.0"),
        ]);
        for (agent, expected) in [
            (MSIE6, true),
            (MSIE5, false),
            ("Mozilla/4.0 (compatible; MSIE 5.50; W", true),
            ("MSIE 6.0", false),
            ("Mozilla/5.0 (X11; U; en-US; rv:1.7) Gecko/2004", true),
            ("Mozilla/5.0 (X11; rv:0.9) Gecko/2004", false),
            ("Opera/9.50", true),
            ("Opera/8.0 (X11)", false),
            ("Mozilla/4.0 (compatible; MSIE 6.0; X11) Opera 9.50", true),
            ("Mozilla/4.0 (compatible; MSIE 6.0; X11) Opera 8.50", false),
            ("Mozilla/5.0 (Macintosh) AppleWebKit/1 Safari/500", true),
            (
                "Mozilla/5.0 (Macintosh) AppleWebKit/500 Safari/412.9",
                false,
            ),
            ("Mozilla/5.0 (compatible; Konqueror/3.1)", true),
            ("curl/8", false),
            ("", false),
        ] {
            assert_eq!(
                all.says(Class::Modern, agent.as_bytes()),
                expected,
                "{agent}"
            );
            assert_eq!(
                all.says(Class::Ancient, agent.as_bytes()),
                !expected,
                "{agent}"
            );
        }
    }

    #[test]
    fn others_are_what_the_words_say() {
        let all = browsers(&[
            ("modern", "unlisted"),
            ("modern", "msie 5.5"),
            ("modern", "msie 7.0"),
            ("ancient", "Links"),
            ("ancient", "netscape4"),
        ]);
        for (agent, expected) in [
            (MSIE6, true),
            (MSIE5, false),
            ("Opera/9.50", false),
            ("Links (0.96)", false),
            ("Mozilla/4.08 [en] (X11)", false),
            ("Mozilla/3.0", true),
            ("curl/8", true),
            ("", true),
        ] {
            assert_eq!(
                all.says(Class::Modern, agent.as_bytes()),
                expected,
                "{agent}"
            );
        }
        assert!(!browsers(&[]).says(Class::Modern, b"curl/8"));
    }

    #[test]
    fn msie_says_a_version() {
        for (agent, expected) in [
            ("MSIE 6.0", true),
            ("MSIE 6.", false),
            ("msie 6.0", false),
            ("MSIE 6.0; Opera 9", false),
        ] {
            assert_eq!(is_msie(agent.as_bytes()), expected, "{agent}");
        }
    }
}
