//! Who may use the fronts of a service: agents, by tokens that are made and revoked while it runs.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use axum::http::{HeaderMap, StatusCode, header::AUTHORIZATION};
use sha2::{Digest, Sha256};
use store::Role;

use crate::api::error::ApiError;
use crate::locks::lock;
use crate::sink;

/// The header with a token, for clients whose key goes to the upstream.
pub(crate) const TOKEN: &str = "x-sluice-token";
/// The header with the key in Anthropic's API.
const KEY: &str = "x-api-key";
/// How the secret of every token of the desk begins. A key like this never goes to an upstream.
pub(crate) const PREFIX: &str = "sluice-";
/// How long an admission is remembered: a revoked token ends within this time.
const FRESH: Duration = Duration::from_secs(1);
/// Tokens that are remembered, wrong ones included.
const MOST: usize = 4_096;

/// The holder of an agent's token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// The name of the token.
    pub name: String,
    /// What the token is for: one of another role is refused.
    pub role: Role,
    /// Whose budget it uses.
    pub tenant: Option<String>,
}

/// Where tokens of agents are looked up.
#[async_trait]
pub trait Agents: Send + Sync {
    /// The agent with this secret, if there is one.
    ///
    /// # Errors
    /// The store does not answer.
    async fn admit(&self, secret: &str) -> Result<Option<Agent>, String>;
}

/// The tokens of a service. A handle.
#[derive(Clone)]
pub struct Access(Arc<Inner>);

/// What was found of a token, by its digest, and when.
type Known = HashMap<[u8; 32], (Instant, Option<Agent>)>;

struct Inner {
    agents: Arc<dyn Agents>,
    is_required: bool,
    tenants: BTreeSet<String>,
    known: Mutex<Known>,
}

/// Who sends a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Holder {
    /// The digest of the token.
    pub(crate) digest: [u8; 32],
    /// The name of the token of a service.
    pub(crate) name: Option<String>,
    /// Whose budget it uses.
    pub(crate) tenant: Option<String>,
}

impl Access {
    /// The tokens of these agents. Without `is_required` an agent of this machine needs none at the proxy. If there are
    /// `tenants`, a token that names another one does not count: it would have no budget.
    pub fn new(agents: Arc<dyn Agents>, is_required: bool, tenants: BTreeSet<String>) -> Self {
        let known = Mutex::default();
        Self(Arc::new(Inner {
            agents,
            is_required,
            tenants,
            known,
        }))
    }

    pub(crate) fn is_required(&self) -> bool {
        self.0.is_required
    }

    /// Whose request this is; `None` if it has no token and needs none.
    pub(crate) async fn admit(
        &self,
        headers: &HeaderMap,
        is_required: bool,
    ) -> Result<Option<Holder>, ApiError> {
        let own = headers.get(TOKEN).and_then(|token| token.to_str().ok());
        let tokens = keys(headers).filter(|key| key.starts_with(PREFIX));
        let mut is_given = false;
        for secret in own.into_iter().chain(tokens) {
            is_given = true;
            if let Some(holder) = self.find(secret).await? {
                return Ok(Some(holder));
            }
        }
        if !is_given && !is_required && !self.0.is_required {
            return Ok(None);
        }
        let message = match is_given || keys(headers).any(|key| !key.is_empty()) {
            true => {
                "this token is unknown, revoked or expired; make one with `sluice token new NAME --role agent`"
            }
            false => {
                "this service needs a token, as the API key, as `Authorization: Bearer` or as `x-sluice-token`; \
                      make one with `sluice token new NAME --role agent`"
            }
        };
        Err(ApiError::new(StatusCode::UNAUTHORIZED, message))
    }

    /// The same, where every request needs a token.
    pub(crate) async fn admit_known(&self, headers: &HeaderMap) -> Result<Holder, ApiError> {
        let admitted = self.admit(headers, true).await?;
        admitted.ok_or_else(|| ApiError::internal("a request without a token was admitted"))
    }

    async fn find(&self, secret: &str) -> Result<Option<Holder>, ApiError> {
        let digest: [u8; 32] = Sha256::digest(secret).into();
        let known = lock(&self.0.known).get(&digest).cloned();
        let agent = match known.filter(|(at, _)| at.elapsed() < FRESH) {
            Some((_, agent)) => agent,
            None => {
                let begun = Instant::now();
                let found = self.0.agents.admit(secret).await;
                let found = found.map_err(|reason| {
                    tracing::error!(target: "sluice::state", reason, "tokens cannot be checked");
                    ApiError::unavailable("tokens cannot be checked now; try again")
                })?;
                let mut known = lock(&self.0.known);
                if known.len() >= MOST {
                    known.clear();
                }
                known.insert(digest, (begun, found.clone()));
                found
            }
        };
        let Some(Agent { name, role, tenant }) = agent else {
            return Ok(None);
        };
        sink::set_sender(&name, tenant.as_deref());
        if role != Role::Agent {
            let message = "this token is one of an approver or admin; make one with `sluice token new NAME --role agent`";
            return Err(ApiError::new(StatusCode::FORBIDDEN, message));
        }
        let is_known = |name: &String| self.0.tenants.is_empty() || self.0.tenants.contains(name);
        if tenant.as_ref().is_some_and(|name| !is_known(name)) {
            let message =
                "the tenant of this token is not in the configuration; add its table [tenant.NAME]";
            return Err(ApiError::new(StatusCode::FORBIDDEN, message));
        }
        let name = Some(name);
        Ok(Some(Holder {
            digest,
            name,
            tenant,
        }))
    }
}

/// The keys that a client sends, in the way of either maker's API.
pub(crate) fn keys(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let key = headers.get(KEY).and_then(|key| key.to_str().ok());
    bearer(headers).into_iter().chain(key)
}

/// The token or key of `Authorization: Bearer`.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    value.strip_prefix("Bearer ")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One(Mutex<Option<Agent>>);

    #[async_trait]
    impl Agents for One {
        async fn admit(&self, secret: &str) -> Result<Option<Agent>, String> {
            match secret {
                "sluice-down" => Err("the store is gone".to_owned()),
                "sluice-a" => Ok(self.0.lock().unwrap().clone()),
                _ => Ok(None),
            }
        }
    }

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(
            axum::http::HeaderName::from_static(name),
            value.parse().unwrap(),
        )])
    }

    #[tokio::test]
    async fn a_token_counts_until_it_is_revoked() {
        let tenant = |name: &str| Agent {
            name: "a".to_owned(),
            role: Role::Agent,
            tenant: Some(name.to_owned()),
        };
        let one = Arc::new(One(Mutex::new(Some(tenant("team")))));
        let access = Access::new(one.clone(), false, BTreeSet::from(["team".to_owned()]));
        let status = async |headers: &HeaderMap| {
            let admitted = access.admit(headers, false).await;
            admitted.map_err(|error| error.status().as_u16())
        };
        for given in [
            headers("authorization", "Bearer sluice-a"),
            headers(TOKEN, "sluice-a"),
            headers(KEY, "sluice-a"),
        ] {
            let holder = status(&given).await.unwrap().unwrap();
            assert_eq!(holder.tenant.as_deref(), Some("team"));
        }
        // A wrong token is not as good as none, and a key of the upstream's is no token.
        assert_eq!(status(&headers(TOKEN, "x")).await, Err(401));
        let key = headers("authorization", "Bearer sk-1");
        assert_eq!(status(&key).await, Ok(None));
        assert!(access.admit(&key, true).await.is_err());
        assert_eq!(status(&headers(TOKEN, "sluice-down")).await, Err(503));
        let given = headers(TOKEN, "sluice-a");
        *one.0.lock().unwrap() = Some(tenant("other"));
        tokio::time::sleep(FRESH).await;
        assert_eq!(status(&given).await, Err(403));
        let approver = Agent {
            role: Role::Approver,
            ..tenant("team")
        };
        *one.0.lock().unwrap() = Some(approver);
        tokio::time::sleep(FRESH).await;
        assert_eq!(status(&given).await, Err(403));
        *one.0.lock().unwrap() = None;
        tokio::time::sleep(FRESH).await;
        assert_eq!(status(&given).await, Err(401));
    }
}
