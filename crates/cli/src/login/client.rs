//! This client at an authorization server, and how it authenticates where it asks for tokens.

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use names::WebUrl;
use remote::step::{AuthMethod, LoginStep, Registration};
use serde::{Deserialize, Serialize};
use url::form_urlencoded::byte_serialize;

use crate::secrets::Value;

/// This client: its id at the authorization server, and its secret, if it has one.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) name: String,
    pub(crate) secret: Option<Secret>,
}

/// A secret of this client, and how it is sent (RFC 6749 §2.3.1).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Secret {
    /// In the header.
    ClientSecretBasic(Value),
    /// In the form.
    ClientSecretPost(Value),
}

impl Client {
    /// The client, with the user's secret or the one that it got at its registration. It is an error if a secret is needed
    /// and there is none.
    pub(crate) fn of(registration: &Registration, users: Option<Value>) -> Result<Self> {
        let own = || registration.secret.clone().map(Value::new).transpose();
        let secret = match users {
            None => own().context("the secret that Sluice got when it registered")?,
            given => given,
        };
        let missing =
            "the authorization server wants a client secret; name one with --client-secret";
        let secret = match registration.method {
            AuthMethod::None => None,
            AuthMethod::ClientSecretPost => {
                Some(Secret::ClientSecretPost(secret.context(missing)?))
            }
            AuthMethod::ClientSecretBasic => {
                Some(Secret::ClientSecretBasic(secret.context(missing)?))
            }
        };
        Ok(Self {
            name: registration.client.clone(),
            secret,
        })
    }

    /// The request for tokens at this address, with the client's authentication.
    pub(crate) fn ask(&self, endpoint: &WebUrl, pairs: &[(&str, &str)]) -> LoginStep {
        let mut form = pairs.to_vec();
        let basic = match &self.secret {
            None => {
                form.push(("client_id", &self.name));
                None
            }
            Some(Secret::ClientSecretPost(secret)) => {
                form.push(("client_id", &self.name));
                form.push(("client_secret", secret.reveal()));
                None
            }
            // The id is in the header alone, since a client authenticates in one way.
            Some(Secret::ClientSecretBasic(secret)) => {
                // Each is form-encoded first (RFC 6749 §2.3.1), so that a colon in the id is no separator.
                let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
                let both = format!("{}:{}", encoded(&self.name), encoded(secret.reveal()));
                Some(STANDARD.encode(both))
            }
        };
        let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        LoginStep::Token {
            endpoint: endpoint.to_string(),
            form: form.into_iter().map(own).collect(),
            basic,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: AuthMethod, own: Option<&str>, users: Option<&str>) -> Result<LoginStep> {
        let registration = Registration {
            issuer: "https://login.example.org".to_owned(),
            authorization: "https://login.example.org/a".to_owned(),
            tokens: "https://login.example.org/t".to_owned(),
            client: "cli ent".to_owned(),
            method,
            secret: own.map(str::to_owned),
            says_who: false,
        };
        let users = users.map(|value| Value::new(value.to_owned()).unwrap());
        let endpoint = WebUrl::new(&registration.tokens).unwrap();
        Ok(Client::of(&registration, users)?.ask(&endpoint, &[("code", "c")]))
    }

    fn parts(step: Result<LoginStep>) -> (Vec<(String, String)>, Option<String>) {
        match step.unwrap() {
            LoginStep::Token { form, basic, .. } => (form, basic),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_secret_is_sent_in_the_one_way_that_the_server_has() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let (code, name) = (pair("code", "c"), pair("client_id", "cli ent"));
        let open = parts(asked(AuthMethod::None, Some("s"), Some("t")));
        assert_eq!(open, (vec![code.clone(), name.clone()], None));
        let post = parts(asked(AuthMethod::ClientSecretPost, Some("s"), None));
        let secret = pair("client_secret", "s");
        assert_eq!(post, (vec![code.clone(), name, secret], None));
        let (form, basic) = parts(asked(AuthMethod::ClientSecretBasic, None, Some("a:b")));
        let basic = STANDARD.decode(basic.unwrap()).unwrap();
        assert_eq!((form, &*basic), (vec![code], b"cli+ent:a%3Ab".as_slice()));
        for method in [AuthMethod::ClientSecretPost, AuthMethod::ClientSecretBasic] {
            let error = asked(method, None, None).unwrap_err().to_string();
            assert!(error.contains("--client-secret"), "{error}");
            assert!(asked(method, Some("a\nb"), None).is_err());
        }
    }

    #[test]
    fn no_secret_is_shown() {
        let secret = Value::new("open sesame".to_owned()).unwrap();
        let client = Client {
            name: "client".to_owned(),
            secret: Some(Secret::ClientSecretPost(secret)),
        };
        assert!(!format!("{client:?}").contains("sesame"));
        let endpoint = WebUrl::new("https://login.example.org/t").unwrap();
        assert!(!format!("{:?}", client.ask(&endpoint, &[])).contains("sesame"));
    }
}
