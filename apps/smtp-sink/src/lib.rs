//! A small SMTP server.
