//! Information about the program: version, build, switches. Certbot, Ansible and others parse these lines, so they have
//! nginx's format; `configure arguments` names only the modules that are supported.

use sluice_nginx::registry::is_built;
use sluice_nginx::registry::variables::NGINX_VERSION;

use crate::commands::build_info::{LOCK, packages};

use super::invocation::{ACCESS_LOG, CONF, ERROR_LOG, PID_FILE, PREFIX};
use super::switches::{Printed, Switches};

/// nginx's optional modules, by the names of their configure options (<https://nginx.org/en/docs/configure.html>).
const OPTIONAL: &[&str] = &[
    "http_addition_module",
    "http_auth_request_module",
    "http_dav_module",
    "http_gunzip_module",
    "http_gzip_static_module",
    "http_random_index_module",
    "http_realip_module",
    "http_secure_link_module",
    "http_slice_module",
    "http_ssl_module",
    "http_stub_status_module",
    "http_sub_module",
    "http_v2_module",
    "http_v3_module",
    "stream",
];

/// The information to print first; `None` if none was requested.
pub fn text(switches: &Switches) -> Option<String> {
    let version = format!(
        "nginx version: nginx/{NGINX_VERSION} (sluice {})\n",
        env!("CARGO_PKG_VERSION")
    );
    Some(match switches.printed {
        Printed::Nothing => return None,
        Printed::Version => version,
        Printed::Build => version + &build(),
        Printed::Help => version + &help(),
    })
}

fn build() -> String {
    let modules: String = OPTIONAL
        .iter()
        .filter(|module| is_built(&format!("ngx_{module}")))
        .map(|module| format!(" --with-{module}"))
        .collect();
    let [rustls, aws_lc] = ["rustls", "aws-lc-rs"].map(version_of);
    format!(
        "built by rustc {}\nbuilt with rustls {rustls} (aws-lc-rs {aws_lc}, TLS 1.2 and 1.3)\nTLS SNI support enabled\n\
         configure arguments: --prefix={PREFIX} --conf-path={CONF} --error-log-path={ERROR_LOG} \
         --http-log-path={ACCESS_LOG} --pid-path={PID_FILE}{modules}\n",
        env!("CARGO_PKG_RUST_VERSION")
    )
}

/// The version of a package that the program is built with.
fn version_of(package: &str) -> &'static str {
    let mut packages = packages(LOCK);
    let found = packages.find(|(name, _)| *name == package);
    found.map_or("", |(_, version)| version)
}

fn help() -> String {
    format!(
        "Usage: nginx [-?hvVtTq] [-s signal] [-p prefix]\n             [-e filename] [-c filename] [-g directives]\n\n\
         Options:\n\
         \x20 -?,-h         : print this help\n\
         \x20 -v            : print the version\n\
         \x20 -V            : print the version and the modules\n\
         \x20 -t            : check the configuration\n\
         \x20 -T            : check the configuration and print all of its files\n\
         \x20 -q            : with -t, print only errors\n\
         \x20 -s signal     : signal the running server: stop, quit, reopen or reload\n\
         \x20 -p prefix     : directory of relative paths (default: {PREFIX}/)\n\
         \x20 -e filename   : error log (default: {ERROR_LOG})\n\
         \x20 -c filename   : configuration file (default: {CONF})\n\
         \x20 -g directives : directives to read before the configuration file\n\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed_for(line: &str) -> String {
        let words = line.split(' ').map(str::to_owned).collect();
        text(&Switches::parse(words).unwrap()).unwrap()
    }

    /// What Certbot's plugin looks for: certbot_nginx/_internal/configurator.py, `_get_nginx_version`.
    #[test]
    fn certbot_finds_version_names_and_tls() {
        let said = printed_for("-V");
        let first = said.lines().next().unwrap();
        let version = first.strip_prefix("nginx version: nginx/").unwrap();
        let digits: Vec<&str> = version.split(' ').next().unwrap().splitn(3, '.').collect();
        assert!(digits.iter().all(|part| part.parse::<u32>().is_ok()));
        assert!(said.contains("TLS SNI support enabled"));
        // What scripts read as library and version: `built with NAME VERSION …`.
        let library = said
            .lines()
            .find_map(|line| line.strip_prefix("built with "));
        let mut words = library.unwrap().split(' ');
        assert_eq!(words.next(), Some("rustls"));
        let version = words.next().unwrap();
        let numbers: Vec<&str> = version.split('.').collect();
        assert!(numbers.len() == 3 && numbers.iter().all(|part| part.parse::<u32>().is_ok()));
        assert!(!said.contains("OpenSSL"), "it is not used");
        assert!(said.contains(" --with-http_ssl_module"));
    }

    #[test]
    fn only_modules_that_work_are_named() {
        let said = printed_for("-V");
        assert!(said.contains(" --with-http_realip_module"));
        assert!(!said.contains("--with-http_dav_module"), "it is refused");
        assert_eq!(printed_for("-v").lines().count(), 1);
        assert!(printed_for("-h").contains("-s signal"));
    }
}
