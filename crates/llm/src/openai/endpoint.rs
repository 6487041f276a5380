//! Which key may be sent to which server.

use reqwest::Url;

/// The address that `OPENAI_BASE_URL` replaces.
pub const DEFAULT_BASE_URL: &str = "https://api.openai.com/v1";

/// The variable with the key of [`DEFAULT_BASE_URL`], and of the server that takes its place in the
/// environment.
pub const DEFAULT_KEY_VARIABLE: &str = "OPENAI_API_KEY";

/// The variable with the address of a server in the place of [`DEFAULT_BASE_URL`].
pub const BASE_URL_VARIABLE: &str = "OPENAI_BASE_URL";

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
    "the key in ${variable} was named for {DEFAULT_BASE_URL}, and {BASE_URL_VARIABLE} says another server; write that server's base_url beside api_key_env in the configuration, or unset {BASE_URL_VARIABLE}"
)]
pub struct KeyElsewhere {
    /// The variable with the key.
    pub variable: String,
}

impl Endpoint {
    /// The server of a provider, from the address and the key variable of its configuration, and from
    /// the value of [`BASE_URL_VARIABLE`].
    ///
    /// - A configured address gets only the variable that is configured beside it; the default
    ///   key goes to it only if it is the default server, or the one that the environment says too.
    /// - An address of the environment gets the default key, which is the environment's too.
    ///
    /// # Errors
    /// A key variable is configured without an address, which names it for the default server, and the
    /// environment says another server.
    pub fn new(
        base_url: Option<&str>,
        key_variable: Option<&str>,
        environment: Option<&str>,
    ) -> Result<Self, KeyElsewhere> {
        let base_url = match (base_url, key_variable, environment) {
            (Some(configured), _, _) => configured,
            // The file names the key for the default server, and the environment names another server. Neither may overrule
            // the other without the user.
            (None, Some(variable), Some(other)) if !is_default(other) => {
                let variable = variable.to_owned();
                return Err(KeyElsewhere { variable });
            }
            (None, _, other) => other.unwrap_or(DEFAULT_BASE_URL),
        };
        // Also where the configuration names the same address: the environment has named its key for it.
        let from_environment = environment == Some(base_url);
        let default = (from_environment || is_default(base_url)).then_some(DEFAULT_KEY_VARIABLE);
        Ok(Self {
            base_url: base_url.to_owned(),
            key_variable: key_variable.or(default).map(str::to_owned),
        })
    }
}

/// Whether this is the server of [`DEFAULT_BASE_URL`]: the same scheme, host and port.
pub(super) fn is_default(base_url: &str) -> bool {
    // The origin decides who gets the key; a path is that server's own affair.
    let origin = |url: &str| Url::parse(url).ok().map(|url| url.origin());
    origin(base_url).is_some_and(|found| Some(found) == origin(DEFAULT_BASE_URL))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: &str = "https://other.example/v1";

    /// The address and the variable, or the variable that was refused.
    fn check(
        configured: (Option<&str>, Option<&str>),
        environment: Option<&str>,
        expected: Result<(&str, Option<&str>), &str>,
    ) {
        let found = Endpoint::new(configured.0, configured.1, environment);
        let found = found
            .as_ref()
            .map(|found| (found.base_url.as_str(), found.key_variable.as_deref()))
            .map_err(|refused| refused.variable.as_str());
        assert_eq!(found, expected, "{configured:?} {environment:?}");
    }

    #[test]
    fn a_key_goes_only_to_the_server_for_which_it_was_named() {
        let usual = Some(DEFAULT_KEY_VARIABLE);
        let default_v2 = "https://api.openai.com/v2";
        // Nothing configured: the environment's address and the environment's key.
        check((None, None), None, Ok((DEFAULT_BASE_URL, usual)));
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
        check((None, Some("K")), None, Ok((DEFAULT_BASE_URL, Some("K"))));
        check(
            (None, Some("K")),
            Some(default_v2),
            Ok((default_v2, Some("K"))),
        );
        check((None, Some("K")), Some(OTHER), Err("K"));
    }
}
