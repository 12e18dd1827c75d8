//! Open files and their contents.
