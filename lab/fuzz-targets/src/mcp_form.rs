//! What an app asks the user, as it wrote it. It is a form that holds to its limits, with no more fields than were written, or it
//! is refused with a reason.

#[path = "../../../crates/mcp/src/form.rs"]
mod form;

use rmcp::model::ElicitRequestParams;
use serde_json::Value;

pub(crate) fn mcp_form(bytes: &[u8]) -> bool {
    let Ok(params) = serde_json::from_slice::<ElicitRequestParams>(bytes) else {
        return false;
    };
    let form = match form::read(params) {
        Ok(form) => form,
        Err(why) => {
            assert!(!why.is_empty() && why.len() < 1_000, "{why}");
            return false;
        }
    };
    form.check().expect("what is asked holds to its limits");
    let written: Value = serde_json::from_slice(bytes).expect("it was read before");
    let properties = &written["requestedSchema"]["properties"];
    for field in &form.fields {
        assert!(properties.get(&field.name).is_some(), "{}", field.name);
    }
    assert_eq!(form.message, written["message"]);
    true
}
