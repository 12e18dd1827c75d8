//! Runs templates: a stack machine that suspends when a function of its host has to wait.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;

use crate::code::{Callee, Code, Op, Program};
use crate::error::{Error, Fault};
use crate::function::Call;
use crate::host::{Host, HostCall, Outcome, ServicesOf};
use crate::limits::CALLS_MAX;
use crate::room::Room;
use crate::show::show;
use crate::value::{Text, Value};

/// How far a machine came.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    /// It is at its end; [`Machine::into_output`] gives what it wrote.
    Done,
    /// A function of the host waits: [`Machine::supply`] gives its outcome.
    Waiting,
}

/// A page being written.
#[derive(Debug)]
pub struct Machine {
    stack: Vec<Value>,
    frames: Vec<Frame>,
    /// What is written; texts that are made of templates are set aside, innermost last.
    outputs: Vec<Vec<u8>>,
    /// What is left of the limits.
    pub room: Room,
}

type Templates = Rc<RefCell<BTreeMap<Text, Rc<Code>>>>;

/// A template at work.
#[derive(Debug)]
struct Frame {
    code: Rc<Code>,
    /// The next step.
    at: usize,
    variables: Vec<Value>,
    /// The dots, innermost last.
    dots: Vec<Value>,
    rounds: Vec<Rounds>,
    /// The templates that it knows by name; `import` adds to them.
    templates: Templates,
    /// Where what it writes goes.
    sink: Sink,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sink {
    /// To where its caller writes.
    Caller,
    /// It becomes a value of its caller.
    Value,
}

/// A range at work.
#[derive(Debug)]
enum Rounds {
    List {
        list: Value,
        next: usize,
    },
    Map {
        entries: alloc::vec::IntoIter<(Text, Value)>,
    },
    Numbers {
        next: i64,
        end: i64,
    },
}

impl Machine {
    /// A machine at the start of `program`.
    pub fn new(program: &Program, dot: Value) -> Machine {
        let mut machine = Machine {
            stack: Vec::new(),
            frames: Vec::new(),
            outputs: alloc::vec![Vec::new()],
            room: Room::default(),
        };
        machine.enter(program, dot, Sink::Caller);
        machine
    }

    /// What was written.
    pub fn into_output(mut self) -> Vec<u8> {
        self.outputs.swap_remove(0)
    }

    /// The outcome that the machine waits for.
    pub fn supply(&mut self, outcome: Outcome) -> Result<(), Error> {
        self.take(outcome).map_err(|fault| fault.at(self.line()))
    }

    /// Runs until the end, or until a function of the host waits.
    pub fn run(&mut self, host: &mut dyn Host) -> Result<Progress, Error> {
        loop {
            match self.step(host) {
                Ok(None) => {}
                Ok(Some(progress)) => return Ok(progress),
                Err(fault) => return Err(fault.at(self.line())),
            }
        }
    }

    /// The line of the last step.
    fn line(&self) -> u32 {
        let frame = self.frames.last();
        frame.map_or(1, |frame| frame.code.line(frame.at.saturating_sub(1)))
    }

    fn enter(&mut self, program: &Program, dot: Value, sink: Sink) {
        let templates = program.defined.iter().cloned().collect();
        self.push_frame(
            program.main.clone(),
            dot,
            Rc::new(RefCell::new(templates)),
            sink,
        );
    }

    fn push_frame(&mut self, code: Rc<Code>, dot: Value, templates: Templates, sink: Sink) {
        let mut variables = alloc::vec![Value::Nil; code.variables];
        variables[0] = dot.clone();
        if sink == Sink::Value {
            self.outputs.push(Vec::new());
        }
        self.frames.push(Frame {
            code,
            at: 0,
            variables,
            dots: alloc::vec![dot],
            rounds: Vec::new(),
            templates,
            sink,
        });
    }

    fn step(&mut self, host: &mut dyn Host) -> Result<Option<Progress>, Fault> {
        self.room.step()?;
        let Some(frame) = self.frames.last_mut() else {
            return Ok(Some(Progress::Done));
        };
        let code = frame.code.clone();
        let Some(op) = code.ops.get(frame.at) else {
            return self.leave().map(|()| None);
        };
        frame.at += 1;
        match op {
            Op::Plain(from, to) => {
                let text = &code.source[*from as usize..*to as usize];
                self.room.take(text.len())?;
                self.output().extend_from_slice(text);
            }
            Op::Push(value) => self.stack.push(value.clone()),
            Op::Dot => self.stack.push(frame.dot()),
            Op::Load(slot) => self.stack.push(frame.variables[usize::from(*slot)].clone()),
            Op::Store(slot) => {
                let value = self.stack.pop().expect("a pipeline leaves a value");
                frame.variables[usize::from(*slot)] = value;
            }
            Op::Nip => {
                let top = self.stack.pop();
                self.stack.pop();
                self.stack.extend(top);
            }
            Op::Write => {
                let value = self.stack.pop().expect("a pipeline leaves a value");
                let output = self.outputs.last_mut().expect("the page itself is there");
                match value {
                    Value::Nil => output.extend_from_slice(b"<no value>"),
                    value => show(&value, output, &mut self.room)?,
                }
            }
            Op::Field { name, args, piped } => self.field(name, *args, *piped)?,
            Op::Call {
                callee,
                args,
                piped,
            } => return self.call(callee, *args, *piped, host),
            Op::Template(name) => self.template(name)?,
            Op::KeepIf { .. }
            | Op::Jump(_)
            | Op::JumpUnless(_)
            | Op::With(_)
            | Op::LeaveWith
            | Op::Range { .. }
            | Op::Round { .. }
            | Op::LeaveRange => self.branch(op)?,
        }
        Ok(None)
    }

    /// Steps that decide which step is next.
    fn branch(&mut self, op: &Op) -> Result<(), Fault> {
        let frame = self.frames.last_mut().expect("a step belongs to a frame");
        match op {
            Op::KeepIf { truth, to } => {
                let top = self.stack.last().expect("a value was computed");
                if top.is_true() == *truth {
                    frame.at = *to as usize;
                } else {
                    self.stack.pop();
                }
            }
            Op::Jump(to) => frame.at = *to as usize,
            Op::JumpUnless(to) => {
                let value = self.stack.pop().expect("a pipeline leaves a value");
                if !value.is_true() {
                    frame.at = *to as usize;
                }
            }
            Op::With(to) => {
                let value = self.stack.pop().expect("a pipeline leaves a value");
                if value.is_true() {
                    frame.dots.push(value);
                } else {
                    frame.at = *to as usize;
                }
            }
            Op::LeaveWith => _ = frame.dots.pop(),
            Op::Range { names, empty } => {
                let value = self.stack.pop().expect("a pipeline leaves a value");
                match Rounds::over(&value, *names)? {
                    Some(rounds) => {
                        frame.rounds.push(rounds);
                        frame.dots.push(Value::Nil);
                    }
                    None => frame.at = *empty as usize,
                }
            }
            Op::Round { key, value, end } => {
                let rounds = frame.rounds.last_mut().expect("`Range` pushed it");
                let Some((name, item)) = rounds.next() else {
                    frame.at = *end as usize;
                    return Ok(());
                };
                if let Some(slot) = key {
                    frame.variables[usize::from(*slot)] = name;
                }
                if let Some(slot) = value {
                    frame.variables[usize::from(*slot)] = item.clone();
                }
                *frame.dots.last_mut().expect("`Range` pushed it") = item;
            }
            Op::LeaveRange => {
                frame.rounds.pop();
                frame.dots.pop();
            }
            _ => unreachable!("`step` does the others"),
        }
        Ok(())
    }

    fn output(&mut self) -> &mut Vec<u8> {
        self.outputs.last_mut().expect("the page itself is there")
    }

    /// The last frame is at its end.
    fn leave(&mut self) -> Result<(), Fault> {
        let frame = self.frames.pop().expect("its end was reached");
        if frame.sink == Sink::Value {
            let written = self.outputs.pop().expect("it was set aside");
            self.room.take(written.len())?;
            self.stack.push(Value::text(written));
        }
        Ok(())
    }

    /// The last `count` values, and where they begin; the one handed on by the pipeline is put last.
    fn args(&mut self, count: usize, piped: bool) -> usize {
        let start = self.stack.len() - count;
        if piped {
            self.stack[start..].rotate_left(1);
        }
        start
    }

    fn field(&mut self, name: &Text, args: u8, piped: bool) -> Result<(), Fault> {
        let start = self.args(usize::from(args) + 1, piped);
        let name = name.lossy();
        let [of, args @ ..] = &self.stack[start..] else {
            unreachable!("the value of a field is on the stack")
        };
        let value = member(of, &name, args, &mut self.room)?;
        self.stack.truncate(start);
        self.stack.push(value);
        Ok(())
    }

    fn call(
        &mut self,
        callee: &Callee,
        args: u8,
        piped: bool,
        host: &mut dyn Host,
    ) -> Result<Option<Progress>, Fault> {
        let start = self.args(usize::from(args), piped);
        let args = &self.stack[start..];
        let outcome = match callee {
            Callee::Own(function) => {
                let (min, max) = function.args;
                if !(min..=max).contains(&args.len()) {
                    return Err(Fault::Arguments {
                        function: function.name.into(),
                        given: args.len(),
                    });
                }
                let room = &mut self.room;
                let host = &ServicesOf(host);
                Outcome::Value((function.run)(&mut Call { args, room, host })?)
            }
            Callee::Host(name) => {
                let room = &mut self.room;
                host.call(name, &mut HostCall { args, room })?
            }
        };
        self.stack.truncate(start);
        if matches!(outcome, Outcome::Later) {
            return Ok(Some(Progress::Waiting));
        }
        self.take(outcome)?;
        Ok(None)
    }

    fn take(&mut self, outcome: Outcome) -> Result<(), Fault> {
        match outcome {
            Outcome::Value(value) => self.stack.push(value),
            Outcome::Run(program, dot) => {
                self.check_calls()?;
                self.enter(&program, dot, Sink::Value);
            }
            Outcome::Import(program) => {
                let frame = self.frames.last().expect("a template called it");
                let mut templates = frame.templates.borrow_mut();
                templates.extend(program.defined.iter().cloned());
                drop(templates);
                self.stack.push(Value::text(""));
            }
            Outcome::Later => return Err(Fault::failed("there is nothing to supply")),
        }
        Ok(())
    }

    fn template(&mut self, name: &Text) -> Result<(), Fault> {
        self.check_calls()?;
        let dot = self.stack.pop().expect("a pipeline leaves a value");
        let frame = self.frames.last().expect("a template called it");
        let templates = frame.templates.clone();
        let found = templates.borrow().get(name).cloned();
        let code = found.ok_or_else(|| Fault::UnknownTemplate(name.lossy().into()))?;
        self.push_frame(code, dot, templates, Sink::Caller);
        Ok(())
    }

    fn check_calls(&self) -> Result<(), Fault> {
        if self.frames.len() >= CALLS_MAX {
            return Err(Fault::Limit("templates that call each other"));
        }
        Ok(())
    }
}

impl Frame {
    fn dot(&self) -> Value {
        self.dots.last().expect("a frame begins with one").clone()
    }
}

impl Rounds {
    /// The rounds over a value; `None` if there are none.
    fn over(value: &Value, names: u8) -> Result<Option<Rounds>, Fault> {
        let rounds = match value.plain() {
            Value::Nil => return Ok(None),
            Value::List(list) if list.items().is_empty() => return Ok(None),
            list @ Value::List(_) => Rounds::List { list, next: 0 },
            Value::Map(map) if map.is_empty() => return Ok(None),
            Value::Map(map) => Rounds::Map {
                entries: map.entries().into_iter(),
            },
            Value::Int(end, _) if names < 2 => {
                if end <= 0 {
                    return Ok(None);
                }
                Rounds::Numbers { next: 0, end }
            }
            other => {
                return Err(Fault::Type {
                    wanted: "something to range over",
                    found: other.type_name(),
                });
            }
        };
        Ok(Some(rounds))
    }

    /// The next key and value.
    fn next(&mut self) -> Option<(Value, Value)> {
        match self {
            Rounds::List { list, next } => {
                let Value::List(list) = list else { return None };
                let item = list.items().get(*next)?.clone();
                *next += 1;
                Some((Value::int(*next as i64 - 1), item))
            }
            Rounds::Map { entries } => {
                let (name, value) = entries.next()?;
                Some((Value::Text(name), value))
            }
            Rounds::Numbers { next, end } => {
                if next >= end {
                    return None;
                }
                *next += 1;
                Some((Value::int(*next - 1), Value::int(*next - 1)))
            }
        }
    }
}

/// The field or the value of the method called `name`.
fn member(of: &Value, name: &str, args: &[Value], room: &mut Room) -> Result<Value, Fault> {
    let found = match of {
        Value::Nil => return Err(Fault::OfNil(name.into())),
        Value::Object(object) => object.member(name, args, room)?,
        Value::Time(time) => crate::functions::time_member(time, name, args)?,
        Value::Duration(nanos) => crate::functions::duration_member(*nanos, name),
        Value::Map(map) if args.is_empty() => {
            Some(map.find(&Text::new(name)).unwrap_or_else(|| map.missing()))
        }
        Value::Map(_)
        | Value::Bool(_)
        | Value::Int(..)
        | Value::Float(_)
        | Value::Text(_)
        | Value::List(_) => None,
    };
    found.ok_or_else(|| Fault::NoField {
        name: name.into(),
        of: Box::from(&*of.type_name()),
    })
}
