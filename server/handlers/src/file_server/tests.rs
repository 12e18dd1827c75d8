use std::fs;
use std::path::PathBuf;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll, Waker};

use sluice_message::{ConnInfo, FieldId, Method, Remote, Status};
use sluice_net::{Body, Worker};

use super::*;
use sluice_pipeline::context::Exchange;

/// A folder with a site in it.
struct Site(PathBuf);

impl Site {
    fn new(name: &str) -> Site {
        let dir = std::env::temp_dir().join(format!("sluice-site-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(dir.join("sub")).unwrap();
        fs::create_dir_all(dir.join("list")).unwrap();
        for (name, content) in [
            ("index.html", "<h1>home</h1>"),
            ("a.txt", "0123456789"),
            ("noext", "plain"),
            ("sub/index.html", "sub"),
            ("list/one.txt", "1"),
            ("list/two.txt", "22"),
        ] {
            fs::write(dir.join(name), content).unwrap();
        }
        Site(dir)
    }

    fn write(&self, name: &str, content: &[u8]) {
        fs::write(self.0.join(name), content).unwrap();
    }

    fn handler(&self, change: impl FnOnce(&mut Config)) -> FileServer {
        let mut config = Config {
            root: self.0.display().to_string(),
            ..Config::default()
        };
        change(&mut config);
        build_for_test(&config).unwrap()
    }

    fn plain(&self) -> FileServer {
        self.handler(|_| ())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn build_for_test(config: &Config) -> Result<FileServer, Refusal> {
    FileServer::build(config, None, &[], Default::default())
}

/// The response to a request.
struct Got {
    exchange: Exchange,
    step: Step,
}

impl Got {
    fn status(&self) -> u16 {
        match &self.step {
            Step::Done(_) => self.exchange.res.status.code(),
            Step::Fail(fault) => fault.status.code(),
            Step::Next => 0,
            Step::Enter(_) | Step::Later => panic!("a file server decides at once"),
        }
    }

    fn field(&self, id: FieldId) -> String {
        let values: Vec<_> = self.exchange.res.fields.all(id).collect();
        String::from_utf8(values.join(&b"; "[..])).unwrap()
    }

    fn body(self) -> String {
        let Step::Done(body) = self.step else {
            panic!("there is no body")
        };
        let bytes = match body {
            Body::Empty => Vec::new(),
            Body::Inline => self.exchange.inline,
            Body::Shared(slice) => slice.as_bytes().to_vec(),
            Body::File(slice) => {
                use std::os::unix::fs::FileExt;
                let mut bytes = vec![0; slice.len as usize];
                slice.file.read_exact_at(&mut bytes, slice.start).unwrap();
                bytes
            }
            Body::Stream(mut stream) => {
                let announced = stream.len().unwrap();
                let mut bytes = Vec::new();
                let mut cx = TaskContext::from_waker(Waker::noop());
                loop {
                    let Poll::Ready(Ok(data)) = stream.poll_data(&mut cx) else {
                        panic!("no data")
                    };
                    // Small steps, so that every boundary is crossed.
                    let taken = data.len().min(7);
                    if taken == 0 {
                        break;
                    }
                    bytes.extend_from_slice(&data[..taken]);
                    stream.consume(taken);
                }
                assert_eq!(bytes.len() as u64, announced);
                bytes
            }
            Body::Tunnel(_) | Body::Abort => panic!("not a file"),
        };
        String::from_utf8(bytes).unwrap()
    }
}

fn new_exchange(method: Method, target: &str, fields: &[(FieldId, &str)]) -> Exchange {
    let conn = ConnInfo {
        remote: Remote::Unix,
        local: None.into(),
        tls: None,
        facts: Default::default(),
    };
    let worker = Rc::new(Worker::default());
    worker.clock.tick();
    let mut exchange = Exchange::new(Rc::new(conn), worker);
    exchange.req.method = method;
    exchange.req.target = target.into();
    exchange.req.uri.set(target.as_bytes());
    for (id, value) in fields {
        exchange.req.fields.push(*id, value.as_bytes());
    }
    exchange
}

fn ask(handler: &FileServer, method: Method, target: &str, fields: &[(FieldId, &str)]) -> Got {
    let mut exchange = new_exchange(method, target, fields);
    let step = handler.serve(&mut exchange);
    Got { exchange, step }
}

fn get(handler: &FileServer, target: &str) -> Got {
    ask(handler, Method::Get, target, &[])
}

fn ask_with(handler: &FileServer, target: &str, fields: &[(FieldId, &str)]) -> Got {
    ask(handler, Method::Get, target, fields)
}

#[test]
fn a_file_is_sent_with_its_headers() {
    let site = Site::new("fields");
    let got = get(&site.plain(), "/a.txt");
    assert_eq!(got.status(), 200);
    assert_eq!(got.field(FieldId::ContentType), "text/plain; charset=utf-8");
    assert_eq!(got.field(FieldId::AcceptRanges), "bytes");
    assert_eq!(got.field(FieldId::Vary), "Accept-Encoding");
    assert!(got.field(FieldId::Etag).starts_with('"'));
    assert!(got.field(FieldId::LastModified).ends_with(" GMT"));
    assert_eq!(got.body(), "0123456789");
    assert_eq!(get(&site.plain(), "/noext").field(FieldId::ContentType), "");
    let head = ask(&site.plain(), Method::Head, "/a.txt", &[]);
    assert_eq!(head.body().len(), 10);
}

#[test]
fn large_files_are_sent_by_the_system() {
    let site = Site::new("large");
    site.write("big", &vec![b'x'; 100_000]);
    let got = get(&site.plain(), "/big");
    assert!(matches!(&got.step, Step::Done(Body::File(slice)) if slice.len == 100_000));
    let part = ask_with(&site.plain(), "/big", &[(FieldId::Range, "bytes=99998-")]);
    assert!(matches!(&part.step, Step::Done(Body::File(s)) if s.start == 99_998 && s.len == 2));
    let parts = ask_with(
        &site.plain(),
        "/big",
        &[(FieldId::Range, "bytes=0-70000,99990-")],
    );
    assert_eq!(parts.body().matches('x').count(), 70_001 + 10);
}

#[test]
fn nothing_outside_the_root_is_reached() {
    let site = Site::new("outside");
    let outside = site.0.with_extension("outside");
    fs::write(&outside, "secret").unwrap();
    let name = outside.file_name().unwrap().to_str().unwrap();
    for target in [
        format!("/../{name}"),
        format!("/sub/../../{name}"),
        format!("/%2e%2e/{name}"),
        format!("/..%2f{name}"),
        format!("/.%2e/{name}"),
        format!("/..%5c{name}"),
        format!("/..\\{name}"),
        format!("//../{name}"),
        format!("/%2e%2e%2f{name}"),
    ] {
        let got = get(&site.plain(), &target);
        assert_eq!(got.status(), 404, "{target}");
    }
    assert_eq!(get(&site.plain(), "/a.txt%00.html").status(), 400);
    assert_eq!(get(&site.plain(), "/a.txt/x").status(), 400);
    assert_eq!(get(&site.plain(), "/%252e%252e/a.txt").status(), 404);
    fs::remove_file(outside).unwrap();
}

#[test]
fn folders_end_with_a_slash_and_files_do_not() {
    let site = Site::new("canonical");
    let handler = site.plain();
    for (target, location) in [
        ("/sub", "/sub/"),
        ("/sub?a=1", "/sub/?a=1"),
        ("//sub", "/sub/"),
        ("/./sub", "/sub/"),
        ("/a.txt/", "/a.txt"),
        ("//example.com/..//sub", "/sub/"),
        ("/x\\..\\../sub/../sub", "/x%5C..%5C../sub"),
    ] {
        let got = get(&handler, target);
        if location.starts_with("/x") {
            assert_eq!(got.status(), 404);
            continue;
        }
        assert_eq!(got.status(), 308, "{target}");
        assert_eq!(got.field(FieldId::Location), location, "{target}");
    }
    let post = ask(&handler, Method::Post, "/sub", &[]);
    assert_eq!((post.status(), post.body()), (308, String::new()));
    assert_eq!(get(&handler, "/sub/").body(), "sub");
    assert_eq!(get(&handler, "/").body(), "<h1>home</h1>");
    let relaxed = site.handler(|config| config.canonical_uris = Some(false));
    assert_eq!(get(&relaxed, "/sub").body(), "sub");
    assert_eq!(get(&relaxed, "/a.txt/").status(), 200);
}

#[test]
fn redirects_lead_to_the_path_the_client_knows() {
    let site = Site::new("original");
    let mut exchange = new_exchange(Method::Get, "/prefix/sub?q", &[]);
    exchange.req.uri.set(b"/sub");
    site.plain().serve(&mut exchange);
    assert_eq!(
        exchange.res.fields.first(FieldId::Location),
        Some(&b"/prefix/sub/?q"[..])
    );
    // The client does not see a rewrite to another name.
    let mut exchange = new_exchange(Method::Get, "/page", &[]);
    exchange.req.uri.set(b"/sub");
    site.plain().serve(&mut exchange);
    assert_eq!(exchange.res.status, Status::OK);
    let mut exchange = new_exchange(Method::Get, "http://host/sub", &[]);
    exchange.req.uri.set(b"/sub");
    site.plain().serve(&mut exchange);
    assert_eq!(
        exchange.res.fields.first(FieldId::Location),
        Some(&b"/sub/"[..])
    );
}

#[test]
fn a_redirect_never_names_another_host() {
    let site = Site::new("host");
    let folder = format!("{}/\\evil.example", site.0.display());
    fs::create_dir_all(&folder).unwrap();
    fs::write(format!("{folder}/index.html"), "x").unwrap();
    let got = get(&site.plain(), "/\\evil.example");
    assert_eq!(got.field(FieldId::Location), "/%5Cevil.example/");
    let got = get(&site.plain(), "/%2f%2fevil.example/..%2fsub");
    assert_eq!(got.field(FieldId::Location), "/sub/");
}

#[test]
fn other_methods_are_refused_where_there_is_a_file() {
    let site = Site::new("methods");
    let got = ask(&site.plain(), Method::Post, "/a.txt", &[]);
    assert_eq!(got.status(), 405);
    assert_eq!(got.field(FieldId::Allow), "GET, HEAD");
    assert_eq!(ask(&site.plain(), Method::Post, "/none", &[]).status(), 404);
}

#[test]
fn ranges_are_cut_out() {
    let site = Site::new("ranges");
    let handler = site.plain();
    let range = |value: &str| ask_with(&handler, "/a.txt", &[(FieldId::Range, value)]);
    let one = range("bytes=2-4");
    assert_eq!(
        (one.status(), one.field(FieldId::ContentRange)),
        (206, "bytes 2-4/10".into())
    );
    assert_eq!(one.body(), "234");
    assert_eq!(range("bytes=-3").body(), "789");
    assert_eq!(range("bytes=0-,0-").status(), 200);
    assert_eq!(range("lines=1-2").status(), 200);
    let beyond = range("bytes=10-");
    assert_eq!(
        (beyond.status(), beyond.field(FieldId::ContentRange)),
        (416, "bytes */10".into())
    );
    assert_eq!(range("bytes=4-2").status(), 416);
    let many = range("bytes=0-0,5-6,9-");
    assert_eq!(many.status(), 206);
    let media_type = many.field(FieldId::ContentType);
    let boundary = media_type
        .strip_prefix("multipart/byteranges; boundary=")
        .unwrap()
        .to_owned();
    let part = |range: &str, data: &str| {
        let media_type = "Content-Type: text/plain; charset=utf-8";
        format!("--{boundary}\r\nContent-Range: bytes {range}/10\r\n{media_type}\r\n\r\n{data}\r\n")
    };
    let expected = [part("0-0", "0"), part("5-6", "56"), part("9-9", "9")].concat();
    assert_eq!(many.body(), format!("{expected}--{boundary}--\r\n"));
    let post = ask(
        &handler,
        Method::Head,
        "/a.txt",
        &[(FieldId::Range, "bytes=2-4")],
    );
    assert_eq!(post.status(), 206);
}

#[test]
fn conditions_decide_before_ranges() {
    let site = Site::new("conditions");
    let handler = site.plain();
    let tag = get(&handler, "/a.txt").field(FieldId::Etag);
    let date = get(&handler, "/a.txt").field(FieldId::LastModified);
    let status = |fields: &[(FieldId, &str)]| ask_with(&handler, "/a.txt", fields).status();
    assert_eq!(status(&[(FieldId::IfNoneMatch, &tag)]), 304);
    assert_eq!(status(&[(FieldId::IfModifiedSince, &date)]), 304);
    assert_eq!(
        status(&[
            (FieldId::IfNoneMatch, "\"x\""),
            (FieldId::IfModifiedSince, &date)
        ]),
        200
    );
    assert_eq!(
        status(&[(FieldId::IfMatch, "\"x\""), (FieldId::Range, "bytes=0-1")]),
        412
    );
    assert_eq!(
        status(&[(FieldId::IfRange, &tag), (FieldId::Range, "bytes=0-1")]),
        206
    );
    assert_eq!(
        status(&[(FieldId::IfRange, "\"x\""), (FieldId::Range, "bytes=0-1")]),
        200
    );
    let known = ask_with(&handler, "/a.txt", &[(FieldId::IfNoneMatch, &tag)]);
    assert_eq!(known.field(FieldId::Etag), tag);
    assert_eq!(known.field(FieldId::Vary), "Accept-Encoding");
    assert_eq!(
        known.field(FieldId::ContentType) + &known.field(FieldId::LastModified),
        ""
    );
    assert_eq!(known.body(), "");
}

#[test]
fn files_compressed_ahead_are_chosen_by_weight() {
    let site = Site::new("sidecars");
    for (name, content) in [("s.js", "plain"), ("s.js.br", "br"), ("s.js.gz", "gz")] {
        site.write(name, content.as_bytes());
    }
    let handler = site.handler(|config| {
        config.precompressed.br = Some(Default::default());
        config.precompressed.gzip = Some(Default::default());
        config.precompressed.zstd = Some(Default::default());
        config.precompressed_order = vec!["gzip".into(), "zstd".into(), "br".into()];
    });
    let accept = |value: &str| ask_with(&handler, "/s.js", &[(FieldId::AcceptEncoding, value)]);
    assert_eq!(accept("gzip, br").field(FieldId::ContentEncoding), "gzip");
    assert_eq!(
        accept("gzip;q=0.1, br").field(FieldId::ContentEncoding),
        "br"
    );
    assert_eq!(
        accept("zstd, br;q=0.1").field(FieldId::ContentEncoding),
        "br"
    );
    assert_eq!(accept("zstd").field(FieldId::ContentEncoding), "");
    assert_eq!(accept("identity").body(), "plain");
    let got = accept("br");
    assert_eq!(
        got.field(FieldId::ContentType),
        "text/javascript; charset=utf-8"
    );
    assert_eq!(got.field(FieldId::Vary), "Accept-Encoding");
    assert_ne!(
        got.field(FieldId::Etag),
        get(&handler, "/s.js").field(FieldId::Etag)
    );
    assert_eq!(got.body(), "br");
    let unknown = Config {
        precompressed_order: vec!["br".into()],
        ..Config::default()
    };
    assert!(build_for_test(&unknown).is_err());
}

#[test]
fn etags_can_come_from_files() {
    let site = Site::new("etags");
    site.write("a.txt.tag", b"\"abc\"\n");
    site.write("noext.tag", b"raw\n");
    site.write("sub/index.html.tag", b"not a tag\0");
    let handler = site.handler(|config| config.etag_file_extensions = vec![".tag".into()]);
    assert_eq!(get(&handler, "/a.txt").field(FieldId::Etag), "\"abc\"");
    assert_eq!(get(&handler, "/noext").field(FieldId::Etag), "\"raw\"");
    assert!(get(&handler, "/sub/").field(FieldId::Etag).len() > 5);
    assert_eq!(
        ask_with(&handler, "/noext", &[(FieldId::IfNoneMatch, "\"raw\"")]).status(),
        304
    );
}

#[test]
fn fields_set_before_are_kept_where_caddy_keeps_them() {
    let site = Site::new("preset");
    let mut exchange = new_exchange(Method::Get, "/a.txt", &[(FieldId::IfNoneMatch, "\"mine\"")]);
    exchange.res.fields.push(FieldId::Etag, b"\"mine\"");
    site.plain().serve(&mut exchange);
    assert_eq!(exchange.res.status, Status::NOT_MODIFIED);
    let mut exchange = new_exchange(Method::Get, "/a.txt", &[]);
    exchange.res.fields.push(FieldId::ContentType, b"x/y");
    site.plain().serve(&mut exchange);
    assert_eq!(
        exchange.res.fields.first(FieldId::ContentType),
        Some(&b"x/y"[..])
    );
}

#[test]
fn hidden_files_do_not_exist() {
    let site = Site::new("hidden");
    site.write(".env", b"secret");
    let handler = site.handler(|config| {
        config.hide = vec![
            ".*".into(),
            "sub".into(),
            format!("{}/noext", site.0.display()),
        ];
        config.browse = Some(Default::default());
    });
    for target in ["/.env", "/sub/", "/sub/index.html", "/noext"] {
        assert_eq!(get(&handler, target).status(), 404, "{target}");
    }
    assert_eq!(get(&handler, "/a.txt").status(), 200);
    fs::remove_file(site.0.join("index.html")).unwrap();
    let list = get(&handler, "/").body();
    assert!(list.contains("a.txt") && !list.contains(".env") && !list.contains("noext"));
    let malformed = Config {
        hide: vec!["[".into()],
        ..Config::default()
    };
    assert!(build_for_test(&malformed).is_err());
}

#[test]
fn what_is_missing_can_be_passed_on() {
    let site = Site::new("pass");
    assert_eq!(get(&site.plain(), "/none").status(), 404);
    assert_eq!(get(&site.plain(), "/list/").status(), 404);
    let handler = site.handler(|config| config.pass_thru = true);
    assert_eq!(get(&handler, "/none").status(), 0);
    assert_eq!(get(&handler, "/list/").status(), 0);
    assert_eq!(get(&handler, "/a.txt").status(), 200);
}

#[test]
fn a_given_status_and_errors_send_the_whole_file() {
    let site = Site::new("status");
    let mut handler = site.plain();
    handler.status = Some(StatusText::Fixed(Status::NON_AUTHORITATIVE));
    let got = ask_with(&handler, "/a.txt", &[(FieldId::Range, "bytes=0-1")]);
    assert_eq!((got.status(), got.body().len()), (203, 10));
    let mut exchange = new_exchange(Method::Post, "/a.txt", &[(FieldId::IfNoneMatch, "*")]);
    exchange.context.error = Some(Box::new(sluice_pipeline::context::ErrorInfo {
        status: Status::NOT_FOUND,
        message: String::new(),
        id: String::new(),
    }));
    let step = site.plain().serve(&mut exchange);
    assert!(matches!(step, Step::Done(Body::Shared(_))));
    assert_eq!(exchange.res.status, Status::NOT_FOUND);
}

#[test]
fn index_names_are_tried_in_order() {
    let site = Site::new("index");
    site.write("list/b.html", b"b");
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let handler = site.handler(|config| config.index_names = names(&["a.html", "b.html"]));
    assert_eq!(get(&handler, "/list/").body(), "b");
    assert_eq!(get(&handler, "/").status(), 404);
    let escaping = site.handler(|config| config.index_names = names(&["../a.txt"]));
    assert_eq!(get(&escaping, "/list/").status(), 404);
}

#[test]
fn folders_are_listed_in_the_format_asked_for() {
    let site = Site::new("browse");
    let handler = site.handler(|config| config.browse = Some(Default::default()));
    let list = |query: &str, accept: &str| {
        ask_with(
            &handler,
            &format!("/list/{query}"),
            &[(FieldId::Accept, accept)],
        )
    };
    let json = list("", "application/json");
    assert_eq!(
        json.field(FieldId::ContentType),
        "application/json; charset=utf-8"
    );
    assert_eq!(json.field(FieldId::Vary), "Accept, Accept-Encoding");
    let json = json.body();
    assert!(
        json.starts_with("[{\"name\":\"one.txt\",\"size\":1,\"url\":\"./one.txt\""),
        "{json}"
    );
    assert!(
        list("", "text/plain")
            .body()
            .starts_with("Name\tSize\tModified\n")
    );
    let page = list("", "text/html,*/*");
    assert!(
        page.field(FieldId::ContentSecurityPolicy)
            .contains("style-src 'nonce-")
    );
    assert!(
        page.body()
            .contains("<a class=\"file\" href=\"./two.txt\">two.txt</a>")
    );
    let json = list("?sort=size&order=desc&limit=1", "application/json");
    assert_eq!(
        json.field(FieldId::SetCookie),
        "sort=size; HttpOnly; SameSite=Lax; order=desc; HttpOnly; SameSite=Lax"
    );
    assert!(json.body().starts_with("[{\"name\":\"two.txt\""));
    assert!(
        list("?offset=1", "application/json")
            .body()
            .starts_with("[{\"name\":\"two.txt\"")
    );
    assert_eq!(get(&handler, "/list").field(FieldId::Location), "/list/");
    assert_eq!(ask(&handler, Method::Post, "/list/", &[]).status(), 405);
    let cookie = ask_with(
        &handler,
        "/list/",
        &[
            (FieldId::Accept, "application/json"),
            (FieldId::Cookie, "a=b; order=desc"),
        ],
    );
    assert!(cookie.body().starts_with("[{\"name\":\"two.txt\""));
}

#[test]
fn a_list_is_sent_again_only_after_a_change() {
    let site = Site::new("relist");
    let handler = site.handler(|config| config.browse = Some(Default::default()));
    let date = get(&handler, "/list/").field(FieldId::LastModified);
    let since = [(FieldId::IfModifiedSince, date.as_str())];
    assert_eq!(ask_with(&handler, "/list/", &since).status(), 304);
    let earlier = [(FieldId::IfModifiedSince, "Sat, 01 Jan 2000 00:00:00 GMT")];
    assert_eq!(ask_with(&handler, "/list/", &earlier).status(), 200);
}

#[test]
fn special_and_unreadable_files_are_refused() {
    let site = Site::new("special");
    let _socket = std::os::unix::net::UnixListener::bind(site.0.join("socket")).unwrap();
    assert_eq!(get(&site.plain(), "/socket").status(), 403);
}
