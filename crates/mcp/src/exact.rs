//! The arguments of a call on their way to the app: as text.
//!
//! What the policy judged and the user was shown is a text, and the app must get that text. `rmcp` takes arguments as
//! values of `serde_json`, where a number is 64 bits or a double: an account of twenty digits would arrive as another
//! one. So `rmcp` is given the text as a string, and the transport puts it where the arguments belong.

use std::collections::BTreeMap;

use rmcp::RoleClient;
use rmcp::model::{CallToolRequestParams, ClientRequest, JsonRpcMessage};
use rmcp::service::TxJsonRpcMessage;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

/// The members of an object, each as it is written.
type Members<'a> = BTreeMap<&'a str, &'a RawValue>;

/// The member that holds the text until the call is written. An app never sees it.
const TEXT: &str = "text";

/// A call with these arguments: JSON text of an object, on one line.
pub(crate) fn call(tool: String, arguments: String) -> CallToolRequestParams {
    let carried = Map::from_iter([(TEXT.to_owned(), Value::String(arguments))]);
    CallToolRequestParams::new(tool).with_arguments(carried)
}

/// A message as the app gets it, without the end of its line.
///
/// # Errors
/// It cannot be written, or is a call whose arguments are no text: those would be written as a reader took them.
pub(crate) fn line(mut item: TxJsonRpcMessage<RoleClient>) -> serde_json::Result<Vec<u8>> {
    let JsonRpcMessage::Request(request) = &mut item else {
        return serde_json::to_vec(&item);
    };
    let ClientRequest::CallToolRequest(call) = &mut request.request else {
        return serde_json::to_vec(&item);
    };
    let text = call.params.arguments.take();
    let text = text.and_then(|mut carried| carried.remove(TEXT));
    let text: String = serde_json::from_value(text.unwrap_or_default())?;
    let arguments = RawValue::from_string(text)?;
    let line = serde_json::to_vec(&item)?;
    let mut message: Members<'_> = serde_json::from_slice(&line)?;
    let params = message.get("params").map_or("{}", |params| params.get());
    let mut params: Members<'_> = serde_json::from_str(params)?;
    params.insert("arguments", &arguments);
    let params = to_raw_value(&params)?;
    message.insert("params", &params);
    serde_json::to_vec(&message)
}
