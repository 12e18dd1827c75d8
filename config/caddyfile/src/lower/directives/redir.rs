//! `redir`: redirects.

use std::borrow::Cow;

use sluice_model::Handler;
use sluice_model::handler::StaticResponse;

use crate::lower::Lowering;
use crate::lower::definition::{Definition, directive};
use crate::lower::outcome::Outcomes;
use crate::tree::{Directive, Token};

/// `redir`.
pub(super) static REDIR: Definition =
    directive("redir", "redir [<matcher>] <to> [<code>]", |cx, line| {
        cx.redir(line)
    });

impl Lowering<'_> {
    fn redir(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.no_block(line)?;
            this.between(line, args, 1, 2)?;
            let to = args[0].text.clone();
            let mut response = StaticResponse {
                status_code: 302.into(),
                ..Default::default()
            };
            match args.get(1).map(|code| (code, code.text.as_str())) {
                None | Some((_, "temporary")) => {}
                Some((_, "permanent")) => response.status_code = 301.into(),
                Some((_, "html")) => return Some(html_redirect(&to)),
                Some((code, text)) => {
                    if !text.starts_with('{') {
                        this.redirect_code(code)?;
                    }
                    response.status_code = text.into();
                }
            }
            response.headers.insert("Location".into(), vec![to]);
            Some(Handler::StaticResponse(response))
        })
    }

    fn redirect_code(&mut self, word: &Token) -> Option<()> {
        match word.text.parse::<u16>() {
            Ok(300..=399 | 401) => Some(()),
            _ => {
                let title = format!("invalid redirect code `{}`", word.text);
                let label = "neither a code from 300 to 399 nor a known word";
                self.refuse(
                    word.error("invalid-status", title, label)
                        .help("write `permanent`, `temporary`, `html` or a code such as `308`"),
                )
            }
        }
    }
}

/// A page that leads on, for clients that do not follow redirects.
fn html_redirect(to: &str) -> Handler {
    let to = escape_html(to);
    let body = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"refresh\" content=\"0; url='{to}'\">\n<title>Moved</title>\n\
         <p>This page is at <a href=\"{to}\">{to}</a>.</p>\n</html>\n"
    );
    let mut response = StaticResponse {
        status_code: 200.into(),
        body,
        ..StaticResponse::default()
    };
    response.headers.insert(
        "Content-Type".into(),
        vec!["text/html; charset=utf-8".into()],
    );
    Handler::StaticResponse(response)
}

/// A body or target in which text of the configuration stands inside HTML.
fn escape_html(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>', '"', '\'']) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
    Cow::Owned(out)
}
