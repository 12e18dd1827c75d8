//! Templates compared with Caddy's: the golden cases of the package `sluice-template`, and pages that need a request,
//! files and other pages. Output must be equal byte for byte; for a failure only the status is compared.

use std::path::Path;

use crate::peer::cases::{Case, Seen};
use crate::peer::peers::{self, Peer, Site};
use crate::support::servers;

/// Pages that need more than the template language. `NAME` is replaced by the number of the page.
const PAGES: &[&str] = &[
    "{{.Req.Method}} {{.Req.URL}} {{.Req.URL.Path}} {{.Req.Host}} {{.Req.Proto}} {{.Req.ContentLength}}",
    "{{.Req.URL.Query}} {{.Req.URL.RawQuery}} {{.Req.URL.Query.Get \"a\"}} {{.Req.URL.Query.Has \"z\"}} {{.Req.URL.Query.Encode}}",
    "{{.Req.Header}}",
    "{{.Req.Header.Get \"x-test\"}}|{{.Req.Header.Values \"X-Test\"}}|{{index .Req.Header \"X-Test\"}}|{{.Req.Header.Get \"none\"}}",
    "{{.Cookie \"k\"}}|{{.Cookie \"none\"}}|{{(.Req.Cookie \"j\").Value}}|{{.Req.Cookies}}",
    "{{.Req.Cookie \"none\"}}",
    "{{.Host}} {{.RemoteIP}} {{.ClientIP}} {{.Args}}",
    "{{.OriginalReq.Method}} {{.OriginalReq.URL}} {{.Req.RequestURI}} {{.Req.UserAgent}} {{.Req.Referer}}",
    "{{.Req.ProtoMajor}}.{{.Req.ProtoMinor}} {{.Req.URL.EscapedPath}} {{.Req.URL.Hostname}}{{.Req.URL.Scheme}}{{.Req.URL.IsAbs}}",
    "{{.Req.FormValue \"b\"}} {{range $k, $v := .Req.URL.Query}}{{$k}}={{$v}};{{end}}{{len .Req.Header}}",
    "{{kindOf .Req}} {{typeOf .Req}} {{typeOf .Req.URL}} {{typeOf .Req.Header}}",
    "{{if .Req.TLS}}tls{{else}}plain{{end}} {{.Req.RemoteAddr | hasPrefix \"127.0.0.1:\"}}",
    "{{.Req.Header.Set \"a\" \"b\"}}",
    "{{.Nope}}",
    "{{.Req.Nope}}",
    "{{.RespHeader.Set \"X-B\" \"2\"}}{{.RespHeader.Del \"Vary\"}}{{.RespHeader.Get \"X-B\"}}",
    "{{.RespHeader.Set \"Content-Type\" \"text/x\"}}x",
    "{{stripHTML \"a <b>x</b> < c\"}}|{{stripHTML \"<a<b>c>d\"}}|{{stripHTML \"a > b\"}}|{{stripHTML \"<a href='>'>x\"}}|{{stripHTML \"<!-- x --> y\"}}",
    "{{humanize \"size\" \"2048000\"}}|{{humanize \"size\" \"999\"}}|{{humanize \"size\" \"0\"}}",
    "{{humanize \"size\" \"123456789012\"}}|{{humanize \"size\" \"9950\"}}|{{humanize \"size\" \"999950\"}}|{{humanize \"size\" \"1000000000\"}}",
    "{{humanize \"time\" \"Fri, 05 May 2022 15:04:05 +0200\"}}|{{humanize \"time:2006-Jan-02\" \"2002-May-05\"}}",
    "{{humanize \"x\" \"1\"}}",
    "{{humanize \"size\" \"x\"}}",
    "{{pathEscape \"a b/c?d&e=é\"}}|{{placeholder \"http.request.method\"}}|{{ph \"http.request.uri\"}}|{{placeholder \"nope\"}}",
    "{{placeholder \"{http.request.method}\"}}|{{maybe \"x\" 1}}",
    "{{httpError 404}}",
    "{{httpError 418}}",
    "{{env \"HOME\" | len | lt 3}} {{env \"NO_SUCH_NAME\"}}|{{expandenv \"a $NO_SUCH_NAME ${NO_SUCH_NAME} $$\"}}",
    "{{sha1sum \"a\"}} {{sha256sum \"a\"}} {{sha512sum \"a\"}}",
    "{{fileExists \"note.txt\"}} {{fileExists \"/../x\"}} {{fileExists \"/\"}} {{(fileStat \"note.txt\").Size}} {{(fileStat \"note.txt\").Name}}",
    "{{(fileStat \"note.txt\").IsDir}} {{(fileStat \"note.txt\").Mode}} {{(fileStat \"note.txt\").ModTime.UTC}} {{(fileStat \"sub\").IsDir}}",
    "{{fileStat \"none\"}}",
    "{{readFile \"note.txt\"}}|{{readFile \"/sub/index.html\"}}",
    "{{readFile \"/../../etc/passwd\"}}",
    "{{readFile \"none\"}}",
    "{{listFiles \"noindex\"}} {{listFiles \"/sub\" | len}}",
    "{{listFiles \"/none\"}}",
    "{{include \"note.txt\"}}|{{include \"tpl/args.html\" 1 \"b\"}}",
    "{{include \"none\"}}",
    "{{import \"tpl/defs.html\"}}{{template \"foo\" 1}}{{template \"bar\"}}",
    "{{template \"foo\" 1}}",
    "{{httpInclude \"/note.txt\"}}|{{httpInclude \"/tpl/request.html?x=1\"}}",
    "{{httpInclude \"/none\"}}",
    "{{httpInclude \"/tpl/args.html\"}}",
    "{{$x := include \"tpl/args.html\" 1 2}}[{{$x | upper}}]",
    "{{range $i := until 3}}{{include \"tpl/args.html\" $i $i}};{{end}}",
    "{{markdown \"# Hi *there*\\n\\n- a\\n- b\\n\\n| x | y |\\n|---|--:|\\n| 1 | 2 |\\n\\n~~s~~ http://a.b <b>raw</b>\\n\"}}",
    "{{markdown \"- [ ] t\\n- [x] u\\n\\nfoot[^1]\\n\\n[^1]: note\\n\\n```\\ncode <a>\\n```\\n\\n## Hi there!\\n\"}}",
    "{{markdown \"Hello World\\n===\\n\\n## A & B\\n\\n#### a_b-c  d\\n\\n## A & B\\n\\nline  \\nbreak\\\\\\nx\\n\"}}",
    "{{markdown \"* a\\n\\n* b\\n  1. c\\n  2. d\\n\\n> q\\n\\n---\\n\\n![i](a.png \\\"t\\\") [l](/x?a=1&b=2 't') <http://auto.x> a@b.co\\n\"}}",
    "{{markdown \"a | b | c\\n:-|:-:|-:\\n1 | 2\\n\\nx[^a] y[^b] x2[^a]\\n\\n[^a]: first\\n[^b]: second\\n\\n    more\\n\"}}",
    "{{markdown \"# a\\n# a\\n# a-1\\n# A. B! c?\\n# 123\\n# #\\n\\n#\\n\\n# héé [l](/y) `co`\\n\"}}",
    "{{markdown \"<div>\\n*x*\\n</div>\\n\\n&copy; &lt; \\\"quotes\\\" 'x'\\n\\n5. five\\n6. six\\n\\n    indented\\n\"}}|{{markdown \"\"}}",
    "{{$f := splitFrontMatter \"---\\ntitle: Hi\\ntags: [a, b]\\nn: 5\\nd: 2020-01-02\\nx: true\\nf: 1.5\\nz: ~\\n---\\nbody\"}}{{$f.Meta}} {{$f.Meta.title}} {{$f.Body}} {{typeOf $f.Meta.n}}",
    "{{$f := splitFrontMatter \"+++\\ntitle = \\\"Hi\\\"\\nn = 5\\nf = 1.5\\n[t]\\na = [1,2]\\n+++\\nbody\"}}{{$f.Meta}} {{$f.Body}}|{{typeOf $f.Meta.n}}",
    "{{$f := splitFrontMatter \"{\\n\\\"title\\\": \\\"Hi\\\"\\n}\\nbody\"}}{{$f.Meta}} {{$f.Body}}",
    "{{$f := splitFrontMatter \"plain\"}}{{$f.Meta}} {{$f.Body}}",
    "{{splitFrontMatter \"---\\na: 1\\nbody\"}}",
    "{{$f := splitFrontMatter \"---\\na: [1, 2.5, x, 'q', yes, 0x1f, 1e3]\\nb:\\n  c: |\\n    l1\\n    l2\\n  e: &x 5\\n  f: *x\\n1: one\\n---\\n\"}}{{$f.Meta}}",
    "{{dateInZone \"2006-01-02 15:04:05 MST -0700\" 1700000000 \"America/New_York\"}} {{dateInZone \"15:04 MST\" 1690000000 \"Europe/Berlin\"}}",
    "{{now.Year | lt 2000}} {{now | date \"2006\" | len}} {{(now.AddDate 1 0 0).After now}}",
];

/// Known differences, by the beginning of the page, with the reason.
const DIFFERENT: &[(&str, &str)] = &[
    (
        r#"{{printf "%t" 1}}"#,
        "nobody shows a float in hexadecimal on a page",
    ),
    ("{{duration 95}}", "Sprig takes the type int for no seconds"),
    (
        r#"{{durationRound "2h10m5s"}}"#,
        "Sprig takes the type int for no span of time",
    ),
    (
        "{{until 1.0}}",
        "a whole number is one, whatever its type in Go",
    ),
];

/// The templates of the golden cases of a package.
fn golden(name: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ground/template/tests/golden");
    let text = std::fs::read_to_string(folder.join(name)).expect("the cases are there");
    let cases = format!("\n{text}");
    let template = |case: &str| {
        let (_, rest) = case.split_once('\n')?;
        Some(rest.split_once("\n---\n")?.0.to_owned())
    };
    cases.split("\n=== ").filter_map(template).collect()
}

#[test]
#[ignore = "a slower kind: cargo xtask peer"]
fn pages_equal_those_of_caddy() {
    let Some(caddy) = servers::caddy() else {
        return;
    };
    let site = Site::new();
    let mut pages = golden("language.txt");
    pages.extend(golden("sprig.txt"));
    pages.extend(PAGES.iter().map(|page| (*page).to_owned()));
    for (at, page) in pages.iter().enumerate() {
        site.write(&format!("page{at}.html"), page);
    }
    site.write("tpl/args.html", "A{{.Args}}{{index .Args 1}}");
    site.write(
        "tpl/defs.html",
        "{{define \"foo\"}}foo{{.}}{{end}}{{define \"bar\"}}bar{{end}}x",
    );
    site.write(
        "tpl/request.html",
        "{{.Req.URL}} {{.Req.Header}} {{.RemoteIP}} {{.Host}}",
    );
    let case = Case {
        name: "templates",
        caddyfile: "http://site.test:PORT {\nroot * ROOT\ntemplates\nfile_server\n}\n",
        requests: &[],
        known: Seen::Always,
        accepted: &[],
    };
    let theirs = site.start(&caddy, &case, "caddy");
    let ours = site.start(&peers::sluice(), &case, "sluice");
    let mut failures = Vec::new();
    for (at, page) in pages.iter().enumerate() {
        let (expected, found) = (ask(&theirs, at), ask(&ours, at));
        let same = expected == found || (expected.0 == found.0 && expected.0 != "200");
        let differs = DIFFERENT.iter().any(|(known, _)| page.starts_with(known));
        if same == differs {
            failures.push(format!("{page}\n  caddy  {expected:?}\n  sluice {found:?}"));
        }
    }
    println!("{} pages compared with {}", pages.len(), caddy.display());
    assert!(pages.len() >= 300, "the yardstick got shorter");
    assert!(
        failures.is_empty(),
        "{} of {}:\n{}",
        failures.len(),
        pages.len(),
        failures.join("\n")
    );
}

fn ask(peer: &Peer, page: usize) -> (String, String) {
    let line = format!(
        "GET /page{page}.html?a=1&b=x%20y | User-Agent: peer | Cookie: k=v; j=w | X-Test: tv | X-Test: tw"
    );
    let response = peer.ask(&line);
    (
        response.status,
        String::from_utf8_lossy(&response.body).into_owned(),
    )
}
