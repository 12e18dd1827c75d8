//! The commands of Certbot's nginx plugin, in its order, with files as it leaves them: version, test, reload before the
//! challenge, reload with the certificate, and a renewal two months later. Certbot itself is not needed.

use std::os::unix::fs::PermissionsExt;

use pki_types::CertificateDer;
use rustls::version::TLS13;

use super::prefix::Prefix;
use crate::client::{Response, exchange};
use crate::harness::{eventually, free_port, run_to_end, text};
use crate::tls;

/// The site as its owner wrote it.
const BEFORE: &str =
    "server {\nlisten 127.0.0.1:{port};\nserver_name site.test;\nreturn 200 \"plain\";\n}\n";

/// With the challenge that Certbot adds temporarily.
const CHALLENGE: &str = "server {rewrite ^(/.well-known/acme-challenge/.*) $1 break; # managed by Certbot\n\n\
    listen 127.0.0.1:{port};\nserver_name site.test;\n\
    location = /.well-known/acme-challenge/token{default_type text/plain;return 200 token.key;} # managed by Certbot\n\n}\n";

/// With its certificate.
const AFTER: &str = "server {\nserver_name site.test;\nlocation / { return 200 \"secure\"; }\n\n\
    listen 127.0.0.1:{tls} ssl; # managed by Certbot\n\
    ssl_certificate live/fullchain.pem; # managed by Certbot\n\
    ssl_certificate_key live/privkey.pem; # managed by Certbot\n\
    include options-ssl-nginx.conf; # managed by Certbot\n\
    ssl_dhparam ssl-dhparams.pem; # managed by Certbot\n\n}\n\
    server {\nif ($host = site.test) {\nreturn 301 https://$host$request_uri;\n} # managed by Certbot\n\n\n\
    listen 127.0.0.1:{port};\nserver_name site.test;\nreturn 404; # managed by Certbot\n\n\n}\n";

fn write_certificate(prefix: &Prefix) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(["site.test".to_owned()]).expect("a certificate");
    prefix.folder.write("live/fullchain.pem", made.cert.pem());
    let key = made.signing_key.serialize_pem();
    let key = prefix.folder.write("live/privkey.pem", key);
    // As in /etc/letsencrypt/archive: readable for the owner only.
    let mode = PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(key, mode).expect("it is ours");
    made.cert.der().clone()
}

/// The server and its two ports.
struct Site {
    prefix: Prefix,
    secure: u16,
}

impl Site {
    fn configure(&self, servers: &str) {
        let servers = servers.replace("{tls}", &self.secure.to_string());
        let main = "pid logs/nginx.pid;\nerror_log logs/error.log notice;\nevents { worker_connections 100; }\n";
        self.prefix.configure(
            &format!("{main}http {{\naccess_log off;\n{servers}}}\n"),
            "",
        );
    }

    /// Runs what Certbot calls `nginx_server_ctl`, which must succeed.
    fn ctl(&self, words: &[&str]) -> String {
        let conf = self.prefix.conf();
        let folder = self.prefix.folder.path().to_string_lossy().into_owned();
        let mut all = vec!["nginx", "-p", &folder, "-e", "logs/start.log", "-c", &conf];
        all.extend(words);
        let output = run_to_end(&self.prefix.folder, &all);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {said}");
        said
    }

    fn test_and_reload(&self) {
        self.ctl(&["-t"]);
        self.ctl(&["-s", "reload"]);
    }

    fn get(&self, path: &str) -> Response {
        exchange(
            self.prefix.port,
            format!("GET {path} HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n"),
        )
    }

    fn eventually(&self, what: &str, is_true: impl Fn() -> bool) {
        eventually(what, is_true, || self.prefix.errors());
    }

    /// Whether it presents this certificate.
    fn serves(&self, root: &CertificateDer<'static>) -> bool {
        let client = tls::trusting(root.clone(), &[&TLS13]);
        let Ok(mut wire) = tls::connect(&client, self.secure, "site.test") else {
            return false;
        };
        tls::get(&mut wire, "site.test", "/").1 == "secure"
    }
}

#[test]
fn its_steps_lead_to_a_certificate_and_to_the_next_one() {
    let site = Site {
        prefix: Prefix::new(),
        secure: free_port(),
    };
    site.prefix.folder.write(
        "options-ssl-nginx.conf",
        "ssl_session_cache shared:le_nginx_SSL:10m;\nssl_session_timeout 1440m;\nssl_session_tickets off;\n\
         ssl_protocols TLSv1.2 TLSv1.3;\nssl_prefer_server_ciphers off;\nssl_ciphers \"ECDHE-ECDSA-AES128-GCM-SHA256\";\n",
    );
    site.prefix.folder.write("ssl-dhparams.pem", "");
    site.configure(BEFORE);
    let version = site.ctl(&["-V"]);
    assert!(version.contains("TLS SNI support enabled"));
    assert!(version.contains(" --with-http_ssl_module"));
    site.ctl(&["-t"]);
    // The server is not running yet: Certbot then starts it by the same command without `-s`.
    site.ctl(&[]);
    assert_eq!(site.get("/").text(), "plain");
    site.configure(CHALLENGE);
    site.test_and_reload();
    let challenge = || site.get("/.well-known/acme-challenge/token").text();
    site.eventually("the challenge", || challenge() == "token.key");
    let first = write_certificate(&site.prefix);
    site.configure(AFTER);
    site.test_and_reload();
    site.eventually("the redirect", || site.get("/a").status == 301);
    site.eventually("the certificate", || site.serves(&first));
    // The renewal: only the files change.
    let second = write_certificate(&site.prefix);
    site.ctl(&["-s", "reload"]);
    site.eventually("the new certificate", || site.serves(&second));
    // The workers adopt it one after the other.
    site.eventually("the end of the old one", || !site.serves(&first));
}
