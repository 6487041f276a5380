//! `after = "approve"`: calls that run only after another one.

use policy::After;

use crate::toml_reader::Table;
use crate::watch::Takes;

/// Reads the key of a tool: the name of another, or `{ tool = "approve", same = ["ticket"] }`.
pub(crate) fn after(table: &Table<'_>) -> Option<After> {
    table.takes("after", Takes::String);
    table.takes("after", Takes::Table);
    let value = table.value("after")?;
    if let Some(tool) = value.get_ref().as_str() {
        let (tool, same) = (tool.to_owned(), Vec::new());
        return Some(After { tool, same });
    }
    if !value.get_ref().is_table() {
        let right = "\"TOOL\", or { tool = \"TOOL\", same = [\"ARGUMENT\"] }";
        table.wrong_type("after", value, right);
        return None;
    }
    let table = table.table("after")?;
    let tool = table.string("tool");
    table.needs("tool", "tool = \"TOOL\", which must have succeeded before");
    let same = table.words("same").unwrap_or_default();
    table.finish();
    Some(After {
        tool: tool?.value.to_owned(),
        same: same.iter().map(|name| name.value.to_owned()).collect(),
    })
}
