//! The real php-fpm, if one is installed, on an address chosen by the test.

use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::abilities::{skipped, tried};
use super::program::Program;

/// A running php-fpm, stopped on drop.
pub struct Fpm(#[expect(dead_code, reason = "it is only dropped")] Program);

impl Fpm {
    /// Starts it with its files in `folder`, and waits until it listens on `listen`, a path or an address. `pool` has
    /// additional settings. If PHP is not installed, the test is reported as skipped and this returns `None`.
    pub fn start(folder: &Path, listen: &str, pool: &str) -> Option<Fpm> {
        let Some(program) = find() else {
            skipped("no program `php-fpm` is installed; Debian has it as package php-fpm");
            return None;
        };
        let children = if pool.contains("max_children") {
            ""
        } else {
            "pm.max_children = 4"
        };
        let place = folder.display();
        let config = folder.join("fpm.conf");
        let text = format!(
            "[global]\nerror_log = {place}/fpm.out\ndaemonize = no\n[www]\nuser = root\ngroup = root\n\
             listen = {listen}\npm = static\n{children}\n{pool}\n\
             php_value[session.save_path] = {place}\nphp_admin_value[upload_tmp_dir] = {place}\n\
             php_value[post_max_size] = 50M\nphp_value[upload_max_filesize] = 50M\n\
             php_flag[display_errors] = off\nphp_flag[log_errors] = on\n\
             php_value[output_buffering] = 0\nphp_value[memory_limit] = 256M\n"
        );
        std::fs::write(&config, text).expect("the folder is writable");
        let mut command = Command::new(program);
        command.args([
            "--nodaemonize",
            "--allow-to-run-as-root",
            "--no-php-ini",
            "--fpm-config",
        ]);
        let fpm = Program::start(command.arg(config), folder.join("fpm.out"));
        let is_there = || match listen.starts_with('/') {
            true => UnixStream::connect(listen).is_ok(),
            false => TcpStream::connect(listen).is_ok(),
        };
        Some(Fpm(fpm.waiting(is_there)))
    }
}

/// Finds any php-fpm: Debian's has the version in its name and is in a folder for system administration.
fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders =
        std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    let mut found: Vec<PathBuf> = folders
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flat_map(|entries| entries.flatten().map(|entry| entry.path()))
        .filter(|file| {
            let name = file
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            let version = name.strip_prefix("php-fpm");
            version.is_some_and(|v| v.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
        })
        .filter(|file| {
            let output = tried(&file.to_string_lossy(), &["-v"]);
            output.is_some_and(|output| output.status.success())
        })
        .collect();
    found.sort();
    found.pop()
}
