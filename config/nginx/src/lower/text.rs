//! Texts with variables: converts nginx's `$name` to the model's placeholders.

use std::collections::BTreeMap;

use sluice_diag::{Diagnostic, Report, closest};
use sluice_model::nginx::FileLookup;

use crate::limits::VARIABLES_MAX;
use crate::registry::variables::{FAMILIES, OfPlace, VARIABLES, Variable, variable};
use crate::tree::Word;

/// Where a variable of the configuration comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `set` and groups with a name: kept with the request.
    Set,
    /// `map`, `geo`, `split_clients`: looked up.
    Table,
}

/// The variables that the configuration itself defines, in lower case.
#[derive(Clone, Debug, Default)]
pub struct Defined(BTreeMap<String, Origin>);

impl Defined {
    /// Adds one.
    pub fn add(&mut self, name: &str, origin: Origin) {
        self.0.insert(name.to_ascii_lowercase(), origin);
    }

    /// Whether there is one of this name.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Adds the groups of a pattern that have names.
    pub fn add_groups(&mut self, pattern: &str) {
        for (opening, closing) in [("(?<", '>'), ("(?P<", '>'), ("(?'", '\'')] {
            for (at, _) in pattern.match_indices(opening) {
                let rest = &pattern[at + opening.len()..];
                // `(?<=` and `(?<!` look behind.
                if let Some((name, _)) = rest.split_once(closing)
                    && is_name(name)
                {
                    self.add(name, Origin::Set);
                }
            }
        }
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// What is known of the place where a text is used; texts with placeholders.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The first name of the server.
    pub server_name: String,
    /// Its root.
    pub root: Option<String>,
    /// The file that a request means.
    pub file: Option<String>,
    /// The number of the way in which paths of scripts are split here.
    pub script: Option<usize>,
    /// Host and port of the upstream as the configuration names it.
    pub proxy: Option<(String, String)>,
    /// Which links conditions of the place follow.
    pub links: FileLookup,
    /// The numbers of the tables that follow from the place.
    pub derived: Derived,
    /// Where the text is used; see [`Extent`].
    pub extent: Extent,
}

/// Where a text is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// In one place, whose facts are known.
    #[default]
    OnePlace,
    /// Wherever a request arrives, as the texts of a `map`: the server looks for the facts of the place that a request has
    /// arrived at.
    EveryPlace,
    /// In a handshake, which arrives at no location: what follows from one is empty.
    Handshake,
}

/// Tables that follow from a place, by number.
#[derive(Clone, Copy, Debug, Default)]
pub struct Derived {
    /// The real path of its root.
    pub real_root: Option<usize>,
    /// Whether the page that a request comes from is unwelcome.
    pub referer: Option<usize>,
    /// What a link says, and until when it holds.
    pub link: Option<(usize, usize)>,
    /// Whether a browser is modern, and whether it is ancient.
    pub browser: Option<(usize, usize)>,
}

/// The name of the table with this number.
pub fn derived_table(number: usize) -> String {
    format!("derived:{number}")
}

/// The table that gives a variable for each place.
pub fn place_table(name: &str) -> String {
    format!("place:{name}")
}

impl Facts {
    /// Those of texts that are used wherever a request arrives.
    pub fn of_every_place() -> Facts {
        Facts {
            extent: Extent::EveryPlace,
            ..Facts::default()
        }
    }

    /// The text for the variable `name` of the place; none where it has no such thing.
    fn text(&self, name: &str, which: OfPlace) -> Option<String> {
        match (self.extent, which) {
            (Extent::OnePlace, _) | (_, OfPlace::Connections(_)) => self.placeholder(which),
            (Extent::Handshake, _) => Some(self.placeholder(which).unwrap_or_default()),
            (Extent::EveryPlace, _) => Some(format!("{{nginx.table.{}}}", place_table(name))),
        }
    }

    /// The text for something of the place; none where it has no such thing.
    pub fn placeholder(&self, which: OfPlace) -> Option<String> {
        let shown = |number| format!("{{nginx.table.{}}}", derived_table(number));
        match which {
            OfPlace::Host => Some(format!("{{nginx.host/{}}}", self.server_name)),
            OfPlace::ServerName => Some(literal(&self.server_name)),
            OfPlace::Root => self.root.clone(),
            OfPlace::File => self.file.clone(),
            OfPlace::Script => self
                .script
                .map(|number| format!("{{nginx.table.{}}}", script_table(number))),
            OfPlace::PathInfo => self
                .script
                .map(|number| format!("{{nginx.table.{}}}", info_table(number))),
            // Where nothing is proxied, they are empty.
            OfPlace::ProxyHost => {
                let host = self.proxy.as_ref().map(|(host, _)| host.clone());
                Some(host.unwrap_or_default())
            }
            OfPlace::ProxyPort => {
                let port = self.proxy.as_ref().map(|(_, port)| port.clone());
                Some(port.unwrap_or_default())
            }
            OfPlace::RealRoot => self.derived.real_root.map(shown),
            // Without `valid_referers` every page is welcome, and without `secure_link` no link says anything.
            OfPlace::InvalidReferer => Some(self.derived.referer.map(shown).unwrap_or_default()),
            OfPlace::SecureLink => {
                let link = self.derived.link.map(|(verdict, _)| shown(verdict));
                Some(link.unwrap_or_default())
            }
            OfPlace::SecureLinkExpires => {
                let link = self.derived.link.map(|(_, until)| shown(until));
                Some(link.unwrap_or_default())
            }
            // Without a word of browsers all are ancient.
            OfPlace::ModernBrowser => {
                let modern = self.derived.browser.map(|(modern, _)| shown(modern));
                Some(modern.unwrap_or_default())
            }
            OfPlace::AncientBrowser => {
                let ancient = self.derived.browser.map(|(_, ancient)| shown(ancient));
                Some(ancient.unwrap_or_else(|| "1".to_owned()))
            }
            OfPlace::Connections(what) => Some(format!("{{nginx.table.connections:{what}}}")),
        }
    }
}

/// The table that gives the script of a path.
pub fn script_table(number: usize) -> String {
    format!("fastcgi_script_name:{number}")
}

/// The table that gives what is left of a path for its script.
pub fn info_table(number: usize) -> String {
    format!("fastcgi_path_info:{number}")
}

/// A piece of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// As it stands.
    Plain(&'a str),
    /// A variable, without its dollar sign and braces.
    Variable(&'a str),
}

/// Why a text has no variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadVariable;

/// Cuts a text into its pieces. A dollar sign that no name follows is a mistake, as nginx has it.
pub fn pieces(text: &str) -> Result<Vec<Piece<'_>>, BadVariable> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        if at > 0 {
            found.push(Piece::Plain(&rest[..at]));
        }
        let after = &rest[at + 1..];
        let (name, behind) = match after.strip_prefix('{') {
            Some(braced) => braced.split_once('}').ok_or(BadVariable)?,
            None if after.starts_with(|c: char| c.is_ascii_digit()) => after.split_at(1),
            None => {
                let length = after
                    .bytes()
                    .take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
                    .count();
                after.split_at(length)
            }
        };
        if !is_name(name) {
            return Err(BadVariable);
        }
        found.push(Piece::Variable(name));
        rest = behind;
    }
    if !rest.is_empty() {
        found.push(Piece::Plain(rest));
    }
    Ok(found)
}

/// Whether a text holds a variable.
pub fn has_variables(text: &str) -> bool {
    text.contains('$')
}

/// A text as it stands, so that none of it is a placeholder.
pub fn literal(text: &str) -> String {
    text.replace('{', "\\{").replace('}', "\\}")
}

/// The text of `word` with placeholders; mistakes are reported, and stand for nothing.
pub fn lower(word: &Word, facts: &Facts, defined: &Defined, report: &mut Report) -> String {
    let refuse = |title: &str, help: &str| {
        Diagnostic::error("invalid-variable", title)
            .at(word.span, "here")
            .imported(word.import)
            .help(help)
    };
    let pieces = match pieces(&word.text) {
        Ok(pieces) if pieces.len() > VARIABLES_MAX => {
            report.push(refuse("too many variables in one text", "use fewer"));
            return String::new();
        }
        Ok(pieces) => pieces,
        Err(BadVariable) => {
            let help =
                "write `$name` or `${name}`; a plain `$` comes from a `geo` or `map` variable";
            report.push(refuse("a dollar sign without a name", help));
            return String::new();
        }
    };
    let mut out = String::new();
    for piece in pieces {
        match piece {
            Piece::Plain(text) => out.push_str(&literal(text)),
            Piece::Variable(name) => {
                if let Some(text) = of_variable(name, word, facts, defined, report) {
                    out.push_str(&text);
                }
            }
        }
    }
    out
}

fn of_variable(
    name: &str,
    word: &Word,
    facts: &Facts,
    defined: &Defined,
    report: &mut Report,
) -> Option<String> {
    if name.len() == 1 && name.starts_with(|c: char| c.is_ascii_digit()) {
        return Some(format!("{{nginx.capture.{name}}}"));
    }
    let lower = name.to_ascii_lowercase();
    match defined.0.get(&lower) {
        Some(Origin::Set) => return Some(format!("{{http.vars.nginx.{lower}}}")),
        Some(Origin::Table) => return Some(format!("{{nginx.table.{lower}}}")),
        None => {}
    }
    let found = match variable(&lower) {
        Some(Variable::Placeholder(placeholder)) => Some(format!("{{{placeholder}}}")),
        Some(Variable::Text(text)) => Some(text.to_owned()),
        Some(Variable::OfPlace(which)) => facts.text(&lower, which),
        Some(Variable::NotYet) => None,
        None => match of_family(&lower) {
            Some(placeholder) => placeholder,
            None => {
                report.push(unknown(name, word, defined));
                return None;
            }
        },
    };
    if found.is_none() {
        report.push(
            Diagnostic::error(
                "unsupported-directive",
                format!("`${name}` is not supported here"),
            )
            .at(word.span, "this variable has no value here")
            .imported(word.import)
            .help("remove it, or keep serving this with nginx for now"),
        );
    }
    found
}

fn unknown(name: &str, word: &Word, defined: &Defined) -> Diagnostic {
    let known = VARIABLES.iter().map(|(name, _)| *name);
    let known = known.chain(defined.0.keys().map(String::as_str));
    let guess = closest(&name.to_ascii_lowercase(), known).map(|guess| format!("${guess}"));
    Diagnostic::error("unknown-variable", format!("unknown variable `${name}`"))
        .at(word.span, "nothing sets it")
        .imported(word.import)
        .did_you_mean(guess.as_deref())
}

/// Reports variables that there are none of in a text that may never be used.
pub fn check_names(word: &Word, defined: &Defined, report: &mut Report) {
    for piece in pieces(&word.text).unwrap_or_default() {
        let Piece::Variable(name) = piece else {
            continue;
        };
        let lower = name.to_ascii_lowercase();
        let is_group = name.len() == 1 && name.starts_with(|c: char| c.is_ascii_digit());
        let is_known = is_group || defined.has(&lower) || variable(&lower).is_some();
        if !is_known && of_family(&lower).is_none() {
            report.push(unknown(name, word, defined));
        }
    }
}

/// What a variable of a family stands for; the inner `None` is for families that are not built.
fn of_family(name: &str) -> Option<Option<String>> {
    let (prefix, placeholder) = FAMILIES
        .iter()
        .filter(|(prefix, _)| name.len() > prefix.len() && name.starts_with(prefix))
        .max_by_key(|(prefix, _)| prefix.len())?;
    let rest = &name[prefix.len()..];
    Some(placeholder.map(|placeholder| {
        let rest = match prefix.contains("http") || prefix.contains("trailer") {
            true => rest.replace('_', "-"),
            false => rest.to_owned(),
        };
        format!("{{{placeholder}{rest}}}")
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_diag::{Sources, Span};

    fn lowered(text: &str) -> (String, String) {
        let mut report = Report::new();
        let mut defined = Defined::default();
        defined.add("Mine", Origin::Set);
        defined.add("looked_up", Origin::Table);
        defined.add_groups("^/(?<first>[a-z]+)/(?P<second>.*)$ (?<=x)");
        let word = Word {
            text: text.to_owned(),
            span: Span::new(Sources::new().add("t", text), 0, 1),
            import: None,
        };
        let facts = Facts {
            server_name: "a.example".to_owned(),
            ..Facts::default()
        };
        report.sources.add("t", text);
        (
            super::lower(&word, &facts, &defined, &mut report),
            report.short(),
        )
    }

    #[test]
    fn variables_become_placeholders() {
        for (text, expected) in [
            ("plain", "plain"),
            ("a{b}", "a\\{b\\}"),
            (
                "https://$host$request_uri",
                "https://{nginx.host/a.example}{nginx.request_uri}",
            ),
            ("${scheme}s", "{http.request.scheme}s"),
            ("$1$2x", "{nginx.capture.1}{nginx.capture.2}x"),
            (
                "$mine-$MINE",
                "{http.vars.nginx.mine}-{http.vars.nginx.mine}",
            ),
            ("$looked_up", "{nginx.table.looked_up}"),
            (
                "$first$second",
                "{http.vars.nginx.first}{http.vars.nginx.second}",
            ),
            ("$http_user_agent", "{nginx.http.user-agent}"),
            ("$arg_a_b $cookie_x", "{nginx.arg.a_b} {nginx.cookie.x}"),
            ("$sent_http_etag", "{nginx.sent_http.etag}"),
            ("$sent_trailer_a_b", "{nginx.sent_trailer.a-b}"),
            ("$upstream_trailer_a_b", "{nginx.upstream_trailer.a-b}"),
            ("$upstream_cookie_a_b", "{nginx.upstream_cookie.a_b}"),
            ("$upstream_bytes_sent", "{nginx.upstream.bytes_sent}"),
            ("$server_name", "a.example"),
        ] {
            assert_eq!(
                lowered(text),
                (expected.to_owned(), String::new()),
                "{text}"
            );
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, slug) in [
            ("$", "invalid-variable"),
            ("a$-b", "invalid-variable"),
            ("${a", "invalid-variable"),
            ("$hots", "unknown-variable"),
            ("$document_root", "unsupported-directive"),
            ("$ssl_sigalg", "unsupported-directive"),
        ] {
            assert!(
                lowered(text).1.contains(slug),
                "{text}: {}",
                lowered(text).1
            );
        }
        assert!(lowered("$hots").1.contains("hots"));
    }
}
