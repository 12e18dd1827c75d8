//! A compiled template: instructions for a stack machine. `parse` generates them, `machine` executes them.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;

use crate::function::Function;
use crate::value::{Text, Value};

/// A parsed source: what it writes, and the templates it defines.
#[derive(Debug)]
pub struct Program {
    pub(crate) main: Rc<Code>,
    pub(crate) defined: Vec<(Text, Rc<Code>)>,
}

/// The steps of one template.
#[derive(Debug)]
pub(crate) struct Code {
    /// The source that plain text is taken from.
    pub source: Rc<[u8]>,
    pub ops: Vec<Op>,
    /// The lines of the steps: from which step on it is which.
    pub lines: Vec<(u32, u32)>,
    /// How many variables it needs.
    pub variables: usize,
}

impl Code {
    /// Whether it writes nothing but spaces: such a template may be defined anew.
    pub(crate) fn is_empty(&self) -> bool {
        self.ops.iter().all(|op| match op {
            Op::Plain(from, to) => self.source[*from as usize..*to as usize]
                .trim_ascii()
                .is_empty(),
            _ => false,
        })
    }

    /// The line that a step stands in.
    pub(crate) fn line(&self, at: usize) -> u32 {
        let after = self.lines.partition_point(|(from, _)| *from as usize <= at);
        self.lines[..after].last().map_or(1, |(_, line)| *line)
    }
}

/// What a call calls.
#[derive(Clone, Debug)]
pub(crate) enum Callee {
    /// One of ours.
    Own(&'static Function),
    /// One of the host.
    Host(Box<str>),
}

/// One step. Numbers of steps are from the beginning of the code.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Writes a part of the source.
    Plain(u32, u32),
    /// Pushes a constant.
    Push(Value),
    /// Pushes the dot.
    Dot,
    /// Pushes a variable.
    Load(u16),
    /// Pops a value into a variable.
    Store(u16),
    /// Pops `args` values and what they are for, pushes its field or what its method gives.
    /// `piped`: the last argument was pushed first.
    Field { name: Text, args: u8, piped: bool },
    /// Pops `args` values, pushes what the function gives.
    Call {
        callee: Box<Callee>,
        args: u8,
        piped: bool,
    },
    /// Goes to a step if the top is true (false), keeping it; else pops it.
    KeepIf { truth: bool, to: u32 },
    /// Takes away the value below the top.
    Nip,
    /// Pops a value and writes it.
    Write,
    /// Goes to a step.
    Jump(u32),
    /// Pops a value; goes to a step if it is false.
    JumpUnless(u32),
    /// Pops a value and makes it the dot; goes to a step instead if it is false.
    With(u32),
    /// Ends the last `With`.
    LeaveWith,
    /// Pops a value to range over; goes to a step if it is empty.
    Range { names: u8, empty: u32 },
    /// The next round: sets the dot and the variables; goes to a step at the end.
    Round {
        key: Option<u16>,
        value: Option<u16>,
        end: u32,
    },
    /// Ends a range.
    LeaveRange,
    /// Pops a value and writes the template with this name for it.
    Template(Text),
}
