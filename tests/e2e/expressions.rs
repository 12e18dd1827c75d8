//! The matcher `expression` in a complete server: its forms, its errors, and failing evaluation.

use crate::harness::{Folder, Server, run_to_end, text};

#[test]
fn expressions_choose_routes_in_every_form() {
    let server = Server::start(
        "{\n\tadmin off\n}\n:{port} {\n\
         \t@word expression path('/word*')\n\trespond @word \"word\"\n\
         \t@words expression {method} == \"GET\" && {query.a} in ['1', '2']\n\trespond @words \"words {query.a}\"\n\
         \t@short `path_regexp('^/u/([a-z]+)$')`\n\trespond @short \"short {re.short.1}\"\n\
         \t@block {\n\t\tpath /block*\n\t\texpression `{query.b} != ''`\n\t}\n\trespond @block \"block\"\n\
         \trespond \"none\"\n}\n",
    );
    for (path, body) in [
        ("/word/1", "word"),
        ("/?a=1", "words 1"),
        ("/?a=3", "none"),
        ("/u/ada", "short ada"),
        ("/u/Ada", "none"),
        ("/block?b=1", "block"),
        ("/block", "none"),
    ] {
        assert_eq!(server.ask(path).text(), body, "{path}");
    }
}

#[test]
fn an_expression_that_cannot_be_evaluated_is_an_error_of_the_server() {
    let server = Server::start(
        "{\n\tadmin off\n}\n:{port} {\n\
         \t@big `int({query.n}) > 5`\n\trespond @big \"big\"\n\trespond \"small\"\n\
         \thandle_errors {\n\t\trespond \"failed {err.status_code}\"\n\t}\n}\n",
    );
    assert_eq!(server.ask("/?n=6").text(), "big");
    assert_eq!(server.ask("/?n=4").text(), "small");
    let failed = server.ask("/?n=many");
    assert_eq!((failed.status, failed.text().as_str()), (500, "failed 500"));
    server.wait_for_words("evaluating an expression");
}

#[test]
fn mistakes_are_reported_at_their_position() {
    let folder = Folder::new();
    folder.write(
        "Caddyfile",
        ":80 {\n\t@a `{method} == 1 + 'x'`\n\t@b expression  {path} ==\n\t@c `pth('/a')`\n\
         \trespond @a \"a\"\n\trespond @b \"b\"\n\trespond @c \"c\"\n}\n",
    );
    for command in ["validate", "run"] {
        let output = run_to_end(&folder, &[command, "--message-format", "short"]);
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output.stderr);
        let lines: Vec<_> = said.lines().collect();
        assert_eq!(
            lines,
            [
                "Caddyfile:2:20: error[invalid-expression]: `+` does not take (int, string)",
                "Caddyfile:3:26: error[invalid-expression]: Syntax error: mismatched input 'the end'",
                "Caddyfile:4:9: error[invalid-expression]: unknown function `pth`",
            ],
            "{command}"
        );
    }
}

#[test]
fn json_may_write_an_expression_as_a_text_or_an_object() {
    let folder = Folder::new();
    let server = |matcher: &str| {
        format!(
            r#"{{"admin":{{"disabled":true}},"apps":{{"http":{{"servers":{{"a":{{"listen":[":1"],"routes":[
            {{"match":[{{"expression":{matcher}}}],"handle":[{{"handler":"static_response","body":"x"}}]}}]}}}}}}}}}}"#
        )
    };
    for (matcher, code) in [
        (r#""{http.request.method} == 'GET'""#, 0),
        (r#"{"expr":"path('/a')","name":"x"}"#, 0),
        (r#""{http.request.method}""#, 1),
        (r#"{"expr":"path(","name":"x"}"#, 1),
    ] {
        folder.write("config.json", server(matcher));
        let output = run_to_end(&folder, &["validate", "--config", "config.json"]);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{matcher}: {}",
            text(&output.stderr)
        );
    }
}
