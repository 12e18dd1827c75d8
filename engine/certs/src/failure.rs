//! What can go wrong with certificates, as facts with the file concerned. Turning them into diagnostics or log
//! lines is left to the floors above.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::subject::Subject;

/// Why something could not be done.
#[derive(Debug)]
pub enum CertsError {
    /// An operation on a file failed.
    Io {
        /// What was tried, such as `read`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The file is larger than any certificate.
    TooLarge(PathBuf),
    /// The file holds no certificate.
    NoCertificate {
        /// The file.
        path: PathBuf,
        /// Whether it holds a private key instead.
        has_key: bool,
    },
    /// The file holds no private key.
    NoKey {
        /// The file.
        path: PathBuf,
        /// Whether it holds a certificate instead.
        has_certificate: bool,
    },
    /// The private key is protected by a password, and none is known.
    EncryptedKey(PathBuf),
    /// The private key is protected by a password that is none of those that are known.
    WrongPassword {
        /// The file of the key.
        key: PathBuf,
        /// The file of the passwords.
        passwords: PathBuf,
    },
    /// The file does not hold what its labels say.
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// The key is of a kind that cannot be used.
    UnusableKey {
        /// The file.
        path: PathBuf,
        /// Why.
        what: String,
    },
    /// The key belongs to another certificate.
    KeyMismatch {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
    },
    /// The file is that of an authority, but its certificate may not sign others.
    NotAnAuthority(PathBuf),
    /// Another process holds the storage for too long.
    Locked(PathBuf),
    /// Making or signing a certificate failed.
    Signing(String),
    /// The name can not stand in a certificate.
    Subject(String),
    /// An authority could not be asked, or refused.
    Authority {
        /// Which.
        issuer: String,
        /// How.
        fault: Fault,
        /// What it said, or what went wrong on the way.
        what: String,
        /// Not to be asked again before then, if it said so.
        retry_at: Option<SystemTime>,
    },
    /// The setting of an issuer cannot be used.
    Setting {
        /// Which.
        name: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// This system's certificate store is of no kind that is known.
    NoSystemStore,
    /// A command of the system failed.
    Command {
        /// The command.
        command: String,
        /// What it said.
        what: String,
    },
}

/// How asking an authority failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It did not answer, or not as an authority does.
    Unreachable,
    /// It refused.
    Refused,
    /// It asks to wait.
    Busy,
}

impl CertsError {
    /// Whether a pair of files cannot be used because of its key, which is at this path.
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

    /// Whether the file at this path cannot be read, or does not hold what its labels say.
    pub fn is_about(&self, file: &Path) -> bool {
        match self {
            CertsError::Io { path, .. }
            | CertsError::TooLarge(path)
            | CertsError::Damaged { path, .. } => path == file,
            _ => false,
        }
    }

    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        CertsError::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }

    /// Whether it came from missing rights, so that trying as another user may help.
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
                write!(f, "cannot {action} `{}`: {source}", path.display())
            }
            CertsError::Signing(what) => write!(f, "making a certificate failed: {what}"),
            CertsError::Subject(name) => write!(f, "no certificate can be made for `{name}`"),
            CertsError::Authority {
                issuer,
                fault,
                what,
                ..
            } => match fault {
                Fault::Unreachable => write!(f, "cannot reach CA `{issuer}`: {what}"),
                Fault::Refused => write!(f, "CA `{issuer}` refuses: {what}"),
                Fault::Busy => write!(f, "CA `{issuer}` asks to wait: {what}"),
            },
            CertsError::Setting { name, what } => write!(f, "`{name}` cannot be used: {what}"),
            CertsError::NoSystemStore => {
                f.write_str("no certificate store of a kind that is known was found on this system")
            }
            CertsError::Command { command, what } => write!(f, "`{command}` failed: {what}"),
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
    /// What is wrong with the one file at `path`; nothing for the other errors.
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
                write!(f, "the certificate in `{path}` may not sign others")
            }
            CertsError::Locked(_) => {
                write!(f, "another process holds `{path}` for too long")
            }
            CertsError::Io { .. }
            | CertsError::Signing(_)
            | CertsError::Subject(_)
            | CertsError::Authority { .. }
            | CertsError::Setting { .. }
            | CertsError::NoSystemStore
            | CertsError::Command { .. }
            | CertsError::WrongPassword { .. }
            | CertsError::KeyMismatch { .. } => Ok(()),
        }
    }
}

impl std::error::Error for CertsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            CertsError::Io { source, .. } => Some(source),
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

/// Something to tell that stops nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The certificate has expired and is served nevertheless.
    Expired {
        /// Where it is from.
        origin: String,
        /// When.
        at: SystemTime,
    },
    /// The certificate is not valid yet and is served nevertheless.
    NotYetValid {
        /// Where it is from.
        origin: String,
        /// From when on it is.
        from: SystemTime,
    },
    /// The certificate names no host, so it is only served where it is the first.
    NoNames {
        /// Where it is from.
        origin: String,
    },
    /// No OCSP answer can be shown with a certificate.
    NotStapled {
        /// Its file.
        origin: String,
        /// Why.
        why: String,
    },
    /// The authority has revoked a certificate that is in use.
    Revoked {
        /// Its file.
        origin: String,
    },
    /// A certificate that ended long ago was removed from storage, with its key.
    Removed {
        /// The file that held it.
        path: PathBuf,
    },
    /// Files of a certificate have changed, and the new one is shown.
    FileRead {
        /// Where it is from.
        origin: String,
    },
    /// Files of a certificate have changed and cannot be used; the old one is shown.
    FileUnusable {
        /// Where it is from.
        origin: String,
        /// What is wrong with them.
        why: String,
    },
    /// A stored certificate could not be used and a new one was made.
    Replaced {
        /// For whom.
        subject: Subject,
        /// What was wrong with the stored one.
        why: String,
    },
    /// A new certificate is served but could not be stored, so the next start makes another.
    NotStored {
        /// For whom.
        subject: Subject,
        /// What went wrong.
        why: String,
    },
    /// The keys of session tickets that instances share cannot be looked at; those that are known are used on.
    TicketsNotShared {
        /// What is wrong.
        why: String,
    },
    /// A certificate was made.
    Issued {
        /// For whom.
        subject: Subject,
        /// By which issuer.
        issuer: String,
    },
    /// An issuer failed, and the next one is asked.
    Passed {
        /// For whom.
        subject: Subject,
        /// What went wrong.
        why: String,
    },
    /// No issuer made a certificate; it is tried again.
    NotIssued {
        /// For whom.
        subject: Subject,
        /// What went wrong with the last one.
        why: String,
        /// When it is tried again.
        next: SystemTime,
    },
    /// A root was made; clients have to be told to trust it.
    RootMade {
        /// The id of the authority.
        authority: String,
        /// Its file.
        path: PathBuf,
    },
}

impl Notice {
    /// Whether somebody should look after it.
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
            | Notice::Issued { .. }
            | Notice::Passed { .. }
            | Notice::RootMade { .. } => false,
        }
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
                write!(f, "`{path}` ended long ago and was removed from storage")
            }
            Notice::FileRead { origin } => {
                write!(f, "the certificate in `{origin}` has changed and is shown")
            }
            Notice::FileUnusable { origin, why } => {
                write!(
                    f,
                    "the certificate in `{origin}` has changed and cannot be shown: {why}"
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
                "the keys of session tickets are not shared with other instances: {why}"
            ),
            Notice::Issued { subject, issuer } => {
                write!(f, "issuer `{issuer}` made a certificate for `{subject}`")
            }
            Notice::Passed { subject, why } => {
                write!(f, "the next issuer is asked for `{subject}`: {why}")
            }
            Notice::NotIssued { subject, why, next } => {
                let wait = next.duration_since(SystemTime::now()).unwrap_or_default();
                write!(
                    f,
                    "no certificate for `{subject}` yet, next attempt in {} s: {why}",
                    wait.as_secs()
                )
            }
            Notice::RootMade { authority, path } => {
                write!(
                    f,
                    "CA `{authority}` created a new root, `{}`",
                    path.display()
                )
            }
        }
    }
}
