//! `intercept`, and the options of `reverse_proxy` that replace responses.

use std::collections::BTreeMap;

use sluice_model::Handler;
use sluice_model::handler::{Intercept, ResponseHandler};
use sluice_model::matcher::ResponseMatcher;

use crate::lower::Lowering;
use crate::lower::definition::Read::Elsewhere;
use crate::lower::definition::{Block, Definition, Options, directive, option};
use crate::lower::outcome::Outcomes;
use crate::lower::routes::Sorting;
use crate::tree::{Directive, Token};

/// Named response matchers of one block.
type Named = BTreeMap<String, ResponseMatcher>;

/// `intercept`.
pub(super) static INTERCEPT: Definition =
    directive("intercept", "intercept [<matcher>] { … }", |cx, line| {
        cx.intercept(line)
    })
    .with(&OPTIONS);

/// The options; `response_handlers` reads them, since they go together and matchers stand between them.
static OPTIONS: Options<()> = Options::new(
    "intercept",
    &[
        option(
            "replace_status",
            "replace_status [<response_matcher>] <code>",
            Elsewhere,
        ),
        option::<()>(
            "handle_response",
            "handle_response [<response_matcher>] { <directives...> }",
            Elsewhere,
        )
        .holding(Block::Directives),
    ],
);

impl Lowering<'_> {
    fn intercept(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.exact::<0>(line, args)?;
            let mut rest = line
                .lines()
                .iter()
                .filter(|option| !is_response_line(option));
            if let Some(option) = rest.next() {
                return this.unknown_option(option);
            }
            let handle_response = this.response_handlers(line.lines())?;
            Some(Handler::Intercept(Intercept { handle_response }))
        })
    }

    /// Reads the named response matchers, `replace_status` and `handle_response` among some lines.
    /// Replaced statuses come before handled responses, and those with a matcher before those
    /// without.
    pub(super) fn response_handlers(
        &mut self,
        lines: &[Directive],
    ) -> Option<Vec<ResponseHandler>> {
        let mut named = Named::new();
        for line in lines.iter().filter(|line| line.name.text.starts_with('@')) {
            let matcher = self.response_matcher(line)?;
            if named.insert(line.name.text.clone(), matcher).is_some() {
                let title = format!("matcher `{}` is defined twice", line.name.text);
                return self.refuse(line.name.error(
                    "duplicate-matcher",
                    title,
                    "second definition",
                ));
            }
        }
        let mut replaced = Vec::new();
        let mut handled = Vec::new();
        for line in lines {
            match line.name.text.as_str() {
                "replace_status" => replaced.push(self.replace_status(line, &named)?),
                "handle_response" => handled.push(self.handle_response(line, &named)?),
                _ => {}
            }
        }
        replaced.append(&mut handled);
        replaced.sort_by_key(|handler: &ResponseHandler| handler.r#match.is_none());
        Some(replaced)
    }

    fn replace_status(&mut self, line: &Directive, named: &Named) -> Option<ResponseHandler> {
        self.no_block(line)?;
        self.between(line, &line.args, 1, 2)?;
        let (matcher, status) = match line.args.as_slice() {
            [status] => (None, status),
            args => (Some(self.named_response(&args[0], named)?), &args[1]),
        };
        let status_code = self.status(status)?;
        Some(ResponseHandler {
            r#match: matcher,
            status_code,
            ..ResponseHandler::default()
        })
    }

    fn handle_response(&mut self, line: &Directive, named: &Named) -> Option<ResponseHandler> {
        self.between(line, &line.args, 0, 1)?;
        let matcher = match line.args.first() {
            Some(word) => Some(self.named_response(word, named)?),
            None => None,
        };
        let routes = self.block_routes(line.lines(), Sorting::ByOrder);
        Some(ResponseHandler {
            r#match: matcher,
            routes,
            ..ResponseHandler::default()
        })
    }

    fn named_response(&mut self, word: &Token, named: &Named) -> Option<ResponseMatcher> {
        if let Some(matcher) = named.get(&word.text) {
            return Some(matcher.clone());
        }
        let title = format!("undefined response matcher `{}`", word.text);
        let guess = sluice_diag::closest(&word.text, named.keys().map(String::as_str));
        let diagnostic = word
            .error("undefined-matcher", title, "not defined in this block")
            .did_you_mean(guess)
            .help("define it in this block: `@name status 404`");
        self.refuse(diagnostic)
    }
}

/// Whether a line belongs to the replacing of responses.
pub(super) fn is_response_line(line: &Directive) -> bool {
    line.name.text.starts_with('@')
        || matches!(
            line.name.text.as_str(),
            "replace_status" | "handle_response"
        )
}
