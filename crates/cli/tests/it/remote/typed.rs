//! What a person is asked in the course of a login, and what becomes of the answers.

use crate::remote::authority::{Servers, browse, opened, truth};
use crate::remote::server::{json_with, status};
use crate::remote::stage::Stage;

const FILE: &str = "data/sluice/secrets/logins.json";

/// A login at a terminal with these lines typed. When the address to open is shown, the user agrees there.
fn log_in(stage: &Stage, servers: &Servers, more: &[&str], lines: &[&str]) -> (i32, String) {
    let config = servers.configure(stage, "");
    let login = ["app", "login", "far", "--config", &config];
    let mut browsed = false;
    stage.at_terminal(&[&login[..], more].concat(), lines, |shown| {
        let (_, after) = shown
            .split_once("Open this address in a browser")
            .unwrap_or_default();
        let mut lines = after.split_inclusive('\n').skip(1);
        let page = lines.find(|line| line.starts_with("http") && line.ends_with('\n'));
        if let Some(page) = page.filter(|_| !browsed) {
            browsed = true;
            assert_eq!(browse(&servers.agree(page.trim_end())), 200);
        }
    })
}

fn test(stage: &Stage) {
    let config = stage.path("sluice.toml");
    stage.done(&["app", "test", "far", "--config", config.to_str().unwrap()]);
}

#[test]
fn nobody_is_asked_for_a_login_before_the_user_has_agreed_to_whom() {
    let stage = Stage::new();
    let servers = Servers::honest();
    let named = format!("|   {}", servers.issuer());
    for word in ["no", "", "yes"] {
        let (code, shown) = log_in(&stage, &servers, &[], &[word]);
        assert!(code != 0 && shown.contains(&named), "{code} {shown}");
    }
    assert!(servers.authority.requests().is_empty());
    assert!(!stage.path(FILE).exists());
    let (code, shown) = log_in(&stage, &servers, &[], &["login"]);
    assert!(
        code == 0 && shown.contains("logged in; the token is sent to"),
        "{shown}"
    );
    test(&stage);
}

#[test]
fn another_host_that_gives_out_tokens_is_agreed_to_by_its_name() {
    let stage = Stage::new();
    let servers = Servers::apart(truth);
    let host = servers.tokens_at();
    let asked = format!("|   {host}");
    for word in ["no", "", "login"] {
        let (code, shown) = log_in(&stage, &servers, &[], &["login", word]);
        assert!(code != 0 && shown.contains(&asked), "{code} {shown}");
        assert!(!shown.contains("Open this address"), "{shown}");
    }
    // Where nobody can be asked, it is named, and no other will do.
    let config = servers.configure(&stage, "");
    let issuer = servers.issuer();
    let login = ["app", "login", "far", "--json", "--config", &config];
    let login = [&login[..], &["--issuer", &issuer]].concat();
    stage.refused(&login, &format!("add --tokens-at {host}"));
    let wrong = [&login[..], &["--tokens-at", "https://localhost:1"]].concat();
    stage.refused(&wrong, "not from https://localhost:1");
    let tokens = servers.tokens.as_ref().unwrap();
    assert!(tokens.requests().is_empty());
    assert!(!stage.path(FILE).exists());

    let (code, shown) = log_in(&stage, &servers, &[], &["login", "agree"]);
    assert_eq!(code, 0, "{shown}");
    test(&stage);
    // New tokens come from there too, and the authorization server is sent neither a code nor a token.
    servers.expire();
    test(&stage);
    assert_eq!(tokens.requests().len(), 2);
    let sent = servers.authority.requests();
    assert!(
        sent.iter()
            .all(|it| it.path != "/token" && !it.body.contains("code_verifier"))
    );
    // It is asked for nothing but tokens, and told nothing of what they are for but its name.
    let sent = tokens.requests();
    assert!(
        sent.iter()
            .all(|it| it.path == "/token" && it.header("authorization").is_empty())
    );
    let named = ["--tokens-at", &*host];
    let mut login = servers.begin(&stage, &config, &named);
    browse(&servers.agree(&opened(&mut login)));
    assert!(Stage::ended(login).0);
}

#[test]
fn whoever_gives_out_tokens_elsewhere_takes_them_no_further() {
    let stage = Stage::new();
    let servers = Servers::apart(|request| {
        let to = format!(
            "https://{}/other",
            request.header("host").replace("localhost", "127.0.0.1")
        );
        (request.path == "/token").then(|| json_with(307, &[("Location", &to)], String::new()))
    });
    let (code, shown) = log_in(&stage, &servers, &[], &["login", "agree"]);
    assert!(
        code != 0 && shown.contains("which is not followed"),
        "{shown}"
    );
    let servers = Servers::apart(|_| Some(status(401)));
    let (code, shown) = log_in(&stage, &servers, &[], &["login", "agree"]);
    assert!(code != 0 && shown.contains("HTTP 401"), "{shown}");
    assert!(!stage.path(FILE).exists());
}
