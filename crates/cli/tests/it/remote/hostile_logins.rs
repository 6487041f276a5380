//! Logins at servers that want what is not theirs, and beside programs and pages that do.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex};

use serde_json::json;
use url::Url;

use crate::remote::authority::{Lie, Servers, browse, metadata, opened, truth};
use crate::remote::server::{Reply, Request, Server, json as whole, json_with, status};
use crate::remote::stage::{SECRET, Stage, mcp};

/// Where a thief listens, and hears nothing.
static THIEF: LazyLock<Server> = LazyLock::new(|| Server::start(|_| status(200)));

/// The metadata of the authorization server with another value.
fn metadata_with(request: &Request, name: &str, value: serde_json::Value) -> Option<Reply> {
    let mut metadata = metadata(&format!("https://{}", request.header("host")));
    metadata[name] = value;
    let asked = request
        .path
        .starts_with("/.well-known/oauth-authorization-server");
    asked.then(|| whole(metadata.to_string()))
}

/// The metadata of the MCP server with another value.
fn resource_with(request: &Request, name: &str, value: serde_json::Value) -> Option<Reply> {
    let own = format!("https://{}", request.header("host"));
    let mut metadata = json!({ "resource": format!("{own}/mcp"), "authorization_servers": [own] });
    metadata[name] = value;
    let asked = request
        .path
        .starts_with("/.well-known/oauth-protected-resource");
    asked.then(|| whole(metadata.to_string()))
}

fn thief() -> String {
    THIEF.url("/x")
}

#[test]
fn what_hostile_metadata_says_is_refused() {
    let of_authority: [(&str, Lie); 10] = [
        ("another issuer", |it| {
            metadata_with(it, "issuer", "https://localhost:1/".into())
        }),
        ("S256", |it| {
            metadata_with(it, "code_challenge_methods_supported", json!(["plain"]))
        }),
        // There is no terminal at which the user could agree to it.
        ("add --tokens-at http://127.0.0.1:", |it| {
            metadata_with(it, "token_endpoint", thief().into())
        }),
        ("on another host", |it| {
            metadata_with(it, "registration_endpoint", thief().into())
        }),
        ("an address is no domain name", |it| {
            metadata_with(
                it,
                "authorization_endpoint",
                "https://169.254.169.254/latest".into(),
            )
        }),
        ("write an address like", |it| {
            metadata_with(it, "authorization_endpoint", "javascript:alert(1)".into())
        }),
        ("write https://", |it| {
            metadata_with(it, "token_endpoint", "http://login.example.org/".into())
        }),
        ("another site", |it| {
            metadata_with(
                it,
                "authorization_endpoint",
                "https://login.example.org/".into(),
            )
        }),
        ("more than 65536 bytes", |it| {
            metadata_with(it, "x", "x".repeat(70_000).into())
        }),
        ("which is not followed", |it| {
            let asked = it.path.starts_with("/.well-known/");
            asked.then(|| json_with(302, &[("Location", &thief())], String::new()))
        }),
    ];
    let of_mcp: [(&str, Lie); 7] = [
        // There is no terminal at which the user could agree to it.
        ("a token that is valid", |it| {
            let above = format!("https://{}/", it.header("host"));
            resource_with(it, "resource", above.into())
        }),
        ("about another server", |it| {
            resource_with(it, "resource", "https://api.example.org/mcp".into())
        }),
        ("that cannot be asked", |it| {
            resource_with(
                it,
                "authorization_servers",
                json!(["http://169.254.169.254/"]),
            )
        }),
        ("that cannot be asked", |it| {
            resource_with(it, "authorization_servers", json!(["file:///etc/passwd"]))
        }),
        ("names no authorization server", |it| {
            resource_with(it, "authorization_servers", json!([]))
        }),
        ("more than 65536 bytes", |it| {
            resource_with(it, "x", "x".repeat(70_000).into())
        }),
        ("on another host", |_| {
            let header = format!("Bearer resource_metadata=\"{}\"", thief());
            Some(json_with(
                401,
                &[("WWW-Authenticate", &header)],
                String::new(),
            ))
        }),
    ];
    let of_authority = of_authority.map(|(why, lie)| (why, lie, truth as Lie));
    let of_mcp = of_mcp.map(|(why, lie)| (why, truth as Lie, lie));
    for (why, authority, mcp) in of_authority.into_iter().chain(of_mcp) {
        let stage = Stage::new();
        let servers = Servers::with(authority, mcp);
        let config = servers.configure(&stage, "");
        let (done, said, told) = Stage::ended(servers.begin(&stage, &config, &[]));
        assert!(
            !done && said.is_empty() && told.contains(why),
            "no {why:?} in: {said}{told}"
        );
        assert!(THIEF.requests().is_empty(), "{why}");
    }
}

#[test]
fn a_token_for_more_than_the_server_needs_the_users_agreement() {
    let stage = Stage::new();
    let servers = Servers::with(truth, |it| {
        let above = format!("https://{}/", it.header("host"));
        resource_with(it, "resource", above.into())
    });
    let config = servers.configure(&stage, "");
    let login = ["app", "login", "far", "--config", &config];
    let (code, shown) = stage.at_terminal(&login, &["no"], |_| ());
    assert_eq!(code, 3, "{shown}");
    assert!(shown.contains("a token that is valid"), "{shown}");
    assert!(servers.authority.requests().is_empty(), "{shown}");
}

#[test]
fn codes_and_tokens_are_taken_nowhere_by_a_redirect() {
    let stage = Stage::new();
    let servers = Servers::with(
        |request| {
            let asked = request.path == "/token";
            asked.then(|| json_with(307, &[("Location", &thief())], String::new()))
        },
        truth,
    );
    let config = servers.configure(&stage, "");
    let mut login = servers.begin(&stage, &config, &[]);
    let back = servers.agree(&opened(&mut login));
    browse(&back);
    let (done, _, why) = Stage::ended(login);
    assert!(!done && why.contains("which is not followed"), "{why}");
    assert!(THIEF.requests().is_empty());
}

#[test]
fn a_page_or_another_user_cannot_answer_for_the_authorization_server() {
    let stage = Stage::new();
    let servers = Servers::honest();
    let config = servers.configure(&stage, "");
    let mut login = servers.begin(&stage, &config, &[]);
    let back = servers.agree(&opened(&mut login));
    // A code of the attacker's, by whoever can reach the port: with no state, with a guess, from another issuer.
    let (address, _) = back.split_once('?').unwrap();
    assert_eq!(browse(&format!("{address}?code=evil")), 400);
    assert_eq!(browse(&format!("{address}?code=evil&state=guess")), 400);
    assert_eq!(servers.asked_for_tokens(), 0);
    assert_eq!(browse(&back), 200);
    assert!(Stage::ended(login).0);
    let sent = servers.authority.requests();
    assert!(sent.iter().all(|it| !it.body.contains("evil")));
}

#[test]
fn an_answer_from_another_issuer_is_not_exchanged() {
    let stage = Stage::new();
    let servers = Servers::honest();
    let config = servers.configure(&stage, "");
    for wrong in ["iss=https%3A%2F%2Flogin.example.org&x=", "x="] {
        let mut login = servers.begin(&stage, &config, &[]);
        let back = servers.agree(&opened(&mut login));
        assert_eq!(browse(&back.replace("iss=", wrong)), 200);
        let (done, _, why) = Stage::ended(login);
        assert!(!done && why.contains("the answer"), "{why}");
    }
    assert_eq!(servers.asked_for_tokens(), 0);
}

/// An authorization server of a stranger's sends the browser on to one where the user is known, which knows Sluice and does
/// not say who its answers are from. It gives its code to the addresses that it knows, at any port (RFC 8252 §7.3).
#[test]
fn a_code_of_another_authorization_server_is_not_brought_to_the_one_that_asked_for_it() {
    let stage = Stage::new();
    let known = Servers::honest();
    let config = known.configure(&stage, "");
    known.log_in(&stage, &config);
    let registered = known.book.lock().unwrap().clients.values().next().cloned();
    let mut registered = Url::parse(&registered.unwrap()).unwrap();

    let stage = Stage::new();
    let strangers = Servers::with(
        |request| {
            metadata_with(
                request,
                "authorization_response_iss_parameter_supported",
                false.into(),
            )
        },
        truth,
    );
    let config = strangers.configure(&stage, "");
    let mut login = strangers.begin(&stage, &config, &[]);
    let page = Url::parse(&opened(&mut login)).unwrap();
    let asked: BTreeMap<String, String> = page.query_pairs().into_owned().collect();
    let own = Url::parse(&asked["redirect_uri"]).unwrap();
    registered.set_port(own.port()).unwrap();
    registered
        .query_pairs_mut()
        .append_pair("code", "of-the-other")
        .append_pair("state", &asked["state"]);
    assert_eq!(browse(registered.as_str()), 404);
    assert_eq!(strangers.asked_for_tokens(), 0);
    // It still waits for its own.
    assert_eq!(browse(&strangers.agree(page.as_str())), 200);
    let (done, said, why) = Stage::ended(login);
    assert!(done, "{said}{why}");
    let sent = strangers.authority.requests();
    assert!(sent.iter().all(|it| !it.body.contains("of-the-other")));
}

#[test]
fn a_server_that_takes_no_token_does_not_make_us_ask_for_more_and_more() {
    let stage = Stage::new();
    let servers = Servers::with(truth, |request| {
        let path = request.path.starts_with("/.well-known/");
        (!path && !request.header("authorization").is_empty()).then(|| status(401))
    });
    let config = servers.configure(&stage, "");
    servers.log_in(&stage, &config);
    let tools = ["app", "tools", "far", "--config", &config];
    stage.refused(&tools, "wants a token");
    assert_eq!(servers.asked_for_tokens(), 2);
}

#[test]
fn a_token_goes_to_no_other_server_by_the_same_name() {
    let stage = Stage::new();
    let servers = Servers::honest();
    let config = servers.configure(&stage, "");
    servers.log_in(&stage, &config);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    let other = Server::start(move |request| {
        kept.lock()
            .unwrap()
            .push(request.header("authorization").to_owned());
        mcp(request)
    });
    // The same app and the same host, but another port; and the same server with another path.
    for url in [other.url("/mcp"), servers.url().replace("/mcp", "/other")] {
        let text = format!("[app.far]\nurl = \"{url}\"\nca_file = \"ca.pem\"\n");
        let config = stage.write("other.toml", &text);
        stage.sluice(&["app", "tools", "far", "--config", &config], "");
    }
    let seen = seen.lock().unwrap();
    assert!(!seen.is_empty() && seen.iter().all(String::is_empty));
    let paths = servers.mcp.requests();
    let mut paths = paths.iter().filter(|it| it.path == "/other");
    assert!(paths.all(|it| !it.header("authorization").contains(SECRET)));
}
