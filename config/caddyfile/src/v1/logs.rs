//! `log` and the log of `errors`: files, rotation, and text formats, which Caddy 2 does not have.

use super::pieces::{bare, block, line, prefix};
use super::translation::Translation;
use crate::tree::{Directive, Token};

const USAGE: &str = "log [[<path>] <file> [<format>]]";

impl Translation<'_> {
    pub(super) fn log(&mut self, old: &Directive) {
        let is_path = |word: &Token| word.text.starts_with('/');
        let (path, file, format) = match old.args.as_slice() {
            [] => (None, None, None),
            [file] => (None, Some(file), None),
            // A file in a folder of the machine also begins with a slash.
            [path, file] if is_path(path) => (Some(path), Some(file), None),
            [file, format] => (None, Some(file), Some(format)),
            [path, file, format] => (Some(path), Some(file), Some(format)),
            _ => return self.malformed(old, USAGE),
        };
        if let Some(format) = format {
            let note = "entries are JSON, or readable text with `format console`";
            let title = format!("log format `{}` has no equivalent", format.text);
            self.differs(format, title, note);
        }
        let mut lines = self.output(&old.name, file, "access.log", old.lines());
        let mut except = Vec::new();
        for inner in old.lines() {
            match (inner.name.as_str(), inner.args.as_slice()) {
                ("except", paths @ [_, ..]) => except.extend(paths),
                ("ipmask", masks @ [_, ..]) => lines.extend(self.ip_mask(inner, masks)),
                (name, _) if is_rotation(name) => {}
                _ => self.malformed(
                    inner,
                    "rotate_size, rotate_age, rotate_keep, except or ipmask",
                ),
            }
        }
        let below = path.and_then(|path| prefix(path.as_str()).map(|below| (path, below)));
        match below {
            None => self.set_up(block(&old.name, "log", [""; 0], lines)),
            Some((at, below)) => {
                self.globals.logs += 1;
                let name = format!("log{}_of_a_path", self.globals.logs);
                lines.insert(0, bare(&old.name, "no_hostname"));
                self.set_up(block(&old.name, "log", [name.as_str()], lines));
                self.set_up(line(at, "log_name", [below, name]));
            }
        }
        for path in except {
            self.set_up(line(path, "log_skip", prefix(path.as_str())));
        }
    }

    /// The log of `errors`: requests that failed on this side, which are those of level ERROR.
    pub(super) fn error_log(&mut self, file: &Token, rotation: &[Directive]) {
        let mut lines = self.output(file, Some(file), "error.log", rotation);
        lines.push(line(file, "level", ["ERROR"]));
        self.set_up(block(file, "log", [""; 0], lines));
    }

    fn output(
        &mut self,
        at: &Token,
        file: Option<&Token>,
        default: &str,
        lines: &[Directive],
    ) -> Vec<Directive> {
        let name = file.map_or(default, Token::as_str);
        let at = file.unwrap_or(at);
        match name {
            "stdout" | "stderr" => return vec![line(at, "output", [name])],
            "" => return vec![line(at, "output", ["discard"])],
            name if name == "syslog"
                || name.starts_with("syslog+")
                || name.starts_with("syslog:") =>
            {
                let help = "write to a file or to stderr, and let a log shipper read it";
                self.cannot(at, "logging to syslog is not supported", help);
                return Vec::new();
            }
            _ => {}
        }
        let mut options = Vec::new();
        let mut compresses = false;
        for inner in lines {
            match inner.name.as_str() {
                "rotate_compress" => compresses = true,
                // `rotate { size 1 }` is the form of 0.8.
                "rotate" => {
                    for part in inner.lines() {
                        options.extend(self.rotation(part, part.name.as_str()));
                    }
                }
                name => {
                    if let Some(part) = name.strip_prefix("rotate_") {
                        options.extend(self.rotation(inner, part));
                    }
                }
            }
        }
        if !options.is_empty() && !compresses {
            options.push(bare(at, "roll_uncompressed"));
        }
        vec![match options.is_empty() {
            true => line(at, "output", ["file", name]),
            false => block(at, "output", ["file", name], options),
        }]
    }

    fn rotation(&mut self, old: &Directive, part: &str) -> Option<Directive> {
        let value = match old.args.as_slice() {
            [value] if value.text.parse::<u32>().is_ok() => value.as_str(),
            _ => {
                self.malformed(old, "size <megabytes>, age <days> or keep <files>");
                return None;
            }
        };
        let (name, value) = match part {
            "size" => ("roll_size", format!("{value}MiB")),
            "age" => ("roll_keep_for", format!("{}h", hours(value))),
            "keep" => ("roll_keep", value.to_owned()),
            _ => {
                self.malformed(old, "size <megabytes>, age <days> or keep <files>");
                return None;
            }
        };
        Some(line(&old.name, name, [value]))
    }

    /// `ipmask <IPv4 mask> [<IPv6 mask>]` as lengths of prefixes.
    fn ip_mask(&mut self, old: &Directive, masks: &[Token]) -> Option<Directive> {
        let mut lines = Vec::new();
        for mask in masks {
            let (name, bits) = if let Ok(mask) = mask.text.parse::<std::net::Ipv4Addr>() {
                ("ipv4", u32::from(mask).leading_ones())
            } else if let Ok(mask) = mask.text.parse::<std::net::Ipv6Addr>() {
                ("ipv6", u128::from(mask).leading_ones())
            } else {
                self.malformed(old, "ipmask <IPv4 mask> [<IPv6 mask>]");
                return None;
            };
            lines.push(line(mask, name, [bits.to_string()]));
        }
        let at = &old.name;
        let fields = ["request>remote_ip", "request>client_ip"]
            .map(|field| block(at, field, ["ip_mask"], lines.clone()))
            .to_vec();
        Some(block(at, "format", ["filter"], fields))
    }
}

fn is_rotation(name: &str) -> bool {
    name == "rotate" || name.starts_with("rotate_")
}

/// Days as hours, which is how the new language counts.
fn hours(days: &str) -> u64 {
    days.parse::<u64>().unwrap_or_default() * 24
}
