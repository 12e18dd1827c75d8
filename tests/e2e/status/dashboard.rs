//! The dashboard: its headers, and the page in Chromium.

use serde_json::json;

use super::{admin, ask};
use crate::browser::{BROWSER_TIMEOUT, Page};
use crate::harness::{Server, free_port};
use crate::support::abilities::chromium;
use crate::support::wait::until;

#[test]
fn the_page_allows_only_its_own_script_and_is_cached_by_its_tag() {
    let server = Server::start("{\n\tadmin localhost:{admin}\n}\n:{port} {\n\trespond a\n}\n");
    let page = admin(&server, "/", "");
    assert_eq!(page.status, 200);
    assert_eq!(page.field("Content-Type"), Some("text/html; charset=utf-8"));
    let policy = page.field("Content-Security-Policy").expect("a policy");
    for part in [
        "default-src 'none'",
        "connect-src 'self'",
        "frame-ancestors 'none'",
    ] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(page.field("X-Content-Type-Options"), Some("nosniff"));
    let tag = page.field("ETag").expect("a tag").to_owned();
    assert_eq!(admin(&server, "/dashboard/", "").body, page.body);
    let again = admin(&server, "/", &format!("If-None-Match: {tag}\r\n"));
    assert_eq!((again.status, again.body.len()), (304, 0));
}

/// A path that would run a script if it were taken for markup.
const HOSTILE: &str = "/<img/src=x/onerror=document.title='attacked'>";

#[test]
fn the_page_shows_the_server_and_takes_nothing_of_clients_for_markup() {
    let Some(program) = chromium() else { return };
    let dead = free_port();
    let server = Server::start(&format!(
        "{{\n\tadmin localhost:{{admin}}\n}}\nhttp://shop.test:{{port}} {{\n\trespond shop\n}}\n\
         http://dead.test:{{port}} {{\n\treverse_proxy localhost:{dead}\n}}\n\
         http://checked.test:{{port}} {{\n\treverse_proxy localhost:{dead} {{\n\t\thealth_uri /\n\
         \t\thealth_interval 100ms\n\t}}\n}}\n"
    ));
    for _ in 0..5 {
        assert_eq!(ask(&server, "shop.test", "/").status, 200);
    }
    assert_eq!(ask(&server, "dead.test", HOSTILE).status, 502);
    // Health checks start with the first request.
    assert_eq!(ask(&server, "checked.test", "/").status, 502);
    let mut page = Page::open(program);
    page.call(
        "Page.navigate",
        &json!({"url": format!("http://localhost:{}/", server.admin)}),
    );
    page.wait_for_words("live");
    page.wait_for_words("shop.test");
    page.wait_for_words(HOSTILE);
    page.wait_for_words("1 of 1 upstreams are down");
    assert_eq!(
        page.value("document.querySelectorAll('#failures img').length"),
        0
    );
    // The charts have data once two samples were taken.
    let drawn = "(document.querySelector('svg .curve').getAttribute('d') || '').length > 0";
    let mut is_drawn = || page.value(drawn).as_bool().filter(|drawn| *drawn);
    until(BROWSER_TIMEOUT, "a chart", &mut is_drawn, || {
        server.stderr()
    });
    // Each control has a name, and the whole page is reached with the keyboard.
    let nameless = "[...document.querySelectorAll('button, input, svg, table')].filter((one) => \
        !(one.textContent.trim() && one.tagName === 'BUTTON') && !one.getAttribute('aria-label')).length";
    assert_eq!(page.value(nameless), 0);
    let press = |page: &mut Page, key: &str| {
        for kind in ["keyDown", "keyUp"] {
            page.call(
                "Input.dispatchKeyEvent",
                &json!({"type": kind, "key": key, "text": key}),
            );
        }
    };
    press(&mut page, "/");
    assert_eq!(page.value("document.activeElement.type"), "search");
    page.call("Input.insertText", &json!({"text": "shop"}));
    page.wait_for_words("1 of");
    let rows = "[...document.querySelectorAll('#sites tbody tr')].map((row) => row.children[0].textContent).join()";
    assert_eq!(page.value(rows), "shop.test");
    page.shows_both_schemes("dashboard");
    assert!(
        page.value("document.title")
            .as_str()
            .is_some_and(|title| title.contains("req/s"))
    );
}
