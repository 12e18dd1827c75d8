//! Access and runtime logs: encoders, outputs, rotation. What is worth a line is left to `record`.
