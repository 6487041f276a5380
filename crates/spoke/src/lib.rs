//! The spoke process: hosts one app and bridges hub frames to MCP.
