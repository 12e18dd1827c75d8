//! The built-in files: experiments and the configurations they refer to.

use std::fs;
use std::path::Path;

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        /// Name and text of each file.
        const FILES: &[(&str, &str)] = &[$(($name, include_str!(concat!("../experiments/", $name)))),*];
    };
}

files![
    "000.toml",
    "000/Caddyfile.proxy",
    "000/Caddyfile.static",
    "000/Caddyfile.synthetic",
    "000/lighttpd.conf",
    "000/lighttpd.lua",
    "000/nginx.default.proxy",
    "000/nginx.default.static",
    "000/nginx.default.synthetic",
    "000/nginx.optimized.proxy",
    "000/nginx.optimized.static",
    "000/nginx.optimized.synthetic",
    "001.toml",
    "001/Caddyfile",
    "001/backend.go",
    "001/fastcgi_params",
    "001/hello",
    "001/nginx.conf",
    "001/vhosts.conf",
    "002.toml",
    "002/Caddyfile.esgi-embedded",
    "002/Caddyfile.esgi-proxied",
    "002/Caddyfile.fastapi-embedded",
    "002/Caddyfile.fastapi-proxied",
    "002/Caddyfile.flask-embedded",
    "002/Caddyfile.flask-proxied",
    "002/app_esgi.py",
    "002/app_fastapi.py",
    "002/app_flask.py",
    "002/requirements.txt",
    "002/nginx.esgi",
    "002/nginx.fastapi",
    "002/nginx.flask",
    "003.toml",
    "003/Caddyfile",
    "003/nginx.kept",
    "003/nginx.round-1",
    "003/nginx.round-2",
    "003/options-ssl-nginx.conf",
    "003/site.kept",
    "003/site.round-1",
    "003/site.round-2",
    "003/ssl-dhparams.pem",
    "004.toml",
    "004/Caddyfile-v0.direct",
    "004/Caddyfile-v0.proxied",
    "004/Caddyfile.default-direct",
    "004/Caddyfile.default-proxied",
    "004/Caddyfile.pool-2-proxied",
    "004/index.html",
    "004/nginx.default-direct",
    "004/nginx.default-proxied",
    "004/nginx.pool-2-proxied",
    "axes.toml",
    "axes/Caddyfile.access-log",
    "axes/Caddyfile.balance-3",
    "axes/Caddyfile.base",
    "axes/Caddyfile.gzip",
    "axes/Caddyfile.metrics",
    "axes/Caddyfile.routes-1",
    "axes/Caddyfile.routes-10",
    "axes/Caddyfile.routes-100",
    "axes/Caddyfile.routes-1000",
    "axes/Caddyfile.tls",
    "axes/lighttpd.access-log",
    "axes/lighttpd.balance-3",
    "axes/lighttpd.base",
    "axes/lighttpd.no-sendfile",
    "axes/lighttpd.routes-1",
    "axes/lighttpd.routes-10",
    "axes/lighttpd.routes-100",
    "axes/lighttpd.routes-1000",
    "axes/nginx.access-log",
    "axes/nginx.balance-3",
    "axes/nginx.base",
    "axes/nginx.gzip",
    "axes/nginx.no-sendfile",
    "axes/nginx.nodelay-off",
    "axes/nginx.routes-1",
    "axes/nginx.routes-10",
    "axes/nginx.routes-100",
    "axes/nginx.routes-1000",
    "axes/nginx.small-buffers",
    "axes/nginx.tls",
    "axes/nginx.unbuffered",
    "calibrate.toml",
    "kit/Caddyfile.fcgi-tcp",
    "kit/Caddyfile.fcgi-unix",
    "kit/Caddyfile.proxy",
    "kit/Caddyfile.proxy-large",
    "kit/Caddyfile.respond",
    "kit/Caddyfile.static",
    "kit/Caddyfile.talk",
    "kit/Caddyfile.tls",
    "kit/Caddyfile.tls-proxy",
    "kit/haproxy.fcgi-tcp",
    "kit/haproxy.fcgi-unix",
    "kit/haproxy.proxy",
    "kit/haproxy.proxy-large",
    "kit/haproxy.respond",
    "kit/haproxy.talk",
    "kit/haproxy.tls",
    "kit/haproxy.tls-proxy",
    "kit/nginx.default.fcgi-tcp",
    "kit/nginx.default.fcgi-unix",
    "kit/nginx.default.proxy",
    "kit/nginx.default.proxy-large",
    "kit/nginx.default.respond",
    "kit/nginx.default.static",
    "kit/nginx.default.tls",
    "kit/nginx.default.tls-proxy",
    "kit/nginx.h2.tls",
    "kit/nginx.h2.tls-proxy",
    "kit/nginx.opt.fcgi-tcp",
    "kit/nginx.opt.fcgi-unix",
    "kit/nginx.opt.proxy",
    "kit/nginx.opt.proxy-large",
    "kit/nginx.opt.respond",
    "kit/nginx.opt.static",
    "kit/nginx.opt.tls",
    "kit/nginx.opt.tls-proxy",
    "kit/nginx.tuned.fcgi-tcp",
    "kit/nginx.tuned.fcgi-unix",
    "kit/nginx.tuned.proxy",
    "kit/nginx.tuned.proxy-large",
    "kit/nginx.tuned.respond",
    "kit/nginx.tuned.static",
    "kit/nginx.tuned.talk",
    "kit/nginx.tuned.tls",
    "kit/nginx.tuned.tls-proxy",
    "mime.types",
    "overload.toml",
    "overload/Caddyfile.caddy",
    "overload/Caddyfile.sluice-adaptive",
    "overload/Caddyfile.sluice-fail-fast",
    "overload/Caddyfile.sluice-plain",
    "overload/Caddyfile.sluice-queue",
    "overload/haproxy",
    "overload/nginx.limit-conn",
    "overload/nginx.limit-req",
    "scenarios.toml",
    "tls.toml",
    "tls/Caddyfile.ecdsa",
    "tls/Caddyfile.rsa",
    "tls/nginx.ecdsa",
    "tls/nginx.rsa",
    "workers.toml",
    "workers/Caddyfile",
];

/// Names of the built-in experiments.
pub fn builtin_names() -> impl Iterator<Item = &'static str> {
    FILES
        .iter()
        .filter_map(|(name, _)| name.strip_suffix(".toml"))
}

/// The text of a built-in file; experiments also by name alone.
pub fn builtin(name: &str) -> Option<&'static str> {
    let is = |one: &str| one == name || one.strip_suffix(".toml") == Some(name);
    let mut files = FILES.iter();
    files.find(|(one, _)| is(one)).map(|(_, text)| *text)
}

/// The text of an experiment, built in or from a file. A file that exists goes before a built-in one of its name, so that
/// a copy with changes can have the name of the original.
pub fn read(name: &str) -> Result<String, String> {
    let is_file = name.ends_with(".toml") && Path::new(name).is_file();
    if let Some(text) = builtin(name).filter(|_| !is_file) {
        return Ok(text.to_string());
    }
    fs::read_to_string(name).map_err(|error| {
        let names: Vec<&str> = builtin_names().collect();
        format!("{name}: {error} (built in: {})", names.join(", "))
    })
}

/// A configuration, built in or from a file next to the experiment's.
pub fn read_conf(conf: &str, beside: &Path) -> Result<String, String> {
    match conf.strip_prefix("builtin:") {
        Some(name) => match builtin(name) {
            Some(text) => Ok(text.to_string()),
            None => Err(format!("there is no built-in file `{conf}`")),
        },
        None => {
            let path = beside.parent().unwrap_or(Path::new(".")).join(conf);
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
        }
    }
}

#[cfg(test)]
mod tests {
    use sluice_audit::studies::{IDS, study};

    use super::*;
    use crate::file;

    #[test]
    fn a_name_stays_in_the_folder_of_results() {
        let text = builtin("calibrate.toml").or(builtin("calibrate")).unwrap();
        assert!(file::parse("x", text).is_ok());
        for name in ["../../x", "/tmp/x", "..", ".", "", "a/b"] {
            let text = text.replace("name = \"calibrate\"", &format!("name = \"{name}\""));
            let error = file::parse("x", &text).unwrap_err();
            assert!(error.starts_with("x: invalid name"), "{name}: {error}");
        }
    }

    #[test]
    fn every_claim_is_asked_of_the_printed_figures_and_of_the_experiment() {
        for id in IDS {
            let experiment = file::parse(id, builtin(id).unwrap()).unwrap();
            let printed = study(id).unwrap().unwrap().sheet.conditions.claims;
            let mut printed: Vec<&String> = printed.iter().map(|claim| &claim.name).collect();
            printed.sort();
            // Statements about sluice are the lab's own, and say so.
            let own = |name: &&String| name.starts_with("sluice-");
            let here = experiment.claims.keys().filter(|name| !own(name));
            assert_eq!(printed, here.collect::<Vec<&String>>(), "{id}");
            for name in experiment.claims.keys().filter(own) {
                let file::Claim::Worded(claim) = &experiment.claims[name] else {
                    panic!("{name} has no words");
                };
                let words = claim.words.as_deref();
                assert_eq!(words, Some("Of sluice, not of the document."), "{name}");
            }
        }
    }
}
