//! Certbot with its nginx plugin, and this server under the name `nginx`: a certificate is ordered and installed for a
//! plain HTTP site, and renewed. `cargo xtask acme` installs Certbot.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use super::Visitor;
use super::pebble::Settings;
use crate::client::exchange;
use crate::harness::{eventually, text};
use crate::nginx::prefix::Prefix;
use crate::support::abilities::skipped;
use crate::tls::get;

/// The site before Certbot changes it.
const SITE: &str = "\
    pid {folder}/logs/nginx.pid;\nerror_log {folder}/logs/error.log notice;\nevents { worker_connections 100; }\n\
    http {\naccess_log off;\nserver {\n\tlisten {port}; # of the world\n\tserver_name site.test www.site.test;\n\
    \n\tlocation / { return 200 \"hello to $scheme\"; }\n}\n}\n";

/// Certbot with its own folders.
struct Certbot<'a> {
    program: PathBuf,
    settings: &'a Settings,
    prefix: &'a Prefix,
}

impl Certbot<'_> {
    fn run(&self, words: &[&str]) -> String {
        let folder = self.prefix.folder.path();
        let mut command = Command::new(&self.program);
        command.args(words).args(["--nginx", "-n"]);
        for (option, path) in [
            ("--nginx-server-root", ""),
            ("--nginx-ctl", "nginx"),
            ("--config-dir", "certbot/config"),
            ("--work-dir", "certbot/work"),
            ("--logs-dir", "certbot/logs"),
        ] {
            command.arg(option).arg(folder.join(path));
        }
        let http = self.settings.http.to_string();
        let https = self.settings.alpn.to_string();
        let directory = self.settings.directory_url();
        command.args(["--http-01-port", &http, "--https-port", &https]);
        command.args(["--server", &directory]);
        // The CA bundle of its HTTP library.
        let root = self.settings.folder.path().join("root.pem");
        command.env("REQUESTS_CA_BUNDLE", root);
        let output = command.output().expect("Certbot starts");
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(
            output.status.success(),
            "Certbot said:\n{said}\n{}",
            self.prefix.errors()
        );
        said
    }
}

/// The response of a site over TLS, if its certificate is trusted.
fn says(visitor: &Visitor, name: &str) -> Option<String> {
    let mut wire = visitor.connect(name).ok()?;
    Some(get(&mut wire, name, "/").1)
}

#[test]
#[ignore = "needs pebble and Certbot: cargo xtask acme"]
fn certbot_takes_this_server_for_nginx() {
    let Some(program) = std::env::var_os("SLUICE_CERTBOT") else {
        skipped("Certbot is not installed: `cargo xtask acme` installs it from PyPI");
        return;
    };
    let mut settings = Settings::new();
    // Certbot gives up if a nonce is rejected.
    let always = ("PEBBLE_WFE_NONCEREJECT", "0".to_owned());
    settings.variables.push(always);
    let pebble = settings.start();
    let settings = pebble.settings();
    let prefix = Prefix::new();
    let folder = prefix.folder.path();
    symlink(env!("CARGO_BIN_EXE_sluice"), folder.join("nginx")).expect("a new name");
    let site = SITE.replace("{folder}", &folder.to_string_lossy());
    prefix.configure(&site.replace("{port}", &settings.http.to_string()), "");
    let certbot = Certbot {
        program: program.into(),
        settings,
        prefix: &prefix,
    };
    let names = ["-d", "site.test", "-d", "www.site.test"];
    // It adds redirects only for port 80, which tests do not use.
    let rest = ["--agree-tos", "-m", "me@example.com", "--no-redirect"];
    certbot.run(&[&["run"], &names[..], &rest[..]].concat());

    let visitor = Visitor::new(&pebble);
    let describe = || prefix.errors();
    for name in ["site.test", "www.site.test"] {
        let secure = || says(&visitor, name).is_some_and(|text| text == "hello to https");
        eventually("the certificate", secure, describe);
    }
    let plain = "GET /x HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n";
    let plain = exchange(settings.http, plain.as_bytes());
    assert_eq!(plain.text(), "hello to http");
    let kept = folder.join("nginx.conf");
    let kept = std::fs::read_to_string(kept).expect("it is still there");
    assert!(kept.contains("# of the world"), "{kept}");
    assert!(kept.contains("ssl_dhparam"), "{kept}");

    let first = visitor.certificate("site.test");
    certbot.run(&["renew", "--force-renewal", "--no-random-sleep-on-renew"]);
    // The workers adopt it one after the other.
    let renewed = || visitor.certificate("site.test") != first;
    eventually("the new certificate", renewed, describe);
    assert_eq!(pebble.orders(), 2);
}
