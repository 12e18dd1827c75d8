//! The limits, and the message when a limit is reached.

use sluice_nginx::limits::{
    BLOCK_DEPTH_MAX, GROUPS_BY_VARIABLE_MAX, VARIABLES_MAX, WORD_BYTES_MAX,
};
use sluice_nginx::{MemoryLoader, adapt, parse};

fn said(text: &str) -> String {
    adapt("nginx.conf", text, &MemoryLoader::default())
        .report
        .short()
}

#[test]
fn blocks_are_not_nested_without_end() {
    let text = "http {".repeat(BLOCK_DEPTH_MAX + 10);
    assert!(said(&text).contains("[too-much]"), "{}", said(&text));
}

#[test]
fn words_are_not_endless() {
    let text = format!("user {};", "a".repeat(WORD_BYTES_MAX + 1));
    assert!(said(&text).contains("[too-long]"), "{}", said(&text));
}

#[test]
fn a_file_that_includes_itself_is_noticed() {
    let mut loader = MemoryLoader::default();
    loader
        .files
        .insert("a.conf".into(), b"include a.conf;".to_vec());
    let parsed = parse("nginx.conf", "include a.conf;", &loader);
    assert!(parsed.report.short().contains("[too-much]"));
}

#[test]
fn texts_have_a_limited_number_of_variables() {
    let text = "$host".repeat(VARIABLES_MAX + 1);
    let text = format!("events {{}} http {{ server {{ return 200 \"{text}\"; }} }}");
    assert!(
        said(&text).contains("[invalid-variable]"),
        "{}",
        said(&text)
    );
}

#[test]
fn an_address_with_variables_has_few_groups_beside_it() {
    let said_of = |count: usize| {
        let groups: String = (0..count)
            .map(|number| format!("upstream u{number} {{ server 10.0.0.1; }}\n"))
            .collect();
        let site = "server { location / { proxy_pass http://$host; } }";
        said(&format!("events {{}} http {{ {groups} {site} }}"))
    };
    assert!(!said_of(GROUPS_BY_VARIABLE_MAX).contains("[too-many-groups]"));
    let said = said_of(GROUPS_BY_VARIABLE_MAX + 1);
    assert!(said.contains("[too-many-groups]"), "{said}");
}

/// Whatever is cut off a file, or put into it, gives messages and no panic.
#[test]
fn broken_files_are_reported() {
    let whole = "user a;\nevents { worker_connections 10; }\nhttp {\n include m/*.conf;\n types { text/html html; }\n \
                 server { listen 80 ssl; server_name a *.b ~^(?<c>.)d$; if ($host = \"a\") { return 301 https://$host; }\n \
                 location ~* \\.(a|b)$ { root /x; rewrite ^/(.*) /$1? last; proxy_pass http://a/b; } } }\n";
    for cut in (0..whole.len()).filter(|cut| whole.is_char_boundary(*cut)) {
        said(&whole[..cut]);
        said(&whole[cut..]);
        for piece in [";", "{", "}", "\"", "\\", "$", "'"] {
            said(&format!("{}{piece}{}", &whole[..cut], &whole[cut..]));
        }
    }
}
