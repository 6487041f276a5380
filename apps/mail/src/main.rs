//! A mail app as an MCP server.

fn main() {}
