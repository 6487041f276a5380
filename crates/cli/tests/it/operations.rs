//! docs/operations.md is run: its `sh` blocks, one after the other in one shell, beside a service that runs.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use test_support::{Upstream, says};

use crate::home::{Home, said};

/// Blocks of a page with this word behind their fence.
fn blocks<'a>(page: &'a str, word: &str) -> Vec<&'a str> {
    let fence = format!("```{word}\n");
    let blocks = page.split(fence.as_str()).skip(1);
    blocks.map(|it| it.split("```").next().unwrap()).collect()
}

fn page() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations.md");
    fs::read_to_string(file).unwrap()
}

#[test]
fn the_commands_of_the_page_do_what_they_say() {
    let upstream = Upstream::start(|_| says("hello"));
    let home = Home::new();
    // The sample of the page, with an upstream and free ports on this machine.
    let base = format!("base_url = \"{}\"\napi_key_env", upstream.url);
    let config = blocks(&page(), "toml").join("");
    let config = config.replace("api_key_env", &base);
    let config = config.replace("127.0.0.1:9090", "127.0.0.1:0");
    home.configure(&config);
    let file = home.path("config/sluice/sluice.toml");
    let file = file.to_str().unwrap();
    let sluice = |arguments: &[&str]| {
        let mut command = home.sluice(arguments);
        command.env("OPENAI_API_KEY", "sk-upstream");
        command
    };
    let mut serve = sluice(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--json",
        "--config",
        file,
    ]);
    let serve = serve.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut service = serve.stderr(Stdio::inherit()).spawn().unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(service.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    let serving: Value = serde_json::from_str(&line).unwrap();
    let script = blocks(&page(), "sh").join("");
    let script = script.replace("/etc/sluice/sluice.toml", file);
    let at = |front: &str| serving[front].as_str().unwrap();
    let script = script.replace("http://127.0.0.1:8080", at("listening"));
    let script = script.replace("http://127.0.0.1:9090/metrics", at("metrics"));
    // As in `sluice`, with the program of this build first.
    let like = sluice(&[]);
    let mut shell = Command::new("sh");
    shell.args(["-eux", "-c", &script]).stdin(Stdio::null());
    shell.current_dir(home.path("home"));
    for (name, value) in like.get_envs().filter_map(|(name, it)| Some((name, it?))) {
        shell.env(name, value);
    }
    let programs = Path::new(env!("CARGO_BIN_EXE_sluice")).parent().unwrap();
    let path = std::env::var("PATH").unwrap();
    shell.env("PATH", format!("{}:{path}", programs.display()));
    let (code, stdout, stderr) = said(&shell.output().unwrap());
    service.kill().unwrap();
    service.wait().unwrap();
    assert_eq!(code, 0, "{stdout}{stderr}");
    assert!(
        stdout.contains("hello") && stdout.contains("builder"),
        "{stdout}"
    );
}

#[test]
fn the_configurations_of_a_release_are_without_mistakes() {
    let home = Home::new();
    let tables = blocks(&page(), "toml").join("");
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist");
    // What is commented out is right, too.
    let tables = tables
        .replace("# otlp", "otlp")
        .replace("# desk_listen", "desk_listen");
    for (name, text) in [
        ("the page", tables),
        (
            "debian",
            fs::read_to_string(dist.join("debian/sluice.toml")).unwrap(),
        ),
        (
            "image",
            fs::read_to_string(dist.join("container/image.toml")).unwrap(),
        ),
        (
            "compose",
            fs::read_to_string(dist.join("container/sluice.toml")).unwrap(),
        ),
    ] {
        let text = text.replace("/etc/sluice/secret", "secret");
        home.configure(&text);
        let secret = home.path("config/sluice/secret");
        fs::write(&secret, "s".repeat(40)).unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        let mut check = home.sluice(&["serve", "--check"]);
        // No server is there.
        let database = "postgres://sluice@127.0.0.1:9/sluice";
        check
            .env("SLUICE_DATABASE", database)
            .env("SLUICE_SECRET", "s".repeat(40));
        let check = check.env("OPENAI_API_KEY", "sk-x");
        let (code, stdout, stderr) = said(&check.output().unwrap());
        let needs = text.contains("\nurl_env");
        let is_missed = stderr.contains("the database cannot be used now");
        let outcome = (code, is_missed);
        assert_eq!(outcome, (needs.into(), needs), "{name}: {stdout}{stderr}");
    }
}
