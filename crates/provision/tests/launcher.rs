//! What launchers would fetch.

use provision::{Package, Registry, launcher};

fn package(command: &str) -> Option<Package> {
    let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
    launcher(&words)
}

fn check(command: &str, requirement: &str, program: Option<&str>, arguments: &[&str]) {
    let package = package(command).unwrap_or_else(|| unreachable!("{command} is a launcher's"));
    assert_eq!(package.requirement, requirement, "{command}");
    assert_eq!(package.program.as_deref(), program, "{command}");
    assert_eq!(package.arguments, arguments, "{command}");
}

#[test]
fn launchers_name_a_package_and_the_arguments_of_its_program() {
    check(
        "npx -y @a/server@1.2 /tmp -y",
        "@a/server@1.2",
        None,
        &["/tmp", "-y"],
    );
    check(
        "/usr/bin/npx --yes --package=@a/b -- run x",
        "@a/b",
        Some("run"),
        &["x"],
    );
    check("npx -p a -p b run", "a", Some("run"), &[]);
    check(
        "npm exec -y a -- --port 1",
        "a",
        None,
        &["--", "--port", "1"],
    );
    check("pnpm dlx a", "a", None, &[]);
    check(
        "uvx mcp-server-time --local-timezone UTC",
        "mcp-server-time",
        Some("mcp-server-time"),
        &["--local-timezone", "UTC"],
    );
    check(
        "uvx mcp-server-time@2.0",
        "mcp-server-time==2.0",
        Some("mcp-server-time"),
        &[],
    );
    check("uvx x@latest", "x", Some("x"), &[]);
    check(
        "uvx --from tools[cli]>=1 run",
        "tools[cli]>=1",
        Some("run"),
        &[],
    );
    check("uv tool run --with b a", "a", Some("a"), &[]);
    check("pipx run --spec=a==1 b", "a==1", Some("b"), &[]);
    assert_eq!(package("npx -p a -p b run").unwrap().with, ["b"]);
    assert_eq!(package("uvx --with b a").unwrap().with, ["b"]);
    assert_eq!(package("uvx a").unwrap().registry, Registry::PyPi);
}

#[test]
fn what_no_registry_of_the_users_has_is_no_package() {
    for command in [
        "node server.js",
        "npm start",
        "npx -c something",
        "npx",
        "uvx --index-url https://x a",
        "uvx",
        "pipx install a",
        "uv run server.py",
    ] {
        assert_eq!(package(command), None, "{command}");
    }
}
