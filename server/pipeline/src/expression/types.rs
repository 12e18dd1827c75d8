//! Type inference for expressions: finds type errors when the configuration is built. The crate `cel` implements the
//! functions; `calls` compiles matchers.

use cel::common::ast::{ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};

use super::calls;
use super::functions::{FUNCTIONS, Function, TYPE_NAMES};
use super::limits::{EXPRESSION_DEPTH_MAX, EXPRESSION_LOOPS_MAX};
use super::source::{PLACEHOLDER_FUNCTION, REQUEST};
use super::value_type::Type;
use super::{Fault, Place};

/// Infers the type of an expression.
pub(super) fn infer(expr: &IdedExpr) -> Result<Type, Fault> {
    let mut inference = Inference::default();
    inference.of(expr)
}

#[derive(Default)]
struct Inference {
    /// Variables of enclosing loops, innermost last.
    scope: Vec<(String, Type)>,
    depth: usize,
    loops: usize,
}

impl Inference {
    fn of(&mut self, expr: &IdedExpr) -> Result<Type, Fault> {
        if self.depth >= EXPRESSION_DEPTH_MAX {
            let message = format!("nested deeper than {EXPRESSION_DEPTH_MAX} levels");
            return Err(Fault::new(Place::Of(expr.id), message));
        }
        self.depth += 1;
        let found = self.of_kind(expr);
        self.depth -= 1;
        found
    }

    fn of_kind(&mut self, expr: &IdedExpr) -> Result<Type, Fault> {
        match &expr.expr {
            Expr::Literal(literal) => Ok(match literal {
                LiteralValue::Boolean(_) => Type::Bool,
                LiteralValue::Bytes(_) => Type::Bytes,
                LiteralValue::Double(_) => Type::Double,
                LiteralValue::Int(_) => Type::Int,
                LiteralValue::Null => Type::Null,
                LiteralValue::String(_) => Type::String,
                LiteralValue::UInt(_) => Type::Uint,
            }),
            Expr::Ident(name) => self.variable(expr.id, name),
            Expr::List(list) => {
                for element in &list.elements {
                    self.of(element)?;
                }
                Ok(Type::List)
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        self.of(&entry.key)?;
                        self.of(&entry.value)?;
                    }
                }
                Ok(Type::Map)
            }
            Expr::Select(select) => {
                let operand = self.of(&select.operand)?;
                if !operand.fits(Type::Map) {
                    let message = format!("a {} has no fields", operand.name());
                    return Err(Fault::new(Place::Of(expr.id), message));
                }
                Ok(if select.test { Type::Bool } else { Type::Dyn })
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Call(call) => {
                if let Some(found) = calls::is_matcher(call) {
                    return if found {
                        Ok(Type::Bool)
                    } else {
                        Err(calls::as_member(expr.id, call))
                    };
                }
                if call.func_name == PLACEHOLDER_FUNCTION && call.target.is_none() {
                    calls::placeholder(expr)?;
                    return Ok(Type::Dyn);
                }
                self.call(expr.id, call)
            }
            Expr::Struct(_) => Err(Fault::new(
                Place::Of(expr.id),
                "there are no messages to build",
            )),
            Expr::Unspecified => Err(Fault::new(Place::Of(expr.id), "an empty expression")),
        }
    }

    fn variable(&self, id: u64, name: &str) -> Result<Type, Fault> {
        if let Some((_, found)) = self.scope.iter().rev().find(|(known, _)| known == name) {
            return Ok(*found);
        }
        if TYPE_NAMES.contains(&name) {
            return Ok(Type::Meta);
        }
        let message = match name {
            REQUEST => "the request has no fields here".to_owned(),
            _ => format!("unknown name `{name}`"),
        };
        let help =
            "placeholders such as {method} ask for what a request has, texts stand in quotes";
        Err(Fault::new(Place::Of(id), message).with_help(help))
    }

    fn comprehension(&mut self, loops: &ComprehensionExpr) -> Result<Type, Fault> {
        let range = self.of(&loops.iter_range)?;
        if !range.fits(Type::List) && !range.fits(Type::Map) {
            let message = format!("a {} has no elements", range.name());
            return Err(Fault::new(Place::Of(loops.iter_range.id), message));
        }
        if self.loops >= EXPRESSION_LOOPS_MAX {
            let message = format!("more than {EXPRESSION_LOOPS_MAX} loops in one another");
            return Err(Fault::new(Place::Of(loops.iter_range.id), message));
        }
        let start = self.of(&loops.accu_init)?;
        let before = self.scope.len();
        self.scope.push((loops.accu_var.clone(), start));
        self.loops += 1;
        let of_result = self.of(&loops.result);
        self.scope.push((loops.iter_var.clone(), Type::Dyn));
        if let Some(second) = &loops.iter_var2 {
            self.scope.push((second.clone(), Type::Dyn));
        }
        let of_step = self
            .of(&loops.loop_cond)
            .and_then(|_| self.of(&loops.loop_step));
        self.scope.truncate(before);
        self.loops -= 1;
        of_step?;
        of_result
    }

    fn call(&mut self, id: u64, call: &cel::common::ast::CallExpr) -> Result<Type, Fault> {
        let namespace = match call.target.as_ref().map(|target| &target.expr) {
            Some(Expr::Ident(name)) if !self.scope.iter().any(|(known, _)| known == name) => {
                Some(format!("{name}.{}", call.func_name))
            }
            _ => None,
        };
        let namespace = namespace.filter(|name| FUNCTIONS.iter().any(|f| f.name == name));
        let (name, target) = match namespace {
            Some(name) => (name, None),
            None => (call.func_name.clone(), call.target.as_deref()),
        };
        let target = target.map(|target| self.of(target)).transpose()?;
        let args = call
            .args
            .iter()
            .map(|arg| self.of(arg))
            .collect::<Result<Vec<_>, _>>()?;
        if let Some(found) = operator(&name, &args) {
            return found.ok_or_else(|| no_overload(id, &name, None, &args));
        }
        if !FUNCTIONS.iter().any(|function| function.name == name) {
            let guess = sluice_diag::closest(&name, known_names());
            let fault = Fault::new(Place::Of(id), format!("unknown function `{name}`"));
            return Err(match guess {
                Some(guess) => fault.with_help(format!("did you mean `{guess}`?")),
                None => fault,
            });
        }
        let fits = |function: &&Function| {
            function.name == name
                && function.target.is_some() == target.is_some()
                && function
                    .target
                    .zip(target)
                    .is_none_or(|(wanted, found)| found.fits(wanted))
                && function.takes(&args, Type::fits)
        };
        match FUNCTIONS.iter().find(fits) {
            Some(function) => Ok(function.gives),
            None => Err(no_overload(id, &name, target, &args)),
        }
    }
}

fn known_names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS
        .iter()
        .map(|function| function.name)
        .chain(calls::NAMES)
}

fn no_overload(id: u64, name: &str, target: Option<Type>, args: &[Type]) -> Fault {
    let args: Vec<_> = args.iter().map(|arg| arg.name()).collect();
    let on = target.map_or(String::new(), |target| format!(" of a {}", target.name()));
    let shown = match name.trim_matches('_') {
        "@in" => "in",
        "[" | "[_]" => "[]",
        shown => shown,
    };
    let message = format!("`{shown}`{on} does not take ({})", args.join(", "));
    Fault::new(Place::Of(id), message)
}

/// The result type of an operator; `Some(None)` if it does not accept the types, and `None` for other functions.
fn operator(name: &str, args: &[Type]) -> Option<Option<Type>> {
    use Type as T;
    const ORDERED: [Type; 8] = [
        T::Bool,
        T::Int,
        T::Uint,
        T::Double,
        T::String,
        T::Bytes,
        T::Duration,
        T::Timestamp,
    ];
    const NUMBERS: [Type; 3] = [T::Int, T::Uint, T::Double];
    let unknown = args.contains(&T::Dyn);
    let same_of = |allowed: &[Type]| {
        let known = args.iter().find(|arg| **arg != T::Dyn);
        let Some(&known) = known else {
            return Some(T::Dyn);
        };
        let fits = allowed.contains(&known) && args.iter().all(|arg| arg.fits(known));
        fits.then_some(if unknown { T::Dyn } else { known })
    };
    let all_bool = args.iter().all(|arg| arg.fits(T::Bool)).then_some(T::Bool);
    Some(match (name, args) {
        (operators::LOGICAL_AND | operators::LOGICAL_OR | operators::LOGICAL_NOT, _) => all_bool,
        (operators::NOT_STRICTLY_FALSE, _) => all_bool,
        (operators::CONDITIONAL, [condition, yes, no]) => {
            let fits = condition.fits(T::Bool) && yes.fits(*no);
            fits.then_some(if *yes == T::Dyn { *no } else { *yes })
        }
        (operators::EQUALS | operators::NOT_EQUALS, [a, b]) => {
            (a.fits(*b) || *a == T::Null || *b == T::Null).then_some(T::Bool)
        }
        (
            operators::LESS
            | operators::LESS_EQUALS
            | operators::GREATER
            | operators::GREATER_EQUALS,
            _,
        ) => same_of(&ORDERED).map(|_| T::Bool),
        (operators::IN, [_, within]) => {
            (within.fits(T::List) || within.fits(T::Map)).then_some(T::Bool)
        }
        (operators::INDEX, [of, index]) => {
            let fits = of.fits(T::Map) || (of.fits(T::List) && index.fits(T::Int));
            fits.then_some(T::Dyn)
        }
        (operators::ADD, [T::Timestamp, T::Duration] | [T::Duration, T::Timestamp])
        | (operators::SUBSTRACT, [T::Timestamp, T::Duration]) => Some(T::Timestamp),
        (operators::SUBSTRACT, [T::Timestamp, T::Timestamp]) => Some(T::Duration),
        (operators::ADD | operators::SUBSTRACT, [T::Dyn, T::Timestamp | T::Duration])
        | (operators::ADD | operators::SUBSTRACT, [T::Timestamp | T::Duration, T::Dyn]) => {
            Some(T::Dyn)
        }
        (operators::ADD, _) => same_of(&[
            T::Int,
            T::Uint,
            T::Double,
            T::String,
            T::Bytes,
            T::List,
            T::Duration,
        ]),
        (operators::SUBSTRACT, _) => same_of(&[T::Int, T::Uint, T::Double, T::Duration]),
        (operators::MULTIPLY | operators::DIVIDE, _) => same_of(&NUMBERS),
        (operators::MODULO, _) => same_of(&[T::Int, T::Uint]),
        (operators::NEGATE, _) => same_of(&[T::Int, T::Double]),
        _ => return None,
    })
}
