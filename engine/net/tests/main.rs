//! The tests of the package that need a process of their own: they panic on purpose.

mod panics;
