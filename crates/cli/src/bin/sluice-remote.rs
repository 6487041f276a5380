//! `sluice-remote`: the client of a remote MCP server. A spoke starts it.

fn main() -> std::process::ExitCode {
    remote::main()
}
