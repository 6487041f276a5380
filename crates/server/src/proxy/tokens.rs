//! Who may use the proxy, and who is one tenant.

use axum::http::{HeaderMap, StatusCode, header::AUTHORIZATION};
use llm::ApiKey;

use super::transcript::{Digest, hash};
use crate::api::error::ApiError;

/// The header with the proxy's own token, for clients whose key goes to the upstream.
const TOKEN: &str = "x-sluice-token";
/// The header with the key in Anthropic's API.
const KEY: &str = "x-api-key";

/// The digests of the tokens of which each request needs one; none if no request does.
pub(super) struct Tokens(Vec<Digest>);

/// Whose request it is: the digest of all that tells this client from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tenant(pub(super) Digest);

impl Tokens {
    pub(super) fn new(tokens: &[String]) -> Self {
        Self(tokens.iter().map(|token| hash(token.as_bytes())).collect())
    }

    /// Lets a request through and says whose it is, or what it lacks.
    ///
    /// Nothing counts but what the client had to know: the token, where there are tokens, and the key that it pays
    /// the upstream with, where there are none. It could make up all else anew for each request.
    pub(super) fn admit(&self, headers: &HeaderMap) -> Result<Tenant, ApiError> {
        let own = headers.get(TOKEN).map(|token| token.as_bytes());
        let mut keys = keys(headers);
        if self.0.is_empty() {
            return Ok(Tenant(hash(keys.next().unwrap_or_default().as_bytes())));
        }
        let keys = keys.map(str::as_bytes);
        let mut given = own.into_iter().chain(keys).map(hash);
        // By digests, so that the time tells nothing about a token.
        if let Some(token) = given.find(|token| self.0.contains(token)) {
            return Ok(Tenant(token));
        }
        let message = "this proxy needs a token of its own, as the API key or as `x-sluice-token`; \
                       see what sluice proxy printed at its start";
        Err(ApiError::new(StatusCode::UNAUTHORIZED, message))
    }

    /// The client's key for the upstream, which a token of ours is not.
    pub(super) fn upstream_key(&self, headers: &HeaderMap) -> Option<ApiKey> {
        let key = keys(headers).find(|key| !self.0.contains(&hash(key.as_bytes())));
        key.map(ApiKey::new)
    }
}

/// The keys that a client sends, in the way of either maker's API.
fn keys(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let text = |name| headers.get(name)?.to_str().ok();
    let bearer = text(AUTHORIZATION.as_str()).and_then(|value| value.strip_prefix("Bearer "));
    bearer.into_iter().chain(text(KEY))
}
