//! Names that well-known Caddy plugins define, with what to write instead. Caddy without the plugin refuses them as well;
//! somebody who moves from a Caddy that was built with one learns here what takes its place.

/// A word that a plugin defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginWord {
    /// The word: the name of a directive, a global option, a matcher or a module.
    pub name: &'static str,
    /// The plugin, as its repository is called.
    pub plugin: &'static str,
    /// What to do instead.
    pub instead: &'static str,
}

/// Finds the plugin that defines a word.
pub fn plugin_word(name: &str) -> Option<&'static PluginWord> {
    PLUGIN_WORDS.iter().find(|word| word.name == name)
}

const fn word(name: &'static str, plugin: &'static str, instead: &'static str) -> PluginWord {
    PluginWord {
        name,
        plugin,
        instead,
    }
}

const AUTHENTICATION: &str =
    "use `basic_auth`, or `forward_auth` with a login service such as Authelia or oauth2-proxy";
const SCRIPTS: &str = "run it behind `reverse_proxy`; PHP runs with `php_fastcgi`";
const PHP: &str = "use `php_fastcgi` with php-fpm";
const FIREWALL: &str =
    "filter before sluice, or block addresses with `@bad remote_ip <ranges>` and `abort @bad`";
const PLACE: &str = "sluice has no database of places; match addresses with `remote_ip <ranges>`";
const LAYER4: &str = "sluice has no TCP or UDP proxy; run one beside it";
const HUB: &str = "run it as a program of its own, behind `reverse_proxy`";

/// Directives, options, matchers and modules, sorted by name.
const PLUGIN_WORDS: &[PluginWord] = &[
    word("appsec", "hslatman/caddy-crowdsec-bouncer", FIREWALL),
    word("authenticate", "greenpau/caddy-security", AUTHENTICATION),
    word("authorize", "greenpau/caddy-security", AUTHENTICATION),
    word("cgi", "aksdb/caddy-cgi", SCRIPTS),
    word(
        "cloudflare",
        "WeidiDeng/caddy-cloudflare-ip",
        "list the ranges: `trusted_proxies static <ranges>`",
    ),
    word("coraza_waf", "corazawaf/coraza-caddy", FIREWALL),
    word(
        "cors",
        "captncraig/cors",
        "set the headers: `header Access-Control-Allow-Origin <origin>`",
    ),
    word("crowdsec", "hslatman/caddy-crowdsec-bouncer", FIREWALL),
    word("defender", "JasonLovesDoggo/caddy-defender", FIREWALL),
    word(
        "dynamic_dns",
        "mholt/caddy-dynamicdns",
        "update the records with a program of your DNS provider",
    ),
    word(
        "exec",
        "abiosoft/caddy-exec",
        "start programs with the service manager, such as systemd",
    ),
    word(
        "forward_proxy",
        "caddyserver/forwardproxy",
        "sluice does not relay to arbitrary hosts; run a forward proxy beside it",
    ),
    word("frankenphp", "dunglas/frankenphp", PHP),
    word("geoip", "kodnaplakal/caddy-geoip", PLACE),
    word("geoip2", "zhangjiayin/caddy-geoip2", PLACE),
    word("geoip2_vars", "zhangjiayin/caddy-geoip2", PLACE),
    word(
        "git",
        "greenpau/caddy-git",
        "update the files with a timer or a hook that runs `git pull`",
    ),
    word("jwtauth", "ggicci/caddy-jwt", AUTHENTICATION),
    word("layer4", "mholt/caddy-l4", LAYER4),
    word(
        "maxmind_geolocation",
        "porech/caddy-maxmind-geolocation",
        PLACE,
    ),
    word("mercure", "dunglas/mercure", HUB),
    word("php", "dunglas/frankenphp", PHP),
    word("php_server", "dunglas/frankenphp", PHP),
    word(
        "realip",
        "kirsch33/realip",
        "use the global option `servers { trusted_proxies static <ranges> }`",
    ),
    word(
        "replace",
        "caddyserver/replace-response",
        "change responses with `sub_filter` of an nginx.conf, or in the upstream",
    ),
    word(
        "request_id",
        "lolPants/caddy-requestid",
        "use the placeholder `{http.request.uuid}`",
    ),
    word(
        "s3proxy",
        "lindenlab/caddy-s3-proxy",
        "forward to the store's HTTP interface with `reverse_proxy`",
    ),
    word("sablier", "sablierapp/sablier", HUB),
    word("security", "greenpau/caddy-security", AUTHENTICATION),
    word(
        "souin",
        "darkweak/souin",
        "write `cache`, which caches responses",
    ),
    word(
        "supervisor",
        "Baldinof/caddy-supervisor",
        "start programs with the service manager, such as systemd",
    ),
    word(
        "transform",
        "caddyserver/transform-encoder",
        "use `format json` or `format filter`, or `log_format` of an nginx.conf",
    ),
    word("vulcain", "dunglas/vulcain", HUB),
    word(
        "webdav",
        "mholt/caddy-webdav",
        "run a WebDAV server behind `reverse_proxy`",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_sorted_and_not_ours() {
        let names: Vec<_> = PLUGIN_WORDS.iter().map(|word| word.name).collect();
        assert!(names.windows(2).all(|pair| pair[0] < pair[1]), "{names:?}");
        for name in names {
            assert!(crate::registry::directive(name).is_none(), "{name}");
        }
    }
}
