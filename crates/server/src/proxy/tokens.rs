//! Who may use the proxy, and who is one tenant.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header::AUTHORIZATION};
use llm::ApiKey;
use sha2::{Digest as _, Sha256};

use super::transcript::{Digest, hash};
use crate::openai_api::response::ApiError;

/// The header with the proxy's own token, for clients whose key goes to the upstream.
const TOKEN: &str = "x-sluice-token";

/// The digests of the tokens of which each request needs one; none if no request does.
pub(super) struct Tokens(Vec<Digest>);

impl Tokens {
    pub(super) fn new(tokens: &[String]) -> Self {
        Self(tokens.iter().map(|token| hash(token.as_bytes())).collect())
    }

    /// Lets a request through, or says what it lacks.
    pub(super) fn admit(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let own = headers.get(TOKEN).map(|token| token.as_bytes());
        let given = [own, bearer(headers).map(str::as_bytes)];
        if self.0.is_empty() || given.into_iter().flatten().any(|token| self.is_one(token)) {
            return Ok(());
        }
        let message = "this proxy needs a token of its own, as the API key or as `x-sluice-token`; \
                       see what sluice proxy printed at its start";
        Err(ApiError::new(StatusCode::UNAUTHORIZED, message))
    }

    /// The client's key for the upstream, which a token of ours is not.
    pub(super) fn upstream_key(&self, headers: &HeaderMap) -> Option<ApiKey> {
        let key = bearer(headers).filter(|key| !self.is_one(key.as_bytes()));
        key.map(ApiKey::new)
    }

    /// Digests are compared, so that the time tells nothing about a token.
    fn is_one(&self, given: &[u8]) -> bool {
        self.0.contains(&hash(given))
    }
}

/// Names whoever sent these: all that tells clients apart is what they know.
pub(super) fn tenant(headers: &HeaderMap) -> Digest {
    let mut digest = Sha256::new();
    for name in [AUTHORIZATION.as_str(), TOKEN] {
        let value = headers.get(name).map(HeaderValue::as_bytes);
        digest.update(hash(value.unwrap_or_default()));
    }
    digest.finalize().into()
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    value.strip_prefix("Bearer ")
}
