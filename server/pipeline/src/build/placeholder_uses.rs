//! What the placeholders of a configuration need from the server: some values are recorded or read only for
//! configurations that refer to them.

use std::any::Any;

use sluice_model::handler::Templates;
use sluice_model::http::ServerLogs;
use sluice_model::nginx::Nginx;
use sluice_model::walk::{Visitor, Walk};
use sluice_route::Key;
use sluice_route::placeholder::{NginxKey, ProxyKey, each_key};

/// What the placeholders in a part of the configuration refer to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaceholderUses {
    /// The request body.
    pub request_body: bool,
    /// Latency or load of upstreams ([`crate::context::ProxyFacts`]), the attempts at a response, or trailers.
    pub proxy_facts: bool,
    /// Headers of the upstream's response.
    pub upstream_fields: bool,
}

impl PlaceholderUses {
    /// Those of `part` and of all that it contains.
    pub fn of(part: &impl Walk) -> PlaceholderUses {
        let mut uses = PlaceholderUses::default();
        part.walk(&mut uses);
        uses
    }

    fn add(&mut self, key: &Key) {
        match key {
            Key::Body | Key::BodyBase64 => self.request_body = true,
            Key::Proxy(ProxyKey::Header(_))
            | Key::Nginx(NginxKey::UpstreamCookie(_) | NginxKey::UpstreamField(_)) => {
                self.upstream_fields = true;
            }
            Key::Proxy(key) => self.proxy_facts |= key.is_fact(),
            Key::Nginx(
                NginxKey::Upstream(_) | NginxKey::UpstreamTrailer(_) | NginxKey::SentTrailer(_),
            ) => self.proxy_facts = true,
            _ => {}
        }
    }
}

impl Visitor for PlaceholderUses {
    fn text(&mut self, text: &str) {
        each_key(text, |key| self.add(key));
    }

    fn object(&mut self, object: &dyn Any) {
        // Templates look placeholders up by name, also in files that are not read yet.
        self.proxy_facts |= object.is::<Templates>();
        let logs = object.downcast_ref::<ServerLogs>();
        self.proxy_facts |= logs.is_some_and(|logs| logs.timings);
        if let Some(nginx) = object.downcast_ref::<Nginx>() {
            // Pages with commands do so too. Their variables are names of placeholders, without braces.
            let names = nginx.variables.values().chain(nginx.families.values());
            names.for_each(|name| self.add(&Key::parse(name)));
        }
    }
}

#[cfg(test)]
mod tests {
    use sluice_model::Server;

    use super::*;

    fn uses(routes: &str) -> PlaceholderUses {
        let server = format!(r#"{{"routes":{routes}}}"#);
        PlaceholderUses::of(&serde_json::from_str::<Server>(&server).expect("it is a server"))
    }

    const NONE: PlaceholderUses = PlaceholderUses {
        request_body: false,
        proxy_facts: false,
        upstream_fields: false,
    };

    #[test]
    fn the_request_body_is_found_in_every_kind_of_text() {
        for routes in [
            r#"[{"match":[{"expression":"{'a': {http.request.body}} != null"}]}]"#,
            r#"[{"match":[{"vars":{"{http.request.body}":["x"]}}]}]"#,
            r#"[{"match":[{"not":[{"header":{"X":["*{http.request.body_base64}"]}}]}]}]"#,
            r#"[{"handle":[{"handler":"vars","a":["{http.request.body}"]}]}]"#,
            r#"[{"handle":[{"handler":"map","source":"{http.request.body}"}]}]"#,
            r#"[{"handle":[{"handler":"map","mappings":[{"outputs":["{http.request.body}"]}]}]}]"#,
            r#"[{"handle":[{"handler":"log_append","key":"a","value":"{http.request.body}"}]}]"#,
            r#"[{"handle":[{"handler":"headers","response":{"set":{"{http.request.body}":["a"]}}}]}]"#,
            r#"[{"handle":[{"handler":"static_response","body":"{\"a\": \"{http.request.body}\"}"}]}]"#,
            r#"[{"handle":[{"handler":"nginx","servers":[{"place":{"routes":[{"handle":[
                {"handler":"nginx_log","lines":[{"format":"{http.request.body}"}]}]}]}}]}]}]"#,
            r#"[{"handle":[{"handler":"nginx","tables":[{"rows":[{"value":"{http.request.body}"}]}]}]}]"#,
        ] {
            let found = uses(routes);
            assert_eq!(
                found,
                PlaceholderUses {
                    request_body: true,
                    ..NONE
                },
                "{routes}"
            );
        }
    }

    #[test]
    fn facts_and_headers_of_upstreams_are_separate() {
        let respond = |body: &str| {
            uses(&format!(
                r#"[{{"handle":[{{"handler":"static_response","body":"{body}"}}]}}]"#
            ))
        };
        for body in [
            "{http.reverse_proxy.upstream.latency_ms}",
            "{http.reverse_proxy.duration}",
            "{http.reverse_proxy.upstream.max_requests}",
            "{nginx.upstream.addr}",
            "{nginx.upstream_trailer.x}",
            "{nginx.sent_trailer.x}",
        ] {
            let facts = PlaceholderUses {
                proxy_facts: true,
                ..NONE
            };
            assert_eq!(respond(body), facts, "{body}");
        }
        for body in [
            "{http.reverse_proxy.header.X}",
            "{nginx.upstream_cookie.x}",
            "{nginx.upstream_http.x}",
        ] {
            let fields = PlaceholderUses {
                upstream_fields: true,
                ..NONE
            };
            assert_eq!(respond(body), fields, "{body}");
        }
        for body in [
            "",
            "{http.reverse_proxy.upstream.address}",
            "{http.reverse_proxy.retries}",
            "{http.request.host}",
            r"\\{http.request.body}",
            "http.request.body",
        ] {
            assert_eq!(respond(body), NONE, "{body}");
        }
    }

    #[test]
    fn a_log_with_timings_shows_the_time_of_upstreams() {
        let uses = |timings: bool| {
            let server = format!(r#"{{"logs":{{"timings":{timings}}}}}"#);
            PlaceholderUses::of(&serde_json::from_str::<Server>(&server).expect("it is a server"))
        };
        assert!(uses(true).proxy_facts);
        assert_eq!(uses(false), NONE);
    }

    #[test]
    fn pages_and_templates_may_show_any_fact() {
        let templates = uses(r#"[{"handle":[{"handler":"templates"}]}]"#);
        assert!(templates.proxy_facts && !templates.request_body);
        let pages = r#"[{"handle":[{"handler":"nginx",
            "variables":{"upstream_addr":"nginx.upstream.addr"},"families":{"upstream_http_":"http.reverse_proxy.header."}}]}]"#;
        let pages = uses(pages);
        assert!(pages.proxy_facts && pages.upstream_fields && !pages.request_body);
    }
}
