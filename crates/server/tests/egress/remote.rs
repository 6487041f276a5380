//! A remote server as an app: by name, through the hub's door, over TLS that ends in the spoke.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use ifc::{Label, Monitor};
use names::Pattern;
use policy::{AppPolicy, Destinations, DomainRule};
use sandbox::{Access, Mount, Spec};
use server::{Domains, Gate, Resolve, Spoke, SpokeError, SpokeSetup, TokenPort, Tokens};
use test_support::{Reply, Request, Server, json, status};
use tokio::sync::mpsc;
use wire::AppLimits;

use crate::stage::{NAME, Names, Reach, Stage, binary};

/// An MCP server for clients that send this.
fn mcp(token: &str, request: &Request) -> Reply {
    let initialized = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#;
    let tools = r#"{"tools":[{"name":"far","inputSchema":{"type":"object"}}]}"#;
    match () {
        () if request.method != "POST" => status(405),
        () if !request.header("authorization").contains(token) => status(401),
        () if request.asks("initialize") => json(request.result(initialized)),
        () if request.asks("tools/list") => json(request.result(tools)),
        () => status(405),
    }
}

/// Opens a spoke for `url`, which may reach [`NAME`], where that stands for an address of this machine. The tools that it has.
async fn open(url: &str, addresses: &[&str]) -> Result<Vec<String>, SpokeError> {
    let spoke = open_with(url, addresses, None, "").await?;
    Ok(spoke.tools().iter().map(|tool| tool.name.clone()).collect())
}

/// The same for a server that takes this token, and an app that asks for tokens.
async fn open_with(
    url: &str,
    addresses: &[&str],
    tokens: Option<TokenPort>,
    taken: &'static str,
) -> Result<Spoke, SpokeError> {
    let (server, certificate) = Server::start_tls(&[NAME], move |request| mcp(taken, request));
    let address = server.address();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ca.pem"), certificate).unwrap();
    let names = Arc::new(Names::default());
    names.say(NAME, &[address]);
    names.say("evil.example", &[address]);
    let pattern = Pattern::new(NAME).unwrap();
    let rule = DomainRule {
        pattern: pattern.clone(),
        ports: vec![443],
        limit: Label::top(),
    };
    let destinations = Destinations {
        domains: vec![rule],
        ..Destinations::default()
    };
    let policy = AppPolicy::new(BTreeMap::new())
        .with_destinations(BTreeMap::from([("far".to_owned(), destinations)]));
    let gate = Gate {
        monitor: Monitor::new(),
        policy: Arc::new(policy),
        resolver: names as Arc<dyn Resolve>,
    };
    let settings = serde_json::json!({
        "app": "far", "url": url, "headers": {}, "ca_file": "/data/ca.pem",
        "tokens": tokens.as_ref().map(|tokens| tokens.port),
    });
    let mount = |source, target: &str, executable| Mount {
        source,
        target: target.into(),
        access: Access::ReadOnly,
        executable,
    };
    let setup = SpokeSetup {
        app: "far".to_owned(),
        program: binary("sluice-spoke"),
        command: vec!["/sluice-remote".to_owned()],
        env: BTreeMap::from([("SLUICE_REMOTE".to_owned(), settings.to_string())]),
        workdir: "/tmp".to_owned(),
        sandbox: Spec {
            mounts: vec![
                mount(binary("sluice-remote"), "/sluice-remote", true),
                mount(folder.path().canonicalize().unwrap(), "/data", false),
            ],
            names: vec![443],
            listen: tokens.iter().map(|tokens| tokens.port).collect(),
            ..Spec::default()
        },
        limits: AppLimits::default(),
        egress: Vec::new(),
        domains: Domains {
            addresses: vec![(
                pattern,
                addresses.iter().map(|it| it.parse().unwrap()).collect(),
            )],
            ..Domains::default()
        },
        tokens,
        call_timeout: std::time::Duration::from_secs(60),
        offer: wire::Offer::default(),
    };
    let (events, _ended) = mpsc::channel(1024);
    Spoke::open(setup, &gate, events).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_remote_server_is_reached_by_its_name_over_tls() {
    let url = format!("https://{NAME}/mcp");
    let tools = open(&url, &["127.0.0.1"]).await.unwrap();
    assert_eq!(tools, ["far"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_remote_servers_name_leads_to_no_address_of_ours_unless_it_is_named() {
    let url = format!("https://{NAME}/mcp");
    let error = open(&url, &[]).await.err().unwrap().to_string();
    assert!(error.contains("no connection"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_host_than_its_own_is_not_there() {
    let error = open("https://evil.example/mcp", &["127.0.0.1"]).await;
    let error = error.err().unwrap().to_string();
    assert!(error.contains("no connection"), "{error}");
}

/// Has another token for each that is refused, and remembers what it was asked.
#[derive(Default)]
struct Another(Mutex<Vec<Option<String>>>);

#[async_trait]
impl Tokens for Another {
    async fn token(&self, refused: Option<&str>) -> Result<String, String> {
        self.0.lock().unwrap().push(refused.map(str::to_owned));
        match refused {
            None => Ok("token-one".to_owned()),
            Some("token-one") => Ok("token-two".to_owned()),
            Some(_) => Err("the login has ended".to_owned()),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spoke_is_told_its_token_and_another_where_that_is_refused() {
    let url = format!("https://{NAME}/mcp");
    let open = async |taken: &'static str| {
        let tokens = Arc::new(Another::default());
        let port = TokenPort {
            port: 54,
            tokens: Arc::clone(&tokens) as Arc<dyn Tokens>,
        };
        let spoke = open_with(&url, &["127.0.0.1"], Some(port), taken).await;
        let asked = tokens.0.lock().unwrap().clone();
        (spoke, asked)
    };
    let one = || Some("token-one".to_owned());
    let (spoke, asked) = open("Bearer token-one").await;
    assert_eq!(asked, [None]);
    // It is this spoke's own: another app that asks at the same place finds nobody there, and the hub's machine neither.
    let mut stage = Stage::new(Reach::default()).await;
    let ask = "import socket\ns = socket.create_connection(('127.0.0.1', 54))\ns.sendall(b'\\n')\nprint(s.recv(99))";
    let heard = stage.python(ask).await;
    assert!(!heard.contains("token-"), "{heard}");
    assert!(heard.contains("refused"), "{heard}");
    assert!(std::net::TcpStream::connect("127.0.0.1:54").is_err());
    drop(spoke.unwrap());
    let (spoke, asked) = open("Bearer token-two").await;
    assert_eq!(asked, [None, one()]);
    drop(spoke.unwrap());
    // Once more, and no more.
    let (spoke, asked) = open("Bearer token-three").await;
    assert_eq!(asked, [None, one()]);
    let error = spoke.err().unwrap().to_string();
    assert!(
        error.contains("sluice app login far") && !error.contains("token-"),
        "{error}"
    );
}
