//! `sluice-spoke`: the program inside the sandbox. `sluice` starts it.

fn main() -> std::process::ExitCode {
    spoke::main()
}
