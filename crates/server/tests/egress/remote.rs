//! A remote server as an app: by name, through the hub's door, over TLS that ends in the spoke.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use ifc::{Label, Monitor};
use names::Pattern;
use policy::{AppPolicy, Destinations, DomainRule};
use sandbox::{Access, Mount, Spec};
use server::{Domains, Gate, Resolve, Spoke, SpokeError, SpokeSetup};
use tokio::sync::mpsc;
use wire::AppLimits;

use crate::stage::{Inside, NAME, Names, binary, tls_host_with};

/// Answers one request of MCP on each connection.
fn mcp(stream: &mut dyn Inside) -> io::Result<()> {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    let id = loop {
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        request.extend_from_slice(buffer.get(..read).unwrap());
        let text = String::from_utf8_lossy(&request).into_owned();
        let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        if text.starts_with("GET") || text.starts_with("DELETE") {
            break None;
        }
        if let Ok(message) = serde_json::from_str::<serde_json::Value>(body) {
            let of = |name: &str| message.get(name).cloned().unwrap_or_default();
            break Some((of("method"), of("id")));
        }
    };
    let result = match id {
        Some((method, id)) if method == "initialize" => format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":"2025-11-25","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"s","version":"1"}}}}}}"#
        ),
        Some((method, id)) if method == "tools/list" => format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"tools":[{{"name":"far","inputSchema":{{"type":"object"}}}}]}}}}"#
        ),
        _ => {
            let none = b"HTTP/1.1 405 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            return stream.write_all(none);
        }
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        result.len()
    );
    stream.write_all(format!("{head}{result}").as_bytes())
}

/// Opens a spoke for `url`, which may reach [`NAME`], where that stands for an address of this machine.
async fn open(url: &str, addresses: &[&str]) -> Result<Vec<String>, SpokeError> {
    let (address, certificate) = tls_host_with(&[NAME], mcp);
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
        "app": "far", "url": url, "transport": "any", "headers": {}, "ca_file": "/data/ca.pem",
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
            ..Spec::default()
        },
        limits: AppLimits::default(),
        egress: Vec::new(),
        of_program: std::collections::BTreeSet::new(),
        domains: Domains {
            addresses: vec![(
                pattern,
                addresses.iter().map(|it| it.parse().unwrap()).collect(),
            )],
            ..Domains::default()
        },
        call_timeout: std::time::Duration::from_secs(60),
        sampling: None,
        resources: false,
        prompts: false,
    };
    let (events, _ended) = mpsc::channel(1024);
    let spoke = Spoke::open(setup, &gate, events).await?;
    Ok(spoke.tools().iter().map(|tool| tool.name.clone()).collect())
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
