//! Directives that respond by themselves: `respond`, `error`, `abort`, `redir`.

use sluice_model::handler::{StaticError, StaticResponse};
use sluice_model::{Handler, WeakString};

use super::{Outcomes, escape_html};
use crate::lower::Lowering;
use crate::tree::{Directive, Token};

impl Lowering<'_> {
    pub(super) fn respond(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.between(line, args, 1, 2)?;
            let mut response = StaticResponse::default();
            match args {
                [only] if is_status(only) => response.status_code = only.text.as_str().into(),
                [body] => response.body.clone_from(&body.text),
                [body, status] => {
                    response.body.clone_from(&body.text);
                    response.status_code = this.status(status)?;
                }
                _ => {}
            }
            this.each(line.lines(), |this, option| {
                match option.name.text.as_str() {
                    "body" if !response.body.is_empty() => return this.duplicate(option),
                    "body" => response.body = this.single_text(option)?,
                    "close" if response.close => return this.duplicate(option),
                    "close" => {
                        this.flag(option)?;
                        response.close = true;
                    }
                    _ => return this.unknown_option(option),
                }
                Some(())
            })?;
            Some(Handler::StaticResponse(response))
        })
    }

    pub(super) fn error(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.between(line, args, 1, 2)?;
            let mut error = StaticError::default();
            match args {
                [only] if is_status(only) => error.status_code = only.text.as_str().into(),
                [message] => error.error.clone_from(&message.text),
                [message, status] => {
                    error.error.clone_from(&message.text);
                    error.status_code = this.status(status)?;
                }
                _ => {}
            }
            this.each(line.lines(), |this, option| {
                match option.name.text.as_str() {
                    "message" if !error.error.is_empty() => return this.duplicate(option),
                    "message" => error.error = this.single_text(option)?,
                    _ => return this.unknown_option(option),
                }
                Some(())
            })?;
            Some(Handler::Error(error))
        })
    }

    pub(super) fn abort(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.no_block(line)?;
            this.between(line, args, 0, 0)?;
            Some(Handler::StaticResponse(StaticResponse {
                abort: true,
                ..StaticResponse::default()
            }))
        })
    }

    pub(super) fn redir(&mut self, line: &Directive) -> Outcomes {
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

    /// A status code, or a placeholder for one.
    pub(super) fn status(&mut self, word: &Token) -> Option<WeakString> {
        let fits = word.text.parse::<u16>().is_ok_and(|code| code <= 999);
        if fits || word.text.contains('{') {
            return Some(word.text.as_str().into());
        }
        let title = format!("invalid status `{}`{}", word.text, self.about());
        let diagnostic = word.error("invalid-status", title, "not a status code");
        self.refuse(diagnostic.help("quote the text if it has several words"))
    }
}

/// Three digits alone are a status and no text.
fn is_status(word: &Token) -> bool {
    word.text.len() == 3 && word.text.parse::<u16>().is_ok_and(|code| code > 0)
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
