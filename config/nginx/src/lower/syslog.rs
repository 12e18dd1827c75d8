//! `syslog:server=…`: logs sent to syslog, <https://nginx.org/en/docs/syslog.html>.

use sluice_model::logging::{LogEncoder, LogWriter, NetWriter, SyslogEncoder};

/// What a word asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Syslog {
    /// Where lines go.
    pub writer: LogWriter,
    /// What they begin with.
    head: SyslogEncoder,
}

/// The port of syslog where none is named.
const PORT: u16 = 514;

/// nginx's own limit of a tag.
const TAG_BYTES_MAX: usize = 32;

impl Syslog {
    /// Lines that begin as syslog wants it.
    pub fn around(self, inner: LogEncoder) -> LogEncoder {
        LogEncoder::Syslog(SyslogEncoder {
            wrap: Some(Box::new(inner)),
            ..self.head
        })
    }
}

/// The facilities that nginx knows, in the order of their numbers in RFC 3164.
pub const FACILITIES: &[&str] = &[
    "kern", "user", "mail", "daemon", "auth", "intern", "lpr", "news", "uucp", "clock", "authpriv",
    "ftp", "ntp", "audit", "alert", "cron", "local0", "local1", "local2", "local3", "local4",
    "local5", "local6", "local7",
];

/// The severities that nginx knows.
pub const SEVERITIES: &[&str] = &[
    "emerg", "alert", "crit", "error", "warn", "notice", "info", "debug",
];

/// Reads what follows `syslog:`. The error says what is wanted.
pub fn parse(params: &str) -> Result<Syslog, &'static str> {
    let mut server = None;
    let mut head = SyslogEncoder::default();
    for param in params.split(',') {
        let (name, value) = param.split_once('=').unwrap_or((param, ""));
        match name {
            "server" if server.is_none() => {
                server = Some(
                    address(value).ok_or("a server such as `127.0.0.1:514` or `unix:/dev/log`")?,
                );
            }
            "facility" if FACILITIES.contains(&value) => head.facility = value.to_owned(),
            "severity" if SEVERITIES.contains(&value) => head.severity = value.to_owned(),
            "tag" if is_tag(value) => head.tag = value.to_owned(),
            "nohostname" if param == name => head.without_host = true,
            _ => {
                return Err(
                    "`server=` with `facility=`, `severity=`, `tag=` (at most 32 letters, digits and underscores) and `nohostname`",
                );
            }
        }
    }
    let address = server.ok_or("`syslog:server=…`")?;
    Ok(Syslog {
        writer: LogWriter::Net(NetWriter {
            address,
            // Packets for nobody are lost, as nginx loses them.
            soft_start: true,
            ..NetWriter::default()
        }),
        head,
    })
}

fn is_tag(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !text.is_empty() && text.len() <= TAG_BYTES_MAX && text.bytes().all(fits)
}

/// As the model writes it.
fn address(text: &str) -> Option<String> {
    if let Some(path) = text.strip_prefix("unix:") {
        return path.starts_with('/').then(|| format!("unixgram/{path}"));
    }
    let has_port = match text.rsplit_once(':') {
        Some((host, port)) => {
            port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']'))
        }
        None => false,
    };
    let last = text.rsplit(':').next().unwrap_or_default();
    let is_number = text.contains(':') && last.bytes().all(|byte| byte.is_ascii_digit());
    if is_number && !has_port {
        return None;
    }
    match (text.is_empty(), has_port) {
        (true, _) => None,
        (false, true) => Some(format!("udp/{text}")),
        (false, false) => Some(format!("udp/{text}:{PORT}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_have_a_usual_port() {
        for (text, expected) in [
            ("127.0.0.1", Some("udp/127.0.0.1:514")),
            ("log.test:12345", Some("udp/log.test:12345")),
            ("[2001:db8::1]:12345", Some("udp/[2001:db8::1]:12345")),
            ("[::1]", Some("udp/[::1]:514")),
            (
                "unix:/var/log/nginx.sock",
                Some("unixgram//var/log/nginx.sock"),
            ),
            ("unix:x", None),
            ("", None),
        ] {
            assert_eq!(address(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn invalid_syslog_settings_are_refused() {
        assert!(parse("server=a,facility=local3,severity=debug,tag=a_1,nohostname").is_ok());
        for wrong in [
            "",
            "a",
            "facility=user",
            "server=a,facility=x",
            "server=a,severity=x",
            "server=a,tag=a-b",
            "server=a,nohostname=1",
            "server=a,server=b",
            "server=a,tag=",
            "server=a,x",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
