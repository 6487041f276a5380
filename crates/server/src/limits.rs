//! What tenants may use in an hour: calls, tokens of models, questions, and calls of single tools.
//!
//! Hours are those of the clock (UTC). What is used is counted here at once, and added to the store within a second. Sums of
//! the store are read anew after a second, so a replica may miss what others have used within the last two.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::{Duration, Instant, SystemTime};

use axum::http::StatusCode;
use hub::CallBudget;
use ifc::Call;
use sha2::{Digest, Sha256};
use store::{Commit, SessionState, Time};
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::sleep;

use crate::api::error::ApiError;
use crate::locks::{lock, read, write};
use crate::state::refused;

const HOUR_MS: i64 = 3_600_000;
/// How old the sums of the store may be.
const FRESH: Duration = Duration::from_secs(1);
/// After how long a request may find room that running ones have reserved.
const RETRY: Duration = Duration::from_secs(5);
/// What is counted, beside `calls of APP.TOOL`.
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
    /// Held while sums of the store are changed or read, so that nothing is in them and in [`Used::own`] at once.
    storing: AsyncMutex<()>,
}

/// What a tenant has used in an hour.
#[derive(Default)]
struct Used {
    hour: i64,
    /// The sums of the store, and when they were read.
    stored: HashMap<String, u64>,
    read: Option<Instant>,
    /// What is not in these sums yet.
    own: HashMap<String, u64>,
    /// Tokens that running requests are about to use.
    reserved: u64,
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
        *write(&self.0.budgets) = budgets;
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
        let Some(state) = &self.0.state else { return };
        let _alone = self.0.storing.lock().await;
        let all: Vec<_> = {
            let used = self.used();
            let used = used.iter().filter(|(_, used)| !used.own.is_empty());
            used.map(|(tenant, used)| (tenant.clone(), used.hour, used.own.clone()))
                .collect()
        };
        for (tenant, hour, own) in all {
            // A log of its own, so that no request waits for these.
            let digest = Sha256::digest(format!("usage {tenant}")).into();
            let mut commit = Commit::new(Time::from_millis(hour.saturating_mul(HOUR_MS)));
            let usage = own.iter().map(|(thing, count)| store::Usage {
                tenant: tenant.clone(),
                thing: thing.clone(),
                count: *count,
            });
            commit.usage = usage.collect();
            if state.commit(&digest, commit).await.is_ok() {
                self.with(&tenant, |used| used.has_stored(hour, &own));
            }
        }
    }

    /// Lets a request to models begin, as far as is known before it is read.
    pub(crate) async fn admit(&self, tenant: Option<&str>) -> Result<(), ApiError> {
        self.refresh(tenant).await?;
        self.reserve(tenant, 0, 0).map(drop)
    }

    /// Lets a request begin whose prompt has about `estimate` tokens, and whose answer may have `answer`. Both are counted until
    /// it is over: of requests at the same time, those begin for which there is room.
    pub(crate) fn reserve(
        &self,
        tenant: Option<&str>,
        estimate: usize,
        answer: u32,
    ) -> Result<Charge, ApiError> {
        let tenant = self.name(tenant).to_owned();
        let budget = self.budget(&tenant);
        let estimate = u64::try_from(estimate).unwrap_or(u64::MAX);
        let reserved = estimate.saturating_add(answer.into());
        let hour = self.with(&tenant, |used| {
            let budgets = [(CALLS, budget.calls), (TOKENS, budget.tokens)];
            let mut budgets = budgets.into_iter();
            let spent = budgets.find_map(|(thing, most)| used.refuses(thing, most?));
            if let Some(message) = spent {
                let error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, message);
                // Running requests may use less than is reserved.
                return Err(error.with_retry(match used.reserved {
                    0 => rest_of_hour(),
                    _ => RETRY,
                }));
            }
            used.reserved = used.reserved.saturating_add(reserved);
            Ok(used.hour)
        })?;
        Ok(Charge {
            limits: self.clone(),
            tenant,
            hour,
            estimate,
            reserved,
            running: None,
        })
    }

    /// Brings in what other replicas have used.
    pub(crate) async fn refresh(&self, tenant: Option<&str>) -> Result<(), ApiError> {
        let tenant = self.name(tenant);
        let state = self.0.state.as_ref();
        let Some(state) = state.filter(|_| self.is_limited(tenant)) else {
            return Ok(());
        };
        let is_old = |used: &mut Used| used.read.is_none_or(|at| at.elapsed() > FRESH);
        if !self.with(tenant, is_old) {
            return Ok(());
        }
        let _alone = self.0.storing.lock().await;
        // Another request may have read them meanwhile.
        if self.with(tenant, is_old) {
            let now = Time::from_millis(now_ms());
            let stored = state.usage(tenant, now).await.map_err(refused)?;
            self.with(tenant, |used| {
                used.stored = stored.into_iter().collect();
                used.read = Some(Instant::now());
            });
        }
        Ok(())
    }

    /// What limits the calls of this tenant.
    pub(crate) fn of(&self, tenant: Option<&str>) -> Option<Arc<dyn CallBudget>> {
        let tenant = self.name(tenant).to_owned();
        let limits = self.clone();
        self.is_limited(&tenant)
            .then(|| Arc::new(Calls { limits, tenant }) as Arc<dyn CallBudget>)
    }

    /// Counts a question to people.
    ///
    /// # Errors
    /// Why it is one too many for this tenant. It is not counted then.
    pub(crate) fn may_ask(&self, tenant: Option<&str>) -> Result<(), String> {
        let tenant = self.name(tenant);
        let Some(most) = self.budget(tenant).questions else {
            return Ok(());
        };
        self.with(tenant, |used| match used.refuses(QUESTIONS, most) {
            Some(why) => Err(why),
            None => {
                used.add(QUESTIONS, 1);
                Ok(())
            }
        })
    }

    fn name<'a>(&'a self, tenant: Option<&'a str>) -> &'a str {
        tenant.unwrap_or(&self.0.otherwise)
    }

    fn is_limited(&self, tenant: &str) -> bool {
        self.budget(tenant) != Budget::default()
    }

    fn budget(&self, tenant: &str) -> Budget {
        let budgets = read(&self.0.budgets);
        budgets.get(tenant).cloned().unwrap_or_default()
    }

    /// What this tenant has used in this hour.
    fn with<T>(&self, tenant: &str, work: impl FnOnce(&mut Used) -> T) -> T {
        let mut all = self.used();
        let used = all.entry(tenant.to_owned()).or_default();
        // What was used in an hour before counts no more.
        if used.hour != hour() {
            *used = Used {
                hour: hour(),
                ..Used::default()
            };
        }
        work(used)
    }

    fn used(&self) -> MutexGuard<'_, HashMap<String, Used>> {
        lock(&self.0.used)
    }
}

impl Used {
    /// Why there is no room for one more, if there is none.
    fn refuses(&self, thing: &str, most: u64) -> Option<String> {
        let sum = |sums: &HashMap<String, u64>| sums.get(thing).copied().unwrap_or_default();
        let reserved = if thing == TOKENS { self.reserved } else { 0 };
        let count = sum(&self.stored).saturating_add(sum(&self.own));
        (count.saturating_add(reserved) >= most).then(|| {
            let minutes = rest_of_hour().as_secs().div_ceil(60);
            let gone = match reserved {
                0 => "spent",
                _ => "spent or reserved by running requests",
            };
            let what = thing.replacen("call ", "calls of ", 1);
            format!(
                "the budget of {what} in this hour ({most}) is {gone}; it is renewed in {minutes} min"
            )
        })
    }

    fn add(&mut self, thing: &str, count: u64) {
        let sum = self.own.entry(thing.to_owned()).or_default();
        *sum = sum.saturating_add(count);
    }

    /// The store has these counts of this hour now.
    fn has_stored(&mut self, hour: i64, counts: &HashMap<String, u64>) {
        for (thing, count) in counts.iter().filter(|_| self.hour == hour) {
            let stored = self.stored.entry(thing.clone()).or_default();
            *stored = stored.saturating_add(*count);
            let own = self.own.entry(thing.clone()).or_default();
            *own = own.saturating_sub(*count);
        }
        self.own.retain(|_, count| *count > 0);
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

/// The tokens of a request. One that ends before its usage is known, as when its client goes, is charged an estimate.
pub(crate) struct Charge {
    limits: Limits,
    tenant: String,
    /// When it began.
    hour: i64,
    /// About how many tokens its prompt has.
    estimate: u64,
    /// These, and those that its answer may have.
    reserved: u64,
    /// The bytes that a model has written so far, while it is asked.
    running: Option<usize>,
}

impl Charge {
    /// A model is asked. If another one still is, it was given up.
    pub(crate) fn begin(&mut self) {
        self.end(None);
        self.running = Some(0);
    }

    /// The model has written so many bytes, as far as it has come.
    pub(crate) fn wrote(&mut self, bytes: usize) {
        self.running = self.running.map(|before| before.max(bytes));
    }

    /// The model has answered; `None` if nothing says how many tokens it took.
    pub(crate) fn end(&mut self, tokens: Option<u64>) {
        let Some(bytes) = self.running.take() else {
            return;
        };
        // Four bytes of text are about a token.
        let written = u64::try_from(bytes.div_ceil(4)).unwrap_or(u64::MAX);
        self.add(tokens.unwrap_or(self.estimate.saturating_add(written)));
    }

    /// The model has failed. What it wrote before is charged.
    pub(crate) fn fail(&mut self) {
        self.end((self.running == Some(0)).then_some(0));
    }

    /// Charges tokens of a model that was asked beside the request's own.
    pub(crate) fn add(&self, tokens: u64) {
        if self.limits.is_limited(&self.tenant) {
            let add = |used: &mut Used| used.add(TOKENS, tokens);
            self.limits.with(&self.tenant, add);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.end(None);
        self.limits.with(&self.tenant, |used| {
            // Nothing of an earlier hour is reserved any more.
            if used.hour == self.hour {
                used.reserved = used.reserved.saturating_sub(self.reserved);
            }
        });
    }
}

/// The calls of a tenant. What is said of them depends on counts alone.
struct Calls {
    limits: Limits,
    tenant: String,
}

impl Calls {
    /// Counts a call, if `counts`, unless it is one too many.
    fn count(&self, call: &Call, counts: bool) -> Result<(), String> {
        let budget = self.limits.budget(&self.tenant);
        let tool = format!("{}.{}", call.app, call.tool);
        let of_tool = budget.tools.get(&tool).copied();
        let tool = format!("calls of {tool}");
        // In one step, since requests are decided on at the same time.
        self.limits.with(&self.tenant, |used| {
            let refuses = of_tool.and_then(|most| used.refuses(&tool, most));
            let of_all = || used.refuses(CALLS, budget.calls?);
            if let Some(why) = refuses.or_else(of_all) {
                return Err(why);
            }
            if counts {
                used.add(CALLS, 1);
                if of_tool.is_some() {
                    used.add(&tool, 1);
                }
            }
            Ok(())
        })
    }
}

impl CallBudget for Calls {
    fn check(&self, call: &Call) -> Result<(), String> {
        self.count(call, false)
    }

    fn spend(&self, call: &Call) -> Result<(), String> {
        self.count(call, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charge_releases_nothing_of_a_later_hour() {
        let limits = Limits::default();
        let reserve = || limits.reserve(None, 1, 2).ok().unwrap();
        let (mut earlier, _running) = (reserve(), reserve());
        let reserved = || limits.with("", |used| used.reserved);
        assert_eq!(reserved(), 6);
        earlier.hour -= 1;
        drop(earlier);
        assert_eq!(reserved(), 6);
        drop(reserve());
        assert_eq!(reserved(), 6);
    }
}
