//! The address and the key of a configured provider.

use anyhow::{Context, Result};
use config::{Provider, ProviderKind};
use llm::{Dialect, Endpoint};

use super::discover::address;
use super::owner;

/// Where a provider's server is, and which key goes there; `None` if it has no server. It is an error if the environment
/// would send a key to a server for which it was not named, or if another user's server is in the place of a local one.
pub(crate) fn endpoint(provider: &Provider) -> Result<Option<Endpoint>> {
    let ProviderKind::Api {
        dialect,
        base_url,
        api_key_env,
        local,
        ..
    } = &provider.kind
    else {
        return Ok(None);
    };
    let name = || format!("the provider {}", provider.name);
    // A configured address needs none.
    let dialect = self::dialect(*dialect);
    let environment = address(dialect.usual().url_variable)
        .or_else(|error| base_url.as_ref().map(|_| None).ok_or(error))?;
    let (url, key) = (base_url.as_deref(), api_key_env.as_deref());
    let endpoint = Endpoint::new(dialect, url, key, environment.as_deref()).with_context(name)?;
    if *local {
        owner::check(&endpoint.base_url).with_context(name)?;
    }
    Ok(Some(endpoint))
}

/// The dialect of a configured provider.
pub(crate) fn dialect(dialect: config::Dialect) -> Dialect {
    match dialect {
        config::Dialect::Chat => Dialect::Chat,
        config::Dialect::Messages => Dialect::Messages,
        config::Dialect::Responses => Dialect::Responses,
    }
}
