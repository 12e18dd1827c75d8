//! Pipelines: values, calls, and passing results from one to the next.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::{Parser, number};
use crate::code::{Callee, Op};
use crate::error::Fault;
use crate::functions;
use crate::lex::Token;
use crate::value::{IntKind, Text, Value};

/// The first word of a command decides whether values may follow it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Head {
    /// A field or method: the last one takes them.
    Field,
    /// A constant or a variable: it takes none.
    Plain,
}

impl Parser<'_> {
    /// A pipeline up to the end of its action or parenthesis. Leaves one value on the stack.
    pub(super) fn pipeline(&mut self) -> Result<(), Fault> {
        self.command(false)?;
        self.further_commands()
    }

    /// As [`Self::pipeline`], where the variable it begins with was already read.
    pub(super) fn pipeline_of_variable(&mut self, name: &str) -> Result<(), Fault> {
        let head = self.variable_value(name)?;
        self.arguments_of(head, false)?;
        self.further_commands()
    }

    fn further_commands(&mut self) -> Result<(), Fault> {
        while matches!(self.peek()?.0, Token::Pipe) {
            self.next()?;
            self.command(true)?;
        }
        Ok(())
    }

    /// One command. `piped`: the value of the last one is on the stack and is its last argument.
    fn command(&mut self, piped: bool) -> Result<(), Fault> {
        let token = self.next()?;
        let head = match token {
            Token::Word(name) => match constant(&name) {
                Some(Value::Nil) => return Err(Fault::Syntax("`nil` is not a command")),
                Some(value) => self.plain(value, piped)?,
                None => {
                    let chained = self.field_follows()?;
                    if !chained {
                        return self.call(&name, piped);
                    }
                    self.call_bare(&name)?;
                    self.chain()?
                }
            },
            Token::Field(name) => {
                self.emit(Op::Dot)?;
                self.first_field(name)?
            }
            Token::Variable(name) => self.variable_value(&name)?,
            Token::OpenParen => {
                self.parenthesis()?;
                if self.field_follows()? {
                    self.chain()?
                } else {
                    Head::Plain
                }
            }
            Token::Dot => {
                self.emit(Op::Dot)?;
                Head::Plain
            }
            other => {
                let value = literal(other)?;
                self.plain(value, piped)?
            }
        };
        self.arguments_of(head, piped)
    }

    fn plain(&mut self, value: Value, piped: bool) -> Result<Head, Fault> {
        if piped {
            return Err(Fault::Syntax(
                "a constant cannot receive a value from a pipeline",
            ));
        }
        self.emit(Op::Push(value))?;
        Ok(Head::Plain)
    }

    /// The arguments after the head of a command that is not a function.
    fn arguments_of(&mut self, head: Head, piped: bool) -> Result<(), Fault> {
        let count = self.arguments()?;
        match head {
            Head::Plain if count == 0 && !piped => Ok(()),
            Head::Plain => Err(Fault::Syntax(
                "a value that is not a function cannot have arguments",
            )),
            Head::Field => {
                // The field was emitted without its arguments, which stand behind it in the source.
                self.move_field_behind(count, piped);
                Ok(())
            }
        }
    }

    /// Puts the field that was emitted before `count` arguments behind them.
    fn move_field_behind(&mut self, count: u8, piped: bool) {
        let at = self
            .scope
            .ops
            .iter()
            .rposition(|op| matches!(op, Op::Field { args: u8::MAX, .. }))
            .expect("the head emitted it");
        let Op::Field { name, .. } = self.scope.ops.remove(at) else {
            unreachable!("it was just found")
        };
        // Steps behind it move by one, and so do the jumps that `and` and `or` among the arguments make.
        for op in &mut self.scope.ops[at..] {
            if let Op::KeepIf { to, .. } | Op::Jump(to) = op {
                *to -= 1;
            }
        }
        self.scope.ops.push(Op::Field {
            name,
            args: count + u8::from(piped),
            piped,
        });
    }

    /// Whether `.name` follows without space.
    fn field_follows(&mut self) -> Result<bool, Fault> {
        let (token, spaced) = self.peek()?;
        Ok(matches!(token, Token::Field(_)) && !spaced)
    }

    /// Fields behind a value; the last one may take arguments.
    fn chain(&mut self) -> Result<Head, Fault> {
        let Token::Field(name) = self.next()? else {
            return Err(Fault::Syntax("a field was expected"));
        };
        self.first_field(name)
    }

    fn first_field(&mut self, first: String) -> Result<Head, Fault> {
        let mut name = first;
        while self.field_follows()? {
            self.emit(field(&name, 0))?;
            if let Token::Field(next) = self.next()? {
                name = next;
            }
        }
        // Its arguments are not known yet; `move_field_behind` looks for this mark.
        self.emit(field(&name, u8::MAX))?;
        Ok(Head::Field)
    }

    fn variable_value(&mut self, name: &str) -> Result<Head, Fault> {
        let slot = self.variable(name)?;
        self.emit(Op::Load(slot))?;
        if self.field_follows()? {
            self.chain()
        } else {
            Ok(Head::Plain)
        }
    }

    /// Arguments up to the end of the command; gives their number.
    fn arguments(&mut self) -> Result<u8, Fault> {
        let mut count = 0_u8;
        while self.argument_follows()? {
            self.argument()?;
            count = count
                .checked_add(1)
                .filter(|count| *count < 200)
                .ok_or(Fault::Limit("values of a function"))?;
        }
        Ok(count)
    }

    fn argument_follows(&mut self) -> Result<bool, Fault> {
        let (token, spaced) = self.peek()?;
        match token {
            Token::Close | Token::Pipe | Token::CloseParen => Ok(false),
            _ if spaced => Ok(true),
            _ => Err(Fault::Syntax("a space is missing between two values")),
        }
    }

    /// One argument: a value with fields behind it, or a function without arguments.
    fn argument(&mut self) -> Result<(), Fault> {
        match self.next()? {
            Token::Word(name) => match constant(&name) {
                Some(value) => _ = self.emit(Op::Push(value))?,
                None => self.call_bare(&name)?,
            },
            Token::Field(name) => {
                self.emit(Op::Dot)?;
                self.emit(field(&name, 0))?;
            }
            Token::Variable(name) => {
                let slot = self.variable(&name)?;
                self.emit(Op::Load(slot))?;
            }
            Token::OpenParen => self.parenthesis()?,
            Token::Dot => _ = self.emit(Op::Dot)?,
            other => {
                let value = literal(other)?;
                self.emit(Op::Push(value))?;
            }
        }
        while self.field_follows()? {
            if let Token::Field(name) = self.next()? {
                self.emit(field(&name, 0))?;
            }
        }
        Ok(())
    }

    fn parenthesis(&mut self) -> Result<(), Fault> {
        self.deeper()?;
        if matches!(self.peek()?.0, Token::CloseParen) {
            return Err(Fault::Syntax("a parenthesis is empty"));
        }
        self.pipeline()?;
        self.nesting -= 1;
        match self.next()? {
            Token::CloseParen => Ok(()),
            _ => Err(Fault::Syntax("a parenthesis is not closed")),
        }
    }

    /// A function without arguments.
    fn call_bare(&mut self, name: &str) -> Result<(), Fault> {
        let callee = Box::new(self.callee(name)?);
        self.emit(Op::Call {
            callee,
            args: 0,
            piped: false,
        })?;
        Ok(())
    }

    /// A function with the arguments that follow it.
    fn call(&mut self, name: &str, piped: bool) -> Result<(), Fault> {
        match name {
            "and" => return self.decide(false, piped),
            "or" => return self.decide(true, piped),
            _ => {}
        }
        let callee = Box::new(self.callee(name)?);
        let count = self.arguments()?;
        self.emit(Op::Call {
            callee,
            args: count + u8::from(piped),
            piped,
        })?;
        Ok(())
    }

    /// `and` and `or`: the first value that decides; those behind it are not even looked at.
    fn decide(&mut self, truth: bool, piped: bool) -> Result<(), Fault> {
        let mut jumps = Vec::new();
        let mut count = 0;
        while self.argument_follows()? {
            if count > 0 {
                jumps.push(self.emit(Op::KeepIf { truth, to: 0 })?);
            }
            self.argument()?;
            count += 1;
        }
        match (count, piped) {
            (0, false) => {
                return Err(Fault::Arguments {
                    function: if truth { "or" } else { "and" }.into(),
                    given: 0,
                });
            }
            (0, true) => return Ok(()),
            (_, false) => {
                for jump in jumps {
                    self.aim(jump);
                }
            }
            (_, true) => {
                // The piped value is below: it counts if none of the others decides.
                jumps.push(self.emit(Op::KeepIf { truth, to: 0 })?);
                let over = self.emit(Op::Jump(0))?;
                for jump in jumps {
                    self.aim(jump);
                }
                self.emit(Op::Nip)?;
                self.aim(over);
            }
        }
        Ok(())
    }

    fn callee(&self, name: &str) -> Result<Callee, Fault> {
        if self.host.has(name) {
            return Ok(Callee::Host(name.into()));
        }
        functions::find(name)
            .map(Callee::Own)
            .ok_or_else(|| Fault::UnknownFunction(name.into()))
    }
}

fn field(name: &str, args: u8) -> Op {
    Op::Field {
        name: Text::new(name),
        args,
        piped: false,
    }
}

fn constant(word: &str) -> Option<Value> {
    match word {
        "true" => Some(Value::Bool(true)),
        "false" => Some(Value::Bool(false)),
        "nil" => Some(Value::Nil),
        _ => None,
    }
}

fn literal(token: Token) -> Result<Value, Fault> {
    match token {
        Token::Text(text) => Ok(Value::text(text)),
        Token::Letter(letter) => Ok(Value::Int(i64::from(u32::from(letter)), IntKind::Int)),
        Token::Number(text) => number::value(&text),
        Token::Close => Err(Fault::Syntax("an action lacks a value")),
        _ => Err(Fault::Syntax("a value was expected")),
    }
}
