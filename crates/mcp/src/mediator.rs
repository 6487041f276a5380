//! Our side of the protocol as the app sees it: it answers pings, and passes questions for the user on, one by one, to
//! the hub, which decides on them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientResult, ElicitResult, ElicitationAction,
    ElicitationCapability, ErrorCode, ErrorData, FormElicitationCapability, Implementation,
    InputRequest, InputRequiredResult, InputResponses, ProtocolVersion, ServerNotification,
    ServerRequest,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient, Service};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};
use wire::{Breach, FailureReason, Form, Offer, Progress, Refusal, Reply, Wish};

use crate::form;
use crate::guard::breach;

/// Most requests within one answer of `input_required`: each is a question of its own.
const MAX_INPUT_REQUESTS: usize = 4;

/// What the app asked of its client.
#[derive(Debug)]
pub enum Asked {
    /// A question for the user, on which the hub decides.
    Request(Request),
    /// Something that has been refused already, and the words of the app that say which it is.
    Refused(Wish, Refusal, String),
    /// How far it has come with the call of this number, which may be over.
    Progress(u64, Progress),
}

/// A request of the app that waits for an answer. Dropped, it counts as dismissed.
#[derive(Debug)]
pub struct Request {
    /// What the app asks the user.
    pub form: Form,
    answer: oneshot::Sender<Reply>,
}

impl Request {
    /// Answers it. An app that no longer waits gets nothing.
    pub fn answer(self, reply: Reply) {
        let _ = self.answer.send(reply);
    }
}

/// Hands requests on, and counts those that wait.
#[derive(Debug, Clone)]
pub(crate) struct Mediator {
    offer: Offer,
    requests: mpsc::Sender<Asked>,
    waiting: Arc<watch::Sender<usize>>,
    /// Whether the app has said that its tools changed since they were last listed.
    tools_changed: Arc<AtomicBool>,
}

impl Mediator {
    pub(crate) fn new(offer: Offer, requests: mpsc::Sender<Asked>) -> Self {
        Self {
            offer,
            requests,
            waiting: Arc::new(watch::Sender::new(0)),
            tools_changed: Arc::default(),
        }
    }

    /// Where what the app asks is handed on.
    pub(crate) fn requests(&self) -> mpsc::Sender<Asked> {
        self.requests.clone()
    }

    /// What the app is offered.
    pub(crate) fn offer(&self) -> &Offer {
        &self.offer
    }

    /// The app's notice of changed tools, if there was one since they were last listed.
    ///
    /// Taken before the tools are listed: what it says meanwhile may be about what the list no longer has.
    pub(crate) fn takes_change(&self) -> Option<Unseen> {
        let has_changed = self.tools_changed.swap(false, Ordering::AcqRel);
        has_changed.then(|| Unseen(Some(Arc::clone(&self.tools_changed))))
    }

    /// How many requests wait for us: meanwhile the app's time does not pass.
    pub(crate) fn waiting(&self) -> watch::Receiver<usize> {
        self.waiting.subscribe()
    }

    /// Counts one more that waits for us.
    pub(crate) fn wait(&self) -> Waiting {
        // A count, since several may wait at a time: the clock goes on when the last one has its answer.
        self.waiting.send_modify(|count| *count += 1);
        Waiting(Arc::clone(&self.waiting))
    }

    /// Answers what an app needs before it can go on with a call (`input_required`).
    ///
    /// # Errors
    /// It needs what was not offered, or too much at once.
    pub(crate) async fn inputs(
        &self,
        needed: InputRequiredResult,
    ) -> Result<(Option<InputResponses>, Option<String>), FailureReason> {
        let requests = needed.input_requests.unwrap_or_default();
        if requests.len() > MAX_INPUT_REQUESTS {
            return Err(breach(Breach::CallAnswer));
        }
        let mut responses = InputResponses::new();
        for (key, request) in requests {
            let response = match request {
                InputRequest::Elicitation(it) => {
                    let answered = self.handle(ServerRequest::ElicitRequest(it)).await;
                    // There is no error in an input response, and the user has not said no.
                    answered.unwrap_or_else(|_| elicited(ElicitationAction::Cancel))
                }
                _ => return Err(breach(Breach::CallAnswer)),
            };
            let response = serde_json::to_value(response);
            responses.insert(key, response.map_err(|_| breach(Breach::CallAnswer))?);
        }
        let responses = (!responses.is_empty()).then_some(responses);
        Ok((responses, needed.request_state))
    }

    async fn handle(&self, request: ServerRequest) -> Result<ClientResult, ErrorData> {
        match request {
            ServerRequest::PingRequest(_) => Ok(ClientResult::empty(())),
            ServerRequest::ElicitRequest(request) => {
                let form = match form::read(request.params) {
                    Ok(form) => form,
                    Err(problem) => return Err(self.unfit(Wish::Question, problem).await),
                };
                match self.ask(form).await {
                    Reply::Accepted(content) => {
                        let content: Value =
                            serde_json::from_str(&content).map_err(|_| refused(Refusal::Failed))?;
                        let accepted = ElicitResult::new(ElicitationAction::Accept);
                        let accepted = accepted.with_content(content);
                        Ok(ClientResult::ElicitResult(accepted))
                    }
                    Reply::Declined => Ok(elicited(ElicitationAction::Decline)),
                    Reply::Dismissed => Ok(elicited(ElicitationAction::Cancel)),
                    Reply::Refused(why) => Err(refused(why)),
                }
            }
            _ => {
                self.refused(Wish::Other, Refusal::NotOffered).await;
                Err(ErrorData::new(
                    ErrorCode::METHOD_NOT_FOUND,
                    "this client offers no such capability",
                    None,
                ))
            }
        }
    }

    /// A request that cannot be shown to a person.
    async fn unfit(&self, wish: Wish, problem: String) -> ErrorData {
        self.refused(wish, Refusal::Unfit).await;
        ErrorData::new(ErrorCode::INVALID_PARAMS, problem, None)
    }

    /// Reports a refusal. If the receiver is gone, the app is about to end.
    async fn refused(&self, wish: Wish, why: Refusal) {
        let refused = Asked::Refused(wish, why, String::new());
        let _ = self.requests.send(refused).await;
    }

    /// Hands a request on and waits for the answer.
    async fn ask(&self, form: Form) -> Reply {
        // Until the answer is here: a person may take minutes, and that is not the app's time.
        let _waiting = self.wait();
        let (answer, answered) = oneshot::channel();
        let request = Asked::Request(Request { form, answer });
        if self.requests.send(request).await.is_err() {
            return Reply::Refused(Refusal::Failed);
        }
        answered.await.unwrap_or(Reply::Dismissed)
    }
}

/// Changed tools that are being looked at. Dropped before they were seen, the next call looks at them: the call
/// that did may be cancelled or run out of time, and an app can leave its list unanswered to bring that about.
#[derive(Debug)]
pub(crate) struct Unseen(Option<Arc<AtomicBool>>);

impl Unseen {
    /// They were looked at.
    pub(crate) fn seen(mut self) {
        self.0 = None;
    }
}

impl Drop for Unseen {
    fn drop(&mut self) {
        if let Some(tools_changed) = &self.0 {
            tools_changed.store(true, Ordering::Release);
        }
    }
}

/// The app waits for us, as long as this lives: no time of its calls passes.
#[derive(Debug)]
pub struct Waiting(Arc<watch::Sender<usize>>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

fn elicited(action: ElicitationAction) -> ClientResult {
    ClientResult::ElicitResult(ElicitResult::new(action))
}

fn refused(why: Refusal) -> ErrorData {
    ErrorData::new(ErrorCode::INVALID_REQUEST, why.to_string(), None)
}

impl Service<RoleClient> for Mediator {
    async fn handle_request(
        &self,
        request: ServerRequest,
        _context: RequestContext<RoleClient>,
    ) -> Result<ClientResult, ErrorData> {
        self.handle(request).await
    }

    async fn handle_notification(
        &self,
        notification: ServerNotification,
        _context: NotificationContext<RoleClient>,
    ) -> Result<(), ErrorData> {
        // What is new is not offered before the next start, at which it is looked at.
        // The user is told once until the tools are listed again, however often the app repeats it.
        if let ServerNotification::ToolListChangedNotification(_) = notification
            && !self.tools_changed.swap(true, Ordering::AcqRel)
        {
            self.refused(Wish::Tools, Refusal::NotReviewed).await;
        }
        Ok(())
    }

    fn get_info(&self) -> ClientConfig {
        let forms = FormElicitationCapability::default();
        let mut capabilities = ClientCapabilities::default();
        // Also where no user can be asked: some servers list other tools then, and would not be the reviewed app.
        capabilities.elicitation = Some(ElicitationCapability::new().with_form(forms));
        let own = Implementation::new("sluice", env!("CARGO_PKG_VERSION"));
        let mut config = ClientConfig::new(capabilities, own);
        // The newest that has a handshake: a later one is asked for by none, and older servers may refuse it.
        config.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        config
    }
}
