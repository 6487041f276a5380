//! The gateway: one MCP server in the place of all others, each of which is an app in a spoke.
//!
//! The hub sees no prompt of such a client, so each call has the label of everything that the client was returned
//! ([`hub::Guard::submit`]). Apps start at their first call. A result goes on as its app wrote it, with its labels in `_meta`.
//!
//! | file | |
//! |---|---|
//! | `listing.rs` | the tools of all apps as one list |
//! | `search.rs` | the tools that find and call others, where there are many |
//! | `call.rs` | a call is decided on, run by its permit, labelled and returned |
//! | `natives.rs` | resources and prompts |
//! | `ask.rs` | questions to the user, by the client or an [`Approver`] |
//! | `rpc.rs`, `stdio.rs`, `http.rs` | messages, and the ways that they come by |
//! | `place.rs`, `stored.rs` | what replicas and the proxy have to know, in a store |
//! | `stateless.rs` | the version of the protocol without a handshake |

mod ask;
mod call;
mod http;
mod listing;
mod natives;
mod place;
mod rpc;
mod search;
mod stateless;
mod stdio;
mod stored;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hub::state::hex;
use hub::trace::Event;
use hub::{AppTool, Guard, Permits};
use ifc::{CallId, Effect, History, Label, Monitor, Permissions};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{Mutex as AsyncMutex, Notify, Semaphore, mpsc, oneshot, watch};
use wire::{Progress, ToolDescription};

pub use self::http::{HttpGateway, HttpSetup, PATH, Routes};
use self::listing::{AppTools, Listing};
use self::place::{Store, StoredClient};
use self::rpc::{CallParams, Message, ProgressBar};
use self::stateless::{Era, Reply, VERSIONS};
use crate::access::Holder;
use crate::api::error::ApiError;
use crate::asked::Questions;
use crate::desk::Approver;
use crate::egress::Gate;
use crate::locks::lock;
pub use crate::parts::GatewayTool;
use crate::parts::{Parts, Told};
use crate::proxy::observe;
use crate::session::AppSetup;
pub use crate::sink::REDEEMED;
use crate::sink::{At, Began, TraceContext};
use crate::spoke::Spoke;
use crate::state::{StateHandle, StateSetup, seed};
use crate::trace_file::{Rotation, TraceError, TraceFile};

/// What an app says of its progress that waits for its client.
const MAX_PROGRESS: usize = 16;
/// Calls of one client at once.
const MAX_CALLS: usize = 64;
/// Calls of one app at once. Its spoke refuses more than this, so the others wait.
const MAX_APP_CALLS: usize = 8;
/// How often a client that waits for a result is told that its call goes on. One client gives up after 60 seconds
/// without a word.
const PROGRESS: Duration = Duration::from_secs(5);
/// Reports of spokes outside of calls that wait to be recorded.
const OUTSIDE_EVENTS: usize = 256;

/// Everything that a gateway is made of.
pub struct GatewaySetup {
    /// Its name, and that of its trace.
    pub name: String,
    /// Where traces are kept.
    pub traces: PathBuf,
    /// Policy, lattice and limits. No model is asked.
    pub parts: Parts,
    /// The apps.
    pub apps: Vec<GatewayApp>,
    /// Whether the names of tools begin with that of their app. Without it there can be one app only.
    pub prefixed: bool,
    /// Whether clients search for tools instead of reading a list of all; `None` if there are more than some clients take.
    pub search: Option<bool>,
    /// What the user has allowed for good; without it nothing can be.
    pub permissions: Option<Arc<dyn Permissions>>,
    /// Whether a client may ask its user. Where programs of the agent's reach the gateway as well, an answer may be theirs.
    pub asks_client: bool,
    /// Who answers questions that the client cannot ask; without one they are refused.
    pub approver: Option<Arc<dyn Approver>>,
    /// How long the client may take for an answer.
    pub approval_timeout: Duration,
    /// Whether everything is only observed: every call runs, whatever the other parts say.
    pub observe: bool,
    /// What is shared with another front, which leaves permits.
    pub permits: Arc<Mutex<Permits>>,
    /// Who learns the label of everything that a client is given, before it is given.
    pub told: Option<Told>,
    /// A store that other replicas share, and the proxy of the same tokens.
    pub state: Option<StateSetup>,
}

/// An app behind a gateway.
pub struct GatewayApp {
    /// How it is run.
    pub setup: AppSetup,
    /// The tools that are offered, as the user has reviewed them.
    pub tools: Vec<ToolDescription>,
    /// What tools do, by the policy. Any other tool counts as irreversible.
    pub effects: BTreeMap<String, Effect>,
}

/// One MCP server over many apps.
pub struct Gateway {
    parts: Parts,
    apps: BTreeMap<String, AppSetup>,
    permissions: Option<Arc<dyn Permissions>>,
    asks_client: bool,
    approver: Option<Arc<dyn Approver>>,
    approval_timeout: Duration,
    permits: Arc<Mutex<Permits>>,
    told: Option<Told>,
    store: Option<Store>,
    listing: Arc<Listing>,
    trace: Mutex<TraceFile>,
    clients: AtomicU64,
}

impl Gateway {
    /// A gateway with an empty trace. No app is started.
    ///
    /// # Errors
    /// The trace cannot be written.
    pub fn start(mut setup: GatewaySetup) -> Result<Arc<Self>, TraceError> {
        if setup.observe {
            setup.parts = observe::parts(setup.parts);
            setup.approver = Some(Arc::new(observe::Yes));
            setup.asks_client = false;
        }
        let store = setup.state.map(|StateSetup { store, secret }| Store {
            state: StateHandle::new(store),
            secret,
            seed: seed(),
        });
        let mut trace = TraceFile::rotating(&setup.traces, &setup.name, Rotation::default())?;
        trace.append(Event::SessionStarted {
            session: setup.name,
            mode: "gateway".to_owned(),
            screener: setup.parts.screener.name().to_owned(),
            private: false,
        })?;
        for app in setup.apps.iter().filter(|_| setup.observe) {
            trace.append(observe::offered(&app.setup.spoke.app, app.tools.clone()))?;
        }
        let tools = setup.apps.iter().map(tools_of);
        let policy = &*setup.parts.policy;
        let listing = Listing::new(tools.collect(), setup.prefixed, setup.search, policy);
        let apps = setup.apps.into_iter().map(|mut app| {
            app.setup.spoke.offer.exact = true;
            (app.setup.spoke.app.clone(), app.setup)
        });
        Ok(Arc::new(Self {
            parts: setup.parts,
            apps: apps.collect(),
            permissions: setup.permissions,
            asks_client: setup.asks_client,
            approver: setup.approver,
            approval_timeout: setup.approval_timeout,
            permits: setup.permits,
            told: setup.told,
            store,
            listing: Arc::new(listing),
            trace: Mutex::new(trace),
            clients: AtomicU64::new(0),
        }))
    }

    /// Where the trace is.
    pub fn trace(&self) -> PathBuf {
        lock(&self.trace).path().to_owned()
    }

    /// The tools, as a proxy in front of the same agent knows them.
    #[must_use]
    pub fn tools(&self) -> Vec<GatewayTool> {
        self.listing.tools()
    }

    /// A new client, to which nothing was returned yet. `session` names it for permits that another front leaves.
    pub fn client(self: &Arc<Self>, session: &str) -> Arc<Client> {
        self.new_client(Holder::default(), session, false, Arc::clone(&self.listing))
    }

    /// The tools of these apps; of all, where none is named.
    ///
    /// # Errors
    /// One of them has no tools here. Without a store, clients of one token would not share what they were returned.
    fn listed(&self, apps: &BTreeSet<String>) -> Result<Arc<Listing>, ApiError> {
        if apps.is_empty() {
            return Ok(Arc::clone(&self.listing));
        }
        if self.store.is_none() {
            let message = "a service alone takes ?app=NAME; start `sluice gateway --app NAME`";
            return Err(ApiError::invalid(message));
        }
        self.listing
            .only(apps)
            .map(Arc::new)
            .map_err(ApiError::invalid)
    }

    fn new_client(
        self: &Arc<Self>,
        holder: Holder,
        session: &str,
        is_shared: bool,
        listing: Arc<Listing>,
    ) -> Arc<Client> {
        let number = self.clients.fetch_add(1, Ordering::Relaxed) + 1;
        // Trust in a text is not offered: it is for a task, and no task is seen here.
        let mut monitor = Monitor::new();
        if let Some(permissions) = &self.permissions {
            monitor = monitor.with_permissions(Arc::clone(permissions));
        }
        let (mut session, mut stored) = (session.to_owned(), None);
        if let Some(store) = &self.store {
            monitor = monitor.with_seed(store.seed.wrapping_add(number));
            stored = Some(StoredClient::new(store, holder.digest, monitor.clone()));
            // All clients of a token have been given what one of them was given.
            session = hex(&holder.digest);
            lock(&self.permits).open(&session);
        }
        let gate = Gate {
            monitor: monitor.clone(),
            policy: Arc::clone(&self.parts.policy),
            resolver: Arc::clone(&self.parts.resolver),
        };
        let limits = &self.parts.limits;
        let guard = Guard {
            history: History::new(listing.words().to_vec()),
            monitor,
            policy: Arc::clone(&self.parts.policy),
            budget: limits.of(holder.tenant.as_deref()),
        };
        let (events, outside) = mpsc::channel(OUTSIDE_EVENTS);
        let client = Arc::new(Client {
            gateway: Arc::clone(self),
            name: format!("client-{number}"),
            holder,
            listing,
            is_shared,
            session,
            stored,
            guard: Mutex::new(Conversation {
                guard,
                running: 0,
                newest: None,
                described: BTreeSet::new(),
                redeemed: HashMap::new(),
            }),
            gate,
            events,
            apps: self
                .apps
                .keys()
                .map(|app| (app.clone(), Running::default()))
                .collect(),
            slots: Arc::new(Semaphore::new(MAX_CALLS)),
            asked: Questions::default(),
            calls: Mutex::default(),
            requests: Mutex::default(),
            offers: watch::Sender::default(),
            elicits: AtomicBool::new(false),
            numbers: AtomicU64::new(0),
        });
        tokio::spawn(record_outside(
            outside,
            Arc::clone(self),
            client.name.clone(),
            client.holder.clone(),
        ));
        client
    }

    /// Writes an event down. What cannot be written must not be done.
    fn record(&self, client: &str, holder: &Holder, event: Event) -> Result<(), String> {
        let at = At {
            tenant: holder.tenant.as_deref(),
            asker: holder.name.as_deref(),
            ..At::new("gateway", client)
        };
        self.parts.sinks.event(&at, &event);
        let recorded = lock(&self.trace).append_to(Some(client), event);
        recorded.map(|_| ()).map_err(|error| error.to_string())
    }
}

fn server_info() -> Value {
    json!({ "name": "sluice", "version": env!("CARGO_PKG_VERSION") })
}

async fn record_outside(
    mut outside: mpsc::Receiver<Event>,
    gateway: Arc<Gateway>,
    client: String,
    holder: Holder,
) {
    while let Some(event) = outside.recv().await {
        // A trace that fails refuses the next call.
        let _ = gateway.record(&client, &holder, event);
    }
}

/// The tools that a policy has rules for.
fn tools_of(app: &GatewayApp) -> AppTools {
    let GatewayApp {
        setup: app,
        tools,
        effects,
    } = app;
    let tools = tools.iter().map(|tool| AppTool {
        listed: app.listed.contains(&tool.name),
        name: tool.name.clone(),
        description: tool.description.clone(),
        parameters: tool.input_schema.clone(),
    });
    AppTools {
        app: app.spoke.app.clone(),
        tools: tools
            .filter(|tool| tool.listed || app.offers_others)
            .collect(),
        descriptions: app.descriptions.clone(),
        effects: effects.clone(),
        is_open: !app.spoke.egress.is_empty() || !app.spoke.domains.addresses.is_empty(),
    }
}

/// One client, and everything that it was returned. Dropping the last handle ends its spokes.
pub struct Client {
    gateway: Arc<Gateway>,
    /// Its name in the trace.
    name: String,
    /// Whose token it has; of no one, where there is one client.
    holder: Holder,
    /// The tools that it can call.
    listing: Arc<Listing>,
    /// Whether its requests come without a session, each on a connection of its own. One that breaks off is cancelled.
    is_shared: bool,
    session: String,
    stored: Option<StoredClient>,
    guard: Mutex<Conversation>,
    gate: Gate,
    events: mpsc::Sender<Event>,
    apps: BTreeMap<String, Running>,
    slots: Arc<Semaphore>,
    /// The questions that wait, or whose answer no call has used yet.
    asked: Questions,
    /// The calls under way, by their ids.
    calls: Mutex<HashMap<String, Arc<Notify>>>,
    /// The requests to the client that wait for its answer.
    requests: Mutex<HashMap<String, oneshot::Sender<Value>>>,
    /// The questions that it is given instead of results, by what they are about.
    offers: watch::Sender<BTreeMap<String, Offer>>,
    /// Whether it can ask its user.
    elicits: AtomicBool,
    numbers: AtomicU64,
}

/// A question that a client without a session gets as the answer to its request.
struct Offer {
    id: String,
    result: String,
}

/// The client of a request, while it waits.
struct Caller<'a> {
    out: &'a mpsc::Sender<String>,
    cancelled: &'a Notify,
    era: Era,
    /// The question that it has brought the user's answer to.
    answered: Option<String>,
    /// Whether a question about its call waits for the user.
    is_asked: AtomicBool,
    /// Where it goes what an app says of its progress.
    progress: mpsc::Sender<Progress>,
}

/// What a client was returned, and what decides about its calls.
struct Conversation {
    guard: Guard,
    /// Calls that are not over.
    running: usize,
    /// When the newest call was over.
    newest: Option<Instant>,
    /// The tools whose descriptions it was returned.
    described: BTreeSet<String>,
    /// The calls under way that run by a permit of another front, with the names that they have there.
    redeemed: HashMap<CallId, String>,
}

/// An app's spoke, once it was called.
struct Running {
    spoke: AsyncMutex<Option<Arc<Spoke>>>,
    slots: Semaphore,
}

impl Default for Running {
    fn default() -> Self {
        Self {
            spoke: AsyncMutex::new(None),
            slots: Semaphore::new(MAX_APP_CALLS),
        }
    }
}

impl Client {
    /// Takes a message of the client. What answers it, and what is said meanwhile, goes to `out`.
    pub async fn handle(self: Arc<Self>, text: String, out: mpsc::Sender<String>) {
        let reply = match Message::read(&text) {
            Ok(message) => self.take(&message, &out).await,
            Err(refused) => Some(refused),
        };
        if let Some(reply) = reply {
            // A client that is gone needs no answer.
            let _ = out.send(reply).await;
        }
    }

    async fn take(
        self: &Arc<Self>,
        message: &Message<'_>,
        out: &mpsc::Sender<String>,
    ) -> Option<String> {
        let Some(method) = &message.method else {
            self.answered(message);
            return None;
        };
        let Some(id) = message.id.map(RawValue::get) else {
            self.notified(method, message);
            return None;
        };
        let era = match Era::of(message) {
            Ok(era) => era,
            Err(refused) => return Some(refused),
        };
        let fixed = |result: String| Reply::Result(result, Some(stateless::TTL));
        let reply = match (method.as_str(), era) {
            ("initialize", Era::Session) => Reply::Result(self.initialize(message), None),
            ("ping", Era::Session) => Reply::Result("{}".to_owned(), None),
            ("server/discover", Era::Stateless { .. }) => fixed(self.discover()),
            ("tools/list", _) => {
                self.gives(&lock(&self.guard).guard.history.label());
                self.once_saved(fixed(self.listing.list.clone())).await
            }
            (method, _) if self.listing.runs(method) => match message.params() {
                Ok(params) => return self.called(id, method, &params, era, out).await,
                Err(_) => {
                    let text = format!("the parameters of {method} are wrong");
                    Reply::Error(rpc::INVALID_PARAMS, text, Value::Null)
                }
            },
            _ => {
                let text = "this server has no such method".to_owned();
                Reply::Error(rpc::NO_METHOD, text, Value::Null)
            }
        };
        Some(reply.into_message(id, era))
    }

    /// What a client without a handshake is told of this server.
    fn discover(&self) -> String {
        let info = json!({ "io.modelcontextprotocol/serverInfo": server_info() });
        let (versions, capabilities) = (stateless::versions(), self.listing.capabilities());
        json!({ "supportedVersions": versions, "capabilities": capabilities, "_meta": info })
            .to_string()
    }

    fn initialize(&self, message: &Message<'_>) -> String {
        let params: Value = message.params().unwrap_or_default();
        let asked = params.get("protocolVersion").and_then(Value::as_str);
        let version = VERSIONS.iter().find(|known| Some(**known) == asked);
        let elicits = stateless::elicits(params.get("capabilities"));
        self.elicits.store(elicits, Ordering::Relaxed);
        json!({
            "protocolVersion": version.unwrap_or(&VERSIONS[0]),
            "capabilities": self.listing.capabilities(),
            "serverInfo": server_info(),
        })
        .to_string()
    }

    /// The answer to a request of ours.
    fn answered(&self, message: &Message<'_>) {
        let Some(id) = message
            .id
            .and_then(|id| serde_json::from_str::<String>(id.get()).ok())
        else {
            return;
        };
        if let Some(waiting) = lock(&self.requests).remove(&id) {
            let result = message.result.map_or("null", RawValue::get);
            // An error is no answer.
            let _ = waiting.send(serde_json::from_str(result).unwrap_or_default());
        }
    }

    fn notified(&self, method: &str, message: &Message<'_>) {
        #[derive(serde::Deserialize)]
        struct Cancelled<'a> {
            #[serde(borrow, rename = "requestId")]
            id: &'a RawValue,
        }
        if method == "notifications/cancelled"
            && let Ok(cancelled) = message.params::<Cancelled<'_>>()
            && let Some(call) = lock(&self.calls).get(cancelled.id.get())
        {
            call.notify_one();
        }
    }

    /// Runs a call, and says now and then that it goes on. A call that the client cancels has no answer.
    async fn called(
        self: &Arc<Self>,
        id: &str,
        method: &str,
        params: &CallParams<'_>,
        era: Era,
        out: &mpsc::Sender<String>,
    ) -> Option<String> {
        let cancelled = Arc::new(Notify::new());
        // Connections know nothing of each other's ids.
        let key = match self.is_shared {
            true => format!("{} {id}", self.number()),
            false => id.to_owned(),
        };
        if lock(&self.calls)
            .insert(key.clone(), Arc::clone(&cancelled))
            .is_some()
        {
            // The call with this id has the wrong entry now; it can no longer be cancelled, and nothing else changes.
            return Some(rpc::error(
                id,
                rpc::INVALID_REQUEST,
                "a request with this id is under way",
            ));
        }
        let _over = Over(self, &key);
        let Ok(_slot) = self.slots.try_acquire() else {
            let text = "not executed: too many calls at once; wait for some of them";
            let reply = Reply::Refused(text.to_owned());
            let reply = if method == "tools/call" {
                reply
            } else {
                reply.or_error()
            };
            return Some(reply.into_message(id, era));
        };
        let token = params
            .meta
            .as_ref()
            .and_then(|meta| meta.progress_token.clone());
        let mut bar = ProgressBar { token, last: None };
        let (progress, mut updates) = mpsc::channel(MAX_PROGRESS);
        let parent = params.meta.as_ref();
        let parent = parent.and_then(|meta| meta.traceparent.as_ref()?.as_str());
        let listing = &self.listing;
        let began = Began {
            method,
            tool: listing.get(&params.name).map(|listed| &*listed.tool),
            model: None,
            parent: parent.and_then(TraceContext::parse),
        };
        let at = At {
            tenant: self.holder.tenant.as_deref(),
            asker: self.holder.name.as_deref(),
            ..At::new("gateway", &self.name)
        };
        let mut watched = self.gateway.parts.sinks.begin(at, &began);
        let answer = params.state.as_deref().zip(params.answers);
        let caller = Caller {
            out,
            cancelled: &cancelled,
            era,
            answered: answer.and_then(|(state, answers)| self.accept_answer(state, answers.get())),
            is_asked: AtomicBool::new(false),
            progress,
        };
        let call = async {
            match self.listing.native(method) {
                Some((native, apps)) => self.answer_native(native, apps, params, &caller).await,
                None => self.call(params, &caller).await,
            }
        };
        let mut call = std::pin::pin!(watched.scope(call));
        let mut is_gone = false;
        loop {
            let message = tokio::select! {
                biased;
                reply = &mut call => {
                    // Updates from before the result go out before it.
                    let rest = std::iter::from_fn(|| updates.try_recv().ok());
                    for message in rest.filter_map(|update| bar.pass(update)) {
                        let _ = out.try_send(message);
                    }
                    let saved = self.once_saved(reply?);
                    let reply = saved.await;
                    watched.end(reply.outcome());
                    return Some(reply.into_message(id, era));
                }
                Some(update) = updates.recv() => bar.pass(update),
                () = out.closed(), if self.is_shared && !is_gone => {
                    is_gone = true;
                    cancelled.notify_one();
                    None
                }
                () = tokio::time::sleep(PROGRESS) => bar.beat(match caller.is_asked.load(Ordering::Relaxed) {
                    true => "the call waits for the user's approval",
                    false => "the call goes on",
                }),
            };
            if let Some(message) = message {
                // Not awaited, since the call goes on whether the client reads or not.
                let _ = out.try_send(message);
            }
        }
    }

    /// Takes note of the label of everything that the client is given, before it is given.
    fn gives(&self, label: &Label) {
        lock(&self.gateway.permits).give(&self.session, label);
        if let Some(told) = &self.gateway.told {
            told(label);
        }
    }

    /// Whether a call is under way.
    fn is_busy(&self) -> bool {
        !lock(&self.calls).is_empty()
    }

    /// Ends what is under way, and the spokes. A further call starts them again.
    pub async fn end(&self) {
        self.asked.clear();
        for call in lock(&self.calls).values() {
            call.notify_one();
        }
        // Their last word on what they were sent comes within this time, or the spoke is ended for it.
        let all = u32::try_from(MAX_CALLS).unwrap_or(u32::MAX);
        let _ = tokio::time::timeout(GOODBYE, self.slots.acquire_many(all)).await;
        for app in self.apps.values() {
            if let Some(spoke) = app.spoke.lock().await.take() {
                spoke.kill();
            }
        }
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn record(&self, event: Event) -> Result<(), String> {
        (self.gateway).record(&self.name, &self.holder, event)
    }
}

/// How long calls under way may take to end once the client is gone.
const GOODBYE: Duration = Duration::from_secs(3);

/// Forgets a call when it is over, however it ends.
struct Over<'a>(&'a Client, &'a str);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        lock(&self.0.calls).remove(self.1);
    }
}
