//! `hostile`: the spoke process, the app and the stand-in hub of the escape suite.

use std::process::ExitCode;

fn main() -> ExitCode {
    escapes::main(&std::env::args().skip(1).collect::<Vec<_>>())
}
