//! Graph to Graph: rules and passes, one ordered list.
