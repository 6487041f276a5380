//! One request of any dialect: read, decided on, answered.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use axum::{
    Json,
    body::Body,
    extract::State,
    http::{HeaderMap, HeaderName, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use hub::recognise::Hold;
use hub::state::hex;
use hub::trace::{Call, Event, Text};
use hub::{Apps, StopReason, Usage};
use ifc::{History, Label, Policy};
use llm::{ApiKey, Provider, RequestOptions, TokenLimit};
use serde_json::json;

use super::{
    behind::{Behind, ClientTools},
    rebuild::{News, Reader, Rebuilt},
    sessions::Session,
    shared::Shared,
    stored::Stored,
    tokens::Tenant,
    transcript::{Chain, Digest, Link, fresh},
    turn::{Answered, Live, Turn},
};
use crate::api::{
    Dialect,
    answer::{Choice, messages::AnthropicMessage},
    error::ApiError,
    http::{self, Slot},
    stream::{StreamItem, StreamSender, stream},
};
use crate::conversation::{Conversation, Message, Role};
use crate::limits::Charge;
use crate::sink::{At, Began, TraceContext, Watched};

const NAME_LIMIT: usize = 128;
/// What an image counts as: those that models are shown have up to 1,600 tokens.
const IMAGE_BYTES: usize = 4 * 1_600;
/// About how many tokens an answer has whose client sets no limit.
const ANSWER_TOKENS: u32 = 1_000;
const CONVERSATION: &str = "x-sluice-conversation";
/// The headers in which Claude Code, Codex and opencode name a conversation.
const SESSIONS: [&str; 3] = ["x-claude-code-session-id", "thread-id", "x-session-id"];
/// The header that names the span of the client that a request belongs to.
const TRACEPARENT: &str = "traceparent";
const SUB_AGENT: &str = "x-claude-code-agent-id";
pub(super) const JSON: (HeaderName, &str) = (CONTENT_TYPE, "application/json");

/// One request, read and rebuilt.
struct Prepared {
    watched: Watched,
    session: Session,
    options: RequestOptions,
    rebuilt: Rebuilt,
    apps: Apps,
    /// The policy for the user of the request.
    policy: Arc<dyn Policy>,
    behind: Option<Behind>,
    stored: Option<Stored>,
    charge: Charge,
    /// The calls whose permits must not wait any longer at the gateway of another process.
    void: Vec<String>,
    /// What was learnt of its texts stays until it is answered.
    _texts: Hold,
}

impl Prepared {
    /// Has the turn machine answer it.
    async fn answer(self, shared: &Shared, live: Option<Live>) -> Result<Answered, ApiError> {
        let (mut watched, session) = (self.watched, self.session.of_turn());
        let (options, charge) = (&self.options, self.charge);
        let turn = Turn::new(shared, watched.at(), session, options, live, charge);
        let turn = turn.over(self.behind, self.stored);
        let answered = turn.run(self.apps, self.policy, self.rebuilt).await;
        let failed = |error: &ApiError| error.status().as_str().to_owned();
        watched.end(answered.as_ref().map(drop).map_err(failed));
        answered
    }
}

pub(super) async fn serve<D: Dialect>(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let answered = answer::<D>(shared, &headers, body).await;
    answered.unwrap_or_else(|error| D::response(&error))
}

async fn answer<D: Dialect>(
    shared: Arc<Shared>,
    headers: &HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let tenant = shared.tokens.admit(headers).await?;
    shared.parts.limits.admit(tenant.name.as_deref()).await?;
    let (bytes, slot) = http::admit(headers, body, &shared.budget, &shared.slots).await?;
    let read = D::read(&bytes, shared.takes());
    let mut request = read.map_err(ApiError::invalid)?;
    // What was read holds the same text once more.
    drop(bytes);
    if let Some(tool) = &request.wants_omitted {
        return left_out::<D>(&shared, &request, tool).await;
    }
    let mut options = options(shared.tokens.upstream_key(headers), &mut request);
    // To another upstream the members go in the form of chat completions.
    if shared.upstream() == D::API {
        options.dialect = D::API;
        options.beta = beta(headers).filter(|_| D::API == llm::Dialect::Messages);
    }
    let is_listed = is_listed(&shared, &options).await?;
    let mut origin = Origin::new(&shared, tenant, headers, &request)?;
    // What other replicas know, before anything is labelled.
    origin.stored = shared.load(origin.tenant.digest, origin.key).await?;
    let mut prepared = prepare(&shared, origin, headers, &request, options, is_listed)?;
    let void = std::mem::take(&mut prepared.void);
    let results = request.messages.iter();
    let results = results.filter_map(|it| Some((it.answers.as_deref()?, it.is_error)));
    if let Some(stored) = &prepared.stored {
        let withdrawn = shared.withdraw(stored, &void).await?;
        prepared.session.withdrawn(&withdrawn);
        shared.write_soon(stored);
    }
    // All of them, as a client sends its whole conversation each time: what was brought before waits no more.
    prepared.session.returned(results);
    // Before anything is made of it.
    shared.written().await?;
    let answer = D::begin(&fresh("")?, &request);
    if request.streams {
        let silence = shared.silence;
        let run = |sender| stream_answer(shared, prepared, sender, slot);
        return stream(answer, silence, run).await;
    }
    let Answered { choice, usage } = prepared.answer(&shared, None).await?;
    Ok(([JSON], answer.whole(&choice, &usage)).into_response())
}

/// Answers a request for nothing but a call of a tool that is left out, as an agent's own tool for searching the web makes:
/// its text becomes the result of that tool, and the agent goes on.
async fn left_out<D: Dialect>(
    shared: &Shared,
    request: &Conversation,
    tool: &str,
) -> Result<Response, ApiError> {
    let choice = Choice {
        text: format!(
            "{tool} is not available: it would run at the provider, where the guard cannot decide on it."
        ),
        calls: Vec::new(),
        stop: StopReason::End,
    };
    let answer = D::begin(&fresh("")?, request);
    if !request.streams {
        return Ok(([JSON], answer.whole(&choice, &Usage::default())).into_response());
    }
    let run = |sender: StreamSender| async move {
        sender.send(StreamItem::Text(choice.text.clone()));
        sender.send(StreamItem::Done(choice, Usage::default()));
    };
    stream(answer, shared.silence, run).await
}

/// About how many tokens a request of Anthropic's API has. The upstream is not asked: it may have no such API.
pub(super) async fn count_tokens(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let counted = async {
        shared.tokens.admit(&headers).await?;
        let (bytes, _slot) = http::admit(&headers, body, &shared.budget, &shared.slots).await?;
        let read = AnthropicMessage::read(&bytes, shared.takes());
        read.map_err(ApiError::invalid)
    };
    match counted.await {
        Ok(request) => Json(json!({"input_tokens": estimate(&request)})).into_response(),
        Err(error) => AnthropicMessage::response(&error),
    }
}

/// Four bytes of text are about a token.
fn estimate(request: &Conversation) -> usize {
    let messages = request.messages.iter().map(|message| {
        let calls = message.calls.iter();
        let calls = calls.map(|call| call.tool.len() + call.arguments.len());
        message.text.len() + calls.sum::<usize>() + message.images.len() * IMAGE_BYTES
    });
    let tools = request.tools.iter();
    let tools = tools.map(|tool| tool.name.len() + tool.description.len() + tool.parameters.len());
    messages.chain(tools).sum::<usize>().div_ceil(4)
}

/// Whose request it is, and of which conversation.
struct Origin {
    tenant: Tenant,
    /// The name that the client gives the conversation for Sluice.
    own: Option<String>,
    /// That name, or the one that an agent gives it for itself.
    name: Option<String>,
    /// The digest of the name, or of the beginning of a conversation without one.
    key: Digest,
    stored: Option<Stored>,
    charge: Charge,
}

impl Origin {
    fn new(
        shared: &Shared,
        tenant: Tenant,
        headers: &HeaderMap,
        request: &Conversation,
    ) -> Result<Self, ApiError> {
        let own = conversation_name(headers).map_err(ApiError::invalid)?;
        // What was answered is known under any name that an agent gives later, as when it resumes a conversation.
        let name = own.clone().or_else(|| session_name(headers));
        let mut chain = Chain::new(&shared.secret, &tenant.digest, name.as_deref());
        let begins = |message: &Message| message.role == Role::User && !message.is_inserted;
        let first = request.messages.iter().position(begins);
        if let (None, Some(first)) = (&name, first) {
            let beginning = request.messages.iter().take(first + 1);
            beginning.for_each(|message| chain.push(&Link::of(message)));
        }
        let limits = &shared.parts.limits;
        let answer = match request.token_limit {
            TokenLimit::MaxTokens(most) | TokenLimit::MaxCompletionTokens(most) => most,
            _ => ANSWER_TOKENS,
        };
        Ok(Self {
            charge: limits.reserve(tenant.name.as_deref(), estimate(request), answer)?,
            tenant,
            own,
            name,
            key: chain.digest(),
            stored: None,
        })
    }
}

/// Reads the request, and records what is new in it.
fn prepare(
    shared: &Shared,
    origin: Origin,
    headers: &HeaderMap,
    request: &Conversation,
    mut options: RequestOptions,
    is_listed: bool,
) -> Result<Prepared, ApiError> {
    let Origin {
        tenant:
            Tenant {
                digest: tenant,
                name: tenant_name,
                agent,
                user,
            },
        own,
        name: conversation,
        key,
        stored,
        charge,
    } = origin;
    let chain = Chain::new(&shared.secret, &tenant, own.as_deref());
    let texts = shared.texts.tenant(tenant);
    let of_all = &shared.parts.policy;
    let policy = user.as_deref().and_then(|user| of_all.for_user(user));
    let policy = policy.unwrap_or_else(|| Arc::clone(of_all));
    let behind = shared.behind_of(&tenant);
    let tools = ClientTools::new(&shared.app, behind.as_ref());
    let known = shared.known.all();
    for text in &known {
        let place = chain.beside("known", text.reveal_tcb());
        texts.learn_own(Some(&place), text);
    }
    if let Some(behind) = &behind {
        let (heard, lost) = behind.permits().heard(&behind.session);
        heard.iter().for_each(|text| texts.learn(None, text));
        if !lost.is_bottom() {
            texts.forget(&lost);
        }
    }
    let reader = Reader {
        app: &shared.app,
        tools: &tools,
        behind: behind.as_ref(),
        known: &known,
        policy: &*policy,
        labels: &shared.labels,
        memory: &shared.memory,
        texts: &texts,
        upstream: shared.models.as_ref().map(|models| models.upstream.name()),
        result_bytes: shared.parts.settings.limits.result_bytes,
    };
    let mut rebuilt = reader.read(request, &chain).map_err(ApiError::invalid)?;
    shared.gives(behind.as_ref(), &rebuilt.history.label());
    // A first run withholds nothing.
    if !shared.observe {
        let history = &rebuilt.history;
        label_members(shared, &reader, &chain, history, is_listed, &mut options)?;
    }
    let lattice = &shared.parts.lattice;
    let is_named = conversation.is_some();
    let session = shared.sessions.of(tenant, key, is_named, lattice);
    if let Some(stored) = &stored {
        let document = stored.document.as_ref();
        session.shared.absorb(document, &session, lattice)?;
    }
    let mut void = Vec::new();
    if let Some(behind) = &behind {
        // A client that sends the request again does not have the answer: the calls in it that have not run are decided
        // on anew. Where the user speaks after an answer, its calls are not wanted any more.
        let newest = request.messages.last();
        let user_speaks = newest.is_some_and(|message| message.role == Role::User);
        // A side request, such as that for a title, has no tools.
        let user_speaks = user_speaks && !request.tools.is_empty();
        // A call that has a result without having run was refused by the agent's own rules or its user.
        let answered = request.messages.iter();
        let answered = answered.filter_map(|message| message.answers.as_deref());
        let answered: HashSet<&str> = answered.collect();
        void = session.released(&rebuilt.chain.digest(), user_speaks, &answered);
        let is_void = |name: &str| answered.contains(name) || void.iter().any(|it| it == name);
        behind.permits().withdraw(is_void);
    }
    let listed = rebuilt.history.tools().iter();
    let listed = listed.map(|tool| (tool.name.as_str(), tool.parameters.reveal_tcb()));
    let listed: Vec<(&str, &str)> = listed.collect();
    if shared.observer.attends() {
        shared.observer.tools(&listed);
    }
    let conversation = conversation.unwrap_or_else(|| short_name(&rebuilt.beginning));
    let at = At {
        tenant: tenant_name.as_deref(),
        asker: user.as_deref().or(agent.as_deref()),
        ..At::new("proxy", &conversation)
    };
    let parent = headers.get(TRACEPARENT).and_then(|it| it.to_str().ok());
    let model = options.model.as_deref();
    let began = Began {
        method: "chat",
        tool: None,
        model: model.filter(|_| is_listed && shared.models.is_some()),
        parent: parent.and_then(TraceContext::parse),
    };
    let watched = shared.parts.sinks.begin(at, &began);
    let at = watched.at();
    options.traceparent = watched.context.map(|context| context.to_string());
    // The client has chosen the number of its trace, and may have chosen it by all that it has read.
    if let Some(parent) = parent.filter(|_| began.parent.is_some() && !shared.observe) {
        let label = reader.label_beside(TRACEPARENT, parent.to_owned(), &chain);
        let given = behind.as_ref().map(Behind::given).unwrap_or_default();
        let label = label.join(&rebuilt.history.label()).join(&given);
        options.restrict(TRACEPARENT, &label);
    }
    if shared.observe {
        shared.offers(&at, &listed);
    }
    if !request.dropped.is_empty() {
        shared.observer.dropped(&conversation, &request.dropped);
    }
    let news = std::mem::take(&mut rebuilt.news);
    if shared.records() {
        for news in news {
            shared.record(&at, event(shared, news, user.as_ref()));
        }
    }
    Ok(Prepared {
        watched,
        session,
        options,
        rebuilt,
        apps: tools.apps,
        policy,
        behind,
        stored,
        charge,
        void,
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
    if shared.any_model {
        let clearances = shared.parts.broker.clearances(None);
        return Ok(clearances.iter().all(Label::is_top));
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
    if let Some(beta) = options.beta.clone() {
        labels.push(("beta".to_owned(), reader.label_beside("beta", beta, chain)));
    }
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
                options.restrict(&name, &label);
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
async fn stream_answer(shared: Arc<Shared>, prepared: Prepared, sender: StreamSender, _slot: Slot) {
    let pieces = sender.clone();
    let live: Live = Box::new(move |piece| pieces.send(StreamItem::Text(piece.to_owned())));
    sender.send(match prepared.answer(&shared, Some(live)).await {
        Ok(Answered { choice, usage }) => StreamItem::Done(choice, usage),
        Err(error) => StreamItem::Failed(error),
    });
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
        traceparent: None,
        labels: BTreeMap::new(),
    }
}

/// The features of Anthropic's API that some of a request's members belong to.
fn beta(headers: &HeaderMap) -> Option<String> {
    let all = headers.get_all("anthropic-beta").iter();
    let all: Vec<&str> = all.filter_map(|value| value.to_str().ok()).collect();
    (!all.is_empty()).then(|| all.join(","))
}

fn conversation_name(headers: &HeaderMap) -> Result<Option<String>, String> {
    let Some(name) = headers.get(CONVERSATION) else {
        return Ok(None);
    };
    match name.to_str().ok().filter(|name| is_name(name)) {
        Some(name) => Ok(Some(name.to_owned())),
        None => Err(format!(
            "`{CONVERSATION}` must be 1 to {NAME_LIMIT} visible ASCII characters"
        )),
    }
}

/// The name that an agent gives its conversation by itself. A sub-agent has one of its own, which one agent names beside that
/// of its parent.
fn session_name(headers: &HeaderMap) -> Option<String> {
    let given = |name: &str| headers.get(name)?.to_str().ok();
    let own = SESSIONS.iter().find_map(|name| given(name))?;
    let name = format!("{own}{}", given(SUB_AGENT).unwrap_or_default());
    is_name(&name).then_some(name)
}

fn is_name(name: &str) -> bool {
    (1..=NAME_LIMIT).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A name for people, where the client gave none: the same for all requests of a conversation.
/// Two conversations that begin with the same words share it; nothing is decided by it.
fn short_name(beginning: &Chain) -> String {
    let mut name = hex(&beginning.digest());
    name.truncate(12);
    name
}

fn event(shared: &Shared, news: News, user: Option<&String>) -> Event {
    let lattice = &shared.parts.lattice;
    match news {
        News::User(text) => Event::User {
            label: lattice.describe(&text.label()),
            text: Text::reveal_tcb(&text),
            name: user.cloned(),
        },
        News::Returned {
            call,
            bytes,
            is_error,
            label,
            regions,
        } => Event::Returned {
            call: Call::new(&call, lattice),
            bytes,
            is_error,
            label: lattice.describe(&label),
            regions,
            refused: None,
        },
    }
}
