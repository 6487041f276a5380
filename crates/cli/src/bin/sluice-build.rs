//! `sluice-build`: the program that installs packages inside a sandbox. `sluice` starts it.

fn main() -> std::process::ExitCode {
    provision::build_main()
}
