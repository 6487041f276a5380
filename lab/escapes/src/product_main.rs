//! The product's hub, among hostile spokes.

use std::process::ExitCode;

fn main() -> ExitCode {
    escapes::product_main(&std::env::args().skip(1).collect::<Vec<_>>())
}
