//! Allocation strategies written as a user would write them, against the public API only.
