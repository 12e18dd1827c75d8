//! The syslog header `<187>Nov 22 09:47:08 host nginx: ` (RFC 3164, section 4.1, as written by nginx). `net` sends
//! lines.

use std::time::SystemTime;

use sluice_message::decimal::push_integer;
use sluice_model::logging::SyslogEncoder;

use super::Level;
use super::time_text::TimeFormat;
use super::zone::Zone;

/// The header of the lines of one log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beginning {
    facility: u64,
    /// The severity of access log lines.
    severity: u64,
    time: TimeFormat,
    /// ` host tag: `, or without the host.
    names: Box<str>,
}

/// Facilities by number.
const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "intern", "lpr", "news", "uucp", "clock", "authpriv",
    "ftp", "ntp", "audit", "alert", "cron", "local0", "local1", "local2", "local3", "local4",
    "local5", "local6", "local7",
];

/// Severities by number.
const SEVERITIES: [&str; 8] = [
    "emerg", "alert", "crit", "error", "warn", "notice", "info", "debug",
];

impl Beginning {
    /// Builds the header from a configuration; the error names the unknown word.
    pub fn build(config: &SyslogEncoder) -> Result<Beginning, String> {
        let tag = match config.tag.as_str() {
            "" => "nginx",
            tag => tag,
        };
        let names = match config.without_host {
            true => format!(" {tag}: "),
            false => format!(" {} {tag}: ", host()),
        };
        Ok(Beginning {
            facility: number(&FACILITIES, &config.facility, "local7")?,
            severity: number(&SEVERITIES, &config.severity, "info")?,
            time: TimeFormat::from_name("Jan _2 15:04:05"),
            names: names.into(),
        })
    }

    /// Appends the header. Lines without a level have the configured severity.
    pub fn push(&self, out: &mut Vec<u8>, time: SystemTime, level: Option<Level>) {
        let severity = match level {
            None => self.severity,
            Some(Level::Error) => 3,
            Some(Level::Warn) => 4,
            Some(Level::Info) => 5,
            Some(Level::Debug) => 7,
        };
        out.push(b'<');
        push_integer(out, self.facility * 8 + severity);
        out.push(b'>');
        self.time.push(out, time, Zone::Local);
        out.extend_from_slice(self.names.as_bytes());
    }
}

fn number(known: &[&str], name: &str, usual: &str) -> Result<u64, String> {
    let wanted = if name.is_empty() { usual } else { name };
    let found = known.iter().position(|known| *known == wanted);
    let found = found.ok_or_else(|| format!("`{name}` is none of {}", known.join(", ")))?;
    Ok(found as u64)
}

/// The host name, up to its first dot.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim().split('.').next().unwrap_or_default();
    if name.is_empty() {
        "-".to_owned()
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(config: &SyslogEncoder, level: Option<Level>) -> String {
        let mut out = Vec::new();
        let beginning = Beginning::build(config).unwrap();
        beginning.push(&mut out, SystemTime::now(), level);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn it_is_what_nginx_writes() {
        let usual = line(&SyslogEncoder::default(), Some(Level::Error));
        assert!(usual.starts_with("<187>"), "{usual}");
        assert!(usual.ends_with(&format!(" {} nginx: ", host())), "{usual}");
        let own = SyslogEncoder {
            facility: "local3".to_owned(),
            severity: "debug".to_owned(),
            tag: "me".to_owned(),
            without_host: true,
            ..SyslogEncoder::default()
        };
        let own = line(&own, None);
        assert!(own.starts_with("<159>"), "{own}");
        // `Nov 22 09:47:08`; a single-digit day is padded with a space.
        assert_eq!(own.len(), "<159>Nov 22 09:47:08 me: ".len(), "{own}");
        assert!(own.ends_with(" me: "), "{own}");
        let wrong = SyslogEncoder {
            facility: "x".to_owned(),
            ..SyslogEncoder::default()
        };
        assert!(Beginning::build(&wrong).is_err());
    }
}
