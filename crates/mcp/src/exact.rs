//! Arguments on their way to the app, and results on their way from it: as text.
//!
//! What the policy judged and the user was shown is a text, and the app must get that text; what a model reads and labels
//! are computed on must be the text that the app wrote. `rmcp` takes both as values of `serde_json`, where a number is 64
//! bits or a double: an account of twenty digits would arrive as another one. So `rmcp` is given the text as a string. The
//! transport puts arguments where they belong, and takes results from there. No type of `rmcp` then reads a result, so an
//! odd member of it is for its reader to judge.

use std::collections::BTreeMap;

use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequestParams, CancelledNotification, CancelledNotificationParam, ClientNotification,
    ClientRequest, CustomResult, GetMeta, JsonRpcMessage, NumberOrString, ProgressToken, RequestId,
    ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RxJsonRpcMessage, TxJsonRpcMessage};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use wire::{Breach, FailureReason};

use crate::guard::{CALL_TOKEN, breach};
use crate::process::Ending;

/// The members of an object, each as it is written.
type Members<'a> = BTreeMap<&'a str, &'a RawValue>;

/// The answer to a request, as [`ask`] takes it.
pub(crate) fn answer(
    id: RequestId,
    result: Result<String, FailureReason>,
) -> RxJsonRpcMessage<RoleClient> {
    let carried = match result {
        Ok(text) => Value::String(text),
        Err(reason) => serde_json::to_value(reason).unwrap_or_default(),
    };
    let carried = ServerResult::CustomResult(CustomResult::new(carried));
    JsonRpcMessage::response(carried, id)
}

/// Asks the app, and waits for the result as the app wrote it. Dropped before, it tells the app that it waits no more.
///
/// # Errors
/// The app's error, which is this breach of the protocol unless it answers a call, or why there is no answer.
pub(crate) async fn ask(
    peer: &Peer<RoleClient>,
    request: impl Into<ClientRequest>,
    asked: Breach,
    ending: &Ending,
) -> Result<String, FailureReason> {
    let options = PeerRequestOptions::no_options();
    let answer = match peer.send_cancellable_request(request.into(), options).await {
        Ok(handle) => {
            let mut waiting = GiveUpOnDrop(peer, Some(handle.id.clone()));
            let answer = handle.await_response().await;
            waiting.1 = None;
            answer
        }
        Err(error) => Err(error),
    };
    let carried = match answer {
        Ok(ServerResult::CustomResult(CustomResult(carried))) => carried,
        Ok(_) => return Err(breach(asked)),
        // The connection is closed. The supervisor learns the cause in a moment.
        Err(_) => return Err(ending.likely_cause().await),
    };
    match carried {
        Value::String(text) => Ok(text),
        reason => Err(match serde_json::from_value(reason) {
            Ok(FailureReason::AppError { said, .. }) if asked != Breach::CallAnswer => {
                FailureReason::Protocol {
                    breach: asked,
                    said,
                }
            }
            Ok(reason) => reason,
            Err(_) => breach(asked),
        }),
    }
}

/// Tells the app when it is dropped that the answer to a request is not awaited any more.
struct GiveUpOnDrop<'a>(&'a Peer<RoleClient>, Option<RequestId>);

impl Drop for GiveUpOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.1.take() {
            let why = Some("the client waits no more".to_owned());
            let params = CancelledNotificationParam::new(Some(id), why);
            let notice = ClientNotification::from(CancelledNotification::new(params));
            let peer = self.0.clone();
            // Everything runs in the spoke's one runtime, which lasts as long as the app.
            tokio::spawn(async move { peer.send_notification(notice).await });
        }
    }
}

/// A call with these arguments: JSON text of an object, on one line. Until the call is written the text stands under the
/// hub's number of the call. An app sees neither.
pub(crate) fn call(number: u64, tool: String, arguments: String) -> CallToolRequestParams {
    let carried = Map::from_iter([(number.to_string(), Value::String(arguments))]);
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
    let carried = call.params.arguments.take().unwrap_or_default();
    let (number, text) = carried.into_iter().next().unwrap_or_default();
    let text: String = serde_json::from_value(text)?;
    let arguments = RawValue::from_string(text)?;
    // In the place of `rmcp`'s own, so that what the app says of its progress is known to be about this call.
    let token = NumberOrString::String(format!("{CALL_TOKEN}{number}").into());
    let meta = request.request.get_meta_mut();
    meta.set_progress_token(ProgressToken(token));
    let line = serde_json::to_vec(&item)?;
    let mut message: Members<'_> = serde_json::from_slice(&line)?;
    let params = message.get("params").map_or("{}", |params| params.get());
    let mut params: Members<'_> = serde_json::from_str(params)?;
    params.insert("arguments", &arguments);
    let params = to_raw_value(&params)?;
    message.insert("params", &params);
    serde_json::to_vec(&message)
}
