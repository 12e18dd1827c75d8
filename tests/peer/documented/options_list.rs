//! The sheets of the global options.

use super::options::Sheet;
use crate::peer::cases::always;

const ADMIN_TEXTS: &str = "the admin API has JSON for every error, with a text of our own";

const MEDIA_TYPE: &str = "415 is the status for a wrong media type (RFC 9110, section 15.5.16)";

const CLOSES: &str =
    "a response that is the last of its connection says so (RFC 9112, section 9.6)";

const COMPLETE: &str = "the response has its length, the date and the server, as all others do";

const VOUCHED: &str =
    "what stands left of an address that cannot be read may be forged, so it is not the client's";

/// Options without a sheet, and where they are compared instead.
pub(super) const ELSEWHERE: &[(&str, &str)] = &[
    ("acme_ca", "ACME: tests/e2e/acme, with Pebble"),
    ("acme_ca_root", "ACME: tests/e2e/acme, with Pebble"),
    ("acme_dns", "ACME: tests/e2e/acme, with Pebble"),
    ("acme_eab", "ACME: tests/e2e/acme, with Pebble"),
    ("cert_issuer", "ACME: tests/e2e/acme, with Pebble"),
    (
        "cert_lifetime",
        "ACME: only a CA shortens the lifetime; its JSON: adapt_table",
    ),
    ("debug", "logs: tests/e2e/slow_clients.rs"),
    ("dns", "ACME: tests/e2e/acme, with Pebble"),
    ("ech", "refused with the reason; adapt_table"),
    ("email", "ACME: tests/e2e/acme, with Pebble"),
    (
        "events",
        "commands and webhooks, beside requests: tests/e2e/events.rs",
    ),
    (
        "grace_period",
        "the end of the process: tests/e2e/process.rs",
    ),
    ("log", "logs: tests/peer/logs.rs"),
    ("metrics", "counters: tests/peer/metrics.rs"),
    (
        "ocsp_interval",
        "staples: tests/e2e/ocsp.rs; its JSON: adapt_table",
    ),
    (
        "ocsp_stapling",
        "staples: tests/e2e/ocsp.rs; its JSON: adapt_table",
    ),
    ("persist_config", "files of the process: tests/e2e/admin.rs"),
    ("preferred_chains", "ACME: tests/e2e/acme, with Pebble"),
    ("renew_interval", "timers: its JSON: adapt_table"),
    ("renewal_window_ratio", "timers: its JSON: adapt_table"),
    ("servers", "see its options below"),
    (
        "shutdown_delay",
        "the end of the process: tests/e2e/process.rs",
    ),
    (
        "storage_check",
        "nothing that a client notices; its JSON: the golden cases",
    ),
    (
        "storage_clean_interval",
        "timers: its JSON: the golden cases",
    ),
    ("tls_resolvers", "ACME: tests/e2e/acme, with Pebble"),
    ("servers 0rtt", "early data: tests/e2e/handshakes.rs"),
    ("servers enable_full_duplex", "always on"),
    (
        "servers keepalive_count",
        "socket options: tests/e2e/proxy.rs, golden cases",
    ),
    ("servers keepalive_idle", "socket options: golden cases"),
    ("servers keepalive_interval", "socket options: golden cases"),
    ("servers log_credentials", "logs: tests/e2e/logs.rs"),
    ("servers metrics", "counters: tests/peer/metrics.rs"),
    (
        "servers timeouts",
        "slow clients: tests/e2e/slow_clients.rs",
    ),
    ("servers trace", "logs: tests/e2e/tracing.rs"),
    (
        "servers trusted_proxies_unix",
        "a listener on a Unix socket: golden cases",
    ),
];

pub(super) const SHEETS: &[Sheet] = &[
    Sheet {
        option: "admin",
        caddyfile: "
{
	admin 127.0.0.1:ADMIN {
		origins good.test
		enforce_origin
	}
}
http://:PORT {
	respond page
}
",
        requests: &[
            "GET a.test/",
            "ADMIN GET good.test/config/admin/origins | Origin: http://good.test",
            "ADMIN GET good.test/config/admin/origins",
            "ADMIN GET good.test/config/admin/origins | Origin: http://bad.test",
            "ADMIN GET bad.test/config/ | Origin: http://good.test",
            "ADMIN GET good.test/config/apps/http/servers/srv0/routes/0/handle/0/body | Origin: http://good.test",
            "ADMIN GET good.test/config/none/of/it | Origin: http://good.test",
            "ADMIN PUT good.test/config/apps/http/none | Origin: http://good.test | body=x",
            "ADMIN GET good.test/nowhere | Origin: http://good.test",
        ],
        accepted: &[
            always(
                "ADMIN GET good.test/config/admin/origins",
                "content-length",
                ADMIN_TEXTS,
            ),
            always(
                "ADMIN GET good.test/config/admin/origins",
                "body",
                ADMIN_TEXTS,
            ),
            always(
                "ADMIN GET good.test/config/none",
                "content-length",
                ADMIN_TEXTS,
            ),
            always("ADMIN GET good.test/config/none", "body", ADMIN_TEXTS),
            always("ADMIN PUT", "status", MEDIA_TYPE),
            always("ADMIN PUT", "content-length", ADMIN_TEXTS),
            always("ADMIN PUT", "body", ADMIN_TEXTS),
            always("ADMIN GET good.test/nowhere", "content-type", ADMIN_TEXTS),
            always("ADMIN GET good.test/nowhere", "content-length", ADMIN_TEXTS),
            always(
                "ADMIN GET good.test/nowhere",
                "x-content-type-options",
                ADMIN_TEXTS,
            ),
            always("ADMIN GET good.test/nowhere", "body", ADMIN_TEXTS),
        ],
    },
    Sheet {
        option: "auto_https",
        caddyfile: "
{
	admin off
	skip_install_trust
	local_certs
	http_port PLAIN
	https_port PORT
	auto_https disable_redirects
}
a.test {
	respond secure
}
http://b.test {
	respond plain
}
",
        requests: &[
            "TLS a.test GET a.test/",
            "PLAIN GET a.test/",
            "PLAIN GET b.test/",
        ],
        accepted: &[],
    },
    Sheet {
        option: "default_bind",
        caddyfile: "
{
	admin off
	auto_https off
	default_bind 127.0.0.1
}
http://a.test:PORT {
	respond page
}
http://b.test:SECOND {
	bind 127.0.0.2
	respond other
}
",
        requests: &[
            "GET a.test/",
            "AT 127.0.0.1 GET a.test/",
            "AT 127.0.0.3 GET a.test/",
        ],
        accepted: &[],
    },
    Sheet {
        option: "default_sni",
        caddyfile: "
{
	admin off
	skip_install_trust
	local_certs
	http_port PLAIN
	https_port PORT
	default_sni a.test
}
a.test, b.test {
	respond {host}
}
",
        requests: &[
            "TLS a.test GET a.test/",
            "TLS b.test GET b.test/",
            "TLS 127.0.0.1 GET a.test/",
            "TLS c.test GET a.test/",
        ],
        accepted: &[],
    },
    Sheet {
        option: "fallback_sni",
        caddyfile: "
{
	admin off
	skip_install_trust
	local_certs
	http_port PLAIN
	https_port PORT
	fallback_sni b.test
}
a.test, b.test {
	respond {host}
}
",
        requests: &[
            "TLS a.test GET a.test/",
            "TLS b.test GET b.test/",
            "TLS c.test GET b.test/",
            "TLS c.test GET c.test/",
            "TLS 127.0.0.1 GET b.test/",
        ],
        accepted: &[],
    },
    Sheet {
        option: "http_port",
        caddyfile: "
{
	admin off
	skip_install_trust
	local_certs
	http_port PORT
	https_port SECOND
}
a.test {
	respond secure
}
http://b.test {
	respond plain
}
",
        requests: &[
            "GET a.test/x?y=z",
            "GET b.test/",
            "GET c.test/",
            "POST a.test/x | body=q",
            "HEAD a.test/",
            "GET a.test:8080/x",
        ],
        accepted: &[],
    },
    Sheet {
        option: "https_port",
        caddyfile: "
{
	admin off
	skip_install_trust
	local_certs
	http_port PLAIN
	https_port PORT
}
a.test {
	respond {scheme}
}
",
        requests: &[
            "TLS a.test GET a.test/",
            "TLS a.test GET a.test:PORT/",
            "TLS a.test GET other.test/",
            "PLAIN GET a.test/x",
            "GET a.test/",
        ],
        accepted: &[always("GET a.test/", "connection", CLOSES)],
    },
    Sheet {
        option: "key_type",
        caddyfile: "
{
	admin off
	skip_install_trust
	local_certs
	http_port PLAIN
	https_port PORT
	key_type rsa2048
}
a.test {
	respond page
}
b.test {
	tls {
		key_type p384
	}
	respond other
}
",
        requests: &["TLS a.test GET a.test/", "TLS b.test GET b.test/"],
        accepted: &[],
    },
    Sheet {
        option: "local_certs",
        caddyfile: "
{
	admin off
	skip_install_trust
	http_port PLAIN
	https_port PORT
	local_certs
}
a.test, *.w.test {
	respond {host}
}
",
        requests: &[
            "TLS a.test GET a.test/",
            "TLS x.w.test GET x.w.test/",
            "TLS none.test GET a.test/",
        ],
        accepted: &[],
    },
    Sheet {
        option: "on_demand_tls",
        caddyfile: "
{
	admin off
	skip_install_trust
	local_certs
	http_port PLAIN
	https_port PORT
	on_demand_tls {
		ask http://127.0.0.1:SECOND/ask
	}
}
https:// {
	tls {
		on_demand
	}
	respond {host}
}
http://127.0.0.1:SECOND {
	@good query domain=good.test
	respond @good 200
	respond 403
}
",
        requests: &[
            "TLS good.test GET good.test/",
            "TLS bad.test GET bad.test/",
            "TLS good.test GET good.test/again",
        ],
        accepted: &[],
    },
    Sheet {
        option: "order",
        caddyfile: "
{
	admin off
	auto_https off
	order header after respond
	order respond before rewrite
}
http://a.test:PORT {
	rewrite * /changed
	header X-A b
	respond /page {path}
	respond {path}
}
",
        requests: &["GET a.test/page", "GET a.test/other"],
        accepted: &[],
    },
    Sheet {
        option: "pki",
        caddyfile: "
{
	admin off
	skip_install_trust
	http_port PLAIN
	https_port PORT
	pki {
		ca local {
			name \"Our Office\"
			root_cn \"Office Root\"
			intermediate_cn \"Office Intermediate\"
		}
		ca other {
			intermediate_cn \"Other Intermediate\"
		}
	}
}
a.test {
	tls internal
	respond page
}
b.test {
	tls {
		issuer internal {
			ca other
			lifetime 3h
		}
	}
	respond other
}
",
        requests: &["TLS a.test GET a.test/", "TLS b.test GET b.test/"],
        accepted: &[],
    },
    Sheet {
        option: "skip_install_trust",
        caddyfile: "
{
	admin off
	skip_install_trust
	http_port PLAIN
	https_port PORT
}
localhost {
	respond page
}
",
        requests: &["TLS localhost GET localhost/", "PLAIN GET localhost/"],
        accepted: &[],
    },
    Sheet {
        option: "storage",
        caddyfile: "
{
	admin off
	skip_install_trust
	local_certs
	http_port PLAIN
	https_port PORT
	storage file_system DIR/kept
}
a.test, *.w.test {
	respond page
}
",
        requests: &[
            "TLS a.test GET a.test/",
            "TLS x.w.test GET x.w.test/",
            "FILES kept",
        ],
        accepted: &[],
    },
    Sheet {
        option: "tls_automate_names",
        caddyfile: "
{
	admin off
	skip_install_trust
	local_certs
	http_port PLAIN
	https_port PORT
	tls_automate_names more.test
}
a.test {
	respond {host}
}
",
        requests: &[
            "TLS a.test GET a.test/",
            "TLS more.test GET a.test/",
            "TLS more.test GET more.test/",
        ],
        accepted: &[],
    },
    Sheet {
        option: "servers name",
        caddyfile: "
{
	admin 127.0.0.1:ADMIN
	auto_https off
	servers :PORT {
		name main
	}
}
http://a.test:PORT {
	respond page
}
",
        requests: &[
            "GET a.test/",
            "ADMIN GET 127.0.0.1:ADMIN/config/apps/http/servers/main/listen",
            "ADMIN GET 127.0.0.1:ADMIN/config/apps/http/servers/srv0",
        ],
        accepted: &[always(
            "ADMIN GET 127.0.0.1:ADMIN/config/apps/http/servers/main/listen",
            "etag",
            "the two have different ports, and a tag follows from what it is for",
        )],
    },
    Sheet {
        option: "servers listener_wrappers",
        caddyfile: "
{
	admin off
	skip_install_trust
	local_certs
	http_port PLAIN
	https_port PORT
	servers :PORT {
		listener_wrappers {
			http_redirect
			tls
		}
	}
}
a.test {
	respond page
}
",
        requests: &[
            "TLS a.test GET a.test/",
            "GET a.test/x?y",
            "GET a.test:PORT/x",
        ],
        accepted: &[always("GET a.test", "connection", CLOSES)],
    },
    Sheet {
        option: "servers trusted_proxies",
        caddyfile: "
{
	admin off
	auto_https off
	servers {
		trusted_proxies static 127.0.0.0/8 private_ranges
	}
}
http://a.test:PORT {
	@far client_ip 192.0.2.0/24
	header @far X-Far yes
	respond \"{client_ip} {scheme}\"
}
",
        requests: &[
            "GET a.test/",
            "GET a.test/ | X-Forwarded-For: 192.0.2.7",
            "GET a.test/ | X-Forwarded-For: 192.0.2.7, 10.0.0.1",
            "GET a.test/ | X-Forwarded-For: garbage",
            "GET a.test/ | X-Forwarded-For: 192.0.2.7:1234",
            "GET a.test/ | X-Forwarded-For: 2001:db8::1",
            "GET a.test/ | X-Forwarded-Proto: https",
            "GET a.test/ | X-Real-IP: 192.0.2.9",
        ],
        accepted: &[],
    },
    Sheet {
        option: "servers trusted_proxies_strict",
        caddyfile: "
{
	admin off
	auto_https off
	servers {
		trusted_proxies static 127.0.0.0/8 10.0.0.0/8
		trusted_proxies_strict
	}
}
http://a.test:PORT {
	respond {client_ip}
}
",
        requests: &[
            "GET a.test/ | X-Forwarded-For: 192.0.2.7, 10.0.0.1",
            "GET a.test/ | X-Forwarded-For: 203.0.113.1, 192.0.2.7, 10.0.0.1, 10.0.0.2",
            "GET a.test/ | X-Forwarded-For: 10.0.0.1",
            "GET a.test/ | X-Forwarded-For: 192.0.2.7, bad, 10.0.0.1",
        ],
        accepted: &[always(
            "GET a.test/ | X-Forwarded-For: 192.0.2.7, bad",
            "body",
            VOUCHED,
        )],
    },
    Sheet {
        option: "servers client_ip_headers",
        caddyfile: "
{
	admin off
	auto_https off
	servers {
		trusted_proxies static 127.0.0.0/8
		client_ip_headers X-Real-IP X-Forwarded-For
	}
}
http://a.test:PORT {
	respond {client_ip}
}
",
        requests: &[
            "GET a.test/ | X-Real-IP: 192.0.2.9",
            "GET a.test/ | X-Forwarded-For: 192.0.2.7",
            "GET a.test/ | X-Real-IP: 192.0.2.9 | X-Forwarded-For: 192.0.2.7",
            "GET a.test/ | X-Real-IP: none | X-Forwarded-For: 192.0.2.7",
        ],
        accepted: &[],
    },
    Sheet {
        option: "servers max_header_size",
        caddyfile: "
{
	admin off
	auto_https off
	servers {
		max_header_size 16KiB
	}
}
http://a.test:PORT {
	respond {header.X-Short}
}
",
        requests: &["GET a.test/ | X-Short: abc", "GET a.test/ | X-Long: LONG"],
        accepted: &[
            always("GET a.test/ | X-Long", "content-length", COMPLETE),
            always("GET a.test/ | X-Long", "date", COMPLETE),
            always("GET a.test/ | X-Long", "server", COMPLETE),
            always(
                "GET a.test/ | X-Long",
                "body",
                "error texts end with a line feed",
            ),
        ],
    },
    Sheet {
        option: "servers protocols",
        caddyfile: "
{
	admin off
	skip_install_trust
	local_certs
	http_port PLAIN
	https_port PORT
	servers {
		protocols h1
	}
}
a.test {
	respond {http.request.proto}
}
",
        requests: &["TLS a.test GET a.test/", "PLAIN GET a.test/"],
        accepted: &[],
    },
    Sheet {
        option: "servers strict_sni_host",
        caddyfile: "
{
	admin off
	skip_install_trust
	local_certs
	http_port PLAIN
	https_port PORT
	servers {
		strict_sni_host on
	}
}
a.test, b.test {
	respond {host}
}
",
        requests: &[
            "TLS a.test GET a.test/",
            "TLS a.test GET b.test/",
            "TLS b.test GET B.test/",
            "TLS a.test GET c.test/",
        ],
        accepted: &[],
    },
    Sheet {
        option: "servers expected_underscore_headers",
        caddyfile: "
{
	admin off
	auto_https off
	servers {
		expected_underscore_headers X_Known
	}
}
http://a.test:PORT {
	respond \"{header.X_Known} {header.X_Other} {header.X-Known}\"
}
",
        requests: &[
            "GET a.test/ | X_Known: a",
            "GET a.test/ | X_Other: a",
            "GET a.test/ | X-Known: a",
        ],
        accepted: &[],
    },
    Sheet {
        option: "servers expected_dot_headers",
        caddyfile: "
{
	admin off
	auto_https off
	servers {
		expected_dot_headers X.Known
	}
}
http://a.test:PORT {
	respond \"{header.X.Known} {header.X.Other}\"
}
",
        requests: &["GET a.test/ | X.Known: a", "GET a.test/ | X.Other: a"],
        accepted: &[],
    },
];
