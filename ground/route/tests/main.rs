//! Matchers, index, rewrites and regular expressions: the tests of the package in one program.

mod index;
mod matchers;
mod pcre;
mod references;
mod rewrite;
mod robust;
mod support;
mod values;
