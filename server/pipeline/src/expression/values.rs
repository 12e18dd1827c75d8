//! Evaluates the parts of an expression other than matchers and simple comparisons with the crate `cel`. Compilation
//! replaces placeholders, matchers and regular expressions, so that nothing is parsed per request.

use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue,
};
use cel::common::types::{
    self, CelBool, CelDouble, CelInt, CelNull, CelString, DYN_TYPE, STRING_TYPE, Type,
};
use cel::common::value::{CowVal, StaticVal, Val};
use cel::context::VariableResolver;
use cel::parser::Macro;
use cel::{Context, Env, ExecutionError, Value, extensions};
use sluice_message::layout::LocalTime;
use sluice_route::matcher::{Input, Refusal};
use sluice_route::regexp::Regexp;
use sluice_route::{Found, Key, Kind, Matcher};

use super::calls::{self, literal_text, placeholder_key};
use super::failure::failed;
use super::limits::{EXPRESSION_STEPS_MAX, EXPRESSION_TEXT_BYTES_MAX};
use super::text_test::pattern;
use super::{Fault, Place};

/// An expression with variables in place of its placeholders, matchers and regular expressions.
#[derive(Debug)]
pub(super) struct Rest {
    expr: IdedExpr,
    placeholders: Vec<Key>,
    matchers: Vec<Matcher>,
    patterns: Vec<Pattern>,
}

/// Prefixes of our variables; no identifier in an expression starts with `@`.
const PLACEHOLDER: &str = "@placeholder";
const MATCHER: &str = "@matcher";
const PATTERN: &str = "@pattern";
const BUDGET: &str = "@budget";
/// Our functions.
const COUNTED: &str = "@counted";
const MATCHES: &str = "@matches";
const REPLACE: &str = "@replace";

/// The functions and macros available in expressions.
pub(super) fn env() -> &'static Arc<Env> {
    static ENV: OnceLock<Arc<Env>> = OnceLock::new();
    ENV.get_or_init(|| {
        let mut env = Env::stdlib().with_optional_support(false);
        let any = || DYN_TYPE.to_owned();
        let text = || STRING_TYPE.to_owned();
        let declared = env
            .add_extension(extensions::strings)
            .and_then(|()| env.add_extension(extensions::lists))
            .and_then(|()| env.add_extension(extensions::math))
            .and_then(|()| env.add_overload(COUNTED, COUNTED, vec![any(), any()], counted))
            .and_then(|()| env.add_overload(MATCHES, MATCHES, vec![text(), any()], matches))
            .and_then(|()| {
                let types = vec![any(), text(), text(), text()];
                env.add_overload(REPLACE, REPLACE, types, replace)
            })
            .and_then(|()| env.add_macro(Macro::receiver("bind", 3, bind)));
        declared.expect("no function or macro is declared twice");
        Arc::new(env)
    })
}

impl Rest {
    pub(super) fn compile(mut expr: IdedExpr, name: &str) -> Result<Rest, Fault> {
        let mut taken = Taken {
            name,
            placeholders: Vec::new(),
            matchers: Vec::new(),
            patterns: Vec::new(),
        };
        taken.take_from(&mut expr)?;
        let Taken {
            placeholders,
            matchers,
            patterns,
            ..
        } = taken;
        Ok(Rest {
            expr,
            placeholders,
            matchers,
            patterns,
        })
    }

    pub(super) fn matches(&self, input: &Input<'_>) -> Result<bool, Refusal> {
        let mut matched = Vec::with_capacity(self.matchers.len());
        for matcher in &self.matchers {
            matched.push(CelBool::from(matcher.matches(input)?));
        }
        let variables = Variables {
            placeholders: self
                .placeholders
                .iter()
                .map(|key| value(key, input))
                .collect(),
            matched,
            patterns: &self.patterns,
            budget: Budget(AtomicUsize::new(EXPRESSION_STEPS_MAX)),
        };
        let mut context = Context::with_env(Arc::clone(env()));
        context.set_variable_resolver(&variables);
        let result = Value::resolve_val(&self.expr, &context).map_err(failed)?;
        match result.downcast_ref::<CelBool>() {
            Some(result) => Ok(*result.inner()),
            None => Err(failed("its value is neither true nor false")),
        }
    }

    pub(super) fn leaves_traces(&self) -> bool {
        self.matchers.iter().any(Matcher::leaves_traces)
    }
}

/// The parts extracted from an expression.
struct Taken<'a> {
    name: &'a str,
    placeholders: Vec<Key>,
    matchers: Vec<Matcher>,
    patterns: Vec<Pattern>,
}

impl Taken<'_> {
    fn take_from(&mut self, expr: &mut IdedExpr) -> Result<(), Fault> {
        if let Some(key) = placeholder_key(expr) {
            expr.expr = self.placeholder(key);
            return Ok(());
        }
        match &mut expr.expr {
            Expr::Call(call) if calls::is_matcher(call).is_some() => {
                let matcher = calls::matcher(expr.id, call, self.name)?;
                expr.expr = variable(MATCHER, self.matchers.len());
                self.matchers.push(matcher);
                Ok(())
            }
            Expr::Call(call) => self.take_from_call(expr.id, call),
            Expr::Comprehension(loops) => self.take_from_loop(loops),
            Expr::List(list) => list.elements.iter_mut().try_for_each(|e| self.take_from(e)),
            Expr::Map(map) => map
                .entries
                .iter_mut()
                .try_for_each(|entry| match &mut entry.expr {
                    EntryExpr::MapEntry(entry) => {
                        self.take_from(&mut entry.key)?;
                        self.take_from(&mut entry.value)
                    }
                    EntryExpr::StructField(_) => Ok(()),
                }),
            Expr::Select(select) => self.take_from(&mut select.operand),
            Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => Ok(()),
        }
    }

    fn take_from_call(&mut self, id: u64, call: &mut CallExpr) -> Result<(), Fault> {
        if let Some(target) = &mut call.target {
            self.take_from(target)?;
        }
        call.args
            .iter_mut()
            .try_for_each(|arg| self.take_from(arg))?;
        let count = call.args.len() + usize::from(call.target.is_some());
        match (call.func_name.as_str(), count) {
            ("matches", 2) => {
                let wanted = call.args.pop().expect("the pattern is the last argument");
                let Some(text) = literal_text(&wanted) else {
                    let message = "the pattern of `matches` is not constant";
                    let help =
                        "write the pattern in quotes; one from a request could cost anything";
                    return Err(Fault::new(Place::Of(wanted.id), message).with_help(help));
                };
                let regexp = pattern(text).map_err(|why| Fault::new(Place::Of(wanted.id), why))?;
                let number = variable(PATTERN, self.patterns.len());
                self.patterns.push(Pattern(regexp));
                let args = call.target.take().map(|target| *target).into_iter();
                let args = args.chain(call.args.drain(..)).collect::<Vec<_>>();
                call.func_name = MATCHES.to_owned();
                call.args = args;
                call.args.push(IdedExpr { id, expr: number });
            }
            ("replace", 3) => {
                if let Some(target) = call.target.take() {
                    call.args.insert(0, *target);
                    call.args.insert(0, ident(id, BUDGET));
                    call.func_name = REPLACE.to_owned();
                }
            }
            ("range", _) => {
                let count = call.args.first().map(|count| &count.expr);
                let small = matches!(count, Some(Expr::Literal(LiteralValue::Int(count)))
                    if usize::try_from(*count.inner()).is_ok_and(|n| n <= EXPRESSION_STEPS_MAX));
                if !small {
                    let message =
                        format!("`lists.range` takes a number up to {EXPRESSION_STEPS_MAX}");
                    return Err(Fault::new(Place::Of(id), message));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Makes a loop pay for each element that it iterates over.
    fn take_from_loop(&mut self, loops: &mut ComprehensionExpr) -> Result<(), Fault> {
        let parts = [
            &mut loops.iter_range,
            &mut loops.accu_init,
            &mut loops.loop_cond,
            &mut loops.loop_step,
            &mut loops.result,
        ];
        parts
            .into_iter()
            .try_for_each(|part| self.take_from(part))?;
        if matches!(&loops.iter_range.expr, Expr::List(list) if list.elements.is_empty()) {
            return Ok(());
        }
        let range = std::mem::take(&mut loops.iter_range);
        let id = range.id;
        let call = CallExpr {
            func_name: COUNTED.to_owned(),
            target: None,
            args: vec![range, ident(id, BUDGET)],
        };
        loops.iter_range = IdedExpr {
            id,
            expr: Expr::Call(call),
        };
        Ok(())
    }

    /// Replaces a placeholder by a variable. Times become strings, which CEL's functions can parse.
    fn placeholder(&mut self, key: Key) -> Expr {
        let reads = match key.kind() {
            Kind::Moment => Some("timestamp"),
            Kind::Duration => Some("duration"),
            Kind::Text | Kind::Integer | Kind::Float | Kind::Flag | Kind::Null => None,
        };
        let known = self.placeholders.iter().position(|known| *known == key);
        let at = known.unwrap_or_else(|| {
            self.placeholders.push(key);
            self.placeholders.len() - 1
        });
        let variable = variable(PLACEHOLDER, at);
        match reads {
            None => variable,
            Some(function) => Expr::Call(CallExpr {
                func_name: function.to_owned(),
                target: None,
                args: vec![IdedExpr {
                    id: 0,
                    expr: variable,
                }],
            }),
        }
    }
}

fn variable(of: &str, number: usize) -> Expr {
    Expr::Ident(format!("{of}{number}"))
}

fn ident(id: u64, name: &str) -> IdedExpr {
    IdedExpr {
        id,
        expr: Expr::Ident(name.to_owned()),
    }
}

/// The variables of one evaluation.
struct Variables<'a> {
    placeholders: Vec<Box<dyn Val>>,
    matched: Vec<CelBool>,
    patterns: &'a [Pattern],
    budget: Budget,
}

impl VariableResolver for Variables<'_> {
    fn resolve<'b>(&'b self, name: &str) -> Option<CowVal<'b, 'b>> {
        let number = |of: &str| name.strip_prefix(of)?.parse::<usize>().ok();
        if !name.starts_with('@') {
            return None;
        }
        if name == BUDGET {
            return Some(CowVal::Borrowed(&self.budget));
        }
        if let Some(at) = number(PLACEHOLDER) {
            return Some(CowVal::Borrowed(&**self.placeholders.get(at)?));
        }
        if let Some(at) = number(MATCHER) {
            return Some(CowVal::Borrowed(self.matched.get(at)?));
        }
        Some(CowVal::Borrowed(self.patterns.get(number(PATTERN)?)?))
    }
}

/// The value of a placeholder. Invalid UTF-8 is replaced by replacement characters.
fn value(key: &Key, input: &Input<'_>) -> Box<dyn Val> {
    input.scratch.with_buf(|buf| -> Box<dyn Val> {
        if input.values.value(key, buf) == Found::Unknown {
            return Box::new(CelNull);
        }
        let text = String::from_utf8_lossy(buf);
        match input.values.kind(key) {
            Kind::Null => Box::new(CelNull),
            Kind::Integer => number(text.parse::<i64>().map(CelInt::from)),
            Kind::Float => number(text.parse::<f64>().map(CelDouble::from)),
            Kind::Flag => Box::new(CelBool::from(text == "true")),
            Kind::Moment => Box::new(CelString::from(now())),
            Kind::Text | Kind::Duration => Box::new(CelString::from(text.into_owned())),
        }
    })
}

fn number<V: Val + 'static, E>(parsed: Result<V, E>) -> Box<dyn Val> {
    match parsed {
        Ok(value) => Box::new(value),
        Err(_) => Box::new(CelNull),
    }
}

/// The current time in RFC 3339 format, which CEL parses.
fn now() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let since = since.unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    let time = LocalTime::utc(seconds, since.subsec_nanos());
    let mut out = Vec::new();
    time.push("2006-01-02T15:04:05.000000000Z07:00", &mut out);
    String::from_utf8(out).expect("layouts give text")
}

/// The remaining number of loop iterations.
#[derive(Debug)]
struct Budget(AtomicUsize);

/// A precompiled regular expression.
#[derive(Clone, Debug)]
struct Pattern(Regexp);

static OURS: Type = Type::new_unspecified_type("sluice");

macro_rules! opaque {
    ($type:ty, $clone:expr) => {
        impl Val for $type {
            fn get_type(&self) -> &Type {
                &OURS
            }

            fn cel_type() -> &'static Type {
                &OURS
            }

            fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
            where
                Self: 'v,
            {
                let clone: fn(&$type) -> $type = $clone;
                Box::new(clone(self))
            }

            fn as_any(&self) -> Option<&dyn Any> {
                Some(self)
            }
        }

        impl StaticVal for $type {}
    };
}

opaque!(Budget, |budget| Budget(AtomicUsize::new(
    budget.0.load(Ordering::Relaxed)
)));
opaque!(Pattern, |pattern| pattern.clone());

fn spend(budget: &CowVal<'_, '_>, steps: usize) -> Result<(), ExecutionError> {
    let left = budget.downcast_ref::<Budget>().and_then(|budget| {
        let spent = |left: usize| left.checked_sub(steps);
        budget
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, spent)
            .ok()
    });
    match left {
        Some(_) => Ok(()),
        None => Err(ExecutionError::function_error(
            "loop",
            format!("more than {EXPRESSION_STEPS_MAX} steps"),
        )),
    }
}

/// `@counted(range, @budget)`: returns the range and deducts its length from the budget.
fn counted<'b, 'v>(mut args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let budget = args.pop().expect("two arguments were declared");
    let range = args.pop().expect("two arguments were declared");
    let size = range.as_sizer().map_or(0, |sizer| *sizer.size().inner());
    spend(&budget, usize::try_from(size).unwrap_or(usize::MAX))?;
    Ok(range)
}

/// `@matches(text, @pattern0)`
fn matches<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let text = args[0].downcast_ref::<CelString<'_>>();
    let pattern = args[1].downcast_ref::<Pattern>();
    let found = text
        .zip(pattern)
        .is_some_and(|(text, pattern)| pattern.0.is_match(text.inner().as_bytes()));
    Ok(CowVal::owned(CelBool::from(found)))
}

/// `@replace(@budget, text, old, new)`: like `text.replace(old, new)`, with a maximum length.
fn replace<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let text = |at: usize| {
        let text = args[at].downcast_ref::<CelString<'_>>();
        text.map(|text| text.inner()).unwrap_or_default()
    };
    let (text, old, new) = (text(1), text(2), text(3));
    let most = text.len() + (text.len() + 1).saturating_mul(new.len());
    let count = || text.matches(old).count();
    if most > EXPRESSION_TEXT_BYTES_MAX
        && text.len() + count().saturating_mul(new.len()) > EXPRESSION_TEXT_BYTES_MAX
    {
        let why = format!("the text would have more than {EXPRESSION_TEXT_BYTES_MAX} bytes");
        return Err(ExecutionError::function_error("replace", why));
    }
    Ok(CowVal::owned(CelString::from(text.replace(old, new))))
}

/// `cel.bind(name, value, expression)`: a loop over an empty list with the value as accumulator.
fn bind(
    helper: &mut cel::parser::MacroExprHelper<'_>,
    target: &mut Option<IdedExpr>,
    args: &mut Vec<IdedExpr>,
) -> Result<Option<IdedExpr>, cel::ParseError> {
    let is_cel =
        matches!(target.as_ref().map(|t| &t.expr), Some(Expr::Ident(name)) if name == "cel");
    if !is_cel {
        return Ok(None);
    }
    let Expr::Ident(name) = args[0].expr.clone() else {
        return Err(helper.new_error(args[0].id, "`cel.bind` binds a plain name"));
    };
    let result = args.pop().expect("the macro has three arguments");
    let value = args.pop().expect("the macro has three arguments");
    let no = types::CelBool::from(false);
    let bound = ComprehensionExpr {
        iter_range: helper.next_expr(Expr::List(ListExpr::new(Vec::new()))),
        iter_var: "@unused".to_owned(),
        iter_var2: None,
        accu_init: value,
        loop_cond: helper.next_expr(Expr::Literal(LiteralValue::Boolean(no))),
        loop_step: helper.next_expr(Expr::Ident(name.clone())),
        accu_var: name,
        result,
    };
    Ok(Some(helper.next_expr(Expr::Comprehension(Box::new(bound)))))
}
