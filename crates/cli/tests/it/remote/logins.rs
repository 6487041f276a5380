//! Logins at servers that mean well.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::remote::authority::{CLIENT_SECRET, Servers, browse, opened};
use crate::remote::server::{Reply, Request, Server, status};
use crate::remote::stage::{SECRET, Stage, model};

const FILE: &str = "data/sluice/secrets/logins.json";

/// A configuration in which a model calls the app's tool.
fn with_model(stage: &Stage, servers: &Servers, upstream: &Server) -> String {
    let more = format!(
        "[app.far.tools.look_up]\neffect = \"read\"\nlimit = \"any\"\n\
         [[provider]]\nname = \"m\"\nkind = \"openai\"\nmodel = \"m\"\nbase_url = \"{}\"\nclearance = \"any\"\n",
        upstream.url("/v1")
    );
    servers.configure(stage, &more)
}

fn tools(config: &str) -> [&str; 6] {
    ["app", "tools", "far", "--json", "--config", config]
}

#[test]
fn a_login_is_kept_used_and_forgotten() {
    let stage = Stage::new();
    let servers = Servers::honest();
    let config = servers.configure(&stage, "");
    // Which command to run, also where nothing is configured yet.
    let remedy = format!("`sluice app login far --url {}`", servers.url());
    stage.refused(&tools(&config), &remedy);
    let done = servers.log_in(&stage, &config);
    assert_eq!(done["logged_in"], true);
    assert_eq!(done["server"], servers.url());
    let mode = fs::metadata(stage.path(FILE)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(stage.done(&tools(&config)).contains("look_up"));
    assert_eq!(servers.asked_for_tokens(), 1);
    // The authorization server has seen no token of the server's, nor the server what tokens are renewed with.
    let requests = servers.mcp.requests();
    assert!(
        requests
            .iter()
            .all(|it| !format!("{it:?}").contains("-refresh-"))
    );
    stage.done(&["app", "logout", "far"]);
    stage.refused(&["app", "logout", "far"], "there is no login");
    assert!(
        !fs::read_to_string(stage.path(FILE))
            .unwrap()
            .contains(SECRET)
    );
    stage.refused(&tools(&config), &remedy);
}

#[test]
fn a_token_that_runs_out_in_the_middle_of_a_session_is_renewed() {
    let stage = Stage::new();
    let servers = Servers::honest();
    let book = std::sync::Arc::clone(&servers.book);
    // The model calls the tool when the token of the start is no longer good.
    let upstream = Server::start(move |request| {
        book.lock().unwrap().access.clear();
        model(request)
    });
    let config = with_model(&stage, &servers, &upstream);
    servers.log_in(&stage, &config);
    let run = ["run", "--app", "far", "--config", &config, "Look it up"];
    for renewed in 1..=3 {
        let said = stage.done(&run);
        // As the server says it, and without the token that it quotes.
        assert!(said.contains("found by Bearer [secret]"), "{said}");
        // A session starts with the token that the one before has renewed, or renews that; a token that was used
        // a second time would have ended the login.
        let most = 1 + 2 * renewed;
        let asked = servers.asked_for_tokens();
        assert!((1 + renewed..=most).contains(&asked), "{asked}");
    }
    let prompts = upstream.requests();
    assert!(prompts.iter().all(|it| !it.body.contains(SECRET)));
    for file in fs::read_dir(stage.path("state/sluice/traces")).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        assert!(text.contains("look_up") && !text.contains(SECRET));
    }
}

#[test]
fn a_token_that_is_known_to_have_run_out_is_not_sent() {
    let stage = Stage::new();
    let servers = Servers::honest();
    servers.book.lock().unwrap().seconds = Some(1);
    let config = servers.configure(&stage, "");
    servers.log_in(&stage, &config);
    stage.done(&tools(&config));
    assert_eq!(servers.asked_for_tokens(), 2);
    let sent = servers.mcp.requests();
    assert!(
        sent.iter()
            .all(|it| !it.header("authorization").ends_with("-access-3"))
    );
}

#[test]
fn programs_at_once_renew_a_login_once() {
    let stage = Stage::new();
    let servers = Servers::honest();
    let config = servers.configure(&stage, "");
    servers.log_in(&stage, &config);
    servers.expire();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| stage.done(&tools(&config)));
        }
    });
    assert_eq!(servers.asked_for_tokens(), 2);
}

/// The authorization server has taken the token of before when its answer is waited for.
#[test]
fn who_gives_up_while_a_token_is_renewed_keeps_the_login() {
    let stage = Stage::new();
    let servers = Servers::with(
        |request| {
            let renews = request.body.contains("grant_type=refresh_token");
            // As a slow one: what it does is done after its client has gone, or is waited for.
            std::thread::sleep(Duration::from_millis(if renews { 2_000 } else { 0 }));
            None
        },
        crate::remote::authority::truth,
    );
    let upstream = Server::start(model);
    let config = with_model(&stage, &servers, &upstream);
    servers.log_in(&stage, &config);
    servers.expire();
    let run = stage.start(&["run", "--app", "far", "--config", &config, "Look it up"]);
    let begun = Instant::now();
    while servers.asked_for_tokens() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(20));
    }
    kill_process(Pid::from_child(&run), Signal::INT).unwrap();
    let (done, said, why) = Stage::ended(run);
    assert!(
        !done && why.contains("waiting for a renewed token"),
        "{said}{why}"
    );
    stage.done(&tools(&config));
    assert_eq!(servers.asked_for_tokens(), 2, "the token was kept");
}

#[test]
fn a_login_that_was_ended_is_said_and_hinders_no_other_app() {
    let stage = Stage::new();
    let servers = Servers::honest();
    let other = Server::start(crate::remote::stage::mcp);
    let more = format!("[app.other]\nurl = \"{}\"\n", other.url("/mcp"));
    let config = servers.configure(&stage, &more);
    servers.log_in(&stage, &config);
    servers.expire();
    servers.book.lock().unwrap().refresh.clear();
    let doctor = ["doctor", "--start", "--json", "--config", &config];
    let (_, found, _) = stage.sluice(&doctor, "");
    let line = |app: &str| {
        let subject = format!("\"app {app}\"");
        let line = found.lines().find(|line| line.contains(&subject));
        line.unwrap().to_owned()
    };
    assert!(
        line("far").contains("(invalid_grant); run `sluice app login far`"),
        "{}",
        line("far")
    );
    assert!(
        line("other").contains("starts, with 1 tool"),
        "{}",
        line("other")
    );
    // What is good for nothing is not kept, and the next login is one like the first.
    assert!(
        !fs::read_to_string(stage.path(FILE))
            .unwrap()
            .contains(SECRET)
    );
    servers.log_in(&stage, &config);
    stage.done(&tools(&config));
}

#[test]
fn a_login_can_come_before_the_app() {
    let stage = Stage::new();
    // As a server on this machine without TLS, for which nothing has to be configured.
    let server = Server::start(|request| match request.header("authorization") {
        "" => status(401),
        _ => crate::remote::stage::mcp(request),
    });
    let url = server.url("/mcp");
    let config = stage.write("sluice.toml", "");
    let add = [
        "app", "add", "far", "--yes", "--config", &config, "--url", &url,
    ];
    stage.refused(&add, &format!("`sluice app login far --url {url}`"));
    // It is its own authorization server, and says nothing of itself.
    let login = ["app", "login", "far", "--url", &url, "--config", &config];
    stage.refused(&login, "add --issuer http://127.0.0.1:");
    let issuer = server.url("/");
    stage.refused(
        &[&login[..], &["--issuer", &issuer]].concat(),
        "no metadata",
    );
    let elsewhere = ["--issuer", "https://login.example.org"];
    stage.refused(
        &[&login[..], &elsewhere].concat(),
        "is no authorization server of this app",
    );
}

#[test]
fn a_login_that_is_broken_off_leaves_nothing() {
    let stage = Stage::new();
    let servers = Servers::honest();
    let config = servers.configure(&stage, "");
    let mut login = servers.begin(&stage, &config, &[]);
    let page = opened(&mut login);
    let back = servers.agree(&page);
    let pid = Pid::from_child(&login);
    kill_process(pid, Signal::INT).unwrap();
    assert!(!Stage::ended(login).0);
    assert!(!stage.path(FILE).exists());
    // The late answer comes to nobody, or to whoever has taken the port since: what it holds is good for nothing alone.
    let address = back.split('/').nth(2).unwrap();
    assert!(std::net::TcpStream::connect(address).is_err());
    assert_eq!(servers.asked_for_tokens(), 0);
    servers.log_in(&stage, &config);
    stage.done(&tools(&config));
}

#[test]
fn a_user_who_says_no_there_is_not_logged_in() {
    let stage = Stage::new();
    let servers = Servers::honest();
    let config = servers.configure(&stage, "");
    let mut login = servers.begin(&stage, &config, &[]);
    let back = servers.agree(&opened(&mut login));
    assert_eq!(
        browse(&back.replace("code=", "error=access_denied&x=")),
        200
    );
    let (done, _, why) = Stage::ended(login);
    assert!(!done && why.contains("refuses: access_denied"), "{why}");
    assert!(!stage.path(FILE).exists());
}

#[test]
fn a_call_that_the_login_is_not_for_is_refused_and_says_so() {
    let stage = Stage::new();
    let servers = Servers::with(crate::remote::authority::truth, |request| {
        request.asks("tools/call").then(|| {
            let header = "Bearer error=\"insufficient_scope\", scope=\"write everything\"";
            crate::remote::server::json_with(403, &[("WWW-Authenticate", header)], String::new())
        })
    });
    let upstream = Server::start(model);
    let config = with_model(&stage, &servers, &upstream);
    servers.log_in(&stage, &config);
    let run = ["run", "--app", "far", "--config", &config, "Look it up"];
    let said = stage.done(&run);
    assert!(
        said.contains(r#"it would have to be for: \"write\", \"everything\""#),
        "{said}"
    );
    assert_eq!(servers.asked_for_tokens(), 1);
}

#[test]
fn a_client_with_a_name_of_its_own_does_not_register() {
    let stage = Stage::new();
    let servers = Servers::honest();
    let config = servers.configure(&stage, "");
    let more = ["--client-id", "mine", "--scope", "a", "--scope", "b"];
    let mut login = servers.begin(&stage, &config, &more);
    let page = opened(&mut login);
    assert!(
        page.contains("client_id=mine&") && page.ends_with("&scope=a+b"),
        "{page}"
    );
    let requests = servers.authority.requests();
    assert!(requests.iter().all(|it| it.path != "/register"));
    kill_process(Pid::from_child(&login), Signal::INT).unwrap();
    assert!(!Stage::ended(login).0);
}

/// Both ways, by what the server says when Sluice registers. Renewal authenticates as the first token did.
#[test]
fn a_client_that_gets_a_secret_shows_it_where_tokens_are_given_out() {
    for method in ["client_secret_basic", "client_secret_post"] {
        let stage = Stage::new();
        let servers = Servers::honest();
        servers.book.lock().unwrap().method = Some(method);
        let config = servers.configure(&stage, "");
        let done = servers.log_in(&stage, &config);
        assert_eq!(done["logged_in"], true);
        servers.expire();
        assert!(stage.done(&tools(&config)).contains("look_up"));
        assert_eq!(servers.asked_for_tokens(), 2);
        let shown = |request: &Request| format!("{request:?}").contains(CLIENT_SECRET);
        assert!(!servers.mcp.requests().iter().any(shown));
        let mode = fs::metadata(stage.path(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

/// Some authorization servers register nobody, and give a secret even to programs on a user's machine.
#[test]
fn a_client_that_was_registered_by_hand_has_its_secret_from_the_user() {
    let stage = Stage::new();
    let servers = Servers::apart(crate::remote::authority::truth);
    servers.book.lock().unwrap().method = Some("client_secret_post");
    let config = servers.configure(&stage, "");
    let (tokens, issuer) = (servers.tokens_at(), servers.issuer());
    let more = ["--tokens-at", &*tokens, "--client-id", "mine"];
    let with_secret = [&more[..], &["--client-secret", "own"]].concat();
    let refused = |more: &[&str], why: &str| {
        let (done, _, said) = Stage::ended(servers.begin(&stage, &config, more));
        assert!(!done && said.contains(why), "{said}");
    };
    let remedy = format!("`sluice secret set own --for {tokens}`");
    refused(&with_secret, &remedy);
    // One that is for the authorization server is not sent to the host that gives out its tokens.
    stage.keep_value(&issuer, CLIENT_SECRET);
    refused(&with_secret, &remedy);
    refused(&["--client-secret", "own"], "--client-id");
    stage.keep_value(&tokens, CLIENT_SECRET);
    let mut login = servers.begin(&stage, &config, &with_secret);
    let page = opened(&mut login);
    servers.register_by_hand("mine", &page);
    browse(&servers.agree(&page));
    let (done, _, why) = Stage::ended(login);
    assert!(done, "{why}");
    assert!(stage.done(&tools(&config)).contains("look_up"));
    let shown = |request: &Request| format!("{request:?}").contains(CLIENT_SECRET);
    assert!(!servers.authority.requests().iter().any(shown));
    let requests = servers.authority.requests();
    assert!(requests.iter().all(|it| it.path != "/register"));
}

/// Answers without a token what asks for one of these.
fn open_for(request: &Request, methods: &[&str]) -> Option<Reply> {
    let open = methods.iter().any(|method| request.asks(method));
    open.then(|| crate::remote::stage::mcp(request))
}

#[test]
fn a_server_that_asks_who_it_is_when_it_is_asked_for_its_tools_is_logged_in_at() {
    let handshake =
        |request: &Request| open_for(request, &["initialize", "notifications/initialized"]);
    let stage = Stage::new();
    let servers = Servers::with(crate::remote::authority::truth, handshake);
    let config = servers.configure(&stage, "");
    stage.refused(&tools(&config), "`sluice app login far --url");
    let done = servers.log_in(&stage, &config);
    assert_eq!(done["logged_in"], true);
    let sent = servers.mcp.requests();
    assert!(sent.iter().all(|it| it.header("authorization").is_empty()));
}

#[test]
fn a_server_that_wants_a_login_for_its_calls_alone_says_so_by_its_metadata() {
    let stage = Stage::new();
    let servers = Servers::with(crate::remote::authority::truth, |request| {
        open_for(
            request,
            &["initialize", "notifications/initialized", "tools/list"],
        )
    });
    let upstream = Server::start(model);
    let config = with_model(&stage, &servers, &upstream);
    stage.done(&tools(&config));
    let run = ["run", "--app", "far", "--config", &config, "Look it up"];
    stage.refused(&run, "`sluice app login far --url");
    servers.log_in(&stage, &config);
    let said = stage.done(&run);
    assert!(said.contains("found by Bearer [secret]"), "{said}");
}

#[test]
fn a_server_that_wants_no_login_is_not_logged_in_at() {
    let stage = Stage::new();
    let server = Server::start(crate::remote::stage::mcp);
    let (url, issuer) = (server.url("/mcp"), server.url("/"));
    let config = stage.write("sluice.toml", "");
    let login = ["app", "login", "far", "--config", &config];
    let login = [&login[..], &["--url", &url, "--issuer", &issuer]].concat();
    stage.refused(&login, "it asks for no login");
    // It was asked for its tools, and nothing was called.
    let asked = server.requests();
    assert!(asked.iter().any(|it| it.asks("tools/list")));
    assert!(asked.iter().all(|it| !it.asks("tools/call")));
}
