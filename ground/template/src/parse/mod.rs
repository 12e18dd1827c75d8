//! Compiles a source to code: texts, actions and blocks. Pipelines are in `pipeline`.

mod number;
mod pipeline;

use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use crate::code::{Code, Op, Program};
use crate::error::{Error, Fault};
use crate::host::Host;
use crate::lex::{Lexer, Token};
use crate::limits::{NESTING_MAX, OPS_MAX, SOURCE_BYTES_MAX, VARIABLES_MAX};
use crate::value::{Text, Value};

pub(crate) use number::whole as whole_number;

/// What opens and closes an action.
#[derive(Clone, Copy, Debug)]
pub struct Delimiters<'a> {
    /// Usually `{{`.
    pub open: &'a str,
    /// Usually `}}`.
    pub close: &'a str,
}

impl Default for Delimiters<'_> {
    fn default() -> Self {
        Delimiters {
            open: "{{",
            close: "}}",
        }
    }
}

/// Parses a source. `host` says which functions there are besides those of this package.
pub fn parse(source: &[u8], delimiters: Delimiters<'_>, host: &dyn Host) -> Result<Program, Error> {
    if source.len() > SOURCE_BYTES_MAX {
        return Err(Fault::Limit("bytes of a template").at(1));
    }
    let shared: Rc<[u8]> = Rc::from(source);
    let mut parser = Parser {
        lexer: Lexer::new(source, delimiters.open, delimiters.close),
        peeked: None,
        spaced: false,
        line: 1,
        host,
        source: shared,
        defined: Vec::new(),
        scope: Scope::default(),
        nesting: 0,
        ops_left: OPS_MAX,
    };
    match parser.program() {
        Ok(()) => {
            let main = parser.finish(Scope::default());
            Ok(Program {
                main,
                defined: parser.defined,
            })
        }
        Err(fault) => Err(fault.at(parser.line)),
    }
}

/// The template that is being made.
struct Scope {
    ops: Vec<Op>,
    lines: Vec<(u32, u32)>,
    /// The visible variables; the place is the number.
    variables: Vec<String>,
    variables_max: usize,
    /// The loops around, innermost last.
    loops: Vec<Loop>,
    /// How many `with` are open in the innermost loop.
    withs: usize,
}

/// A loop: where `continue` goes, and the jumps of `break` that are still to be aimed.
struct Loop {
    round: u32,
    breaks: Vec<usize>,
    withs_outside: usize,
}

impl Default for Scope {
    fn default() -> Scope {
        Scope {
            ops: Vec::new(),
            lines: Vec::new(),
            variables: alloc::vec![String::from("$")],
            variables_max: 1,
            loops: Vec::new(),
            withs: 0,
        }
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    peeked: Option<(Token, bool)>,
    /// Whether space stood before the last token.
    spaced: bool,
    line: u32,
    host: &'a dyn Host,
    source: Rc<[u8]>,
    defined: Vec<(Text, Rc<Code>)>,
    scope: Scope,
    nesting: usize,
    ops_left: usize,
}

/// What ended a list of texts and actions.
enum Ending {
    End,
    Else,
    Source,
}

/// The blocks that may be chained by `else`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    If,
    With,
}

impl Parser<'_> {
    fn program(&mut self) -> Result<(), Fault> {
        match self.list()? {
            Ending::Source => Ok(()),
            Ending::End => Err(Fault::Syntax("`end` without a block")),
            Ending::Else => Err(Fault::Syntax("`else` without a block")),
        }
    }

    /// The code that was made; `outer` is made further.
    fn finish(&mut self, outer: Scope) -> Rc<Code> {
        let done = core::mem::replace(&mut self.scope, outer);
        Rc::new(Code {
            source: self.source.clone(),
            ops: done.ops,
            lines: done.lines,
            variables: done.variables_max,
        })
    }

    fn next(&mut self) -> Result<Token, Fault> {
        let (token, spaced) = match self.peeked.take() {
            Some(peeked) => peeked,
            None => self.read()?,
        };
        self.spaced = spaced;
        Ok(token)
    }

    fn peek(&mut self) -> Result<(&Token, bool), Fault> {
        if self.peeked.is_none() {
            self.peeked = Some(self.read()?);
        }
        let (token, spaced) = self.peeked.as_ref().expect("it was just read");
        Ok((token, *spaced))
    }

    fn read(&mut self) -> Result<(Token, bool), Fault> {
        self.line = self.lexer.line();
        let token = self.lexer.next();
        self.line = self.lexer.line();
        Ok((token?, self.lexer.spaced))
    }

    fn emit(&mut self, op: Op) -> Result<usize, Fault> {
        self.ops_left = self
            .ops_left
            .checked_sub(1)
            .ok_or(Fault::Limit("steps of a template"))?;
        let at = self.scope.ops.len();
        if self
            .scope
            .lines
            .last()
            .is_none_or(|(_, line)| *line != self.line)
        {
            self.scope.lines.push((at as u32, self.line));
        }
        self.scope.ops.push(op);
        Ok(at)
    }

    fn here(&self) -> u32 {
        self.scope.ops.len() as u32
    }

    /// Aims a jump that was emitted before at the next step.
    fn aim(&mut self, at: usize) {
        let here = self.here();
        match &mut self.scope.ops[at] {
            Op::KeepIf { to, .. }
            | Op::Jump(to)
            | Op::JumpUnless(to)
            | Op::With(to)
            | Op::Range { empty: to, .. }
            | Op::Round { end: to, .. } => *to = here,
            _ => unreachable!("only jumps are aimed"),
        }
    }

    fn deeper(&mut self) -> Result<(), Fault> {
        self.nesting += 1;
        if self.nesting > NESTING_MAX {
            return Err(Fault::Limit("blocks within each other"));
        }
        Ok(())
    }

    /// A variable that is visible from here on.
    fn declare(&mut self, name: String) -> Result<u16, Fault> {
        let variables = &mut self.scope.variables;
        if variables.len() >= VARIABLES_MAX {
            return Err(Fault::Limit("variables"));
        }
        variables.push(name);
        self.scope.variables_max = self.scope.variables_max.max(variables.len());
        Ok((variables.len() - 1) as u16)
    }

    fn variable(&self, name: &str) -> Result<u16, Fault> {
        let found = self.scope.variables.iter().rposition(|known| known == name);
        found
            .map(|at| at as u16)
            .ok_or_else(|| Fault::UnknownVariable(name.into()))
    }

    /// Texts and actions up to `end`, `else` or the end of the source. The word is passed, its action is not
    /// closed.
    fn list(&mut self) -> Result<Ending, Fault> {
        loop {
            match self.next()? {
                Token::End => return Ok(Ending::Source),
                Token::Plain(from, to) => _ = self.emit(Op::Plain(from as u32, to as u32))?,
                Token::Open => {
                    let keyword = match self.peek()?.0 {
                        Token::Word(word) => keyword(word),
                        _ => None,
                    };
                    match keyword {
                        None => self.action()?,
                        Some(keyword) => {
                            self.next()?;
                            match keyword {
                                "end" => return Ok(Ending::End),
                                "else" => return Ok(Ending::Else),
                                other => self.block(other)?,
                            }
                        }
                    }
                }
                _ => return Err(Fault::Syntax("text was expected")),
            }
        }
    }

    /// `{{pipeline}}`: its value is written, except where it sets a variable.
    fn action(&mut self) -> Result<(), Fault> {
        if !self.set_variable()? {
            self.pipeline()?;
            self.emit(Op::Write)?;
        }
        self.close()
    }

    fn block(&mut self, keyword: &str) -> Result<(), Fault> {
        self.deeper()?;
        let visible = self.scope.variables.len();
        match keyword {
            "if" => self.condition(Block::If)?,
            "with" => self.condition(Block::With)?,
            "range" => self.range()?,
            "define" => self.define()?,
            "template" => self.template()?,
            "block" => self.defined_block()?,
            "break" => self.leave_round(true)?,
            _ => self.leave_round(false)?,
        }
        self.scope.variables.truncate(visible);
        self.nesting -= 1;
        Ok(())
    }

    fn close(&mut self) -> Result<(), Fault> {
        match self.next()? {
            Token::Close => Ok(()),
            _ => Err(Fault::Syntax("an action has more than it can use")),
        }
    }

    /// Parses `$x := pipeline` or `$x = pipeline` at the start of an action; returns whether there was one.
    fn set_variable(&mut self) -> Result<bool, Fault> {
        let Token::Variable(name) = self.peek()?.0.clone() else {
            return Ok(false);
        };
        self.peeked = None;
        let declares = match self.peek()?.0 {
            Token::Declare => true,
            Token::Assign => false,
            _ => {
                self.pipeline_of_variable(&name)?;
                self.emit(Op::Write)?;
                return Ok(true);
            }
        };
        self.store(name, declares)?;
        Ok(true)
    }

    /// What follows the name of a variable: `:=` or `=` and a pipeline.
    fn store(&mut self, name: String, declares: bool) -> Result<u16, Fault> {
        self.next()?;
        // The pipeline of a declaration still sees an outer variable of the same name.
        let known = if declares {
            None
        } else {
            Some(self.variable(&name)?)
        };
        self.pipeline()?;
        let slot = match known {
            Some(slot) => slot,
            None => self.declare(name)?,
        };
        self.emit(Op::Store(slot))?;
        Ok(slot)
    }

    /// The pipeline of `if` or `with`, whose value stays on the stack even where it sets a variable.
    fn condition_value(&mut self) -> Result<(), Fault> {
        let Token::Variable(name) = self.peek()?.0.clone() else {
            return self.pipeline();
        };
        self.peeked = None;
        let declares = match self.peek()?.0 {
            Token::Declare => true,
            Token::Assign => false,
            _ => return self.pipeline_of_variable(&name),
        };
        let slot = self.store(name, declares)?;
        self.emit(Op::Load(slot))?;
        Ok(())
    }

    /// `if` and `with`, with the branches behind `else`.
    fn condition(&mut self, block: Block) -> Result<(), Fault> {
        self.condition_value()?;
        self.close()?;
        let skip = match block {
            Block::If => self.emit(Op::JumpUnless(0))?,
            Block::With => self.emit(Op::With(0))?,
        };
        self.scope.withs += usize::from(block == Block::With);
        let ending = self.list()?;
        self.scope.withs -= usize::from(block == Block::With);
        if block == Block::With {
            self.emit(Op::LeaveWith)?;
        }
        match ending {
            Ending::Source => return Err(Fault::Syntax("a block is not closed by `end`")),
            Ending::End => self.aim(skip),
            Ending::Else => {
                let over = self.emit(Op::Jump(0))?;
                self.aim(skip);
                let word = match (self.peek()?.0, block) {
                    (Token::Word(word), Block::If) if word == "if" => true,
                    (Token::Word(word), Block::With) if word == "with" => true,
                    _ => false,
                };
                if word {
                    self.next()?;
                    self.deeper()?;
                    // It ends with the same `end`.
                    self.condition(block)?;
                    self.nesting -= 1;
                } else {
                    self.else_list()?;
                }
                self.aim(over);
                return if word { Ok(()) } else { self.close() };
            }
        }
        self.close()
    }

    /// What follows a plain `else`, up to `end`.
    fn else_list(&mut self) -> Result<(), Fault> {
        self.close()?;
        match self.list()? {
            Ending::End => Ok(()),
            Ending::Else => Err(Fault::Syntax("a block has one `else` at most")),
            Ending::Source => Err(Fault::Syntax("a block is not closed by `end`")),
        }
    }

    fn range(&mut self) -> Result<(), Fault> {
        let [key, value] = self.range_variables()?;
        self.close()?;
        let names = u8::from(key.is_some()) + u8::from(value.is_some());
        let range = self.emit(Op::Range { names, empty: 0 })?;
        let round = self.emit(Op::Round { key, value, end: 0 })?;
        self.scope.loops.push(Loop {
            round: round as u32,
            breaks: Vec::new(),
            withs_outside: core::mem::take(&mut self.scope.withs),
        });
        let ending = self.list()?;
        let left = self.scope.loops.pop().expect("it was pushed above");
        self.scope.withs = left.withs_outside;
        self.emit(Op::Jump(left.round))?;
        self.aim(round);
        for jump in left.breaks {
            self.aim(jump);
        }
        self.emit(Op::LeaveRange)?;
        match ending {
            Ending::Source => return Err(Fault::Syntax("a block is not closed by `end`")),
            Ending::End => self.aim(range),
            Ending::Else => {
                let over = self.emit(Op::Jump(0))?;
                self.aim(range);
                self.else_list()?;
                self.aim(over);
            }
        }
        self.close()
    }

    /// The variables of a range, key and value, and its pipeline.
    fn range_variables(&mut self) -> Result<[Option<u16>; 2], Fault> {
        let Token::Variable(first) = self.peek()?.0.clone() else {
            self.pipeline()?;
            return Ok([None, None]);
        };
        self.peeked = None;
        let mut names = alloc::vec![first];
        if matches!(self.peek()?.0, Token::Comma) {
            self.next()?;
            match self.next()? {
                Token::Variable(second) => names.push(second),
                _ => return Err(Fault::Syntax("`range` can only name variables")),
            }
        }
        let declares = match self.peek()?.0 {
            Token::Declare => true,
            Token::Assign => false,
            _ if names.len() == 1 => {
                self.pipeline_of_variable(&names[0])?;
                return Ok([None, None]);
            }
            _ => return Err(Fault::Syntax("`range` lacks `:=`")),
        };
        self.next()?;
        self.pipeline()?;
        let mut slots = Vec::new();
        for name in names {
            slots.push(if declares {
                self.declare(name)?
            } else {
                self.variable(&name)?
            });
        }
        Ok(match slots[..] {
            [value] => [None, Some(value)],
            _ => [Some(slots[0]), Some(slots[1])],
        })
    }

    fn leave_round(&mut self, ends: bool) -> Result<(), Fault> {
        self.close()?;
        if self.scope.loops.is_empty() {
            return Err(Fault::Syntax(
                "`break` and `continue` belong into a `range`",
            ));
        }
        for _ in 0..self.scope.withs {
            self.emit(Op::LeaveWith)?;
        }
        let round = self.scope.loops.last().expect("there is one").round;
        let jump = self.emit(Op::Jump(round))?;
        if ends {
            let inner = self.scope.loops.last_mut().expect("there is one");
            inner.breaks.push(jump);
        }
        Ok(())
    }

    /// `{{define "name"}}`: a template of its own, up to its `end`.
    fn define(&mut self) -> Result<(), Fault> {
        if self.nesting > 1 {
            return Err(Fault::Syntax("`define` stands at the top of a source"));
        }
        let name = self.name()?;
        self.close()?;
        self.body(name)
    }

    fn body(&mut self, name: Text) -> Result<(), Fault> {
        let outer = core::mem::take(&mut self.scope);
        let ending = self.list();
        let code = self.finish(outer);
        if !matches!(ending?, Ending::End) {
            return Err(Fault::Syntax("a template is not closed by `end`"));
        }
        self.close()?;
        match self.defined.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) if known.is_empty() => *known = code,
            Some(_) if code.is_empty() => {}
            Some(_) => return Err(Fault::DefinedTwice(name.lossy().into())),
            None => self.defined.push((name, code)),
        }
        Ok(())
    }

    fn template(&mut self) -> Result<(), Fault> {
        let name = self.name()?;
        if matches!(self.peek()?.0, Token::Close) {
            self.emit(Op::Push(Value::Nil))?;
        } else {
            self.pipeline()?;
        }
        self.close()?;
        self.emit(Op::Template(name))?;
        Ok(())
    }

    /// `{{block "name" pipeline}}`: defines a template and writes it.
    fn defined_block(&mut self) -> Result<(), Fault> {
        let name = self.name()?;
        self.pipeline()?;
        self.close()?;
        self.emit(Op::Template(name.clone()))?;
        self.body(name)
    }

    fn name(&mut self) -> Result<Text, Fault> {
        match self.next()? {
            Token::Text(name) => Ok(Text::new(name)),
            _ => Err(Fault::Syntax("a template needs a name in quotes")),
        }
    }
}

/// The word, if it begins a block or ends one.
fn keyword(word: &str) -> Option<&'static str> {
    const KEYWORDS: [&str; 10] = [
        "if", "with", "range", "define", "template", "block", "break", "continue", "end", "else",
    ];
    KEYWORDS.into_iter().find(|keyword| *keyword == word)
}
