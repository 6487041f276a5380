//! What tenants may use in an hour: calls, tokens of models, questions, and calls of single tools.
//!
//! Hours are those of the clock (UTC). What is used is counted here at once, and added to the store within a second, so that
//! replicas see it of each other.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use axum::http::StatusCode;
use hub::trace::{Event, Flow, Usage};
use ifc::{ArgumentPath, Call, Label, Labeled, Policy, PolicyError, Results, Rule, Sink, Writer};
use sha2::{Digest, Sha256};
use store::{Commit, SessionState, Time};
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::sleep;

use crate::api::error::ApiError;
use crate::sink::{At, EventSink, REDEEMED};

const HOUR_MS: i64 = 3_600_000;
/// How old the sums of the store may be.
const FRESH: Duration = Duration::from_secs(1);
/// What is counted, beside `call APP.TOOL`.
const CALLS: &str = "calls";
const TOKENS: &str = "tokens";
const QUESTIONS: &str = "questions";

/// What a tenant may use in an hour. `None` is no limit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Budget {
    /// Calls of tools.
    pub calls: Option<u64>,
    /// Tokens of models.
    pub tokens: Option<u64>,
    /// Questions to people.
    pub questions: Option<u64>,
    /// Calls of single tools, by `APP.TOOL`.
    pub tools: BTreeMap<String, u64>,
}

/// The budgets of all tenants, and what is used of them. A handle; by default there are none.
#[derive(Clone, Default)]
pub struct Limits(Arc<Inner>);

#[derive(Default)]
struct Inner {
    budgets: RwLock<BTreeMap<String, Budget>>,
    /// The tenant of those who have none.
    otherwise: String,
    /// Without it, what is used is this process's own.
    state: Option<Arc<dyn SessionState>>,
    used: Mutex<HashMap<String, Used>>,
    saving: AsyncMutex<()>,
}

/// What a tenant has used in an hour.
#[derive(Default)]
struct Used {
    hour: i64,
    /// The sums of the store, and when they were read.
    stored: HashMap<String, u64>,
    read: Option<Instant>,
    /// What is not in these sums: what is being saved, and what is not.
    saving: HashMap<String, u64>,
    unsaved: HashMap<String, u64>,
}

impl Limits {
    /// Budgets by tenant, counted in this store. Those without a tenant have the one called `otherwise`.
    pub fn new(otherwise: &str, state: Option<Arc<dyn SessionState>>) -> Self {
        Self(Arc::new(Inner {
            otherwise: otherwise.to_owned(),
            state,
            ..Inner::default()
        }))
    }

    /// From now on these are the budgets. What is used stays.
    pub fn replace(&self, budgets: BTreeMap<String, Budget>) {
        let mut current = self.0.budgets.write();
        let current = current.as_deref_mut();
        *current.unwrap_or_else(|error| error.get_mut()) = budgets;
    }

    /// Adds what is used to the store, every second.
    pub async fn keep(&self) {
        loop {
            sleep(FRESH).await;
            self.save_all().await;
        }
    }

    /// Adds what is used to the store, now. What fails is added later.
    pub async fn save_all(&self) {
        let changed: Vec<String> = {
            let used = self.used();
            let changed = used.iter().filter(|(_, used)| !used.unsaved.is_empty());
            changed.map(|(tenant, _)| tenant.clone()).collect()
        };
        for tenant in changed {
            let _ = self.save(&tenant).await;
        }
    }

    /// Lets a request to a model begin.
    pub(crate) async fn admit(&self, tenant: Option<&str>) -> Result<(), ApiError> {
        let tenant = self.refresh(tenant).await?;
        let budget = self.budget(&tenant);
        let spent = [(CALLS, budget.calls), (TOKENS, budget.tokens)].into_iter();
        let spent = spent.filter_map(|(what, most)| Some((what, most?)));
        for (what, most) in spent {
            if self.count(&tenant, what) >= most {
                let wait = rest_of_hour();
                let message = spent_words(what, most, wait);
                let error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, message);
                return Err(error.with_retry(wait));
            }
        }
        Ok(())
    }

    /// Brings in what other replicas have used. Returns the name of the tenant.
    pub(crate) async fn refresh(&self, tenant: Option<&str>) -> Result<String, ApiError> {
        let tenant = tenant.unwrap_or(&self.0.otherwise);
        let has_budget = self.budget(tenant) != Budget::default();
        let is_old =
            |used: &Used| used.hour != hour() || used.read.is_none_or(|at| at.elapsed() > FRESH);
        let is_old = self.used().get(tenant).is_none_or(is_old);
        if has_budget && is_old {
            self.save(tenant).await.map_err(ApiError::unavailable)?;
        }
        Ok(tenant.to_owned())
    }

    /// A policy that refuses calls of this tenant beyond its budget.
    pub(crate) fn policy(&self, own: Arc<dyn Policy>, tenant: Option<&str>) -> Arc<dyn Policy> {
        let tenant = tenant.unwrap_or(&self.0.otherwise).to_owned();
        if self.budget(&tenant) == Budget::default() {
            return own;
        }
        let limits = self.clone();
        Arc::new(Limited {
            own,
            limits,
            tenant,
        })
    }

    /// Counts a question to people, unless it is one too many for this tenant.
    pub(crate) fn may_ask(&self, tenant: Option<&str>) -> bool {
        let tenant = tenant.unwrap_or(&self.0.otherwise);
        let Some(most) = self.budget(tenant).questions else {
            return true;
        };
        let may_ask = self.count(tenant, QUESTIONS) < most;
        if may_ask {
            self.add(tenant, QUESTIONS, 1);
        }
        may_ask
    }

    async fn save(&self, tenant: &str) -> Result<(), String> {
        let _one = self.0.saving.lock().await;
        let unsaved = {
            let mut all = self.used();
            let used = all.entry(tenant.to_owned()).or_default();
            used.begin(hour());
            let unsaved = std::mem::take(&mut used.unsaved);
            add_all(&mut used.saving, &unsaved);
            unsaved
        };
        let Some(state) = &self.0.state else {
            let mut all = self.used();
            let used = all.entry(tenant.to_owned()).or_default();
            add_all(&mut used.stored, &std::mem::take(&mut used.saving));
            used.read = Some(Instant::now());
            return Ok(());
        };
        // A log of its own, so that no request waits for these.
        let digest = Sha256::digest(format!("usage {tenant}")).into();
        let now: Time = SystemTime::now().into();
        let counts = unsaved.iter().map(|(thing, count)| store::Usage {
            tenant: tenant.to_owned(),
            thing: thing.clone(),
            count: *count,
        });
        let mut commit = Commit::new(now);
        commit.usage = counts.collect();
        let saved = match commit.usage.is_empty() {
            true => Ok(()),
            false => state.commit(&digest, commit).await.map(drop),
        };
        let read = match saved {
            Ok(()) => state.usage(tenant, now).await,
            Err(error) => {
                let mut all = self.used();
                let used = all.entry(tenant.to_owned()).or_default();
                used.saving.clear();
                add_all(&mut used.unsaved, &unsaved);
                return Err(error.to_string());
            }
        };
        let stored = read.map_err(|error| error.to_string())?;
        let mut all = self.used();
        let used = all.entry(tenant.to_owned()).or_default();
        used.stored = stored.into_iter().collect();
        used.saving.clear();
        used.read = Some(Instant::now());
        Ok(())
    }

    fn budget(&self, tenant: &str) -> Budget {
        let budgets = self
            .0
            .budgets
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        budgets.get(tenant).cloned().unwrap_or_default()
    }

    fn count(&self, tenant: &str, thing: &str) -> u64 {
        let all = self.used();
        let Some(used) = all.get(tenant).filter(|used| used.hour == hour()) else {
            return 0;
        };
        let parts = [&used.stored, &used.saving, &used.unsaved].into_iter();
        let counts = parts.filter_map(|part| part.get(thing));
        counts.fold(0, |sum, count| sum.saturating_add(*count))
    }

    fn add(&self, tenant: &str, thing: &str, count: u64) {
        let mut all = self.used();
        let used = all.entry(tenant.to_owned()).or_default();
        used.begin(hour());
        let sum = used.unsaved.entry(thing.to_owned()).or_default();
        *sum = sum.saturating_add(count);
    }

    fn used(&self) -> MutexGuard<'_, HashMap<String, Used>> {
        self.0.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Used {
    /// What was used in an hour before counts no more.
    fn begin(&mut self, hour: i64) {
        if self.hour != hour {
            *self = Self {
                hour,
                ..Self::default()
            };
        }
    }
}

fn add_all(sums: &mut HashMap<String, u64>, more: &HashMap<String, u64>) {
    for (thing, count) in more {
        let sum = sums.entry(thing.clone()).or_default();
        *sum = sum.saturating_add(*count);
    }
}

fn now_ms() -> i64 {
    Time::from(SystemTime::now()).millis()
}

fn hour() -> i64 {
    now_ms().div_euclid(HOUR_MS)
}

fn rest_of_hour() -> Duration {
    let rest = HOUR_MS - now_ms().rem_euclid(HOUR_MS);
    Duration::from_millis(u64::try_from(rest).unwrap_or_default()).max(Duration::from_secs(1))
}

fn spent_words(what: &str, most: u64, wait: Duration) -> String {
    let minutes = wait.as_secs().div_ceil(60);
    format!("the budget of {most} {what} in this hour is spent; it is renewed in {minutes} min")
}

#[async_trait]
impl EventSink for Limits {
    fn event(&self, at: &At<'_>, event: &Event) {
        let tenant = at.tenant.unwrap_or(&self.0.otherwise);
        let (thing, count) = match event {
            Event::Allowed {
                flow: Flow::Call(call),
                by,
                ..
            } if !by.ends_with(REDEEMED) => {
                let tool = format!("call {}.{}", call.app, call.tool.as_str());
                if self.budget(tenant).tools.contains_key(tool_of(&tool)) {
                    self.add(tenant, &tool, 1);
                }
                (CALLS, 1)
            }
            Event::Completed { usage, .. } | Event::Consulted { usage, .. } => {
                (TOKENS, tokens(usage))
            }
            _ => return,
        };
        if self.budget(tenant) != Budget::default() {
            self.add(tenant, thing, count);
        }
    }
}

fn tool_of(thing: &str) -> &str {
    thing.strip_prefix("call ").unwrap_or(thing)
}

fn tokens(usage: &Usage) -> u64 {
    u64::from(usage.prompt_tokens) + u64::from(usage.completion_tokens)
}

/// A policy, within the budget of a tenant.
struct Limited {
    own: Arc<dyn Policy>,
    limits: Limits,
    tenant: String,
}

impl Limited {
    /// Why this call is beyond the budget. What is said of it depends on counts alone.
    fn refuses(&self, call: &Call) -> Option<String> {
        let budget = self.limits.budget(&self.tenant);
        let tool = format!("{}.{}", call.app, call.tool);
        let of_tool = budget
            .tools
            .get(&tool)
            .map(|most| (format!("call {tool}"), *most));
        let of_all = budget.calls.map(|most| (CALLS.to_owned(), most));
        let mut all = of_tool.into_iter().chain(of_all);
        let (thing, most) =
            all.find(|(thing, most)| self.limits.count(&self.tenant, thing) >= *most)?;
        let what = thing.replacen("call ", "calls of ", 1);
        Some(spent_words(&what, most, rest_of_hour()))
    }
}

impl Policy for Limited {
    fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        self.own.rule(sink)
    }

    fn rule_after(&self, results: &Results<'_>, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        self.own.rule_after(results, sink)
    }

    fn floor(&self, app: &str, tool: &str) -> Label {
        self.own.floor(app, tool)
    }

    fn data_arguments(&self, app: &str, tool: &str) -> Vec<ArgumentPath> {
        self.own.data_arguments(app, tool)
    }

    fn parameters(&self, app: &str, tool: &str) -> Option<Arc<str>> {
        self.own.parameters(app, tool)
    }

    fn check_arguments(&self, call: &Call) -> Result<(), String> {
        self.own.check_arguments(call)?;
        self.refuses(call).map_or(Ok(()), Err)
    }

    fn has_form(&self, call: &Call, argument: &ArgumentPath) -> bool {
        self.own.has_form(call, argument)
    }

    fn for_user(&self, user: &str) -> Option<Arc<dyn Policy>> {
        let own = self.own.for_user(user)?;
        Some(self.limits.policy(own, Some(&self.tenant)))
    }

    fn instead(&self, call: &Call) -> Option<String> {
        self.own.instead(call)
    }

    fn is_polled(&self, call: &Call) -> bool {
        self.own.is_polled(call)
    }

    fn label_result(&self, call: &Call, result: String, is_error: bool) -> Labeled {
        self.own.label_result(call, result, is_error)
    }

    fn writers(&self, call: &Call, result: &Labeled) -> Vec<(Range<usize>, Writer)> {
        self.own.writers(call, result)
    }

    fn claimed(&self, call: &Call, claims: &[String]) -> Label {
        self.own.claimed(call, claims)
    }
}
