//! The binary `sluice`.

fn main() {}
