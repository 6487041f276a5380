//! Who may use the proxy, and who is one tenant.

use axum::http::{HeaderMap, StatusCode};
use llm::ApiKey;

use super::transcript::{Digest, hash};
use crate::access::{Access, Holder, PREFIX, TOKEN, keys};
use crate::api::error::ApiError;

pub(super) struct Tokens {
    /// The digests of the tokens of which each request needs one; none if no request does.
    digests: Vec<Digest>,
    /// The tokens of a service, in their place.
    access: Option<Access>,
    /// The header that names the user.
    user_header: Option<String>,
}

/// Whose request it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tenant {
    /// The digest of all that tells this client from others.
    pub(super) digest: Digest,
    /// The name that the operator has given it.
    pub(super) name: Option<String>,
    /// The name of the token, where no header names users.
    pub(super) agent: Option<String>,
    /// The user, if a header names one.
    pub(super) user: Option<String>,
}

impl Tokens {
    pub(super) fn new(
        tokens: &[String],
        access: Option<Access>,
        user_header: Option<String>,
    ) -> Self {
        let digests = tokens.iter().map(|token| hash(token.as_bytes()));
        Self {
            digests: digests.collect(),
            access,
            user_header,
        }
    }

    /// Lets a request through and says whose it is, or what it lacks.
    ///
    /// Nothing counts but what the client had to know: the token, where there are tokens, and the key that it pays
    /// the upstream with, where there are none. It could make up all else anew for each request.
    pub(super) async fn admit(&self, headers: &HeaderMap) -> Result<Tenant, ApiError> {
        let holder = match &self.access {
            Some(access) => access.admit(headers, false).await?,
            None => None,
        };
        let holder = match holder {
            Some(holder) => holder,
            None => Holder {
                digest: self.client(headers)?,
                ..Holder::default()
            },
        };
        let (client, name) = (holder.digest, holder.tenant);
        let user = self.user(headers)?;
        // What one user was given is not another's.
        let digest = match &user {
            Some(user) => hash(&[&client[..], user.as_bytes()].concat()),
            None => client,
        };
        // Where a header names users, one that it does not name stays unknown.
        let agent = holder.name.filter(|_| self.user_header.is_none());
        Ok(Tenant {
            digest,
            name,
            agent,
            user,
        })
    }

    /// The user that the header names.
    fn user(&self, headers: &HeaderMap) -> Result<Option<String>, ApiError> {
        let named = self.user_header.iter();
        let mut named = named.flat_map(|name| headers.get_all(name));
        let user = named.next();
        // A client may have set one, and the gateway before us another.
        if named.next().is_some() {
            return Err(ApiError::invalid("the request names more than one user"));
        }
        let user = user.map(|user| std::str::from_utf8(user.as_bytes()));
        let user = user
            .transpose()
            .map_err(|error| ApiError::invalid(error.to_string()))?;
        Ok(user.filter(|user| !user.is_empty()).map(str::to_owned))
    }

    /// The client, by what it had to know.
    fn client(&self, headers: &HeaderMap) -> Result<Digest, ApiError> {
        let own = headers.get(TOKEN).map(|token| token.as_bytes());
        let mut keys = keys(headers);
        if self.digests.is_empty() {
            return Ok(hash(keys.next().unwrap_or_default().as_bytes()));
        }
        let keys = keys.map(str::as_bytes);
        let mut given = own.into_iter().chain(keys).map(hash);
        // By digests, so that the time tells nothing about a token.
        if let Some(token) = given.find(|token| self.digests.contains(token)) {
            return Ok(token);
        }
        let message = "this proxy needs a token of its own, as the API key or as `x-sluice-token`; \
                       see what sluice proxy printed at its start";
        Err(ApiError::new(StatusCode::UNAUTHORIZED, message))
    }

    /// The client's key for the upstream, which a token of ours is not.
    pub(super) fn upstream_key(&self, headers: &HeaderMap) -> Option<ApiKey> {
        let is_own = |key: &str| {
            self.digests.contains(&hash(key.as_bytes()))
                || self.access.is_some() && key.starts_with(PREFIX)
        };
        keys(headers).find(|key| !is_own(key)).map(ApiKey::new)
    }
}
