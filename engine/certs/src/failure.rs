//! Errors and notices about certificates, with the file concerned. The layers above turn them into diagnostics or log
//! messages.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sluice_dns::DnsError;
use sluice_store::StoreError;

use crate::subject::{Subject, SubjectError};

/// An error concerning certificates.
#[derive(Debug)]
pub enum CertsError {
    /// A file operation failed.
    Io {
        /// The operation, such as `read`.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// The file is larger than any certificate.
    TooLarge(PathBuf),
    /// The file contains no certificate.
    NoCertificate {
        /// The file.
        path: PathBuf,
        /// Whether it contains a private key instead.
        has_key: bool,
    },
    /// The file contains no private key.
    NoKey {
        /// The file.
        path: PathBuf,
        /// Whether it contains a certificate instead.
        has_certificate: bool,
    },
    /// The private key is encrypted, and no password is configured.
    EncryptedKey(PathBuf),
    /// The private key is encrypted, and none of the configured passwords decrypts it.
    WrongPassword {
        /// The key file.
        key: PathBuf,
        /// The password file.
        passwords: PathBuf,
    },
    /// The file contents do not match their PEM labels.
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found instead.
        what: String,
    },
    /// The key has an unsupported type.
    UnusableKey {
        /// The file.
        path: PathBuf,
        /// The reason.
        what: String,
    },
    /// The key belongs to another certificate.
    KeyMismatch {
        /// The certificate file.
        certificate: PathBuf,
        /// The key file.
        key: PathBuf,
    },
    /// The file is configured as a CA, but its certificate must not sign others.
    NotAnAuthority(PathBuf),
    /// Another process has locked the storage for too long.
    Locked(PathBuf),
    /// Creating or signing a certificate failed.
    Signing(String),
    /// The name cannot be used in a certificate.
    Subject(SubjectError),
    /// A CA could not be reached, or refused a request.
    Authority {
        /// The CA.
        issuer: String,
        /// The kind of failure.
        fault: Fault,
        /// The message of the CA, or the transport error.
        what: String,
        /// No further requests before this time, if the CA said so.
        retry_at: Option<SystemTime>,
    },
    /// A setting of an issuer cannot be used.
    Setting {
        /// The setting.
        name: &'static str,
        /// The problem.
        what: String,
    },
    /// This system has no supported certificate store.
    NoSystemStore,
    /// The store of certificates failed.
    Store(StoreError),
    /// A system command failed.
    Command {
        /// The command.
        command: String,
        /// Its output.
        what: String,
    },
}

impl From<SubjectError> for CertsError {
    fn from(error: SubjectError) -> Self {
        CertsError::Subject(error)
    }
}

impl From<DnsError> for CertsError {
    fn from(error: DnsError) -> Self {
        CertsError::Setting {
            name: "dns",
            what: error.0,
        }
    }
}

/// How a request to a CA failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The CA did not respond, or not with valid ACME.
    Unreachable,
    /// The CA refused the request.
    Refused,
    /// The CA asked to wait.
    Busy,
}

impl CertsError {
    /// Whether the error is about the key file at this path, so that the pair cannot be used.
    pub fn is_about_key(&self, key: &Path) -> bool {
        match self {
            CertsError::NoKey { .. }
            | CertsError::EncryptedKey(_)
            | CertsError::WrongPassword { .. }
            | CertsError::UnusableKey { .. }
            | CertsError::KeyMismatch { .. } => true,
            _ => self.is_about(key),
        }
    }

    /// Whether the error is about reading or parsing the file at this path.
    pub fn is_about(&self, file: &Path) -> bool {
        match self {
            CertsError::Io { path, .. }
            | CertsError::TooLarge(path)
            | CertsError::Damaged { path, .. } => path == file,
            _ => false,
        }
    }

    /// An operation on a file or folder that failed.
    pub fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        CertsError::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }

    /// Whether permissions are missing, so that retrying as another user may help.
    pub fn is_permission_denied(&self) -> bool {
        matches!(self, CertsError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    }
}

impl fmt::Display for CertsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CertsError::Io {
                action,
                path,
                source,
            } => {
                let path = path.display();
                match source.kind() {
                    // The standard library calls it an entity.
                    io::ErrorKind::NotFound => {
                        write!(f, "cannot {action} `{path}`: no such file or directory")
                    }
                    _ => write!(f, "cannot {action} `{path}`: {source}"),
                }
            }
            CertsError::Signing(what) => write!(f, "cannot create a certificate: {what}"),
            CertsError::Subject(error) => error.fmt(f),
            CertsError::Authority {
                issuer,
                fault,
                what,
                ..
            } => match fault {
                Fault::Unreachable => write!(f, "cannot reach CA `{issuer}`: {what}"),
                Fault::Refused => write!(f, "CA `{issuer}` refused: {what}"),
                Fault::Busy => write!(f, "CA `{issuer}` asks to wait: {what}"),
            },
            CertsError::Setting { name, what } => write!(f, "`{name}` cannot be used: {what}"),
            CertsError::NoSystemStore => {
                f.write_str("found no supported trust store on this system")
            }
            CertsError::Command { command, what } => write!(f, "`{command}` failed: {what}"),
            CertsError::Store(error) => error.fmt(f),
            CertsError::WrongPassword { key, passwords } => {
                let (key, passwords) = (key.display(), passwords.display());
                write!(
                    f,
                    "no password in `{passwords}` opens the private key in `{key}`"
                )
            }
            CertsError::KeyMismatch { certificate, key } => {
                let (certificate, key) = (certificate.display(), key.display());
                let key = format_args!("the private key in `{key}`");
                write!(
                    f,
                    "{key} does not belong to the certificate in `{certificate}`"
                )
            }
            CertsError::TooLarge(path)
            | CertsError::NoCertificate { path, .. }
            | CertsError::NoKey { path, .. }
            | CertsError::EncryptedKey(path)
            | CertsError::Damaged { path, .. }
            | CertsError::UnusableKey { path, .. }
            | CertsError::NotAnAuthority(path)
            | CertsError::Locked(path) => self.fmt_about(&path.display(), f),
        }
    }
}

impl CertsError {
    /// Formats errors about the file at `path`; nothing for other errors.
    fn fmt_about(&self, path: &dyn fmt::Display, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CertsError::TooLarge(_) => {
                write!(f, "`{path}` is too large for a certificate or key")
            }
            CertsError::NoCertificate { has_key: false, .. } => {
                write!(f, "no certificate in `{path}`")
            }
            CertsError::NoCertificate { has_key: true, .. } => {
                write!(f, "no certificate in `{path}`, which holds a private key")
            }
            CertsError::NoKey {
                has_certificate: false,
                ..
            } => {
                write!(f, "no private key in `{path}`")
            }
            CertsError::NoKey {
                has_certificate: true,
                ..
            } => {
                write!(f, "no private key in `{path}`, which holds a certificate")
            }
            CertsError::EncryptedKey(_) => {
                write!(f, "the private key in `{path}` is protected by a password")
            }
            CertsError::Damaged { what, .. } => write!(f, "`{path}` is damaged: {what}"),
            CertsError::UnusableKey { what, .. } => {
                write!(f, "the private key in `{path}` cannot be used: {what}")
            }
            CertsError::NotAnAuthority(_) => {
                write!(f, "the certificate in `{path}` is not a CA certificate")
            }
            CertsError::Locked(_) => {
                write!(
                    f,
                    "timed out waiting for another process to release `{path}`"
                )
            }
            CertsError::Io { .. }
            | CertsError::Signing(_)
            | CertsError::Subject(_)
            | CertsError::Authority { .. }
            | CertsError::Setting { .. }
            | CertsError::NoSystemStore
            | CertsError::Command { .. }
            | CertsError::Store(_)
            | CertsError::WrongPassword { .. }
            | CertsError::KeyMismatch { .. } => Ok(()),
        }
    }
}

impl std::error::Error for CertsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            CertsError::Io { source, .. } => Some(source),
            CertsError::Store(error) => Some(error),
            CertsError::TooLarge(_)
            | CertsError::NoCertificate { .. }
            | CertsError::NoKey { .. }
            | CertsError::EncryptedKey(_)
            | CertsError::WrongPassword { .. }
            | CertsError::Damaged { .. }
            | CertsError::UnusableKey { .. }
            | CertsError::KeyMismatch { .. }
            | CertsError::NotAnAuthority(_)
            | CertsError::Locked(_)
            | CertsError::Signing(_)
            | CertsError::Subject(_)
            | CertsError::Authority { .. }
            | CertsError::Setting { .. }
            | CertsError::NoSystemStore
            | CertsError::Command { .. } => None,
        }
    }
}

/// An event to log that does not prevent serving.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The certificate has expired and is served nevertheless.
    Expired {
        /// Its origin.
        origin: String,
        /// When it expired.
        at: SystemTime,
    },
    /// The certificate is not valid yet and is served nevertheless.
    NotYetValid {
        /// Its origin.
        origin: String,
        /// The start of its validity.
        from: SystemTime,
    },
    /// The certificate contains no names, so it is served only as the default.
    NoNames {
        /// Its origin.
        origin: String,
    },
    /// No OCSP response can be stapled to a certificate.
    NotStapled {
        /// Its file.
        origin: String,
        /// The reason.
        why: String,
    },
    /// The CA has revoked a certificate that is in use.
    Revoked {
        /// Its file.
        origin: String,
    },
    /// A certificate that expired long ago was deleted from storage, with its key.
    Removed {
        /// The file that contained it.
        path: PathBuf,
    },
    /// Certificate files have changed, and the new certificate is served.
    FileRead {
        /// Their origin.
        origin: String,
    },
    /// Certificate files have changed and cannot be used; the old certificate is served.
    FileUnusable {
        /// Their origin.
        origin: String,
        /// The problem.
        why: String,
    },
    /// A stored certificate could not be used and was replaced by a new one.
    Replaced {
        /// Its subject.
        subject: Subject,
        /// The problem with the stored one.
        why: String,
    },
    /// A new certificate is served but could not be stored, so it will be replaced at the next start.
    NotStored {
        /// Its subject.
        subject: Subject,
        /// The problem.
        why: String,
    },
    /// Session ticket keys shared between instances cannot be read; the known keys remain in use.
    TicketsNotShared {
        /// The problem.
        why: String,
    },
    /// A certificate is being obtained.
    Obtaining {
        /// Its subject.
        subject: Subject,
        /// Whether it replaces one that is in use.
        renewal: bool,
    },
    /// A certificate was issued.
    Issued {
        /// Its subject.
        subject: Subject,
        /// The issuer.
        issuer: String,
        /// Whether it replaces one that was in use.
        renewal: bool,
        /// Its files in the storage, without their extensions.
        path: String,
    },
    /// A managed certificate is served from now on.
    Served {
        /// Its names.
        names: Vec<Subject>,
    },
    /// An issuer failed, and the next one is tried.
    Passed {
        /// The subject.
        subject: Subject,
        /// The error.
        why: String,
    },
    /// No issuer has issued a certificate; there will be a retry.
    NotIssued {
        /// The subject.
        subject: Subject,
        /// Whether there is a certificate that was to be renewed.
        renewal: bool,
        /// The issuers that were to issue it, in order.
        issuers: Vec<String>,
        /// The error of the last issuer.
        why: String,
        /// The time of the retry.
        next: SystemTime,
    },
    /// A root certificate was created; clients need to trust it.
    RootMade {
        /// The ID of the CA.
        authority: String,
        /// The root certificate file.
        path: PathBuf,
    },
}

fn listed(names: &[Subject]) -> String {
    let names: Vec<String> = names.iter().map(Subject::to_string).collect();
    names.join(", ")
}

impl Notice {
    /// Whether only event handlers care: it is what should happen all the time.
    pub fn is_routine(&self) -> bool {
        matches!(self, Notice::Obtaining { .. } | Notice::Served { .. })
    }

    /// Whether it needs the administrator's attention.
    pub fn is_failure(&self) -> bool {
        match self {
            Notice::NotIssued { .. }
            | Notice::NotStored { .. }
            | Notice::FileUnusable { .. }
            | Notice::Revoked { .. }
            | Notice::TicketsNotShared { .. }
            | Notice::Expired { .. } => true,
            Notice::NotYetValid { .. }
            | Notice::NoNames { .. }
            | Notice::FileRead { .. }
            | Notice::Removed { .. }
            | Notice::NotStapled { .. }
            | Notice::Replaced { .. }
            | Notice::Obtaining { .. }
            | Notice::Issued { .. }
            | Notice::Served { .. }
            | Notice::Passed { .. }
            | Notice::RootMade { .. } => false,
        }
    }

    /// What happened, as the constant message of a log entry; [`Notice::facts`] has the details.
    pub fn message(&self) -> &'static str {
        match self {
            Notice::Expired { .. } => "a certificate has expired and is still served",
            Notice::NotYetValid { .. } => "a certificate is served that is not valid yet",
            Notice::NoNames { .. } => "a certificate contains no host names",
            Notice::NotStapled { .. } => "no OCSP response for a certificate",
            Notice::Revoked { .. } => "the CA has revoked a certificate that is served",
            Notice::Removed { .. } => "an expired certificate was removed from storage",
            Notice::FileRead { .. } => "certificate files have changed and were loaded",
            Notice::FileUnusable { .. } => {
                "certificate files have changed and cannot be used; the old certificate is served"
            }
            Notice::Replaced { .. } => "an unusable certificate in storage was replaced",
            Notice::NotStored { .. } => "a new certificate could not be stored",
            Notice::TicketsNotShared { .. } => {
                "session ticket keys are not shared with other instances"
            }
            Notice::Obtaining { .. } => "obtaining a certificate",
            Notice::Issued { .. } => "certificate obtained",
            Notice::Served { .. } => "certificate is served",
            Notice::Passed { .. } => "an issuer failed to issue a certificate; trying the next one",
            Notice::NotIssued { .. } => "could not obtain a certificate; sluice tries again later",
            Notice::RootMade { .. } => "a local CA created a new root certificate",
        }
    }

    /// The details, as names and values of log fields.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        match self {
            Notice::Expired { origin, .. }
            | Notice::NotYetValid { origin, .. }
            | Notice::NoNames { origin }
            | Notice::Revoked { origin }
            | Notice::FileRead { origin } => vec![("origin", origin.clone())],
            Notice::NotStapled { origin, why } | Notice::FileUnusable { origin, why } => {
                vec![("origin", origin.clone()), ("error", why.clone())]
            }
            Notice::Removed { path } => vec![("path", path.display().to_string())],
            Notice::Replaced { subject, why }
            | Notice::NotStored { subject, why }
            | Notice::Passed { subject, why }
            | Notice::NotIssued { subject, why, .. } => {
                vec![("subject", subject.to_string()), ("error", why.clone())]
            }
            Notice::TicketsNotShared { why } => vec![("error", why.clone())],
            Notice::Obtaining { subject, .. } => vec![("subject", subject.to_string())],
            Notice::Served { names } => vec![("subjects", listed(names))],
            Notice::Issued {
                subject, issuer, ..
            } => {
                vec![("subject", subject.to_string()), ("issuer", issuer.clone())]
            }
            Notice::RootMade { authority, path } => vec![
                ("issuer", authority.clone()),
                ("path", path.display().to_string()),
            ],
        }
    }

    /// How long after `now` the next attempt follows, if there is one.
    pub fn retry_in(&self, now: SystemTime) -> Option<Duration> {
        let Notice::NotIssued { next, .. } = self else {
            return None;
        };
        Some(next.duration_since(now).unwrap_or_default())
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Expired { origin, .. } => {
                write!(f, "the certificate in `{origin}` has expired")
            }
            Notice::NotYetValid { origin, .. } => {
                write!(f, "the certificate in `{origin}` is not valid yet")
            }
            Notice::NoNames { origin } => write!(f, "the certificate in `{origin}` names no host"),
            Notice::NotStapled { origin, why } => {
                write!(
                    f,
                    "no OCSP response for the certificate in `{origin}`: {why}"
                )
            }
            Notice::Revoked { origin } => {
                write!(f, "the certificate in `{origin}` was revoked by its CA")
            }
            Notice::Removed { path } => {
                let path = path.display();
                write!(f, "`{path}` expired long ago and was removed from storage")
            }
            Notice::FileRead { origin } => {
                write!(f, "the changed certificate in `{origin}` was loaded")
            }
            Notice::FileUnusable { origin, why } => {
                write!(
                    f,
                    "the certificate in `{origin}` has changed and cannot be used: {why}"
                )
            }
            Notice::Replaced { subject, why } => {
                write!(
                    f,
                    "the stored certificate for `{subject}` was replaced: {why}"
                )
            }
            Notice::NotStored { subject, why } => {
                write!(
                    f,
                    "the new certificate for `{subject}` could not be stored: {why}"
                )
            }
            Notice::TicketsNotShared { why } => write!(
                f,
                "session ticket keys are not shared with other instances: {why}"
            ),
            Notice::Obtaining { subject, .. } => write!(f, "obtaining one for `{subject}`"),
            Notice::Served { names } => write!(f, "serving a certificate for {}", listed(names)),
            Notice::Issued {
                subject, issuer, ..
            } => {
                write!(f, "issuer `{issuer}` issued a certificate for `{subject}`")
            }
            Notice::Passed { subject, why } => {
                write!(f, "trying the next issuer for `{subject}`: {why}")
            }
            Notice::NotIssued { subject, why, .. } => {
                let wait = self.retry_in(SystemTime::now()).unwrap_or_default();
                write!(
                    f,
                    "no certificate for `{subject}` yet, next attempt in {} s: {why}",
                    wait.as_secs()
                )
            }
            Notice::RootMade { authority, path } => {
                let path = path.display();
                write!(f, "CA `{authority}` created a new root, `{path}`")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_is_a_constant_message_with_facts() {
        let now = SystemTime::now();
        let failed = Notice::NotIssued {
            subject: Subject::parse("a.test").unwrap(),
            renewal: false,
            issuers: vec!["ca".to_owned()],
            why: "timeout".to_owned(),
            next: now + Duration::from_secs(60),
        };
        assert!(failed.message().contains("could not obtain a certificate"));
        let facts = [("subject", "a.test"), ("error", "timeout")];
        assert_eq!(
            failed.facts(),
            facts.map(|(name, value)| (name, value.to_owned()))
        );
        assert_eq!(failed.retry_in(now), Some(Duration::from_secs(60)));
        let read = Notice::FileRead {
            origin: "a.pem".to_owned(),
        };
        assert!(!read.message().contains("a.pem"), "that is a fact");
        assert_eq!(read.facts(), [("origin", "a.pem".to_owned())]);
        assert_eq!(read.retry_in(now), None);
    }
}
