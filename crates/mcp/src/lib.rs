//! MCP client; the only crate that uses rmcp.
