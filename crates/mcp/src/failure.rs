//! Why an app gives no answer.

use rmcp::service::ServiceError;
use wire::{Breach, FailureReason, Quote};

use crate::guard::breach;
use crate::process::Ending;

/// Waits for the app's answer. One of another shape is this breach of the protocol, and so is an error of the app unless a
/// call is what was asked for.
pub(crate) async fn answered<T>(
    answer: impl Future<Output = Result<T, ServiceError>>,
    asked: Breach,
    ending: &Ending,
) -> Result<T, FailureReason> {
    let error = match answer.await {
        Ok(answer) => return Ok(answer),
        Err(error) => error,
    };
    Err(match error {
        ServiceError::McpError(error) => {
            let said = Quote::head(&error.message);
            match asked {
                Breach::CallAnswer => FailureReason::AppError {
                    code: error.code.0,
                    said,
                },
                breach => FailureReason::Protocol { breach, said },
            }
        }
        ServiceError::UnexpectedResponse => breach(asked),
        // The connection is closed. The supervisor learns the cause in a moment.
        _ => ending.likely_cause().await,
    })
}
