//! Django's administration in Chromium, as a person uses it: forms with CSRF tokens, cookies, static files.

use serde_json::json;

use super::frameworks::django;
use crate::browser::{BROWSER_TIMEOUT, Page};
use crate::support::abilities::chromium;
use crate::support::wait::until;

#[test]
fn a_login_to_the_administration_of_django() {
    let Some(program) = chromium() else { return };
    let options = "workers 2\nstatic /static/ {folder}/static";
    let Some(server) = django("module_wsgi site_settings.wsgi:application", options) else {
        return;
    };
    let mut page = Page::open(program);
    let url = format!("http://localhost:{}/admin/", server.port);
    page.call("Page.navigate", &json!({"url": url}));
    page.wait_for_title("Log in | Django site admin");
    let log_in = |password: &str| {
        format!(
            "document.querySelector('#id_username').value = 'root';
             document.querySelector('#id_password').value = '{password}';
             document.querySelector('input[type=submit]').click()"
        )
    };
    page.value(&log_in("wrong"));
    let error = "(document.querySelector('.errornote') || {}).textContent";
    let refused = || page.value(error).is_string().then_some(());
    until(BROWSER_TIMEOUT, "the refusal", refused, || server.stderr());
    page.value(&log_in("secret"));
    page.wait_for_title("Site administration | Django site admin");
    let shown = page.value("document.body.innerText");
    let shown = shown.as_str().unwrap_or_default();
    for words in ["WELCOME, ROOT", "Books", "Users"] {
        assert!(shown.contains(words), "{words} in {shown}");
    }
    // Style sheets and scripts have arrived and are in effect.
    let loaded = "performance.getEntriesByType('resource').map(one => one.responseStatus)";
    let loaded = page.value(loaded);
    let loaded = loaded.as_array().expect("a list");
    assert!(loaded.len() >= 3, "{loaded:?}");
    assert!(loaded.iter().all(|status| *status == 200), "{loaded:?}");
    let color = page.value("getComputedStyle(document.querySelector('#header')).backgroundColor");
    assert_ne!(color, "rgba(0, 0, 0, 0)", "the header has a color");
    page.screenshot("django-admin");
}
