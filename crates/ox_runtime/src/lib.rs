//! Runs Plans over torch's C ABI.
