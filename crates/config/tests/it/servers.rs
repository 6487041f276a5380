//! Files of other programs that list MCP servers.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fmt::Write;
use std::path::Path;

use config::{ForeignServer, foreign_servers};

/// The environment of the user in these tests.
fn look(name: &str) -> Option<String> {
    let value = match name {
        "HOME" => "/home/me",
        "MODE" => "fast",
        "HOST" => "host.test",
        "TOKEN" => "hush-4711",
        _ => return None,
    };
    Some(value.to_owned())
}

fn read(path: &str, text: &str) -> Vec<ForeignServer> {
    foreign_servers(Path::new(path), text, &look).unwrap().0
}

fn one(path: &str, text: &str) -> ForeignServer {
    let [server] = read(path, text).try_into().unwrap();
    server
}

/// What each server of a file became, a line for each thing.
fn shown(path: &str, text: &str) -> String {
    let mut shown = format!("# {path}\n");
    let (servers, notes) = match foreign_servers(Path::new(path), text, &look) {
        Ok(read) => read,
        Err(error) => return shown + &format!("error: {error}\n\n"),
    };
    for note in notes {
        writeln!(shown, "note: {note}").unwrap();
    }
    for server in servers {
        let start = server.url.unwrap_or(server.command.join(" "));
        writeln!(shown, "{}: {start}", server.name).unwrap();
        for (kind, pairs) in [("env", &server.env), ("header", &server.headers)] {
            for (name, value) in pairs {
                writeln!(shown, "  {kind} {name}: {value}").unwrap();
            }
        }
        if !server.env_from.is_empty() {
            writeln!(shown, "  env_from {:?}", server.env_from).unwrap();
        }
        if let Some(only) = &server.filter.only {
            writeln!(shown, "  only_tools {only:?}").unwrap();
        }
        if !server.filter.hidden.is_empty() {
            writeln!(shown, "  hidden_tools {:?}", server.filter.hidden).unwrap();
        }
        let times = [server.start_timeout_s, server.call_timeout_s];
        if times != [0, 0] {
            writeln!(shown, "  seconds {times:?}").unwrap();
        }
        for note in server.notes {
            writeln!(shown, "  note: {note}").unwrap();
        }
        if let Some(reason) = server.left_out {
            writeln!(shown, "  left out: {reason}").unwrap();
        }
    }
    shown + "\n"
}

#[test]
fn the_files_of_the_usual_programs_are_read() {
    let files = [
        (
            "/h/claude_desktop_config.json",
            r#"{"mcpServers": {"a b": {"command": "npx", "args": ["-y", "x", 8080, true], "env": {"PORT": 8080, "LIST": [1]}}}, "other": 1}"#,
        ),
        // Claude Code, by project; and the file of one project.
        (
            "/h/.claude.json",
            r#"{"mcpServers": {}, "projects": {"/home/me/work": {"mcpServers": {"a": {"type": "stdio", "command": "x"}}}, "/x": {"allowedTools": []}}}"#,
        ),
        (
            "/w/.mcp.json",
            r#"{"mcpServers": {"a": {"type": "http", "url": "https://${HOST}/mcp", "headers": {"Authorization": "Bearer ${TOKEN}", "X-Mode": "${UNSET:-slow}"}, "headersHelper": "./h", "timeout": 120000, "alwaysLoad": true}}}"#,
        ),
        (
            "/w/.vscode/mcp.json",
            "\u{feff}{\r\n\t// shared by the team\n\t\"inputs\": [{ \"type\": \"promptString\", \"id\": \"tok\" }],\n\t\"servers\": {\n\t\t/* \"old\": { \"command\": \"foo\" },\n */\n\
             \t\t\"notes\": { \"type\": \"stdio\", \"command\": \"npx\", \"args\": [\"-y\", \"notes // 1\", \"${workspaceFolder}/a,]\", ], \"env\": { \"TOKEN\": \"${input:tok}\" }, \"envFile\": \"${workspaceFolder}/.env\" },\n\
             \t\t\"remote\": { \"type\": \"sse\", \"url\": \"https://mcp.example.com/sse\", \"headers\": { \"X-Key\": \"${env:KEY}\" } },\n\t},\n}\n",
        ),
        (
            "/h/settings.json",
            r#"{"mcp": {"inputs": [], "servers": {"a": {"command": "x"}}}}"#,
        ),
        (
            "/h/.config/zed/settings.json",
            r#"{"theme": "x", "context_servers": {"a": {"source": "custom", "command": "x", "args": [], "enabled": true}, "old": {"command": {"path": "y", "args": ["z"], "env": {"A": "b"}}}, "ext": {"source": "extension", "settings": {}}}}"#,
        ),
        (
            "/h/.codex/config.toml",
            "model = \"m\"\n[mcp_servers.a]\ncommand = \"npx\"\nargs = [\"x\"]\nenv_vars = [\"MODE\", { name = \"TOKEN\", source = \"local\" }]\nstartup_timeout_sec = 45\ntool_timeout_sec = 300.0\nenabled_tools = [\"look\"]\ndisabled_tools = []\n\
             [mcp_servers.a.env]\nA = \"b\"\n[mcp_servers.off]\ncommand = \"x\"\nenabled = false\n\
             [mcp_servers.far]\nurl = \"https://host.test/mcp\"\nbearer_token_env_var = \"TOKEN\"\nhttp_headers = { X-A = \"b\" }\nenv_http_headers = { X-M = \"MODE\" }\n",
        ),
        (
            "/h/.config/opencode/opencode.jsonc",
            r#"{"$schema": "s", "mcp": {"a": {"type": "local", "command": ["npx", "-y", "{env:MODE}"], "environment": {"KEY": "{env:TOKEN}", "URL": "https://{env:HOST}/x"}, "enabled": true, "timeout": 5000},
                "far": {"type": "remote", "url": "https://host.test/mcp", "headers": {"Authorization": "Bearer {env:TOKEN}"}, "oauth": {}}, "off": {"type": "local", "command": ["x"], "enabled": false}}}"#,
        ),
        (
            "/h/.opencode/opencode.json",
            r#"{"mcp": {"timeout": 5000, "servers": {"a": {"type": "local", "command": ["x", "y"]}, "off": {"type": "local", "command": ["x"], "disabled": true}}}}"#,
        ),
        (
            "/h/.config/goose/config.yaml",
            "GOOSE_MODEL: m\nextensions:\n  developer:\n    bundled: true\n    enabled: true\n    name: developer\n    timeout: 300\n    type: builtin\n  notes:\n    args:\n    - -y\n    - notes\n    cmd: npx\n    enabled: true\n\
             \x20   envs: {MODE: fast}\n    env_keys: [TOKEN]\n    name: notes\n    timeout: 1200\n    type: stdio\n    available_tools: []\n  far:\n    type: streamable_http\n    uri: https://host.test/mcp\n    enabled: true\n  off: {cmd: x, type: stdio, enabled: false}\n",
        ),
        (
            "/h/.gemini/settings.json",
            r#"{"mcpServers": {"a": {"command": "x", "args": ["$MODE", "${MODE}", "5$"], "env": {"KEY": "$TOKEN", "TWO": "$MODE-$HOST"}, "cwd": "srv", "timeout": 600000, "trust": true, "includeTools": ["look"]}, "far": {"httpUrl": "https://host.test/mcp", "url": "https://host.test/sse"}}}"#,
        ),
        (
            "/w/.cursor/mcp.json",
            r#"{"mcpServers": {"a": {"command": "${userHome}/bin/x", "args": ["~/papers", "${workspaceFolder}${/}src", "../elsewhere"], "env": {"A": "${env:MODE}", "F": "~/f"}}}}"#,
        ),
        (
            "/h/.codeium/windsurf/mcp_config.json",
            r#"{"mcpServers": {"far": {"serverUrl": "https://host.test/mcp", "disabled": false, "alwaysAllow": ["a"]}}}"#,
        ),
        (
            "/h/.continue/config.yaml",
            "name: mine\nmcpServers:\n  - name: a\n    command: npx\n    args: [x]\n",
        ),
        (
            "/h/amp.json",
            r#"{"amp.mcpServers": {"a": {"command": "x"}}}"#,
        ),
    ];
    let shown: String = files.iter().map(|(path, text)| shown(path, text)).collect();
    insta::assert_snapshot!(shown);
}

#[test]
fn one_bad_server_costs_that_server() {
    let shown = shown(
        "/w/mcp.json",
        r#"{"mcpServers": {
            "good": {"command": "x", "unknown": {"a": 1}},
            "none": {"args": []}, "list": [], "text": "x", "null": null,
            "command": {"command": 1.5, "args": "x"}, "args": {"command": "x", "args": ["--only", null]},
            "env": {"command": "x", "env": ["A=b"]}, "url": {"url": 1}, "headers": {"url": "https://host.test", "headers": "x"},
            "off": {"command": "x", "disabled": true}, "maybe": {"command": "x", "disabled": "true"}, "perhaps": {"command": "x", "enabled": 0},
            "docker": {"command": "/usr/bin/docker", "args": ["run", "-i", "notes"], "env": {"TOKEN": "${TOKEN}"}},
            "c c": {"command": "x"}, "c-c": {"command": "y"}, "ask__fare": {"command": "x"}, "": {"command": "x"},
            "unset": {"command": "x", "args": ["--mode=${UNSET}"]}, "asks": {"command": "x", "args": ["${input:tok}"]},
            "twice": {"command": "x", "command": "y"}
        }}"#,
    );
    insta::assert_snapshot!(shown);
}

#[test]
fn a_variable_leads_to_the_one_that_it_names() {
    for (written, env, taken) in [
        ("${TOKEN}", None, Some("X=${TOKEN}")),
        ("${X}", None, Some("X")),
        ("${env:TOKEN}", None, Some("X=${TOKEN}")),
        ("{env:TOKEN}", None, Some("X=${TOKEN}")),
        ("Bearer ${TOKEN}", None, Some("X=Bearer ${TOKEN}")),
        ("${UNSET:-slow}", None, Some("X=${UNSET:-slow}")),
        ("${input:x}", None, Some("X")),
        // Only Gemini fills these in.
        ("$TOKEN", Some("$TOKEN"), None),
        ("costs 5$", Some("costs 5$"), None),
        ("${", Some("${"), None),
    ] {
        let text =
            serde_json::json!({"mcpServers": {"a": {"command": "x", "env": {"X": written}}}});
        let server = one("/w/mcp.json", &text.to_string());
        assert_eq!(server.env.get("X").map(String::as_str), env, "{written}");
        assert_eq!(
            server.env_from.first().map(String::as_str),
            taken,
            "{written}"
        );
    }
    let server = one(
        "/w/mcp.json",
        r#"{"mcpServers": {"a": {"command": "${MODE}", "args": ["${env:HOST}:${UNSET:-80}"]}}}"#,
    );
    assert_eq!(server.command, ["fast", "host.test:80"]);
    let names: Vec<_> = server.filled_in.iter().collect();
    assert_eq!(names, ["HOST", "MODE"]);
}

#[test]
fn relative_paths_start_from_the_folder_of_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for name in [".vscode", "srv/data"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    std::fs::write(root.join("srv/server.js"), "").unwrap();
    let at = |name: &str| root.join(name).to_string_lossy().into_owned();
    let words = |cwd: &str, words: &str| {
        let text =
            format!(r#"{{"servers": {{"a": {{"command": "node", "args": [{words}]{cwd}}}}}}}"#);
        one(&at(".vscode/mcp.json"), &text)
    };
    let plain = words(
        "",
        r#""srv/server.js", "./srv", "@scope/x", "1.2", "./gone""#,
    );
    assert_eq!(
        plain.command[1..],
        [
            &*at("srv/server.js"),
            &*at("srv"),
            "@scope/x",
            "1.2",
            "./gone"
        ]
    );
    assert_eq!(
        plain.notes,
        [format!("there is no file or folder {}", at("./gone"))]
    );
    let own = words(
        r#", "cwd": "${workspaceFolder}/srv""#,
        r#""server.js", "../srv/data""#,
    );
    assert_eq!(own.command[1..], [at("srv/server.js"), at("srv/data")]);
    assert!(own.notes[0].contains(&at("srv")), "{:?}", own.notes);
}

#[test]
fn a_file_that_is_none_says_where_without_a_word_of_it() {
    for (path, text, line) in [
        ("a.json", "", "line 1: it is not JSON"),
        (
            "a.json",
            "{\n\"mcpServers\": {\"a\": hush-4711}}",
            "line 2: it is not JSON",
        ),
        (
            "a.toml",
            "[mcp_servers.a]\nenv = { K = \"hush-4711\" x }\n",
            "line 2: it is not TOML",
        ),
        (
            "a.yaml",
            "extensions:\n  a: [hush-4711\n  b: }",
            "it is not YAML",
        ),
        ("a.json", "{}", "line 1: the file lists no servers"),
        ("a.json", "[]", "line 1: the file lists no servers"),
        (
            "a.json",
            "{\"mcpServers\": 1}",
            "line 1: the file lists no servers",
        ),
    ] {
        let error = foreign_servers(Path::new(path), text, &look).unwrap_err();
        let error = error.to_string();
        assert!(error.contains(line) && !error.contains("4711"), "{error}");
    }
    // Neither depth nor aliases exhaust anything.
    let deep = format!("a: {}", "[".repeat(100_000));
    let laughs: String = (1..40)
        .map(|at| format!("a{at}: &a{at} [*a{0}, *a{0}]\n", at - 1))
        .collect();
    for text in [deep, format!("a0: &a0 x\n{laughs}")] {
        assert!(foreign_servers(Path::new("a.yaml"), &text, &look).is_err());
    }
    let deep = format!("a{} = 1", ".a".repeat(100_000));
    assert!(foreign_servers(Path::new("a.toml"), &deep, &look).is_err());
}

#[test]
fn lists_of_tools_are_carried_over() {
    let entry = |members: &str| {
        one(
            "/w/mcp.json",
            &format!(r#"{{"mcpServers": {{"a": {{"command": "x", {members}}}}}}}"#),
        )
    };
    type Names<'a> = (Option<&'a [&'a str]>, &'a [&'a str]);
    let check = |server: &ForeignServer, (only, hidden): Names<'_>| {
        let read = server.filter.only.as_ref();
        let read: Option<Vec<&str>> = read.map(|it| it.iter().map(String::as_str).collect());
        assert_eq!(read.as_deref(), only, "{server:?}");
        assert_eq!(server.filter.hidden, hidden, "{server:?}");
    };
    let both = r#""includeTools": ["look", "find(*)", "read_*"], "excludeTools": ["read_all"]"#;
    check(
        &entry(both),
        (Some(&["look", "find", "read_*"]), &["read_all"]),
    );
    check(&entry(r#""tools": ["*"]"#), (None, &[]));
    check(
        &entry(r#""tools": {"look": true, "drop": false}"#),
        (None, &["drop"]),
    );
    let several = r#""enabled_tools": ["a", "b"], "tools": ["b", "c"], "disabledTools": ["d"], "disabled_tools": ["e"]"#;
    check(&entry(several), (Some(&["b"]), &["e", "d"]));
    // A name that no tool can have costs that name, and a list that is none the server.
    let odd = entry(r#""enabled_tools": ["look", "a b", 7], "disabled_tools": []"#);
    check(&odd, (Some(&["look"]), &[]));
    assert_eq!(odd.notes.len(), 2);
    let none = entry(r#""disabled_tools": "drop""#).left_out.unwrap();
    assert_eq!(none, "'disabled_tools' is not a list of names of tools");

    let opencode = |rest: &str| {
        one(
            "/h/opencode.json",
            &format!(r#"{{"mcp": {{"my.a": {{"type": "local", "command": ["x"]}}}}, {rest}}}"#),
        )
    };
    let more = entry(r#""tools": {"look": {"approval_mode": "approve"}}"#);
    assert!(more.notes[0].starts_with("'tools' says more"), "{more:?}");
    let narrow = r#""tools": {"bash": false, "my_a_*": false, "my_a_look": true}"#;
    check(&opencode(narrow), (Some(&["look"]), &[]));
    let wide = r#""permission": {"my_a_drop": "deny", "my_a_ask": "ask", "other_look": "deny", "edit": {"*": "deny"}}"#;
    check(&opencode(wide), (None, &["drop"]));
    let again = r#""tools": {"*": false, "my_*": true}"#;
    check(&opencode(again), (None, &[]));
    let off = opencode(r#""tools": {"my_a_*": false}"#);
    assert!(off.is_disabled, "{off:?}");
}

#[test]
fn servers_that_other_settings_switch_off_are_left_out() {
    let left_out = |path: &str, settings: &str| -> Vec<String> {
        let servers = r#""mcpServers": {"a": {"command": "x"}, "b": {"command": "x"}}"#;
        let servers = read(path, &format!("{{{servers}, {settings}}}"));
        let off = servers.into_iter().filter(|it| it.is_disabled);
        off.map(|it| it.name).collect()
    };
    let gemini = |settings: &str| left_out("/h/.gemini/settings.json", settings);
    assert_eq!(gemini(r#""mcp": {"excluded": ["a"]}"#), ["a"]);
    assert_eq!(gemini(r#""mcp": {"allowed": ["a"]}"#), ["b"]);
    assert_eq!(
        gemini(r#""allowMCPServers": ["a"], "excludeMCPServers": ["a"]"#),
        ["a", "b"]
    );
    // That list is about the file of a project alone.
    let of_user = |settings: &str| left_out("/h/.claude.json", settings);
    assert!(of_user(r#""enabledMcpjsonServers": ["b"]"#).is_empty());
    assert_eq!(of_user(r#""disabledMcpServers": ["a"]"#), ["a"]);
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    std::fs::create_dir(root.join(".claude")).unwrap();
    let path = root.join(".mcp.json").to_string_lossy().into_owned();
    let claude = |file: &str, settings: &str| {
        std::fs::write(root.join(".claude").join(file), settings).unwrap();
        left_out(&path, r#""x": 1"#)
    };
    let local =
        r#"{"enabledMcpjsonServers": [], "permissions": {"deny": ["mcp__b__drop", "Read"]}}"#;
    assert!(claude("settings.local.json", local).is_empty());
    let server = read(&path, r#"{"mcpServers": {"b": {"command": "x"}}}"#);
    assert_eq!(server[0].filter.hidden, ["drop"]);
    assert_eq!(
        claude("settings.json", r#"{"enabledMcpjsonServers": ["a"]}"#),
        ["b"]
    );
    assert_eq!(
        claude("settings.json", r#"{"disabledMcpjsonServers": ["a"]}"#),
        ["a"]
    );
    let all = r#"{"enabledMcpjsonServers": ["a"], "enableAllProjectMcpServers": true, "permissions": {"deny": ["mcp__b"]}}"#;
    assert_eq!(claude("settings.json", all), ["b"]);
}

#[test]
fn a_file_of_variables_is_read_below_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("w/.vscode")).unwrap();
    let text =
        "# mine\nexport A=1 # one\nB = \"two words\" \nC='${X}'\nOWN=file\nT=${TOKEN}\nnothing\n";
    std::fs::write(root.join("w/.env"), text).unwrap();
    std::fs::write(root.join("secret.env"), "S=1").unwrap();
    let path = root
        .join("w/.vscode/mcp.json")
        .to_string_lossy()
        .into_owned();
    let server = |file: &str| {
        let text = serde_json::json!({"servers": {"a": {"command": "x", "env": {"OWN": "own"}, "envFile": file}}});
        one(&path, &text.to_string())
    };
    let read = server("${workspaceFolder}/.env");
    let pairs = [("A", "1"), ("B", "two words"), ("OWN", "own")];
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(read.env, pairs.into());
    assert_eq!(read.env_from, ["C=${X}", "T=${TOKEN}"]);
    std::os::unix::fs::symlink(root.join("secret.env"), root.join("w/link")).unwrap();
    for outside in ["../secret.env", "link", "gone"] {
        let read = server(outside);
        assert!(
            read.env.len() == 1 && read.notes[0].contains("is not read"),
            "{read:?}"
        );
    }
}

/// An app that may write the folder could have made the link at an earlier start.
#[test]
fn a_relative_word_follows_no_link() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("w/papers")).unwrap();
    std::os::unix::fs::symlink(&root, root.join("w/papers/up")).unwrap();
    let path = root.join("w/mcp.json").to_string_lossy().into_owned();
    let args = ["./papers", "./papers/up", "--dir=papers/up/w"];
    let text = serde_json::json!({"mcpServers": {"a": {"command": "x", "args": args}}});
    let read = one(&path, &text.to_string());
    let papers = root.join("w/papers").to_string_lossy().into_owned();
    assert_eq!(read.command, ["x", &papers, args[1], args[2]]);
    assert!(
        read.notes[0].contains("./papers/up leads over a link"),
        "{read:?}"
    );
}

#[test]
fn a_server_of_two_projects_is_one() {
    let text = r#"{"projects": {"/a": {"mcpServers": {"a": {"command": "x"}}}, "/b": {"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}}}}"#;
    assert_eq!(read("/h/.claude.json", text).len(), 2);
}

#[test]
fn a_line_for_a_command_becomes_words() {
    let command = |entry: &str| {
        one(
            "/w/mcp.json",
            &format!(r#"{{"mcpServers": {{"a": {entry}}}}}"#),
        )
        .command
    };
    assert_eq!(command(r#"{"command": "npx -y x"}"#), ["npx", "-y", "x"]);
    assert_eq!(command(r#"{"command": "a b", "args": []}"#), ["a b"]);
    assert_eq!(command(r#"{"command": "a 'b c'"}"#), ["a 'b c'"]);
    let shell = one(
        "/w/mcp.json",
        r#"{"mcpServers": {"a": {"command": "sh", "args": ["-c", "exec node ./x.js"]}}}"#,
    );
    assert!(shell.notes[0].contains("files that its shell command names"));
}

/// One odd byte anywhere: no panic, and a command is never half of another.
#[test]
fn no_damaged_file_ends_the_reader() {
    let files = [
        (
            "a.json",
            "{// x\n\"mcpServers\": {\"a\": {\"command\": \"x\", \"args\": [\"y\", ], \"env\": {\"É\": \"${A:-b}\"}, /* é */}}}",
        ),
        (
            "a.toml",
            "[mcp_servers.a]\ncommand = \"x\"\nargs = [\"y\"]\nenv = { A = \"é\" }\n",
        ),
        (
            "a.yaml",
            "extensions:\n  a:\n    cmd: x\n    args: [y, é]\n    envs: {A: b}\n",
        ),
    ];
    for (path, text) in files {
        let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        for at in places {
            let (before, after) = text.split_at(at);
            let rest: String = after.chars().skip(1).collect();
            for odd in [
                "", "\"", "{", "]", ",", "/", "*", "#", "\\", "$", "\0", "\u{feff}", "&a *a", "\n",
            ] {
                let damaged = format!("{before}{odd}{rest}");
                if let Ok((servers, _)) = foreign_servers(Path::new(path), &damaged, &look) {
                    let is_used = |it: &&ForeignServer| it.left_out.is_none();
                    for server in servers.iter().filter(is_used) {
                        assert!(
                            server.command.is_empty() == server.url.is_some(),
                            "{damaged}"
                        );
                    }
                }
            }
        }
    }
}
