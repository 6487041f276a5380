//! What an authorization server says of itself (RFC 8414), and what this client is called there (RFC 7591).

use names::WebUrl;
use serde::Deserialize;
use serde_json::json;

use super::ask::{document, post, well_known};
use crate::errand::{Met, Report};
use crate::http::{Http, JSON};
use crate::trouble::Trouble;

/// Longest name of a client.
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
}

#[derive(Deserialize)]
struct Registered {
    client_id: String,
    token_endpoint_auth_method: Option<String>,
}

/// Asks the authorization server what it is, and registers this client unless it has a name there.
pub(super) async fn meet(
    http: &Http,
    client: Option<&str>,
    redirect: &str,
    scopes: &[String],
) -> Result<Report, Trouble> {
    let issuer = http.url();
    let metadata = metadata(http).await?;
    let authorization = WebUrl::new(&metadata.authorization_endpoint)?;
    check(issuer, &metadata, &authorization)?;
    let client = match (client, &metadata.registration_endpoint) {
        (Some(client), _) => client.to_owned(),
        (None, Some(endpoint)) => {
            match register(http, &WebUrl::new(endpoint)?, redirect, scopes).await? {
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
    Ok(Report::Met(Met {
        authorization: authorization.to_string(),
        tokens: metadata.token_endpoint,
        client,
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

async fn register(
    http: &Http,
    endpoint: &WebUrl,
    redirect: &str,
    scopes: &[String],
) -> Result<Result<String, String>, Trouble> {
    let mut client = json!({
        "client_name": "Sluice",
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        // A client of the web, which is the default, may not be sent back to this machine.
        "application_type": "native",
    });
    if let (false, Some(client)) = (scopes.is_empty(), client.as_object_mut()) {
        client.insert("scope".to_owned(), scopes.join(" ").into());
    }
    let body = (JSON, client.to_string().into_bytes());
    let registered: Registered = match post(http, endpoint, body).await? {
        Ok(registered) => registered,
        Err(code) => return Ok(Err(code)),
    };
    // A program on the user's machine keeps no secret from the user's other programs.
    if registered
        .token_endpoint_auth_method
        .is_some_and(|method| method != "none")
    {
        return Err(Trouble::Form("it wants a secret of the client"));
    }
    let client = registered.client_id;
    match !client.is_empty() && client.len() <= MAX_CLIENT {
        true => Ok(Ok(client)),
        false => Err(Trouble::Form("it gives the client no name")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(change: impl FnOnce(&mut Metadata)) -> Result<(), String> {
        let mut metadata = Metadata {
            issuer: "https://login.example.org".to_owned(),
            authorization_endpoint: "https://www.example.org/authorize".to_owned(),
            token_endpoint: "https://login.example.org/token".to_owned(),
            registration_endpoint: Some("https://login.example.org/register".to_owned()),
            code_challenge_methods_supported: vec!["plain".to_owned(), "S256".to_owned()],
            authorization_response_iss_parameter_supported: false,
        };
        change(&mut metadata);
        let issuer = WebUrl::new("https://login.example.org/").unwrap();
        let authorization = WebUrl::new(&metadata.authorization_endpoint);
        let authorization = authorization.map_err(|error| error.to_string())?;
        check(&issuer, &metadata, &authorization).map_err(|trouble| trouble.to_string())
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
