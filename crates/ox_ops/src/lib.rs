//! The op table, and the torch surface on top of it.
