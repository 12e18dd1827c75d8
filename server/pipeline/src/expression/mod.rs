//! The `expression` matcher: CEL conditions, compiled when the configuration is built. Matchers called in an expression
//! are those of `sluice-route`; the configuration formats decide where expressions may appear.

mod calls;
mod failure;
mod functions;
pub mod limits;
mod node;
mod report;
mod source;
#[cfg(test)]
mod tests;
mod text_test;
mod types;
mod value_type;
mod values;

use sluice_model::matcher::Expression;
use sluice_route::Matcher;

pub use report::report;
pub use source::placeholder_names;

use node::Node;
use source::Source;
use value_type::Type;

use limits::EXPRESSION_BYTES_MAX;

/// An error in an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The byte offset in the text.
    pub at: usize,
    /// What is wrong.
    pub message: String,
    /// How to fix it; empty if that is obvious.
    pub help: String,
}

/// Compiles an expression to matchers that all have to match.
pub fn compile(config: &Expression) -> Result<Vec<Matcher>, Mistake> {
    tree(config).map(Node::lower)
}

/// Checks an expression for errors.
pub fn check(text: &str) -> Result<(), Mistake> {
    let config = Expression {
        expr: text.to_owned(),
        name: String::new(),
    };
    tree(&config).map(|_| ())
}

fn tree(config: &Expression) -> Result<Node, Mistake> {
    if config.expr.len() > EXPRESSION_BYTES_MAX {
        let message = format!("an expression of more than {EXPRESSION_BYTES_MAX} bytes");
        return Err(Mistake {
            at: 0,
            message,
            help: String::new(),
        });
    }
    let source = Source::new(&config.expr);
    let parsed = values::env().parser().parse_with_source_info(&source.text);
    let (expr, info) = parsed.map_err(|errors| syntax_mistake(&source, &errors))?;
    let compiled = types::infer(&expr).and_then(|found| match found {
        Type::Bool => Node::compile(expr, &config.name),
        other => {
            let message = format!("the expression gives a {}, not true or false", other.name());
            let help = "compare it, as in `{method} == 'GET'`";
            Err(Fault::new(Place::Whole, message).with_help(help))
        }
    });
    compiled.map_err(|fault| {
        let start = match fault.place {
            Place::Whole => None,
            Place::Of(id) => info.offset_for(id).map(|(start, _)| start as usize),
        };
        let at = start.map_or(0, |start| {
            source.original_place(source.offset_of_character(start))
        });
        Mistake {
            at,
            message: fault.message,
            help: fault.help,
        }
    })
}

/// The first syntax error.
fn syntax_mistake(source: &Source, errors: &cel::ParseErrors) -> Mistake {
    let Some(first) = errors.errors.first() else {
        let message = "it cannot be read".to_owned();
        return Mistake {
            at: 0,
            message,
            help: String::new(),
        };
    };
    let (line, column) = first.pos;
    let count = |number: isize| usize::try_from(number - 1).unwrap_or(0);
    let before: usize = source
        .text
        .split_inclusive('\n')
        .take(count(line))
        .map(str::len)
        .sum();
    let rest = &source.text[before..];
    let within = rest
        .char_indices()
        .nth(count(column))
        .map_or(rest.len(), |(at, _)| at);
    // Cut off the parser's list of expected tokens, which is long and does not help.
    let message = first.msg.split(" expecting ").next().unwrap_or_default();
    Mistake {
        at: source.original_place(before + within),
        message: message.replace("<EOF>", "the end"),
        help: String::new(),
    }
}

/// An error in a parsed expression.
#[derive(Debug)]
struct Fault {
    place: Place,
    message: String,
    help: String,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Whole,
    /// The node with this ID.
    Of(u64),
}

impl Fault {
    fn new(place: Place, message: impl Into<String>) -> Fault {
        Fault {
            place,
            message: message.into(),
            help: String::new(),
        }
    }

    fn with_help(mut self, help: impl Into<String>) -> Fault {
        self.help = help.into();
        self
    }
}
