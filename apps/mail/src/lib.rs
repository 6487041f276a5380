//! Mail.
