//! Installs our root certificate in the system trust store: writes a file to the directory that the system's own
//! command collects certificates from, and runs that command. Browsers with separate stores are left to their users.

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::failure::CertsError;
use crate::pair::chain_from_pem;
use crate::pem_file::read_file;

/// The certificate store of a system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemStore {
    /// The directory for additional certificates.
    pub folder: PathBuf,
    /// The file extension that the command expects.
    pub ending: &'static str,
    /// The command that updates the store, with its arguments.
    pub command: Vec<String>,
    /// The command to run after a certificate was removed.
    pub command_after_removal: Vec<String>,
}

/// A kind of store.
struct StoreKind {
    folder: &'static str,
    ending: &'static str,
    command: &'static [&'static str],
    /// Additional arguments after a removal.
    removal: &'static [&'static str],
}

/// Debian, Fedora, Arch, openSUSE. Debian's command leaves dangling links after a removal unless it rebuilds
/// everything.
const KINDS: [StoreKind; 4] = [
    StoreKind {
        folder: "usr/local/share/ca-certificates",
        ending: "crt",
        command: &["update-ca-certificates"],
        removal: &["--fresh"],
    },
    StoreKind {
        folder: "etc/pki/ca-trust/source/anchors",
        ending: "pem",
        command: &["update-ca-trust", "extract"],
        removal: &[],
    },
    StoreKind {
        folder: "etc/ca-certificates/trust-source/anchors",
        ending: "crt",
        command: &["trust", "extract-compat"],
        removal: &[],
    },
    StoreKind {
        folder: "etc/pki/trust/anchors",
        ending: "pem",
        command: &["update-ca-certificates"],
        removal: &[],
    },
];

impl SystemStore {
    /// The store of the system whose files are below `root`, which is `/` except in tests.
    pub fn find(root: &Path) -> Result<SystemStore, CertsError> {
        let found = KINDS.iter().find(|kind| root.join(kind.folder).is_dir());
        let kind = found.ok_or(CertsError::NoSystemStore)?;
        let words = |words: &[&[&str]]| words.concat().into_iter().map(str::to_owned).collect();
        Ok(SystemStore {
            folder: root.join(kind.folder),
            ending: kind.ending,
            command: words(&[kind.command]),
            command_after_removal: words(&[kind.command, kind.removal]),
        })
    }

    /// The path of the certificate called `name`, whether it exists or not.
    pub fn path(&self, name: &str) -> PathBuf {
        let safe = |c: char| {
            if c.is_ascii_alphanumeric() || c == '-' {
                c
            } else {
                '_'
            }
        };
        let name: String = name.chars().map(safe).collect();
        self.folder.join(format!("{name}.{}", self.ending))
    }

    /// Whether exactly the certificate `pem` is installed as `name`.
    pub fn is_installed(&self, name: &str, pem: &str) -> Result<bool, CertsError> {
        let path = self.path(name);
        let Some(found) = read_file(&path)? else {
            return Ok(false);
        };
        let wanted = chain_from_pem(pem.as_bytes(), Path::new(name))?;
        Ok(chain_from_pem(&found, &path).is_ok_and(|found| found == wanted))
    }

    /// Installs `pem` as `name`, replacing an earlier one. Does nothing if it is already installed.
    pub fn install(&self, name: &str, pem: &str) -> Result<(), CertsError> {
        if self.is_installed(name, pem)? {
            return Ok(());
        }
        let path = self.path(name);
        // The extension prevents the command from collecting an incomplete file.
        let next = path.with_extension("next");
        let written = fs::File::create(&next).and_then(|mut file| {
            file.write_all(pem.as_bytes())?;
            // Regardless of the umask: programs of all users have to read it.
            file.set_permissions(fs::Permissions::from_mode(0o644))?;
            file.sync_all()
        });
        let written = written.and_then(|()| fs::rename(&next, &path));
        if let Err(source) = written {
            // Report the original error; a leftover file is not collected.
            let _ = fs::remove_file(&next);
            return Err(CertsError::io("write", &path, source));
        }
        gather(&self.command).inspect_err(|_| {
            // Otherwise it would count as installed the next time.
            let _ = fs::remove_file(&path);
        })
    }

    /// Removes the certificate called `name`; returns whether there was one.
    pub fn uninstall(&self, name: &str) -> Result<bool, CertsError> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(source) => return Err(CertsError::io("remove", &path, source)),
        }
        gather(&self.command_after_removal)?;
        Ok(true)
    }
}

fn gather(command: &[String]) -> Result<(), CertsError> {
    let failed = |what: String| CertsError::Command {
        command: command.join(" "),
        what,
    };
    let Some((program, arguments)) = command.split_first() else {
        return Ok(());
    };
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim();
    Err(failed(if said.is_empty() {
        output.status.to_string()
    } else {
        said.to_owned()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::TempFolder;

    fn made() -> String {
        rcgen::generate_simple_self_signed(vec!["a.test".to_owned()])
            .unwrap()
            .cert
            .pem()
    }

    /// A store below a temporary directory whose command records that it ran.
    fn store(folder: &Path) -> SystemStore {
        fs::create_dir_all(folder.join("etc/pki/ca-trust/source/anchors")).unwrap();
        let mut store = SystemStore::find(folder).unwrap();
        assert_eq!(store.command, ["update-ca-trust", "extract"]);
        let ran = folder.join("ran").display().to_string();
        store.command = vec!["/bin/sh".into(), "-c".into(), format!("echo x >> '{ran}'")];
        store.command_after_removal = store.command.clone();
        store
    }

    fn runs(folder: &Path) -> usize {
        fs::read_to_string(folder.join("ran")).map_or(0, |text| text.lines().count())
    }

    #[test]
    fn a_root_is_installed_once_and_removed() {
        let folder = TempFolder::new();
        let (store, pem) = (store(folder.path()), made());
        assert!(!store.is_installed("Our Root!", &pem).unwrap());
        store.install("Our Root!", &pem).unwrap();
        store.install("Our Root!", &pem).unwrap();
        assert_eq!(runs(folder.path()), 1);
        assert!(store.is_installed("Our Root!", &pem).unwrap());
        assert!(
            !store.is_installed("Our Root!", &made()).unwrap(),
            "another root of that name"
        );
        let path = store.path("Our Root!");
        assert!(path.ends_with("Our_Root_.pem"));
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o444,
            0o444
        );
        assert!(store.uninstall("Our Root!").unwrap());
        assert!(!store.uninstall("Our Root!").unwrap());
        assert_eq!(runs(folder.path()), 2);
        assert_eq!(fs::read_dir(&store.folder).unwrap().count(), 0);
    }

    #[test]
    fn command_failures_and_missing_trust_stores_are_reported() {
        let folder = TempFolder::new();
        assert!(matches!(
            SystemStore::find(folder.path()),
            Err(CertsError::NoSystemStore)
        ));
        let mut store = store(folder.path());
        store.command = vec![
            "/bin/sh".into(),
            "-c".into(),
            "echo no rights >&2; exit 3".into(),
        ];
        let error = store.install("x", &made()).unwrap_err();
        assert!(error.to_string().contains("no rights"), "{error}");
        assert!(!store.is_installed("x", &made()).unwrap() && !store.path("x").exists());
        store.command = vec!["/bin/true".into()];
        store.install("x", &made()).unwrap();
        store.command_after_removal = vec!["/nonexistent/update".into()];
        assert!(matches!(
            store.uninstall("x"),
            Err(CertsError::Command { .. })
        ));
        store.folder = folder.path().join("missing");
        assert!(matches!(
            store.install("x", &made()),
            Err(CertsError::Io {
                action: "write",
                ..
            })
        ));
    }

    #[test]
    fn each_kind_of_system_is_recognized() {
        for kind in KINDS {
            let folder = TempFolder::new();
            fs::create_dir_all(folder.path().join(kind.folder)).unwrap();
            let store = SystemStore::find(folder.path()).unwrap();
            assert_eq!(store.command, kind.command);
            assert_eq!(
                store.command_after_removal.len(),
                kind.command.len() + kind.removal.len()
            );
        }
    }
}
