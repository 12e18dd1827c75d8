//! From the model to a running server: everything is opened, bound and loaded, or nothing is changed.
