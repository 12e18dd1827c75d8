//! Request matchers: one sheet for each, as its section in Caddy's documentation describes it. `tests/peer/matchers.rs`
//! has their edge cases.

use super::Sheet;

pub(super) const SHEETS: &[Sheet] = &[
    Sheet {
        directive: "matcher client_ip",
        caddyfile: r#"
http://own.test:PORT {
	@home client_ip private_ranges
	@named client_ip 127.0.0.0/8 ::1
	@far client_ip 192.0.2.0/24
	header @home X-Home yes
	header @named X-Named yes
	respond @far "far" 403
	respond "near"
}
"#,
        requests: &[
            "GET own.test/",
            "GET own.test/ | X-Forwarded-For: 192.0.2.9",
            "GET own.test/ | X-Forwarded-For: 10.0.0.1, 192.0.2.9",
        ],
        accepted: &[],
    },
    Sheet {
        directive: "matcher expression",
        caddyfile: r#"
http://cel.test:PORT {
	@post expression {method}.startsWith("P")
	@both `{path}.startsWith("/both") && method("GET", "HEAD")`
	@or `path("/or/*") || header({"X-Or": "1"})`
	@not `!path("/any*") && query({"n": "1"})`
	@re `path_regexp("id", "^/id/([0-9]+)$")`
	@in `{query.v} in ["one", "two"]`
	@size `int({query.k}) > 10`
	@host `host("*.test") && remote_ip("127.0.0.1")`
	handle @post {
		respond "post"
	}
	handle @both {
		respond "both"
	}
	handle @or {
		respond "or"
	}
	handle @not {
		respond "not"
	}
	handle @re {
		respond "id {re.id.1}"
	}
	handle @in {
		respond "in"
	}
	handle /size {
		respond @size "large"
		respond "small"
	}
	handle @host {
		respond "host"
	}
}
"#,
        requests: &[
            "POST cel.test/x | body=a",
            "PUT cel.test/both | body=a",
            "GET cel.test/both/x",
            "HEAD cel.test/both",
            "DELETE cel.test/both",
            "GET cel.test/or/x",
            "GET cel.test/x | X-Or: 1",
            "GET cel.test/x?n=1",
            "GET cel.test/any?n=1",
            "GET cel.test/id/42",
            "GET cel.test/id/a",
            "GET cel.test/?v=two",
            "GET cel.test/?v=three",
            "GET cel.test/size?k=11",
            "GET cel.test/size?k=9",
        ],
        accepted: &[],
    },
    Sheet {
        directive: "matcher file",
        caddyfile: r#"
http://file.test:PORT {
	root * ROOT
	@static file
	@page {
		file
		not path *.css
		path /sub/* *.html
	}
	@try file {path}.html {path}/index.html
	@policy file {
		root ROOT
		try_files /note.txt /page.html
		try_policy largest_size
	}
	@small file {
		try_files /note.txt /page.html
		try_policy smallest_size
	}
	@split file {
		split_path .php
		try_files {path}
	}
	@coded file /none =418
	handle @page {
		respond "page {file_match.relative} {file_match.type}"
	}
	handle @static {
		respond "static {http.matchers.file.relative}"
	}
	handle @try {
		respond "tried {file_match.relative}"
	}
	handle /policy {
		respond @policy "{file_match.relative} {file_match.size}"
	}
	handle /small {
		respond @small "{file_match.relative} {file_match.size}"
	}
	handle @split {
		respond "split {file_match.relative} rest {file_match.remainder}"
	}
	handle /code/* {
		respond @coded "not reached"
	}
	handle {
		respond "none" 404
	}
	handle_errors {
		respond "error {err.status_code}"
	}
}
"#,
        requests: &[
            "GET file.test/note.txt",
            "GET file.test/page.html",
            "GET file.test/style.css",
            "GET file.test/page",
            "GET file.test/sub",
            "GET file.test/sub/",
            "GET file.test/sub/index.html",
            "GET file.test/policy",
            "GET file.test/small",
            "GET file.test/php/index.php/rest/of",
            "GET file.test/code/x",
            "GET file.test/none",
            "GET file.test/../note.txt",
        ],
        accepted: &[],
    },
    Sheet {
        directive: "matcher header",
        caddyfile: r#"
http://header.test:PORT {
	@socket {
		header Connection *Upgrade*
		header Upgrade websocket
	}
	@foo {
		header Foo bar
		header Foo baz
	}
	@both {
		header A 1
		header B 2
	}
	@none header !Accept
	@any header Cookie *
	@end header User-Agent *bot
	handle @socket {
		respond "socket"
	}
	handle @foo {
		respond "foo"
	}
	handle @both {
		respond "both"
	}
	handle @any {
		respond "any"
	}
	handle @end {
		respond "bot"
	}
	handle @none {
		respond "none"
	}
	respond "other"
}
"#,
        requests: &[
            "GET header.test/ | Upgrade: websocket",
            "GET header.test/ | Foo: bar",
            "GET header.test/ | Foo: baz",
            "GET header.test/ | Foo: Bar",
            "GET header.test/ | A: 1",
            "GET header.test/ | A: 1 | B: 2",
            "GET header.test/ | Cookie: a=b",
            "GET header.test/ | User-Agent: some-bot",
            "GET header.test/ | Accept: x",
            "GET header.test/",
        ],
        accepted: &[],
    },
    Sheet {
        directive: "matcher header_regexp",
        caddyfile: r#"
http://pattern.test:PORT {
	@login header_regexp login Cookie login_([a-f0-9]+)
	@plain header_regexp X-Plain ^a(.)c$
	@two {
		header_regexp one X-One (o+)
		header_regexp two X-Two (t+)
	}
	respond @login "login {re.login.1}"
	respond @plain "plain {re.1} {re.plain.1}"
	respond @two "two {re.one.1} {re.two.1}"
	respond "other"
}
"#,
        requests: &[
            "GET pattern.test/ | Cookie: x=y; login_ab12=z",
            "GET pattern.test/ | Cookie: login_=z",
            "GET pattern.test/ | X-Plain: abc",
            "GET pattern.test/ | X-Plain: abcd",
            "GET pattern.test/ | X-One: foo | X-Two: att",
            "GET pattern.test/ | X-One: foo",
        ],
        accepted: &[],
    },
    Sheet {
        directive: "matcher host",
        caddyfile: r#"
http://:PORT {
	@sub host sub.host.test
	@two host a.host.test b.host.test
	@star host *.star.test
	@address host 127.0.0.1
	respond @sub "sub {labels.2}"
	respond @two "one of two"
	respond @star "star"
	respond @address "address"
	respond "other {host}"
}
"#,
        requests: &[
            "GET sub.host.test/",
            "GET SUB.host.test/",
            "GET b.host.test/",
            "GET x.star.test/",
            "GET x.y.star.test/",
            "GET star.test/",
            "GET 127.0.0.1/",
            "GET sub.host.test:1234/",
            "GET sub.host.test./",
        ],
        accepted: &[],
    },
    Sheet {
        directive: "matcher method",
        caddyfile: r#"
http://method.test:PORT {
	@read method GET HEAD
	@write method POST put
	respond @read "read"
	respond @write "write"
	respond "other" 405
}
"#,
        requests: &[
            "GET method.test/",
            "HEAD method.test/",
            "POST method.test/ | body=x",
            "PUT method.test/ | body=x",
            "DELETE method.test/",
            "get method.test/",
        ],
        accepted: &[],
    },
    Sheet {
        directive: "matcher not",
        caddyfile: r#"
http://not.test:PORT {
	@css not path /css/* /js/*
	@neither {
		not path /api/*
		not method POST
	}
	@nor {
		not {
			path /both/*
			method POST
		}
	}
	header @css X-Not-Css yes
	header @neither X-Neither yes
	header @nor X-Nor yes
	respond "page"
}
"#,
        requests: &[
            "GET not.test/css/a",
            "GET not.test/x",
            "POST not.test/x | body=a",
            "GET not.test/api/x",
            "POST not.test/api/x | body=a",
            "GET not.test/both/x",
            "POST not.test/both/x | body=a",
        ],
        accepted: &[],
    },
    Sheet {
        directive: "matcher path",
        caddyfile: r#"
http://path.test:PORT {
	@exact path /exact
	@folder path /folder/*
	@end path *.php
	@part path */contained/*
	@glob path /g*b
	@many path /m1 /m2*
	@escaped path /esc%2Faped /bands/%*/x
	respond @exact "exact"
	respond @folder "folder"
	respond @end "end"
	respond @part "part"
	respond @glob "glob"
	respond @many "many"
	respond @escaped "escaped"
	respond /short* "short"
	respond "other"
}
"#,
        requests: &[
            "GET path.test/exact",
            "GET path.test/exact/",
            "GET path.test/Exact",
            "GET path.test/folder",
            "GET path.test/folder/",
            "GET path.test/folder/x/../../exact",
            "GET path.test/a/b.PHP",
            "GET path.test/x/contained/y",
            "GET path.test/goodb",
            "GET path.test/m2x",
            "GET path.test/esc%2Faped",
            "GET path.test/esc/aped",
            "GET path.test/bands/AC%2FDC/x",
            "GET path.test/shorter",
            "GET path.test//exact",
            "GET path.test/%65xact",
        ],
        accepted: &[],
    },
    Sheet {
        directive: "matcher path_regexp",
        caddyfile: r#"
http://regexp.test:PORT {
	@static path_regexp static \.([a-f0-9]{6})\.(css|js)$
	@lower path_regexp (?i)^/lower/(?P<name>[a-z]+)
	@plain path_regexp ^/plain/(.*)$
	respond @static "{re.static.0} {re.static.1} {re.static.2}"
	respond @lower "{re.lower.name} {re.lower.1}"
	rewrite @plain /was/{re.plain.1}
	respond "{path}"
}
"#,
        requests: &[
            "GET regexp.test/a.0123ab.css",
            "GET regexp.test/a.0123ag.css",
            "GET regexp.test/LOWER/Abc",
            "GET regexp.test/plain/x/y",
            "GET regexp.test/plain/a%20b",
            "GET regexp.test/plain/",
            "GET regexp.test/other",
        ],
        accepted: &[],
    },
    Sheet {
        directive: "matcher protocol",
        caddyfile: r#"
http://protocol.test:PORT {
	@plain protocol http
	@secure protocol https
	@grpc protocol grpc
	@one protocol http/1.1
	@later protocol http/1.0+
	@two protocol http/2
	header @plain X-Plain yes
	header @secure X-Secure yes
	header @grpc X-Grpc yes
	header @one X-One yes
	header @later X-Later yes
	header @two X-Two yes
	respond "page"
}
"#,
        requests: &[
            "GET protocol.test/",
            "POST protocol.test/ | Content-Type: application/grpc | body=x",
            "POST protocol.test/ | Content-Type: application/grpc+proto | body=x",
            "POST protocol.test/ | Content-Type: text/plain | body=x",
        ],
        accepted: &[],
    },
    Sheet {
        directive: "matcher query",
        caddyfile: r#"
http://query.test:PORT {
	@sort query sort=asc
	@any query q=*
	@two query a=1 b=2
	@either query c=1 c=2
	@empty query ""
	@placed query {query.name}=x
	respond @sort "sorted"
	respond @any "any"
	respond @two "two"
	respond @either "either"
	respond @placed "placed"
	respond @empty "empty"
	respond "other"
}
"#,
        requests: &[
            "GET query.test/?sort=asc",
            "GET query.test/?sort=desc",
            "GET query.test/?sort=desc&sort=asc",
            "GET query.test/?q",
            "GET query.test/?q=",
            "GET query.test/?a=1",
            "GET query.test/?a=1&b=2",
            "GET query.test/?c=2",
            "GET query.test/?name=k&k=x",
            "GET query.test/",
            "GET query.test/?",
            "GET query.test/?s%6Frt=asc",
            "GET query.test/?sort=asc;x=y",
        ],
        accepted: &[],
    },
    Sheet {
        directive: "matcher remote_ip",
        caddyfile: r#"
http://remote.test:PORT {
	@local remote_ip 127.0.0.1
	@private remote_ip private_ranges
	@other remote_ip 192.0.2.0/24 2001:db8::/32
	@outside not remote_ip 127.0.0.0/8
	header @local X-Local yes
	header @private X-Private yes
	header @other X-Other yes
	header @outside X-Outside yes
	respond "{remote_host}"
}
"#,
        requests: &[
            "GET remote.test/",
            "GET remote.test/ | X-Forwarded-For: 192.0.2.1",
        ],
        accepted: &[],
    },
    Sheet {
        directive: "matcher vars",
        caddyfile: r#"
http://vars.test:PORT {
	vars {
		kind {query.kind}
		number 5
		text "5"
	}
	@debug vars {query.debug} 1 true
	@kind vars {vars.kind} red green
	@plain vars kind blue
	@number vars number 5
	@path vars {path} /one /two
	header @debug X-Debug yes
	header @kind X-Kind yes
	header @plain X-Plain yes
	header @number X-Number yes
	header @path X-Path yes
	respond "page"
}
"#,
        requests: &[
            "GET vars.test/",
            "GET vars.test/?debug=true",
            "GET vars.test/?debug=TRUE",
            "GET vars.test/?kind=green",
            "GET vars.test/?kind=blue",
            "GET vars.test/two",
        ],
        accepted: &[],
    },
    Sheet {
        directive: "matcher vars_regexp",
        caddyfile: r#"
http://varsre.test:PORT {
	vars magic {query.m}
	@magic vars_regexp magic {vars.magic} ^([a-z]+)-([0-9]+)$
	@name vars_regexp magic (x+)
	@agent vars_regexp a {header.User-Agent} (?i)(bot|spider)
	respond @magic "{re.magic.2} {re.magic.1}"
	respond @name "name {re.name.1} {re.1}"
	respond @agent "agent {re.a.1}"
	respond "other"
}
"#,
        requests: &[
            "GET varsre.test/?m=abc-12",
            "GET varsre.test/?m=abc12",
            "GET varsre.test/?m=AxxB",
            "GET varsre.test/ | User-Agent: BadBOT",
        ],
        accepted: &[],
    },
    Sheet {
        directive: "matcher url_pattern",
        caddyfile: r#"
http://pattern2.test:PORT {
	@book url_pattern /books/:id
	@deep url_pattern /deep/*/end
	@number url_pattern "/n/:n(\\d+)"
	@maybe url_pattern /maybe/:a?
	respond @book "book {http.matchers.url_pattern.pathname.id}"
	respond @deep "deep {http.matchers.url_pattern.pathname.0}"
	respond @number "number {http.matchers.url_pattern.pathname.n}"
	respond @maybe "maybe {http.matchers.url_pattern.pathname.a}"
	respond "other"
}
"#,
        requests: &[
            "GET pattern2.test/books/7",
            "GET pattern2.test/books/",
            "GET pattern2.test/books/7/x",
            "GET pattern2.test/deep/a/b/end",
            "GET pattern2.test/n/12",
            "GET pattern2.test/n/x",
            "GET pattern2.test/maybe",
            "GET pattern2.test/maybe/a",
        ],
        accepted: &[],
    },
];
