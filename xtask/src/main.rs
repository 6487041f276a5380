//! Set-up, tests and the demo of Sluice.

fn main() {}
