//! Some thirty real servers as their registries have them today, beside a plain client: each is added by its usual command
//! without a question, lists the same tools, and answers one call with the same text. docs/servers.md has the table.
//!
//! It fetches whole packages and starts services of Debian, so `cargo xtask servers` runs it and the suite does not.

use std::process::{Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::host::NAME;
use crate::plain::{self, Plain};
use crate::registry::{Mode, Registry};
use crate::services::Services;
use crate::stage::{Stage, quoted};
use crate::{node, say};

/// What a user reads of it.
const DOCUMENT: &str = include_str!("../../../../docs/servers.md");
const HEAD: &str = "| server | added | tools | call |\n|---|---|---|---|\n";

/// A server: variables and its usual command, one call, and the options with which it works where it does not without.
/// Words in capital letters are places of the stage. `DOMAIN` as an option is a rule for the host that stands for the world.
struct Server(&'static str, &'static str, &'static str);

const SERVERS: &[Server] = &[
    // Programs that need nothing but themselves.
    Server(
        "npx -y @modelcontextprotocol/server-filesystem PAPERS",
        r#"read_text_file {"path": "PAPERS/heron.txt"}"#,
        "",
    ),
    Server(
        "npx -y @modelcontextprotocol/server-everything",
        r#"get-sum {"a": 19, "b": 23}"#,
        "",
    ),
    Server(
        "npx -y @modelcontextprotocol/server-sequential-thinking",
        r#"sequentialthinking {"thought": "first", "nextThoughtNeeded": false, "thoughtNumber": 1, "totalThoughts": 1}"#,
        "",
    ),
    Server(
        "npx -y mcp-obsidian PAPERS",
        r#"search_notes {"query": "heron"}"#,
        "",
    ),
    Server("npx -y @kazuph/mcp-taskmanager", "list_requests {}", ""),
    Server(
        "npx -y mcp-server-commands",
        r#"run_command {"command": "echo heron"}"#,
        "",
    ),
    Server(
        "npx -y repomix --mcp",
        r#"file_system_read_file {"path": "PAPERS/heron.txt"}"#,
        "mount PAPERS",
    ),
    Server(
        "uvx mcp-server-time --local-timezone UTC",
        r#"convert_time {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}"#,
        "",
    ),
    Server(
        "uvx mcp-server-git --repository REPOSITORY",
        r#"git_log {"repo_path": "REPOSITORY"}"#,
        "",
    ),
    Server(
        "uvx mcp-server-calculator",
        r#"calculate {"expression": "6 * 7"}"#,
        "",
    ),
    Server(
        "ALLOW_COMMANDS=echo uvx mcp-shell-server",
        r#"shell_execute {"command": ["echo", "heron"]}"#,
        "",
    ),
    Server(
        "uvx --with mcp<2 mcp-text-editor",
        r#"get_text_file_contents {"files": [{"file_path": "PAPERS/heron.txt", "ranges": [{"start": 1}]}]}"#,
        "mount PAPERS",
    ),
    // Programs that keep files.
    Server(
        "npx -y @modelcontextprotocol/server-memory",
        r#"create_entities {"entities": [{"name": "Heron", "entityType": "bird", "observations": ["stands"]}]}"#,
        "--env MEMORY_FILE_PATH=KEPT/graph.jsonl --write KEPT",
    ),
    Server(
        "uvx --with mcp<2 mcp-server-sqlite --db-path KEPT/db.sqlite",
        r#"create_table {"query": "CREATE TABLE birds (name TEXT)"}"#,
        "--write KEPT",
    ),
    Server(
        "uvx arxiv-mcp-server --storage-path KEPT",
        "list_papers {}",
        "--write KEPT",
    ),
    // Services on loopback.
    Server(
        "npx -y @modelcontextprotocol/server-postgres postgresql://heron@POSTGRES/postgres",
        r#"query {"sql": "SELECT name FROM birds"}"#,
        "--connect POSTGRES",
    ),
    Server(
        "npx -y @bytebase/dbhub --transport stdio --dsn postgres://heron@POSTGRES/postgres?sslmode=disable",
        r#"execute_sql {"sql": "SELECT name FROM birds"}"#,
        "--connect POSTGRES",
    ),
    Server(
        "DB_URL=postgresql://heron@POSTGRES/postgres uvx --from mcp-alchemy --with psycopg2-binary mcp-alchemy",
        r#"execute_query {"query": "SELECT name FROM birds"}"#,
        "--connect POSTGRES",
    ),
    Server(
        "npx -y @modelcontextprotocol/server-redis redis://REDIS",
        r#"get {"key": "bird"}"#,
        "--connect REDIS",
    ),
    Server(
        "npx -y @gongrzhe/server-redis-mcp redis://REDIS",
        r#"get {"key": "bird"}"#,
        "--connect REDIS",
    ),
    Server(
        "uvx --from redis-mcp-server@latest redis-mcp-server --url redis://REDIS/0",
        r#"get {"key": "bird"}"#,
        "--connect REDIS",
    ),
    // Hosts in the world.
    Server(
        "SSL_CERT_FILE=CERTIFICATE uvx mcp-server-fetch --allow-private-ips",
        r#"fetch {"url": "https://HOST/heron"}"#,
        "DOMAIN",
    ),
    Server(
        "CONTEXT7_API_URL=https://HOST/api NODE_EXTRA_CA_CERTS=CERTIFICATE npx -y @upstash/context7-mcp",
        r#"resolve-library-id {"query": "how herons fish", "libraryName": "heron"}"#,
        "DOMAIN",
    ),
    Server(
        "BASE_URL=https://HOST NODE_EXTRA_CA_CERTS=CERTIFICATE NOTION_TOKEN=none npx -y @notionhq/notion-mcp-server",
        "API-get-self {}",
        "DOMAIN",
    ),
    // Browsers. The plain client's runs as root, where Chromium has no sandbox of its own.
    Server(
        "npx -y @playwright/mcp --headless --isolated --no-sandbox --ignore-https-errors --executable-path CHROMIUM",
        r#"browser_navigate {"url": "https://HOST/grown"}"#,
        "DOMAIN",
    ),
    Server(
        "npx -y chrome-devtools-mcp --headless --isolated --acceptInsecureCerts --chromeArg=--no-sandbox --executablePath CHROMIUM",
        r#"new_page {"url": "https://HOST/grown"}"#,
        "DOMAIN",
    ),
    // Documents.
    Server(
        "uvx excel-mcp-server stdio",
        r#"create_workbook {"path": "KEPT/birds.xlsx"}"#,
        "--write KEPT",
    ),
    Server(
        "uvx --from office-word-mcp-server word_mcp_server",
        r#"create_document {"filename": "KEPT/birds.docx"}"#,
        "--write KEPT",
    ),
    Server(
        "uvx --with mcp<2 --from office-powerpoint-mcp-server ppt_mcp_server",
        r#"create_presentation {"id": "birds"}"#,
        "",
    ),
    Server(
        "uvx mcp-pandoc",
        r##"convert-contents {"contents": "# Heron", "input_format": "markdown", "output_format": "html"}"##,
        "",
    ),
    // Many dependencies.
    Server(
        "uvx markitdown-mcp",
        r#"convert_to_markdown {"uri": "data:text/html,<h1>Heron</h1>"}"#,
        "",
    ),
    Server(
        "uvx mcp-server-motherduck --db-path :memory: --read-write",
        r#"execute_query {"sql": "SELECT 6 * 7 AS answer"}"#,
        "",
    ),
    Server(
        "uvx code-index-mcp",
        r#"set_project_path {"path": "PAPERS"}"#,
        "mount PAPERS",
    ),
];

#[test]
#[ignore = "fetches whole packages: `cargo xtask servers` runs it"]
fn real_servers_give_what_a_plain_client_gets() {
    // For somebody who mends some of them: parts of their commands.
    let only = std::env::var("SLUICE_REAL_SERVER").unwrap_or_default();
    let wanted = |server: &&Server| only.split(',').any(|part| server.0.contains(part));
    let node = node::supported(Mode::Fetch);
    let registry = Registry::start(Mode::Lock, "");
    let uv = plain::uv(&registry);
    let services = Services::start();
    let (mut table, mut wrong) = (HEAD.to_owned(), 0);
    for server in SERVERS.iter().filter(wanted) {
        let mut stage = Stage::new(registry.clone());
        if let Some(folder) = &node {
            stage.prefer(&node::program(folder.path()));
        }
        let mut trial = Trial {
            stage,
            services: &services,
            uv: &uv,
            said: String::new(),
        };
        let row = trial.row(server);
        table += &row;
        if !DOCUMENT.contains(&row) {
            say(&format!("{}docs/servers.md lacks: {row}", trial.said));
            wrong += 1;
        }
    }
    say(&table);
    assert_eq!(wrong, 0, "rows are otherwise than in docs/servers.md");
}

/// One server at a time.
struct Trial<'a> {
    stage: Stage,
    services: &'a Services,
    /// Where the programs of uv are.
    uv: &'a TempDir,
    /// What Sluice and the server said.
    said: String,
}

/// The name of every app.
const APP: &str = "app";

impl Trial<'_> {
    /// The row of the table.
    fn row(&mut self, Server(command, call, option): &Server) -> String {
        let placed = self.placed(command);
        let (tool, arguments) = call.split_once(' ').unwrap();
        let arguments = self.placed(arguments);
        let (tools, result) = match self.plain(&placed, tool, &arguments) {
            Ok(outcome) => outcome,
            Err(reason) => return format!("| `{command}` | plain client: {reason} | | |\n"),
        };
        // A result may say that a file was written which nobody will find.
        let written = self.stage.kept();
        self.stage.lay_files();
        let with = format!("with `{option}`");
        let mut is_allowed = false;
        let mut is_added = self.add(&placed, "");
        if !is_added && self.names(option) {
            is_allowed = true;
            is_added = self.add(&placed, option);
        }
        let added = match (is_added, is_allowed) {
            (false, _) => return format!("| `{command}` | no | | |\n"),
            (true, false) => "yes",
            (true, true) => &with,
        };
        let listed = self.tools();
        let unequal = tools.iter().filter(|tool| !listed.contains(tool));
        for tool in unequal.clone() {
            self.said += &format!("not through Sluice: {tool}\n");
        }
        let equal = match listed == tools {
            true => format!("{} equal", tools.len()),
            false => format!("{} of {} differ", unequal.count(), tools.len()),
        };
        let is_equal = |trial: &mut Self| {
            let said = trial.call(tool, &arguments);
            trial.said += &format!("plain: {result}\nSluice: {said}\n");
            said == result && trial.stage.kept().is_superset(&written)
        };
        let mut equal_call = is_equal(self);
        if !equal_call && !is_allowed && self.names(option) {
            is_allowed = true;
            self.stage.lay_files();
            self.add(&placed, option);
            equal_call = is_equal(self);
        }
        let called = match (equal_call, is_allowed) {
            (false, _) => "differs",
            (true, false) => "equal",
            (true, true) => &with,
        };
        format!("| `{command}` | {added} | {equal} | `{tool}` {called} |\n")
    }

    fn placed(&self, text: &str) -> String {
        let text = text.replace("//HOST", &format!("//{NAME}:PORT"));
        self.services.placed(&self.stage.placed(&text))
    }

    /// What a plain client gets: the tools, and the result of the call.
    fn plain(
        &mut self,
        command: &str,
        tool: &str,
        arguments: &str,
    ) -> Result<(Vec<String>, String), String> {
        let line = format!(
            "PATH={}/bin:$PATH exec env {}",
            self.uv.path().display(),
            words(command)
        );
        let mut shell = self.stage.shell(&line);
        std::fs::create_dir_all(self.stage.path("plain")).unwrap();
        // As in a spoke: the order of Python's sets is in no tool's meaning.
        shell
            .env("HOME", self.stage.path("plain"))
            .env("PYTHONHASHSEED", "0");
        let mut client = Plain::start(shell, &self.stage.path("plain/stderr"))?;
        let tools = client.tools()?;
        let arguments: Value = serde_json::from_str(arguments).unwrap();
        let result = client.ask(
            "tools/call",
            &json!({ "name": tool, "arguments": arguments }),
        )?;
        let texts = result["content"].as_array().into_iter().flatten();
        let texts: Vec<&str> = texts.filter_map(|block| block["text"].as_str()).collect();
        Ok((tools, timeless(&texts.join("\n"))))
    }

    /// Adds it with an option, or with the lines of one that is in the configuration. Whether it is there.
    fn add(&mut self, command: &str, option: &str) -> bool {
        let option = self.placed(option);
        if option == "DOMAIN" {
            self.stage.allow_the_host(APP);
            return true;
        }
        if let Some(folder) = option.strip_prefix("mount ") {
            let lines = format!("[[app.{APP}.mount]]\nsource = {folder:?}\n");
            self.stage.append(&lines);
            return true;
        }
        let is_variable = |word: &&str| word.contains('=') && !word.starts_with('-');
        let variables = command.split(' ').take_while(is_variable);
        let command = command.split(' ').skip_while(is_variable);
        let mut words = vec!["app", "add", APP, "--yes", "--replace"];
        words.extend(variables.flat_map(|it| ["--env", it]));
        words.extend(option.split_whitespace().chain(["--"]).chain(command));
        self.run(&words).status.success()
    }

    /// Whether Sluice has named what the option allows.
    fn names(&self, option: &str) -> bool {
        let allowed = match option.split([' ', '=']).nth(1) {
            Some(what) => self.placed(what),
            None if option == "DOMAIN" => NAME.to_owned(),
            None => return false,
        };
        let words = ["allow", "add ", "mount"];
        let is_named =
            |line: &str| line.contains(&allowed) && words.iter().any(|it| line.contains(it));
        self.said.lines().any(is_named)
    }

    /// The tools through Sluice.
    fn tools(&mut self) -> Vec<String> {
        let output = self.run(&["app", "tools", APP, "--json"]);
        let lines = String::from_utf8(output.stdout).unwrap();
        let tools = lines.lines().map(|line| {
            let tool: Value = serde_json::from_str(line).unwrap();
            let schema = serde_json::from_str(tool["input_schema"].as_str().unwrap()).unwrap();
            plain::described(&tool["name"], &tool["description"], &schema)
        });
        tools.collect()
    }

    /// The text of a call through Sluice.
    fn call(&mut self, tool: &str, arguments: &str) -> String {
        let output = self.run(&["app", "call", APP, tool, arguments]);
        let text = match output.status.success() {
            true => String::from_utf8_lossy(&output.stdout),
            // The tool's own error, which the plain client gets as a text.
            false => String::from_utf8_lossy(&output.stderr),
        };
        let text = text.split("the call gave no result: ").last().unwrap();
        // What is in no text stands below it.
        let text = text.split("\n[structured content").next().unwrap();
        timeless(text.strip_suffix('\n').unwrap_or(text))
    }

    fn run(&mut self, words: &[&str]) -> Output {
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        let words = words.join(" ");
        let line = format!("exec {} {words}", env!("CARGO_BIN_EXE_sluice"));
        let output = self
            .stage
            .shell(&line)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        self.said += &format!("$ sluice {words}\n");
        self.said += &String::from_utf8_lossy(&output.stderr);
        output
    }
}

/// The words of a command, each quoted for a shell.
fn words(command: &str) -> String {
    let words: Vec<String> = command.split(' ').map(quoted).collect();
    words.join(" ")
}

/// Without the lines that name a file by the time at which it was written.
fn timeless(text: &str) -> String {
    let lines = text
        .lines()
        .filter(|line| !line.contains(".playwright-mcp/"));
    lines.collect::<Vec<_>>().join("\n")
}
