//! The clients, and where they keep their servers.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::text::{Format, table};
use crate::{Problem, Snapshot};

/// An MCP client.
#[derive(Debug, PartialEq, Eq)]
pub struct Client {
    /// Its name on the command line.
    pub id: &'static str,
    /// Its name.
    pub name: &'static str,
    /// The format of its files.
    pub format: Format,
    /// The table of its servers, with `/` between keys. The first one that a file has counts.
    places: &'static [&'static str],
    /// The user's files. All that exist count; the first one is created if the program is there and none exists.
    user: &'static [&'static str],
    /// A project's files, which others may share.
    project: &'static [&'static str],
    /// A folder that says that the program is used here.
    sign: &'static str,
}

/// The clients that are known. `~`, `@config` and `@support` stand for the user's home, `$XDG_CONFIG_HOME`, and that folder or
/// macOS's for applications.
pub const CLIENTS: [Client; 8] = [
    Client {
        id: "claude-code",
        name: "Claude Code",
        format: Format::StrictJson,
        places: &["mcpServers"],
        user: &["@claude/.claude.json"],
        project: &[".mcp.json"],
        sign: "~/.claude",
    },
    Client {
        id: "codex",
        name: "Codex",
        format: Format::Toml,
        places: &["mcp_servers"],
        user: &["@codex/config.toml"],
        project: &[".codex/config.toml"],
        sign: "@codex",
    },
    Client {
        id: "cursor",
        name: "Cursor",
        format: Format::Json,
        places: &["mcpServers"],
        user: &["~/.cursor/mcp.json"],
        project: &[".cursor/mcp.json"],
        sign: "~/.cursor",
    },
    Client {
        id: "vscode",
        name: "VS Code",
        format: Format::Json,
        places: &["servers"],
        user: &["@support/Code/User/mcp.json"],
        project: &[".vscode/mcp.json"],
        sign: "@support/Code/User",
    },
    Client {
        id: "claude-desktop",
        name: "Claude Desktop",
        format: Format::StrictJson,
        places: &["mcpServers"],
        user: &["@support/Claude/claude_desktop_config.json"],
        project: &[],
        sign: "@support/Claude",
    },
    Client {
        id: "gemini-cli",
        name: "Gemini CLI",
        format: Format::Json,
        places: &["mcpServers"],
        user: &["~/.gemini/settings.json"],
        project: &[".gemini/settings.json"],
        sign: "~/.gemini",
    },
    Client {
        id: "opencode",
        name: "opencode",
        format: Format::Json,
        // Of version 2 and of version 1.
        places: &["mcp/servers", "mcp"],
        user: &[
            "@config/opencode/opencode.json",
            "@config/opencode/opencode.jsonc",
            "@config/opencode/config.json",
        ],
        project: &[
            "opencode.json",
            "opencode.jsonc",
            ".opencode/opencode.json",
            ".opencode/opencode.jsonc",
        ],
        sign: "@config/opencode",
    },
    Client {
        id: "goose",
        name: "Goose",
        format: Format::Yaml,
        places: &["extensions"],
        user: &["@config/goose/config.yaml"],
        project: &[],
        sign: "@config/goose",
    },
];

/// For whom a list of servers is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// The user, everywhere.
    User,
    /// The user, in one project (Claude Code).
    Local,
    /// Everyone who uses a project.
    Project,
}

impl Scope {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Local => "local",
            Self::Project => "project",
        }
    }

    /// The name of Sluice's entry. A list of a project goes before the user's, and an entry of the same name would hide the
    /// user's.
    #[must_use]
    pub fn entry(self) -> &'static str {
        match self {
            Self::User => "sluice",
            Self::Local => "sluice-local",
            Self::Project => "sluice-project",
        }
    }
}

/// The folders in which files are looked for.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The user's home.
    pub home: PathBuf,
    /// `$XDG_CONFIG_HOME`, or `~/.config`.
    pub config: PathBuf,
    /// The same, or `~/Library/Application Support` on macOS.
    pub support: PathBuf,
    /// The folder of `.claude.json`: `$CLAUDE_CONFIG_DIR`, or the home.
    pub claude: PathBuf,
    /// `$CODEX_HOME`, or `~/.codex`.
    pub codex: PathBuf,
    /// The working folder.
    pub project: PathBuf,
}

impl Machine {
    /// The user's, by their environment.
    #[must_use]
    pub fn new(variable: &dyn Fn(&str) -> Option<PathBuf>, project: &Path) -> Option<Self> {
        let set = |name: &str| variable(name).filter(|path| path.is_absolute());
        let home = set("HOME")?;
        let config = set("XDG_CONFIG_HOME").unwrap_or(home.join(".config"));
        let support = match cfg!(target_os = "macos") {
            true => home.join("Library/Application Support"),
            false => config.clone(),
        };
        Some(Self {
            claude: set("CLAUDE_CONFIG_DIR").unwrap_or(home.clone()),
            codex: set("CODEX_HOME").unwrap_or(home.join(".codex")),
            project: project.to_owned(),
            support,
            config,
            home,
        })
    }

    fn path(&self, written: &str) -> PathBuf {
        let (start, rest) = written.split_once('/').unwrap_or((written, ""));
        let folder = match start {
            "~" => &self.home,
            "@config" => &self.config,
            "@support" => &self.support,
            "@claude" => &self.claude,
            "@codex" => &self.codex,
            _ => return self.project.join(written),
        };
        folder.join(rest)
    }
}

/// A file of a client. It may be absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFile {
    /// The client.
    pub client: &'static Client,
    /// Whether it is the user's or a project's.
    pub scope: Scope,
    /// Its path, which may be a link.
    pub path: PathBuf,
}

/// The files of all clients that are used on this machine.
#[must_use]
pub fn find(machine: &Machine) -> Vec<ClientFile> {
    let mut all: Vec<ClientFile> = Vec::new();
    for client in &CLIENTS {
        let file = |scope| {
            move |written: &&str| ClientFile {
                client,
                scope,
                path: machine.path(written),
            }
        };
        let is_there = |file: &ClientFile| file.path.is_file() || file.path.is_symlink();
        let own = client.user.iter().map(file(Scope::User));
        let mut own: Vec<_> = own.filter(is_there).collect();
        if own.is_empty() && machine.path(client.sign).is_dir() {
            own.extend(client.user.iter().map(file(Scope::User)).take(1));
        }
        let shared = client
            .project
            .iter()
            .map(file(Scope::Project))
            .filter(is_there);
        // The working folder may be the home.
        let shared = shared.filter(|file| own.iter().all(|own| own.path != file.path));
        let shared: Vec<_> = shared.collect();
        all.extend(own.into_iter().chain(shared));
    }
    all
}

/// One list of servers.
#[derive(Debug, Clone)]
pub struct Servers {
    /// For whom it is.
    pub scope: Scope,
    /// The keys that lead to it.
    pub place: Vec<String>,
    /// The project of a local list.
    pub project: Option<PathBuf>,
    /// The servers with their names, in the order of the file.
    pub servers: Vec<(String, Value)>,
    /// The settings around the list, which may switch servers off.
    settings: Value,
    relative: Vec<String>,
}

impl Servers {
    /// The same settings with this server alone.
    #[must_use]
    pub fn alone(&self, name: &str) -> Value {
        let server = self.servers.iter().filter(|(it, _)| it == name);
        let mut list = Value::Object(server.cloned().collect());
        for key in self.relative.iter().skip(1).rev() {
            list = Value::Object(Map::from_iter([(key.clone(), list)]));
        }
        let mut settings = self.settings.clone();
        if let (Some(settings), Some(key)) = (settings.as_object_mut(), self.relative.first()) {
            settings.insert(key.clone(), list);
        }
        settings
    }
}

/// A file with its servers.
#[derive(Debug, Clone)]
pub struct Opened {
    /// The file.
    pub file: ClientFile,
    /// What was read.
    pub snapshot: Snapshot,
    /// Its lists of servers, the first one even if the file does not have it.
    pub lists: Vec<Servers>,
}

impl ClientFile {
    /// Reads its servers.
    ///
    /// # Errors
    /// It cannot be read, or does not have the format or the form of its client's files.
    pub fn open(&self) -> Result<Opened, Problem> {
        let snapshot = Snapshot::read(&self.path)?;
        let text = snapshot.text()?;
        let root = text
            .map(|text| self.client.format.parse(text))
            .transpose()?;
        let root = root.unwrap_or(Value::Object(Map::new()));
        let mut lists = vec![list(&root, self.client.place(&root), &[], self.scope)?];
        // Only Claude Code's file has projects.
        let projects = root.get("projects").and_then(Value::as_object);
        let projects =
            projects.filter(|_| self.client.id == "claude-code" && self.scope == Scope::User);
        for (project, settings) in projects.into_iter().flatten() {
            let place = vec!["mcpServers".to_owned()];
            let above = ["projects".to_owned(), project.clone()];
            let list = list(settings, place, &above, Scope::Local)?;
            if !list.servers.is_empty() {
                let project = Some(PathBuf::from(project));
                lists.push(Servers { project, ..list });
            }
        }
        Ok(Opened {
            file: self.clone(),
            snapshot,
            lists,
        })
    }
}

impl Client {
    /// Whether it takes a lock to write its file.
    pub(crate) fn locks(&self) -> bool {
        self.id == "claude-code"
    }

    fn place(&self, root: &Value) -> Vec<String> {
        let keys = |place: &&str| place.split('/').map(str::to_owned).collect::<Vec<_>>();
        let mut all = self.places.iter().map(keys);
        let last = self.places.last().map(keys).unwrap_or_default();
        // In opencode 1 a server may be called `servers`.
        let is_list = |place: &Vec<String>| {
            table(root, place)
                .is_some_and(|it| it.is_object() && it.get("type").is_none_or(Value::is_object))
        };
        all.find(is_list).unwrap_or(last)
    }
}

fn list(
    around: &Value,
    relative: Vec<String>,
    above: &[String],
    scope: Scope,
) -> Result<Servers, Problem> {
    let place: Vec<String> = above.iter().chain(&relative).cloned().collect();
    let servers = match table(around, &relative) {
        None => Vec::new(),
        Some(Value::Object(all)) => {
            // Other settings stand beside the servers in some files.
            let all = all.iter().filter(|(_, value)| value.is_object());
            all.map(|(name, value)| (name.clone(), value.clone()))
                .collect()
        }
        Some(_) => return Err(Problem::unknown_form(&place)),
    };
    let mut settings = around.clone();
    if let Some(all) = settings.as_object_mut() {
        all.remove("projects");
        relative.first().map(|key| all.remove(key));
    }
    Ok(Servers {
        scope,
        place,
        project: None,
        servers,
        settings,
        relative,
    })
}
