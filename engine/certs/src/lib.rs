//! Certificates: files, the local CA, and their storage.
