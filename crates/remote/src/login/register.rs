//! What an authorization server says of itself (RFC 8414), and what this client is called there (RFC 7591).

use names::WebUrl;
use reqwest::header::HeaderMap;
use serde::Deserialize;
use serde::de::value::{Error as ValueError, StrDeserializer};
use serde_json::json;

use super::document::{document, post, well_known};
use crate::http::{Http, JSON};
use crate::step::{AuthMethod, Registration, Report};
use crate::trouble::Trouble;

/// Longest name of a client, and longest secret of one.
const MAX_CLIENT: usize = 2048;

#[derive(Deserialize)]
struct Metadata {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    registration_endpoint: Option<String>,
    #[serde(default)]
    code_challenge_methods_supported: Vec<String>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Registered {
    client_id: String,
    client_secret: Option<String>,
    token_endpoint_auth_method: Option<String>,
}

/// What this client is called, and how it authenticates.
struct Client {
    name: String,
    method: AuthMethod,
    secret: Option<String>,
}

/// Asks the authorization server what it is, and registers this client unless it has a name there.
pub(super) async fn register(
    http: &Http,
    client: Option<&str>,
    has_secret: bool,
    redirect: &str,
    scopes: &[String],
) -> Result<Report, Trouble> {
    let issuer = http.url();
    let metadata = metadata(http).await?;
    let authorization = WebUrl::new(&metadata.authorization_endpoint)?;
    check(issuer, &metadata, &authorization)?;
    let client = match (client, &metadata.registration_endpoint) {
        (Some(name), _) => Client {
            name: name.to_owned(),
            method: match has_secret {
                true => with_secret(&metadata)?,
                false => AuthMethod::None,
            },
            secret: None,
        },
        (None, Some(endpoint)) => {
            let (endpoint, method) = (WebUrl::new(endpoint)?, for_registration(&metadata)?);
            match post_client(http, &endpoint, redirect, scopes, method).await? {
                Ok(client) => client,
                Err(code) => return Ok(Report::Refused(code)),
            }
        }
        (None, None) => {
            return Err(Trouble::Form(
                "it registers no clients; register one by hand, and name it with --client-id",
            ));
        }
    };
    Ok(Report::Registered(Registration {
        issuer: metadata.issuer,
        authorization: authorization.to_string(),
        tokens: metadata.token_endpoint,
        client: client.name,
        method: client.method,
        secret: client.secret,
        says_who: metadata.authorization_response_iss_parameter_supported,
    }))
}

async fn metadata(http: &Http) -> Result<Metadata, Trouble> {
    let issuer = http.url();
    let path = issuer.path().trim_end_matches('/');
    // The first two have the issuer's path behind the document's name (RFC 8414), the third in front of it (OpenID
    // Connect).
    let places = [
        well_known(issuer, "oauth-authorization-server"),
        well_known(issuer, "openid-configuration"),
        issuer.with_path(&format!("{path}/.well-known/openid-configuration")),
    ];
    for place in &places {
        if let Some(metadata) = document(http, place).await? {
            return Ok(metadata);
        }
    }
    Err(Trouble::Form(
        "it has no metadata of an authorization server",
    ))
}

/// What is believed of an authorization server: what it says of itself, and of places that are its own. It is registered at
/// here, so by its own origin; a page for the user elsewhere could be another's, whose codes would end here (RFC 9700 §4.4).
/// Tokens may be elsewhere (RFC 8414 §2), which the hub asks the user about: nothing is sent there by this process.
fn check(issuer: &WebUrl, metadata: &Metadata, authorization: &WebUrl) -> Result<(), Trouble> {
    WebUrl::new(&metadata.token_endpoint)?;
    if let Some(endpoint) = &metadata.registration_endpoint
        && WebUrl::new(endpoint)?.origin() != issuer.origin()
    {
        return Err(Trouble::Form(
            "it registers clients on another host than itself",
        ));
    }
    let methods = &metadata.code_challenge_methods_supported;
    match () {
        // Otherwise one server could pass for another, and be sent what is meant for that (RFC 8414 §3.3).
        () if WebUrl::new(&metadata.issuer)? != *issuer => {
            Err(Trouble::Form("its metadata is about another issuer"))
        }
        () if !authorization.is_same_site(issuer) => Err(Trouble::Form(
            "its page to log in at belongs to another site",
        )),
        () if !methods.iter().any(|method| method == "S256") => Err(Trouble::Form(
            "it does not offer PKCE with S256, without which a code can be stolen",
        )),
        () => Ok(()),
    }
}

/// How a client that has a secret shows it. An authorization server that says nothing takes the header (RFC 8414 §2).
fn with_secret(metadata: &Metadata) -> Result<AuthMethod, Trouble> {
    let Some(offered) = &metadata.token_endpoint_auth_methods_supported else {
        return Ok(AuthMethod::ClientSecretBasic);
    };
    let is_offered = |method: &AuthMethod| offered.iter().any(|said| known(said) == Some(*method));
    let mut methods = [AuthMethod::ClientSecretBasic, AuthMethod::ClientSecretPost].into_iter();
    methods.find(is_offered).ok_or(Trouble::Form(
        "it takes the secret of a client in no way that Sluice has",
    ))
}

/// How a client authenticates that registers itself: not at all, which is what programs on a user's machine do, unless it is
/// said that this will not do.
fn for_registration(metadata: &Metadata) -> Result<AuthMethod, Trouble> {
    let offered = metadata.token_endpoint_auth_methods_supported.as_deref();
    let is_open = |offered: &[String]| {
        let mut offered = offered.iter().map(|said| known(said));
        offered.any(|method| method == Some(AuthMethod::None))
    };
    match offered.is_none_or(is_open) {
        true => Ok(AuthMethod::None),
        false => with_secret(metadata),
    }
}

/// The way to authenticate of this name, if Sluice has it.
fn known(name: &str) -> Option<AuthMethod> {
    AuthMethod::deserialize(StrDeserializer::<ValueError>::new(name)).ok()
}

async fn post_client(
    http: &Http,
    endpoint: &WebUrl,
    redirect: &str,
    scopes: &[String],
    method: AuthMethod,
) -> Result<Result<Client, String>, Trouble> {
    let mut client = json!({
        "client_name": "Sluice",
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
        // A client of the web, which is the default, may not be sent back to this machine.
        "application_type": "native",
    });
    if let (false, Some(client)) = (scopes.is_empty(), client.as_object_mut()) {
        client.insert("scope".to_owned(), scopes.join(" ").into());
    }
    let body = (JSON, client.to_string().into_bytes());
    let registered: Registered = match post(http, endpoint, body, HeaderMap::new()).await? {
        Ok(registered) => registered,
        Err(code) => return Ok(Err(code)),
    };
    read(registered, method).map(Ok)
}

/// What the registration came to. The server has the last word on how the client authenticates.
fn read(registered: Registered, asked: AuthMethod) -> Result<Client, Trouble> {
    // RFC 6749, appendix A.
    let is_word = |word: &String| {
        let visible = word.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        (1..=MAX_CLIENT).contains(&word.len()) && visible
    };
    let client = Some(registered.client_id).filter(is_word);
    let method = match &registered.token_endpoint_auth_method {
        Some(said) => known(said),
        None => Some(asked),
    };
    let method = method.ok_or(Trouble::Form(
        "it lets this client in by a way that Sluice does not have",
    ))?;
    let secret = match method {
        AuthMethod::None => None,
        AuthMethod::ClientSecretPost | AuthMethod::ClientSecretBasic => {
            let secret = registered.client_secret.filter(is_word);
            Some(secret.ok_or(Trouble::Form(
                "it gives the client no secret, and wants one",
            ))?)
        }
    };
    Ok(Client {
        name: client.ok_or(Trouble::Form("it gives the client no name"))?,
        method,
        secret,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata() -> Metadata {
        Metadata {
            issuer: "https://login.example.org".to_owned(),
            authorization_endpoint: "https://www.example.org/authorize".to_owned(),
            token_endpoint: "https://login.example.org/token".to_owned(),
            registration_endpoint: Some("https://login.example.org/register".to_owned()),
            code_challenge_methods_supported: vec!["plain".to_owned(), "S256".to_owned()],
            authorization_response_iss_parameter_supported: false,
            token_endpoint_auth_methods_supported: None,
        }
    }

    fn said(change: impl FnOnce(&mut Metadata)) -> Result<(), String> {
        let mut metadata = metadata();
        change(&mut metadata);
        let issuer = WebUrl::new("https://login.example.org/").unwrap();
        let authorization = WebUrl::new(&metadata.authorization_endpoint);
        let authorization = authorization.map_err(|error| error.to_string())?;
        check(&issuer, &metadata, &authorization).map_err(|trouble| trouble.to_string())
    }

    #[test]
    fn a_client_authenticates_as_the_server_says() {
        use AuthMethod::{ClientSecretBasic as Basic, ClientSecretPost as Post, None as Open};
        let ways = |offered: Option<&[&str]>| {
            let offered = offered.map(|list| list.iter().map(|&way| way.to_owned()).collect());
            let mut metadata = metadata();
            metadata.token_endpoint_auth_methods_supported = offered;
            let found = (for_registration(&metadata), with_secret(&metadata));
            (found.0.ok(), found.1.ok())
        };
        assert_eq!(ways(None), (Some(Open), Some(Basic)));
        assert_eq!(ways(Some(&["none"])), (Some(Open), None));
        let (both, post) = (
            ["client_secret_post", "client_secret_basic"],
            ["client_secret_post"],
        );
        assert_eq!(ways(Some(&both)), (Some(Basic), Some(Basic)));
        assert_eq!(ways(Some(&post)), (Some(Post), Some(Post)));
        assert_eq!(ways(Some(&["private_key_jwt"])), (None, None));
        assert_eq!(ways(Some(&[])), (None, None));

        let registered = |secret: Option<&str>, method: Option<&str>, asked| {
            let registered = Registered {
                client_id: "a client".to_owned(),
                client_secret: secret.map(str::to_owned),
                token_endpoint_auth_method: method.map(str::to_owned),
            };
            read(registered, asked).map(|client| (client.method, client.secret))
        };
        let secret = Some("s".to_owned());
        assert_eq!(registered(None, None, Open).unwrap(), (Open, None));
        // Many servers give out a secret to a public client.
        assert_eq!(registered(Some("s"), None, Open).unwrap(), (Open, None));
        assert_eq!(
            registered(Some("s"), None, Post).unwrap(),
            (Post, secret.clone())
        );
        let told = registered(Some("s"), Some("client_secret_basic"), Open);
        assert_eq!(told.unwrap(), (Basic, secret));
        for (secret, method) in [
            (None, "client_secret_basic"),
            (Some(""), "client_secret_post"),
            (Some("a\nb"), "client_secret_post"),
            (Some("s"), "tls_client_auth"),
        ] {
            assert!(registered(secret, Some(method), Open).is_err(), "{method}");
        }
    }

    #[test]
    fn an_authorization_server_speaks_of_itself_alone() {
        said(|_| ()).unwrap();
        let own = |text: &str| text.to_owned();
        let refused = |why: &str, change: &dyn Fn(&mut Metadata)| {
            let error = said(change).unwrap_err();
            assert!(error.contains(why), "{error}");
        };
        refused("another issuer", &|it| {
            it.issuer = own("https://login.example.org/a")
        });
        refused("another issuer", &|it| {
            it.issuer = own("https://example.org")
        });
        for endpoint in [
            "https://www.example.org/token",
            "https://login.example.org:444/",
        ] {
            // Where that is, the user is asked about.
            said(|it| it.token_endpoint = own(endpoint)).unwrap();
            refused("on another host", &|it| {
                it.registration_endpoint = Some(own(endpoint))
            });
        }
        refused("another site", &|it| {
            it.authorization_endpoint = own("https://example.com/")
        });
        refused("PKCE", &|it| {
            it.code_challenge_methods_supported = vec![own("plain")]
        });
        refused("PKCE", &|it| {
            it.code_challenge_methods_supported = Vec::new()
        });
        for address in [
            "http://login.example.org/a",
            "https://169.254.169.254/latest",
            "https://10.0.0.1/",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "https://me@login.example.org/",
        ] {
            assert!(
                said(|it| it.authorization_endpoint = own(address)).is_err(),
                "{address}"
            );
            assert!(
                said(|it| it.token_endpoint = own(address)).is_err(),
                "{address}"
            );
        }
    }
}
