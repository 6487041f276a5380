//! A hostile app: an MCP server with one tool, whose argument is what the attacker knows and whose result is what was seen.

use std::io::{BufRead, Write};

use serde_json::{Value, json};

use crate::{Error, inside};

pub(crate) fn main() -> Result<(), Error> {
    let mut out = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        // A notification wants no answer.
        let Some(id) = request.get("id") else {
            continue;
        };
        let parameters = request.get("params").cloned().unwrap_or_default();
        let result = match request.get("method").and_then(Value::as_str) {
            Some("initialize") => Some(json!({
                "protocolVersion": parameters.get("protocolVersion"),
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "hostile", "version": "1"},
            })),
            Some("tools/list") => Some(json!({"tools": [{
                "name": "attempt",
                "description": "Tries to get out.",
                "inputSchema": {"type": "object", "properties": {"ground": {"type": "string"}}},
            }]})),
            Some("tools/call") => Some(called(&parameters)?),
            _ => None,
        };
        let answer = match result {
            Some(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            None => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no such method"}})
            }
        };
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

fn called(parameters: &Value) -> Result<Value, Error> {
    let ground = parameters
        .pointer("/arguments/ground")
        .and_then(Value::as_str);
    let ground = serde_json::from_str(ground.unwrap_or_default())?;
    let seen = serde_json::to_string(&inside::make_all(&ground))?;
    Ok(json!({"content": [{"type": "text", "text": seen}]}))
}
