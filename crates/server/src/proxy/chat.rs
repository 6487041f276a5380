//! One request of any dialect: read, decided on, answered.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::{
    Extension, Json,
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use hub::recognise::Hold;
use hub::trace::{Call, Event, Text};
use ifc::{History, Label};
use llm::{ApiKey, RequestOptions};

use super::{
    dialect::Dialect,
    rebuild::{News, Reader, Rebuilt},
    sessions::Session,
    shared::Shared,
    tokens::Tenant,
    transcript::{Chain, Digest, fresh},
    turn::{Answered, Live, Turn},
};
use crate::conversation::Conversation;
use crate::openai_api::{
    http::{self, Slot},
    request::Takes,
    response::ApiError,
    stream::{StreamItem, StreamSender, stream},
};

const NAME_LIMIT: usize = 128;
const CONVERSATION: &str = "x-sluice-conversation";

/// One request, read and rebuilt.
struct Prepared {
    conversation: String,
    session: Session,
    options: RequestOptions,
    rebuilt: Rebuilt,
    /// What was learnt of its texts stays until it is answered.
    _texts: Hold,
}

impl Prepared {
    /// Has the turn machine answer it.
    async fn answer(self, shared: &Shared, live: Option<Live>) -> Result<Answered, ApiError> {
        let (conversation, session) = (&self.conversation, self.session.of_turn());
        let turn = Turn::new(shared, conversation, session, &self.options, live);
        turn.run(self.rebuilt).await
    }
}

pub(super) async fn chat<D: Dialect>(
    State(shared): State<Arc<Shared>>,
    Extension(Tenant(tenant)): Extension<Tenant>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let answered = answer::<D>(shared, tenant, &headers, body).await;
    answered.unwrap_or_else(|error| error.respond(D::error(&error)))
}

async fn answer<D: Dialect>(
    shared: Arc<Shared>,
    tenant: Digest,
    headers: &HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let (bytes, slot) = http::admit(headers, body, &shared.budget, &shared.slots).await?;
    let takes = Takes {
        // Where nothing says how images are labelled, one is refused.
        images: shared.labels.images.is_some(),
        unknown_members: shared.unknown_members,
    };
    let read = D::read(&bytes, takes);
    let mut request = read.map_err(ApiError::invalid)?;
    // What was read holds the same text once more.
    drop(bytes);
    let options = options(shared.tokens.upstream_key(headers), &mut request);
    let is_listed = is_listed(&shared, &options).await?;
    let prepared = prepare(&shared, tenant, headers, &request, options, is_listed)?;
    // Before anything is made of it.
    shared.written().await?;
    let answer = D::begin(&fresh("")?, &request.model);
    if request.streams {
        let start = D::start(&answer);
        let usage = request.streams_usage;
        let run = |sender| stream_answer::<D>(shared, prepared, answer, sender, usage, slot);
        return stream(start, D::failed, run).await;
    }
    let Answered { choice, usage } = prepared.answer(&shared, None).await?;
    Ok(Json(D::answer(&answer, &choice, &usage)).into_response())
}

/// Reads the request, and records what is new in it.
fn prepare(
    shared: &Shared,
    tenant: Digest,
    headers: &HeaderMap,
    request: &Conversation,
    mut options: RequestOptions,
    is_listed: bool,
) -> Result<Prepared, ApiError> {
    let conversation = conversation_name(headers).map_err(ApiError::invalid)?;
    let chain = Chain::new(&shared.secret, &tenant, conversation.as_deref());
    let texts = shared.texts.tenant(tenant);
    let reader = Reader {
        app: &shared.app,
        policy: &*shared.parts.policy,
        labels: &shared.labels,
        memory: &shared.memory,
        texts: &texts,
        result_bytes: shared.parts.settings.limits.result_bytes,
    };
    let mut rebuilt = reader.read(request, &chain).map_err(ApiError::invalid)?;
    // A first run withholds nothing.
    if !shared.observe {
        let history = &rebuilt.history;
        label_members(shared, &reader, &chain, history, is_listed, &mut options)?;
    }
    let (key, is_named) = match conversation {
        Some(_) => (chain.digest(), true),
        None => (rebuilt.beginning.digest(), false),
    };
    let lattice = &shared.parts.lattice;
    let session = shared.sessions.of(tenant, key, is_named, lattice);
    // All of them, as a client sends its whole conversation each time: what was brought before waits no more.
    let messages = request.messages.iter();
    session.returned(messages.filter_map(|message| message.answers.as_deref()));
    if shared.observer.attends() {
        let tools = rebuilt.history.tools().iter();
        let tools = tools.map(|tool| (tool.name.as_str(), tool.parameters.reveal_tcb()));
        shared.observer.tools(&tools.collect::<Vec<_>>());
    }
    let conversation = conversation.unwrap_or_else(|| short_name(&rebuilt.beginning));
    let news = std::mem::take(&mut rebuilt.news);
    if shared.records() {
        for news in news {
            shared.record(&conversation, event(shared, news));
        }
    }
    Ok(Prepared {
        conversation,
        session,
        options,
        rebuilt,
        _texts: texts.hold(),
    })
}

/// Whether the name of the model is known to be one of the upstream's; otherwise it can be any text.
async fn is_listed(shared: &Shared, options: &RequestOptions) -> Result<bool, ApiError> {
    let (Some(models), Some(name)) = (&shared.models, &options.model) else {
        return Ok(true);
    };
    if shared.observe {
        return Ok(true);
    }
    match models.has(name, options).await {
        Some(false) => Err(ApiError::no_model()),
        listed => Ok(listed == Some(true)),
    }
}

/// Gives the members of a request the labels of what they repeat, by which the broker sends them only with prompts that
/// have these labels. What could not be sent with any prompt is refused.
fn label_members(
    shared: &Shared,
    reader: &Reader<'_>,
    chain: &Chain,
    history: &History,
    is_listed: bool,
    options: &mut RequestOptions,
) -> Result<(), ApiError> {
    let members = options.members.iter();
    let mut labels: Vec<(String, Label)> = members
        .map(|(name, value)| {
            // A name that the API does not have can be any text as well.
            let text = format!("{name} {value}");
            (name.clone(), reader.label_beside(name, text, chain))
        })
        .collect();
    if let Some(model) = options.model.as_ref().filter(|_| !is_listed) {
        // Not a name of the upstream's, it may be anything that the client has read.
        let label = reader.label_beside("model", model.clone(), chain);
        labels.push(("model".to_owned(), label.join(&history.label())));
    }
    labels.retain(|(_, label)| !label.is_bottom());
    for (name, label) in labels {
        let clearances = shared.parts.broker.clearances(None);
        let is_cleared = clearances.iter().any(|clearance| label.flows_to(clearance));
        let why = match (is_cleared, label.flows_to(&history.label())) {
            (false, _) => "the upstream is not cleared for",
            (true, false) => "no message of this conversation has",
            (true, true) => {
                options.labels.insert(name, label);
                continue;
            }
        };
        let taints = shared.parts.lattice.describe(&label).join(", ");
        let message = format!("`{name}` repeats text that is {taints}, which {why}; leave it out");
        return Err(ApiError::new(StatusCode::FORBIDDEN, message));
    }
    Ok(())
}

/// Streams the answer, its text as the pieces come.
async fn stream_answer<D: Dialect>(
    shared: Arc<Shared>,
    prepared: Prepared,
    answer: D::Answer,
    sender: StreamSender,
    with_usage: bool,
    _slot: Slot,
) {
    let (own, pieces) = (answer.clone(), sender.clone());
    let live: Live = Box::new(move |piece| pieces.send(StreamItem::Frame(D::text(&own, piece))));
    match prepared.answer(&shared, Some(live)).await {
        Ok(Answered { choice, usage }) => {
            let frames = D::end(&answer, &choice, with_usage.then_some(&usage));
            for frame in frames {
                sender.send(StreamItem::Frame(frame));
            }
            sender.send(StreamItem::Done);
        }
        Err(error) => sender.send(StreamItem::Failed(error)),
    }
}

/// The client's wishes, for the upstream.
fn options(key: Option<ApiKey>, request: &mut Conversation) -> RequestOptions {
    let strict = request.tools.iter();
    let strict = strict.filter_map(|tool| Some((tool.name.clone(), tool.strict?)));
    RequestOptions {
        model: Some(request.model.clone()),
        bearer: key,
        token_limit: request.token_limit,
        stream: None,
        tool_choice: request.tool_choice.take(),
        strict: strict.collect(),
        dialect: llm::Dialect::Chat,
        members: std::mem::take(&mut request.members),
        beta: None,
        labels: BTreeMap::new(),
    }
}

fn conversation_name(headers: &HeaderMap) -> Result<Option<String>, String> {
    let Some(name) = headers.get(CONVERSATION) else {
        return Ok(None);
    };
    let name = name.to_str().ok().filter(|name| {
        (1..=NAME_LIMIT).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
    });
    match name {
        Some(name) => Ok(Some(name.to_owned())),
        None => Err(format!(
            "`{CONVERSATION}` must be 1 to {NAME_LIMIT} visible ASCII characters"
        )),
    }
}

/// A name for people, where the client gave none: the same for all requests of a conversation.
/// Two conversations that begin with the same words share it; nothing is decided by it.
fn short_name(beginning: &Chain) -> String {
    let digest = beginning.digest();
    digest
        .iter()
        .take(6)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn event(shared: &Shared, news: News) -> Event {
    let lattice = &shared.parts.lattice;
    match news {
        News::User(text) => Event::User {
            label: lattice.describe(&text.label()),
            text: Text::reveal_tcb(&text),
        },
        News::Returned {
            call,
            bytes,
            label,
            regions,
        } => Event::Returned {
            call: Call::new(&call, lattice),
            bytes,
            is_error: false,
            label: lattice.describe(&label),
            regions,
            refused: None,
        },
    }
}
