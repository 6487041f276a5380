//! Which key may be sent to which server.

use reqwest::Url;

use super::dialect::{Dialect, Usual};

/// A server, and the variable whose value may be sent to it as a key.
///
/// A key is bound to the address for which it was named. A change of one of the two, a file or the
/// environment, must not send the other's key elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The address.
    pub base_url: String,
    /// The variable with its key; `None` sends no key.
    pub key_variable: Option<String>,
}

/// The environment would send a key to a server for which it was not named.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the key in ${variable} was named for {}, and {} says another server; write that server's base_url beside api_key_env in the configuration, or unset {}",
    usual.base_url, usual.url_variable, usual.url_variable
)]
pub struct KeyElsewhere {
    /// The variable with the key.
    pub variable: String,
    /// The server for which it was named.
    pub usual: Usual,
}

impl Endpoint {
    /// The server of a provider, from the address and the key variable of its configuration, and from
    /// the value of [`Usual::url_variable`].
    ///
    /// - A configured address gets only the variable that is configured beside it; the default
    ///   key goes to it only if it is the default server, or the one that the environment says too.
    /// - An address of the environment gets the default key, which is the environment's too.
    ///
    /// # Errors
    /// A key variable is configured without an address, which names it for the default server, and the
    /// environment says another server.
    pub fn new(
        dialect: Dialect,
        base_url: Option<&str>,
        key_variable: Option<&str>,
        environment: Option<&str>,
    ) -> Result<Self, KeyElsewhere> {
        let usual = dialect.usual();
        let base_url = match (base_url, key_variable, environment) {
            (Some(configured), _, _) => configured,
            // The file names the key for the default server, and the environment names another server. Neither may overrule
            // the other without the user.
            (None, Some(variable), Some(other)) if !is_default(dialect, other) => {
                let variable = variable.to_owned();
                return Err(KeyElsewhere { variable, usual });
            }
            (None, _, other) => other.unwrap_or(usual.base_url),
        };
        // Also where the configuration names the same address: the environment has named its key for it.
        let from_environment = environment == Some(base_url);
        let is_usual = from_environment || is_default(dialect, base_url);
        let default = is_usual.then_some(usual.key_variable);
        Ok(Self {
            base_url: base_url.to_owned(),
            key_variable: key_variable.or(default).map(str::to_owned),
        })
    }
}

/// Whether this is the usual server of a dialect: the same scheme, host and port.
pub(super) fn is_default(dialect: Dialect, base_url: &str) -> bool {
    // The origin decides who gets the key; a path is that server's own affair.
    let origin = |url: &str| Url::parse(url).ok().map(|url| url.origin());
    origin(base_url).is_some_and(|found| Some(found) == origin(dialect.usual().base_url))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: &str = "https://other.example/v1";
    const DEFAULT: &str = "https://api.openai.com/v1";

    /// The address and the variable, or the variable that was refused.
    fn check(
        configured: (Option<&str>, Option<&str>),
        environment: Option<&str>,
        expected: Result<(&str, Option<&str>), &str>,
    ) {
        let found = Endpoint::new(Dialect::Chat, configured.0, configured.1, environment);
        let found = found
            .as_ref()
            .map(|found| (found.base_url.as_str(), found.key_variable.as_deref()))
            .map_err(|refused| refused.variable.as_str());
        assert_eq!(found, expected, "{configured:?} {environment:?}");
    }

    #[test]
    fn a_key_goes_only_to_the_server_for_which_it_was_named() {
        let usual = Some("OPENAI_API_KEY");
        let default_v2 = "https://api.openai.com/v2";
        // Nothing configured: the environment's address and the environment's key.
        check((None, None), None, Ok((DEFAULT, usual)));
        check((None, None), Some(OTHER), Ok((OTHER, usual)));
        // A key beside an address, whatever the environment says.
        check((Some(OTHER), Some("K")), None, Ok((OTHER, Some("K"))));
        check(
            (Some(OTHER), Some("K")),
            Some("http://x"),
            Ok((OTHER, Some("K"))),
        );
        // The usual key goes to an address of a file only if it is the usual server.
        check((Some(OTHER), None), None, Ok((OTHER, None)));
        check((Some(default_v2), None), None, Ok((default_v2, usual)));
        for imitation in [
            "https://api.openai.com.evil.example/v1",
            "https://api.openai.com@evil.example/v1",
            "http://api.openai.com/v1",
            "https://api.openai.com:444/v1",
        ] {
            check((Some(imitation), None), None, Ok((imitation, None)));
        }
        // A key that a file names without an address is for the usual server.
        check((None, Some("K")), None, Ok((DEFAULT, Some("K"))));
        check(
            (None, Some("K")),
            Some(default_v2),
            Ok((default_v2, Some("K"))),
        );
        check((None, Some("K")), Some(OTHER), Err("K"));
        // Each dialect has a server and a key of its own.
        for (address, key) in [
            (None, Some("ANTHROPIC_API_KEY")),
            (Some("https://api.anthropic.com"), Some("ANTHROPIC_API_KEY")),
            (Some(DEFAULT), None),
        ] {
            let found = Endpoint::new(Dialect::Messages, address, None, None).unwrap();
            assert_eq!(found.key_variable.as_deref(), key, "{address:?}");
        }
    }
}
