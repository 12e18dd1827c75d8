//! Pages with SSI commands, and charset conversion: the same files and requests for sluice and an installed nginx.

use crate::peer::nginx_bodies::{Case, compare};
use crate::peer::peers::Site;
use crate::support::servers;

/// Pages, by file name below `ssi/`.
const PAGES: &[(&str, &str)] = &[
    (
        "echo",
        "[<!--# echo var=\"arg_a\" -->][<!--# echo var=\"arg_none\" -->][<!--# echo var=\"arg_none\" default=\"dd\" -->][<!--# echo var=\"nosuch\" -->]",
    ),
    (
        "encodings",
        "<!--#echo var=\"arg_a\" encoding=\"none\"-->|<!--# echo var=\"arg_a\" -->|<!--# echo var=\"arg_a\" encoding=\"url\" -->|<!--# echo var=\"arg_a\" encoding=\"bad\" -->|<!--# echo var=\"arg_a\" encoding=\"entity\" -->",
    ),
    (
        "set",
        "<!--# set var=\"v\" value=\"one\" --><!--# echo var=\"v\" --><!--# set var=\"w\" value=\"$v two ${v}three\" -->|<!--# echo var=\"W\" -->|<!--# set var=\"q\" value=\"a\\$v\\\\ 'x'\" --><!--# echo var=\"q\" -->|<!--# set var=\"uri\" value=\"mine\" --><!--# echo var=\"uri\" -->",
    ),
    (
        "quotes",
        "<!--# set var='v' value='it\\'s' --><!--# echo var='v' encoding='none' -->|<!--# set var=\"v\" value=\"\\x\\\"y\" --><!--# echo var='v' -->|<!--# set var=\"v\" value=\"--> <b>\" --><!--# echo var='v' -->",
    ),
    (
        "undefined",
        "<!--# set var=\"a\" value=\"$a\" -->[<!--# echo var=\"a\" -->]<!--# set var=\"a\" value=\"\" -->[<!--# echo var=\"a\" default=\"D\" -->]<!--# set value=\"k\" var=\"o\" --><!--# echo var=\"o\" -->",
    ),
    (
        "if",
        "<!--# if expr=\"$arg_a\" -->A<!--# else -->notA<!--# endif -->|<!--# if expr=\"$arg_a = x\" -->X<!--# elif expr=\"$arg_a = y\" -->Y<!--# else -->other<!--# endif -->|<!--# if expr=\"$arg_a != x\" -->nx<!--# endif -->|<!--# if expr=\"$arg_a=x\" -->nospace<!--# endif -->|<!--# if expr=\"$arg_a   =  x\" -->sp<!--# endif -->",
    ),
    (
        "compare",
        "<!--# if expr=\"text = text\" -->tt<!--# endif -->|<!--# if expr=\"text\" -->t<!--# endif -->|<!--# if expr=\"\" -->e<!--# endif -->|<!--# if expr=\"0\" -->zero<!--# endif -->|<!--# if expr=\"$arg_a = $arg_b\" -->same<!--# endif -->|<!--# if expr=\"$nosuch = \" -->em<!--# endif -->|<!--# if expr=\"a = b = c\" -->eq<!--# endif -->|<!--# if expr=\"$arg_a == x\" -->deq<!--# endif -->",
    ),
    (
        "patterns",
        "<!--# if expr=\"$arg_a = /(.)(?P<rest>.*)/\" --><!--# echo var=\"1\" -->-<!--# echo var=\"rest\" -->-<!--# set var=\"t\" value=\"$1/$2\" --><!--# echo var=\"t\" --><!--# endif -->|<!--# echo var=\"0\" -->|<!--# if expr=\"$arg_a != /x/\" -->nx<!--# endif -->|<!--# if expr=\"$uri = /^\\/ssi/\" -->path<!--# endif -->|<!--# if expr=\"$arg_a = /($arg_b)/\" -->int<!--# endif -->",
    ),
    (
        "odd_patterns",
        "<!--# if expr=\"$arg_a = /x$/\" -->a<!--# endif -->|<!--# if expr=\"$uri = /ssi/x.html\" -->b<!--# endif -->|<!--# if expr=\"a b = a b\" -->c<!--# endif -->|<!--# if expr=\"$arg_a = /^X$/i\" -->d<!--# endif -->",
    ),
    (
        "nested",
        "<!--# if expr=\"$arg_a = x\" -->o<!--# if expr=\"1\" -->i<!--# endif -->c<!--# endif -->|<!--# if expr=\"$arg_a = zz\" --><!--# if expr=\"1\" -->i<!--# else -->j<!--# endif -->k<!--# else -->l<!--# endif -->|<!--# else -->|<!--# endif -->|<!--# elif expr=\"1\" -->",
    ),
    (
        "branches",
        "<!--# if expr=\"\" -->a<!--# elif expr=\"\" -->b<!--# elif expr=\"1\" -->c<!--# elif expr=\"1\" -->d<!--# else -->e<!--# endif -->|<!--# if expr=\"1\" -->a<!--# else -->b<!--# else -->c<!--# endif -->|<!--# if expr=\"\" -->a<!--# else -->b<!--# elif expr=\"1\" -->c<!--# endif -->",
    ),
    (
        "untaken",
        "<!--# if expr=\"\" --><!--# include virtual=\"/ssi/part.html\" --><!--# set var=\"v\" value=\"no\" --><!--# nosuch --><!--# echo x=\"y\" --><!--# else -->E<!--# endif --><!--# echo var=\"v\" -->",
    ),
    (
        "include",
        "<<!--# include virtual=\"/ssi/part.html?p=1&amp;q=2\" -->><<!--# include file=\"part.html\" -->><<!--# include file=\"sub/part.html\" -->><<!--# include virtual=\"part.html\" -->><<!--# include virtual=\"../note.txt\" -->>",
    ),
    (
        "include_errors",
        "<<!--# include virtual=\"/nothing\" -->><<!--# include virtual=\"/c403\" -->><<!--# include virtual=\"/ok204\" -->><<!--# include virtual=\"/redir\" -->><<!--# include virtual=\"/dead\" -->><<!--# include virtual=\"/empty.html\" -->>",
    ),
    (
        "include_paths",
        "x<!--# include file=\"../x.html\" -->y<!--# include virtual=\"../a\" -->z<!--# include file=\"/abs.html\" -->w<!--# include virtual=\"/../../etc\" -->v<!--# include virtual=\"http://x/\" -->u<!--# include virtual=\"\" -->t<!--# include file=\"sp ace.html\" --><!--# include virtual=\"/ssi/sp%20ace.html\" --><!--# include virtual=\"/ssi/part.html#frag\" -->",
    ),
    (
        "include_variables",
        "<!--# set var=\"p\" value=\"part\" --><!--# include virtual=\"/ssi/$p.html?$arg_a&x=$uri\" --><!--# include virtual=\"/ssi/$nosuch$p.html\" -->",
    ),
    (
        "include_upstream",
        "<<!--# include virtual=\"/up?x=1\" -->><<!--# include virtual=\"/up\" wait=\"yes\" -->>",
    ),
    (
        "stub",
        "<!--# block name=\"one\" -->STUB<!--# endblock -->[<!--# include virtual=\"/nothing\" stub=\"one\" -->][<!--# include virtual=\"/empty.html\" stub=\"one\" -->][<!--# include virtual=\"/ssi/part.html\" stub=\"one\" -->][<!--# include virtual=\"/c403\" stub=\"one\" -->][<!--# include virtual=\"/ok204\" stub=\"one\" -->][<!--# include virtual=\"/dead\" stub=\"one\" -->]",
    ),
    (
        "stub_command",
        "<!--# block name=\"one\" -->[<!--# echo var=\"args\" -->]<!--# endblock --><!--# include virtual=\"/nothing?q=r\" stub=\"one\" -->|<!--# include virtual=\"/nothing\" stub=\"none\" -->",
    ),
    (
        "blocks",
        "<!--# block name=\"a\" --><!--# block name=\"b\" -->x<!--# endblock -->y<!--# endblock -->z<!--# block -->w<!--# endblock -->|<!--# block name=\"c\" --><!--# if expr=\"1\" -->1<!--# endblock -->[<!--# include virtual=\"/nothing\" stub=\"c\" -->]",
    ),
    (
        "into_variable",
        "<!--# include virtual=\"/ssi/part.html\" set=\"body\" -->[<!--# echo var=\"body\" encoding=\"none\" -->]<!--# include virtual=\"/nothing\" set=\"nb\" -->[<!--# echo var=\"nb\" default=\"dd\"-->]<!--# include virtual=\"/up\" set=\"up\" -->[<!--# echo var=\"up\" -->]",
    ),
    (
        "wait",
        "a<!--# include virtual=\"/ssi/setter.html\" wait=\"yes\" -->b<!--# echo var=\"shared\" -->c<!--# include virtual=\"/ssi/part.html\" wait=\"no\" -->d<!--# include virtual=\"/ssi/part.html\" wait=\"bad\" -->",
    ),
    (
        "setter",
        "<!--# set var=\"shared\" value=\"from sub\" -->(set)",
    ),
    (
        "config",
        "<!--# config errmsg=\"ERR\" --><!--# nosuch -->|<!--# echo -->|<!--# config nope=\"x\" -->",
    ),
    (
        "times",
        "<!--# config timefmt=\"%Y %%\" --><!--# if expr=\"$date_gmt = /^20[0-9][0-9] %/\" -->year<!--# endif --><!--# if expr=\"$date_local = /^20/\" -->year<!--# endif -->",
    ),
    (
        "mistakes",
        "1<!--# nosuch a=\"b\" -->2<!--# echo foo=\"x\" -->3<!--# include -->4<!--# include file=\"a\" virtual=\"b\" -->6<!--# set var=\"x\" -->7<!--# if -->8<!--# endif -->9<!--# echo var=\"a\" var=\"b\" -->",
    ),
    (
        "broken",
        "1<!--# echo var=noquotes -->2<!--# echo var=\"x\" junk -->3<!--#-->4<!--# -->5<!-- # echo var=\"x\" -->6<!--#ECHO var=\"arg_a\" -->7<!--# echo VAR=\"arg_a\" -->8<!--# echo var = \"arg_a\" -->9<!--# echo var=\"arg_a\"-->10<!--# echo var=\"arg_a\" ->x",
    ),
    (
        "broken_end",
        "<!--# echo var=\"arg_a\" --->|<!--# echo var=\"arg_a\" -- >|<!--# echo var=\"arg_a\"   -->",
    ),
    ("unterminated", "a<!--# echo var=\"arg_a\""),
    (
        "comments",
        "a<!-- comment --><!-- -- --><!---><!-<!--# echo var=\"arg_a\" --><!--",
    ),
    (
        "space",
        "<!--#include   virtual=\"/ssi/setter.html\"   --><!--#\n include\n virtual=\"/ssi/setter.html\"\n-->",
    ),
    (
        "entities",
        "<!--# set var=\"v\" value=\"<a href='x'>&amp;\" --><!--# echo var=\"v\" -->|<!--# echo var=\"v\" encoding=\"url\" -->|<!--# echo var=\"v\" -->",
    ),
    ("unclosed", "<!--# if expr=\"1\" -->open"),
    ("unclosed_block", "<!--# block name=\"k\" -->open"),
    (
        "part",
        "(part <!--# echo var=\"args\" default=\"-\" --> <!--# echo var=\"uri\" --> <!--# echo var=\"request_uri\" --> <!--# echo var=\"document_uri\" -->)",
    ),
    ("sub/part", "(below)"),
    ("sp ace", "(space)"),
    (
        "long",
        "<!--# set var=\"v\" value=\"0123456789012345678901234567890\" --><!--# echo var=\"v\" -->",
    ),
];

const SSI: Case = Case {
    name: "ssi",
    lines: "ssi on; location /ok204 { return 204; } location /c403 { return 403; } location /redir { return 302 /x; } \
            location /dead { proxy_pass http://DEAD; } location /up { proxy_pass http://127.0.0.1:SECOND; } location = /empty.html { alias ROOT/empty.txt; } \
            location /silent/ { alias ROOT/ssi/; ssi_silent_errors on; } location /dated/ { alias ROOT/ssi/; ssi_last_modified on; } \
            location /typed/ { alias ROOT/; ssi_types text/plain; } location /short/ { alias ROOT/ssi/; ssi_value_length 10; } location /off/ { alias ROOT/ssi/; ssi off; }",
    second: "location / { return 200 \"up $request_method $request_uri\"; }",
    requests: &[
        "GET /silent/mistakes.html",
        "GET /dated/echo.html?a=1",
        "GET /typed/note.txt",
        "GET /short/long.html",
        "GET /off/echo.html?a=1",
        "HEAD /ssi/echo.html",
        "GET /ssi/echo.html?a=1 | Range: bytes=0-3",
        "GET /ssi/include.html | Range: bytes=0-3",
        "GET /ssi/nothing.html",
        "GET /ssi/include.html | If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT",
        "POST /ssi/up | body=x",
    ],
};

const CHARSETS: Case = Case {
    name: "charsets",
    lines: "location /w2k/ { alias ROOT/cs/; source_charset windows-1251; charset koi8-r; } location /k2u/ { alias ROOT/cs/; source_charset koi8-r; charset utf-8; } \
            location /u2k/ { alias ROOT/cs/; source_charset utf-8; charset koi8-r; } location /u2w/ { alias ROOT/cs/; source_charset utf-8; charset windows-1251; } \
            location /p/ { proxy_pass http://127.0.0.1:SECOND/; charset utf-8; source_charset windows-1251; } \
            location /po/ { proxy_pass http://127.0.0.1:SECOND/; charset utf-8; override_charset on; source_charset windows-1251; } \
            location /ps/ { proxy_pass http://127.0.0.1:SECOND/; source_charset windows-1251; } location /pn/ { proxy_pass http://127.0.0.1:SECOND/; charset utf-8; } \
            location /pi/ { proxy_pass http://127.0.0.1:SECOND/; charset utf-8; proxy_ignore_headers X-Accel-Charset; } \
            location /same/ { alias ROOT/cs/; source_charset koi8-r; charset koi8-r; } location /source/ { alias ROOT/cs/; source_charset koi8-r; } \
            location /var/ { alias ROOT/cs/; set $c utf-8; source_charset koi8-r; charset $c; } location /unknown/ { alias ROOT/cs/; set $c nope; source_charset koi8-r; charset $c; } \
            location /vars/ { alias ROOT/cs/; set $s koi8-r; source_charset $s; charset utf-8; } location /ret { source_charset koi8-r; charset utf-8; default_type text/html; return 200 text; } \
            location /page { ssi on; source_charset utf-8; charset koi8-r; alias ROOT/cs/page.html; }",
    second: "location / { alias ROOT/cs/; max_ranges 0; } location /ct/ { alias ROOT/cs/; types {} default_type \"text/html; charset=koi8-r\"; } \
            location /cx/ { alias ROOT/cs/; types {} default_type \"text/html; charset=unknown\"; } \
            location /xa/ { alias ROOT/cs/; add_header X-Accel-Charset koi8-r; } location /xu/ { alias ROOT/cs/; add_header X-Accel-Charset zzz; }",
    requests: &[
        "GET /w2k/w.html",
        "GET /w2k/all.html",
        "HEAD /w2k/w.html",
        "GET /w2k/w.html | Range: bytes=2-5",
        "GET /k2u/k.html",
        "GET /k2u/all.html",
        "GET /k2u/k.html | Range: bytes=2-5",
        "GET /k2u/none.html",
        "GET /k2u/k.bin",
        "GET /u2k/u.html",
        "GET /u2w/u.html",
        "GET /p/k.html",
        "GET /p/ct/k.html",
        "GET /p/cx/k.html",
        "GET /p/xa/k.html",
        "GET /p/xu/k.html",
        "GET /po/ct/k.html",
        "GET /po/cx/k.html",
        "GET /ps/k.html",
        "GET /ps/ct/k.html",
        "GET /ps/xa/k.html",
        "GET /pn/k.html",
        "GET /pn/xa/k.html",
        "GET /pi/xa/k.html",
        "GET /same/k.html",
        "GET /source/k.html",
        "GET /var/k.html",
        "GET /unknown/k.html",
        "GET /vars/k.html",
        "GET /ret",
        "GET /page",
    ],
};

/// `Привет, мир!` in three encodings, and characters that only one of them has.
const TEXTS: &[(&str, &[u8])] = &[
    ("cs/w.html", b"\xcf\xf0\xe8\xe2\xe5\xf2, \xec\xe8\xf0!"),
    ("cs/k.html", b"\xf0\xd2\xc9\xd7\xc5\xd4, \xcd\xc9\xd2!"),
    ("cs/k.bin", b"\xf0\xd2\xc9\xd7\xc5\xd4"),
    ("cs/u.html", "Привет, 日本 é 😀 мир!".as_bytes()),
    (
        "cs/page.html",
        "<!--# set var=\"v\" value=\"é\" -->мир <!--# include virtual=\"/k2u/k.html\" -->"
            .as_bytes(),
    ),
];

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn pages_equal_those_of_nginx() {
    let Some(nginx) = servers::nginx() else {
        return;
    };
    let site = Site::new();
    let mut requests = Vec::new();
    for (name, page) in PAGES {
        site.write(&format!("ssi/{name}.html"), page);
        for query in ["", "?a=x&b=x", "?a=abc&b=b.", "?a=x1%3C%26&b=y"] {
            requests.push(format!("GET /ssi/{}.html{query}", name.replace(' ', "%20")));
        }
    }
    requests.extend(SSI.requests.iter().map(|request| (*request).to_owned()));
    for (name, text) in TEXTS {
        site.write(name, text);
    }
    let all: Vec<u8> = (0..=255).collect();
    site.write("cs/all.html", &all);
    let charsets: Vec<String> = CHARSETS
        .requests
        .iter()
        .map(|request| (*request).to_owned())
        .collect();
    let (mut count, mut failures) = (0, Vec::new());
    for (case, requests) in [(&SSI, requests), (&CHARSETS, charsets)] {
        let (asked, differing) = compare(&site, &nginx, case, &requests);
        count += asked;
        failures.extend(differing);
    }
    println!("{count} requests compared with {}", nginx.display());
    assert!(count >= 180, "the yardstick got shorter: {count}");
    assert!(
        failures.is_empty(),
        "{} differences:\n{}",
        failures.len(),
        failures.join("\n")
    );
}
