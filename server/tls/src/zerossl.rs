//! The ZeroSSL API as an issuer. `sluice-certs` implements it.

use sluice_certs::ZeroSslOptions;
use sluice_certs::limits::ZEROSSL_TIMEOUT;
use sluice_certs::zerossl::ZEROSSL_API;
use sluice_dns::DnsOptions;
use sluice_model::Config;
use sluice_model::tls::{DnsChallenge, ZeroSslIssuer};

use super::acme::{check_directory, dns_options, environment};
use sluice_pipeline::refusal::Refusal;

/// Converts the settings of a ZeroSSL issuer to those of `sluice-certs`.
pub(super) fn options(config: &Config, own: &ZeroSslIssuer) -> Result<ZeroSslOptions, Refusal> {
    let ZeroSslIssuer {
        api_key,
        validity_days,
        listen_host,
        alternate_http_port,
        cname_validation,
        api_url,
    } = own;
    if api_key.is_empty() {
        return Err(Refusal::new("the issuer `zerossl` has no key")
            .with_help("write the API key of your account: `issuer zerossl <api_key>`"));
    }
    let validity_days = match u32::try_from(*validity_days) {
        Ok(days) => Some(days).filter(|days| *days > 0),
        Err(_) => {
            let title = format!("`validity_days` of the issuer `zerossl` is {validity_days}");
            return Err(Refusal::new(title).with_help("ZeroSSL takes 90, or 365"));
        }
    };
    let api_url = match api_url.trim_end_matches('/') {
        "" => ZEROSSL_API,
        named => named,
    };
    check_directory(api_url)?;
    let of_app = config.apps.http.as_ref().map_or(0, |http| http.http_port);
    let mut ports = [*alternate_http_port, of_app].into_iter();
    Ok(ZeroSslOptions {
        api_url: api_url.to_owned(),
        api_key: environment(api_key),
        validity_days,
        http_port: ports.find(|port| *port != 0).unwrap_or(80),
        listen_host: listen_host.clone(),
        cname: match cname_validation {
            Some(check) => Some(cname(config, check)?),
            None => None,
        },
        timeout: ZEROSSL_TIMEOUT,
    })
}

fn cname(config: &Config, check: &DnsChallenge) -> Result<DnsOptions, Refusal> {
    if !check.override_domain.is_empty() {
        let title = "`override_domain` has no place in `cname_validation`";
        return Err(
            Refusal::new(title).with_help("remove it: ZeroSSL says which name carries the record")
        );
    }
    let dns = dns_options(config, check)?;
    if !dns.provider.sets_aliases() {
        return Err(Refusal::not_yet(
            "a CNAME record for the issuer `zerossl` at this DNS provider",
            "use `dns cloudflare`, or `dns exec <command>` with a program that sets the record",
        ));
    }
    Ok(dns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(issuer: &str) -> Result<ZeroSslOptions, String> {
        let config = Config::from_json(r#"{"apps":{"http":{"http_port":8080}}}"#).unwrap();
        let own: ZeroSslIssuer = serde_json::from_str(issuer).unwrap();
        options(&config, &own).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn what_is_left_out_is_as_in_caddy() {
        let usual = read(r#"{"api_key":"k"}"#).unwrap();
        assert_eq!(usual.api_url, ZEROSSL_API);
        assert_eq!((usual.validity_days, usual.http_port), (None, 8080));
        assert_eq!(usual.cname, None);
        let set = r#"{"api_key":"k","validity_days":365,"alternate_http_port":81,
            "listen_host":"::1","api_url":"http://x.test/","cname_validation":{"provider":
            {"name":"exec","command":["set"]},"resolvers":["9.9.9.9"],"propagation_timeout":-1}}"#;
        let set = read(set).unwrap();
        assert_eq!((set.validity_days, set.http_port), (Some(365), 81));
        assert_eq!(
            (set.api_url.as_str(), set.listen_host.as_str()),
            ("http://x.test", "::1")
        );
        let dns = set.cname.unwrap();
        assert_eq!((dns.timeout, dns.resolvers.len()), (None, 1));
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        for (issuer, words) in [
            ("{}", "no key"),
            (r#"{"api_key":"k","validity_days":-1}"#, "`validity_days`"),
            (r#"{"api_key":"k","api_url":"x"}"#, "`x`"),
            (r#"{"api_key":"k","cname_validation":{}}"#, "no provider"),
            (
                r#"{"api_key":"k","cname_validation":{"override_domain":"x.test"}}"#,
                "`override_domain`",
            ),
            (
                r#"{"api_key":"k","cname_validation":{"provider":{"name":"desec","token":"x"}}}"#,
                "CNAME",
            ),
        ] {
            let said = read(issuer).unwrap_err();
            assert!(said.contains(words), "{issuer}: {said}");
        }
    }
}
