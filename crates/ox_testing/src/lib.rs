//! Reference interpreters and the backend suite.
