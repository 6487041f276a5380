//! `sluice-remote` as the tests of this crate start it; the package `sluice` has the one that is installed.

fn main() -> std::process::ExitCode {
    remote::main()
}
