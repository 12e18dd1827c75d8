//! The limits of this package, each with the reason for its number.
