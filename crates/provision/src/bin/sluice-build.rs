//! `sluice-build`: started by Sluice for a build spoke, never by hand.

fn main() -> std::process::ExitCode {
    provision::build_main()
}
