//! Routes of the model can be traced to the lines that wrote them.

use sluice_caddyfile::{Adapted, MemoryLoader, adapt};
use sluice_diag::{Origins, Place, Sources};
use sluice_model::{Handler, Route};

/// The places of all handlers, outermost first: the name of the handler, then of whatever wrote it, then where.
fn places(routes: &[Route], origins: &Origins, sources: &Sources, out: &mut Vec<String>) {
    for route in routes {
        for (index, handler) in route.handle.iter().enumerate() {
            let id = route.origin.handler(index).expect("every route has one");
            let origin = origins.find(id).expect("ids are of this table");
            let at = sources.place(origin.place.span);
            out.push(format!("{} {} {at}", handler.module(), origin.name));
            if let Handler::Subroute(inner) = handler {
                places(&inner.routes, origins, sources, out);
            }
        }
    }
}

fn of(text: &str, loader: &MemoryLoader) -> (Adapted, Vec<String>) {
    let adapted = adapt("Caddyfile", text, loader);
    let config = adapted.config.as_ref().expect("the text has no mistakes");
    let mut out = Vec::new();
    for (_, server) in config.servers() {
        let sources = &adapted.report.sources;
        places(&server.routes, &adapted.origins, sources, &mut out);
        let errors = server.errors.iter().flat_map(|errors| &errors.routes);
        let errors: Vec<Route> = errors.cloned().collect();
        places(&errors, &adapted.origins, sources, &mut out);
    }
    (adapted, out)
}

#[test]
fn sorted_nested_and_joined_routes_keep_their_lines() {
    let text = "a.test {\n\trespond hello\n\theader A b\n\theader C d\n\thandle /x/* {\n\t\tredir * /y\n\t}\n\
                \thandle_errors {\n\t\trespond oops\n\t}\n}\n";
    let (_, places) = of(text, &MemoryLoader::default());
    assert_eq!(
        places,
        [
            "subroute site Caddyfile:1:1",
            "headers header Caddyfile:3:2",
            "headers header Caddyfile:4:2",
            "subroute handle Caddyfile:5:2",
            "static_response redir Caddyfile:6:3",
            "static_response respond Caddyfile:2:2",
            "subroute site Caddyfile:1:1",
            "subroute handle_errors Caddyfile:8:2",
            "static_response respond Caddyfile:9:3",
        ]
    );
}

#[test]
fn imported_lines_are_known_with_their_imports() {
    let mut loader = MemoryLoader::default();
    let file = b"@old path /old/*\nredir @old /new\n".to_vec();
    loader.files.insert("more.caddy".to_owned(), file);
    let (adapted, places) = of(":80 {\n\timport more.caddy\n}\n", &loader);
    assert_eq!(places, ["static_response redir more.caddy:2:1"]);
    let config = adapted.config.expect("it adapts");
    let (_, server) = config.servers().next().expect("there is one");
    let id = server.routes[0].origin.route().expect("it has one");
    let origin = adapted.origins.find(id).expect("it is of this table");
    let sources = &adapted.report.sources;
    let show = |place: Place| {
        let step = sources.import_chain(place.import).next();
        let step = step.map(|step| sources.place(step.at)).unwrap_or_default();
        format!(
            "{} `{}` from {step}",
            sources.place(place.span),
            sources.text(place.span)
        )
    };
    let import = "Caddyfile:2:2";
    assert_eq!(
        show(origin.condition("path")),
        format!("more.caddy:1:6 `path /old/*` from {import}")
    );
    assert_eq!(
        show(origin.condition("@old")),
        format!("more.caddy:2:7 `@old` from {import}")
    );
    assert_eq!(
        show(origin.condition("host")),
        format!("more.caddy:2:1 `redir @old /new` from {import}")
    );
}

#[test]
fn whatever_a_directive_is_expanded_to_was_written_on_its_line() {
    let (_, places) = of(
        ":80 {\n\troot /srv\n\tphp_fastcgi localhost:9000\n}\n",
        &MemoryLoader::default(),
    );
    assert!(places.len() >= 4, "{places:?}");
    assert!(
        places[1..]
            .iter()
            .all(|place| place.ends_with(" php_fastcgi Caddyfile:3:2")),
        "{places:?}"
    );
}
