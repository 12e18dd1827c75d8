//! The root of our CA in the system trust store. The store is temporary, in its own mount namespace: the machine is not
//! changed.

use std::process::{Command, Output};

use crate::harness::{Folder, finish, sluice, text};
use crate::support::abilities::{has_openssl, skipped};

/// Runs `rare_options` in a shell that sees a nearly empty Debian trust store, located in `folder`; `$SLUICE` is the binary.
/// `None` if the kernel or the system does not support that.
fn in_own_store(folder: &Folder, words: &str) -> Option<Output> {
    for name in ["anchors", "gathered"] {
        std::fs::create_dir_all(folder.path().join(name)).expect("the folder is writable");
    }
    // One certificate of the system: without any, its command leaves the previous bundle in place.
    let own = std::fs::read_to_string("/etc/ca-certificates.conf").unwrap_or_default();
    let own = own.lines().find(|line| !line.starts_with(['#', '!']));
    folder.write("conf", format!("{}\n", own.unwrap_or_default()));
    let has_store = std::path::Path::new("/usr/local/share/ca-certificates").is_dir()
        && std::path::Path::new("/usr/sbin/update-ca-certificates").is_file()
        && own.is_some();
    if !has_openssl() {
        return None;
    }
    let may_mount = || {
        let tried = Command::new("unshare").args(["-m", "true"]).output();
        tried.is_ok_and(|output| output.status.success())
    };
    if !has_store || !may_mount() {
        skipped("no trust store of Debian here, or no right to mount one");
        return None;
    }
    let plain = sluice(folder);
    let script = format!(
        "mount --bind anchors /usr/local/share/ca-certificates && mount --bind gathered /etc/ssl/certs \
         && mount --bind conf /etc/ca-certificates.conf || exit 99\n{words}"
    );
    let mut command = Command::new("unshare");
    command
        .args(["-m", "sh", "-c", &script])
        .current_dir(folder.path())
        .env_clear();
    for (name, value) in plain.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    command
        .env(
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        )
        .env("SLUICE", plain.get_program());
    let output = finish(&mut command);
    assert_ne!(output.status.code(), Some(99), "{}", text(&output.stderr));
    Some(output)
}

/// Whether the system trusts our root.
const VERIFY: &str = "openssl verify -CApath /etc/ssl/certs data/sluice/pki/authorities/local/root.crt >/dev/null 2>&1 \
                      && echo trusted || echo unknown\n";

#[test]
fn the_system_trusts_our_root_from_trust_to_untrust() {
    let folder = Folder::new();
    let words = format!(
        "set -e\n$SLUICE trust\n{VERIFY}$SLUICE trust\nls /usr/local/share/ca-certificates\n\
         $SLUICE untrust\n{VERIFY}$SLUICE untrust\nls /usr/local/share/ca-certificates\n"
    );
    let Some(output) = in_own_store(&folder, &words) else {
        return;
    };
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    let lines: Vec<&str> = said.lines().collect();
    let is_reported =
        "The root certificate is trusted: /usr/local/share/ca-certificates/sluice-local.crt";
    assert_eq!(
        lines,
        [
            is_reported,
            "trusted",
            is_reported,
            "sluice-local.crt",
            "The root certificate is no longer trusted",
            "unknown",
            "The root certificate was not trusted",
        ]
    );
}

#[test]
fn a_trust_store_without_write_access_is_reported() {
    let folder = Folder::new();
    // Other users may not be able to reach the binary and the folder of certificates.
    let words = "set -e\ncp $SLUICE ./sluice-copy\nchmod 755 . sluice-copy\nmkdir -p data && chown -R nobody data\n\
                 setpriv --reuid=nobody --clear-groups ./sluice-copy trust && exit 98\necho $?\n\
                 $SLUICE trust\nsetpriv --reuid=nobody --clear-groups ./sluice-copy untrust && exit 97\necho $?\n\
                 ls /usr/local/share/ca-certificates\n";
    let words = words.replace("set -e\n", "");
    let Some(output) = in_own_store(&folder, &words) else {
        return;
    };
    let (said, complained) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}{complained}");
    let first = said.lines().next();
    assert_eq!(first, Some("1"), "{said}{complained}");
    assert!(
        said.ends_with("1\nsluice-local.crt\n"),
        "{said}{complained}"
    );
    let hint = "run the command as a user that may change the trust store, such as root";
    assert_eq!(complained.matches(hint).count(), 2, "{complained}");
}
