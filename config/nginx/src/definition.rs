//! The definition of a directive: its name, what it takes, how often it may stand, what its arguments have to be and what
//! becomes of it.

use sluice_model::Handler;

use crate::context::Context;
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::text::Facts;
use crate::tree::Directive;

/// What becomes of a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does what nginx's documentation says.
    Works,
    /// It does what is named.
    Partly(&'static str),
    /// Its effect is always there; says why.
    Always(&'static str),
    /// It is read, changes nothing and is warned of; says what holds in its place.
    Idle(&'static str),
    /// With one of these first words it does what the documentation says; otherwise as `NotYet`.
    OnlyAs(&'static [&'static str]),
    /// It is refused by name as it is not built yet.
    NotYet,
    /// It is refused by name and will not come; says why.
    Refused(&'static str),
}

/// What a directive takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Nothing.
    Nothing,
    /// `on` or `off`.
    Flag,
    /// So many words, at least and at most.
    Words(usize, usize),
    /// One of these.
    Choice(&'static [&'static str]),
    /// A number.
    Number,
    /// A size, such as `8k`.
    Size,
    /// A length of time, such as `30s`.
    Time,
    /// So many words, at least and at most, and a block.
    Block(usize, usize),
}

/// As many words as there are.
pub const MANY: usize = usize::MAX;

/// Whether a directive may stand more than once in one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// It may.
    Yes,
    /// It may not.
    No,
    /// It may not, and not beside the directive of this name either.
    NotBeside(&'static str),
    /// Once for each first word, which names what it defines.
    OncePerName,
    /// Once for each zone, the value of its `zone=`.
    OncePerZone,
}

/// An argument that means nothing: its number, and what may stand there.
pub type Wrong = (usize, &'static str);

/// A check of arguments whose number fits, wherever the directive occurs and whether or not it is in use: what `nginx -t`
/// would reject is rejected. Checks that need more than the directive itself are part of the lowering.
pub type Check = fn(&Directive) -> Option<Wrong>;

/// Keywords that arguments must be, in any case.
#[derive(Clone, Copy, Debug)]
pub struct Keywords {
    /// The first argument that is one of them.
    pub from: usize,
    /// The keywords.
    pub words: &'static [&'static str],
    /// The expected keywords, shown in the diagnostic.
    pub wanted: &'static str,
}

/// A directive that sets the content handler, and where it stands.
#[derive(Clone, Copy)]
pub struct Content<'a> {
    /// The location around it.
    pub level: &'a Level<'a>,
    /// The directive.
    pub directive: &'a Directive,
    /// What is known of the place.
    pub facts: &'a Facts,
    /// The path of the location, if it is compared from the left.
    pub prefix: Option<&'a str>,
}

/// Lowers a directive that sets the content handler; `None` if it was refused.
pub type LowerContent = fn(&mut Lowering<'_>, Content<'_>) -> Option<Handler>;

/// A directive as its module defines it. Contexts and syntax are nginx's own: `registry` has them from its documentation.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// Its name, without the prefix of its module.
    pub name: &'static str,
    /// What it takes.
    pub takes: Takes,
    /// Whether it may be repeated.
    pub repeats: Repeats,
    /// What becomes of it.
    pub verdict: Verdict,
    /// The keywords that it takes, if only such.
    pub keywords: Option<&'static Keywords>,
    /// What else its arguments have to be.
    pub check: Option<Check>,
    /// Whether other directives name what it defines: it is kept even if an argument of it is refused.
    pub is_named: bool,
    /// What directives of its block stand in, by what it stands in itself; `None` if its block holds no directives.
    pub holds: Option<fn(Context) -> Context>,
    /// How it is lowered if it sets the content handler. All others are lowered by what needs their values.
    pub content: Option<LowerContent>,
}

impl Definition {
    /// With another verdict.
    pub const fn but(self, verdict: Verdict) -> Definition {
        Definition { verdict, ..self }
    }

    /// With arguments that are keywords.
    pub const fn of(self, keywords: &'static Keywords) -> Definition {
        Definition {
            keywords: Some(keywords),
            ..self
        }
    }

    /// With arguments that fit by this check.
    pub const fn checked(self, check: Check) -> Definition {
        Definition {
            check: Some(check),
            ..self
        }
    }

    /// With another rule of how often it may stand.
    pub const fn repeated(self, repeats: Repeats) -> Definition {
        Definition { repeats, ..self }
    }

    /// Defining what other directives name.
    pub const fn named(self) -> Definition {
        Definition {
            is_named: true,
            ..self
        }
    }

    /// With a block of directives.
    pub const fn holding(self, holds: fn(Context) -> Context) -> Definition {
        Definition {
            holds: Some(holds),
            ..self
        }
    }

    /// Setting the content handler.
    pub const fn content(self, content: LowerContent) -> Definition {
        Definition {
            content: Some(content),
            ..self
        }
    }

    /// The first argument that means nothing, if any.
    pub fn wrong(&self, directive: &Directive) -> Option<Wrong> {
        let keyword = self.keywords.and_then(|set| set.wrong(directive));
        keyword.or_else(|| self.check.and_then(|check| check(directive)))
    }
}

impl Keywords {
    fn wrong(&self, directive: &Directive) -> Option<Wrong> {
        let is_one = |text: &str| {
            self.words
                .iter()
                .any(|word| word.eq_ignore_ascii_case(text))
        };
        let mut words = directive.args.iter().enumerate().skip(self.from);
        let (at, _) = words.find(|(_, word)| !is_one(&word.text))?;
        Some((at, self.wanted))
    }
}

/// A directive that works, and that a block may have once.
pub const fn once(name: &'static str, takes: Takes) -> Definition {
    Definition {
        name,
        takes,
        repeats: Repeats::No,
        verdict: Verdict::Works,
        keywords: None,
        check: None,
        is_named: false,
        holds: None,
        content: None,
    }
}

/// A directive that works, and that a block may have more than once.
pub const fn many(name: &'static str, takes: Takes) -> Definition {
    once(name, takes).repeated(Repeats::Yes)
}
