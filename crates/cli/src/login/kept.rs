//! The file of logins, beside that of secrets.

use anyhow::Result;
use jiff::Timestamp;
use names::WebUrl;
use remote::step::Granted;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::client::{Client, Secret};
use crate::hex::hex;
use crate::private_file::PrivateFile;
use crate::secrets::{self, Value};

/// A token that expires so soon is renewed before it is sent.
const LEEWAY_SECONDS: i64 = 30;
/// The longest validity of a token: a year, even if its server says more.
const LONGEST_SECONDS: u64 = 366 * 24 * 60 * 60;

/// A login at one server, for one app.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Login {
    pub(crate) app: String,
    /// The server's address without its query: the only one to which the token is sent.
    pub(crate) server: String,
    /// The authorization server that the user has agreed to.
    pub(crate) issuer: String,
    /// The endpoint for tokens: the only place to which the refresh token is sent.
    pub(crate) endpoint: String,
    pub(crate) client: String,
    /// The secret of this client there; most have none.
    #[serde(default)]
    pub(crate) client_secret: Option<Secret>,
    /// The resource of the tokens (RFC 8707).
    pub(crate) resource: String,
    pub(crate) access: Value,
    pub(crate) refresh: Option<Value>,
    /// When the token expires, in seconds since 1970.
    pub(crate) expires: Option<i64>,
}

impl Login {
    /// Takes these tokens. Without a new refresh token the old one stays valid (RFC 6749 §6).
    pub(crate) fn take(&mut self, granted: Granted) -> Result<()> {
        let seconds = granted.seconds.map(|seconds| seconds.min(LONGEST_SECONDS));
        let seconds = seconds.and_then(|seconds| i64::try_from(seconds).ok());
        let refresh = granted.refresh.map(Value::new).transpose()?;
        self.access = Value::new(granted.access)?;
        self.refresh = refresh.or(self.refresh.take());
        self.expires = seconds.map(|seconds| Timestamp::now().as_second() + seconds);
        Ok(())
    }

    pub(crate) fn client(&self) -> Client {
        Client {
            name: self.client.clone(),
            secret: self.client_secret.clone(),
        }
    }

    /// Whether its token has not expired and is not the refused one.
    pub(crate) fn is_good(&self, refused: Option<&str>) -> bool {
        let now = Timestamp::now().as_second();
        let in_time = self.expires.is_none_or(|end| end > now + LEEWAY_SECONDS);
        in_time && refused != Some(self.access.reveal())
    }

    fn is_of(&self, app: &str, server: &str) -> bool {
        self.app == app && self.server == server
    }
}

/// The address under which the login of a server is saved: without its query.
pub(crate) fn address(url: &WebUrl) -> String {
    url.with_path(url.path()).to_string()
}

pub(crate) struct Logins(PrivateFile);

impl Logins {
    pub(crate) fn of_user() -> Result<Self> {
        Ok(Self(PrivateFile::new(secrets::folder()?, "logins.json")))
    }

    /// The login of an app at its server, if there is one.
    pub(crate) fn find(&self, app: &str, server: &str) -> Result<Option<Login>> {
        let all: Vec<Login> = self.0.read()?;
        Ok(all.into_iter().find(|login| login.is_of(app, server)))
    }

    /// Saves a login, in place of one of the same app at the same server.
    pub(crate) fn keep(&self, login: &Login) -> Result<()> {
        self.0.change(|all: &mut Vec<Login>| {
            all.retain(|other| !other.is_of(&login.app, &login.server));
            all.push(login.clone());
        })
    }

    /// Replaces a login by its renewal, or removes it, unless the user has logged in or out meanwhile.
    pub(crate) fn renew(&self, before: &Login, after: Option<&Login>) -> Result<()> {
        self.0.change(|all: &mut Vec<Login>| {
            // A login that was made meanwhile has another token.
            let same = |login: &Login| {
                login.is_of(&before.app, &before.server) && login.access == before.access
            };
            let known = all.len();
            all.retain(|login| !same(login));
            if all.len() < known {
                all.extend(after.cloned());
            }
        })
    }

    /// Deletes the logins of an app. Their servers.
    pub(crate) fn forget(&self, app: &str) -> Result<Vec<String>> {
        let mut servers = Vec::new();
        self.0.change(|all: &mut Vec<Login>| {
            let of_app = all.extract_if(.., |login| login.app == app);
            servers.extend(of_app.map(|login| login.server));
        })?;
        Ok(servers)
    }

    /// Waits for the lock of this login, so that one program renews it at a time.
    pub(crate) fn lock(&self, app: &str, server: &str) -> Result<std::fs::File> {
        let name = Sha256::digest(format!("{app} {server}"));
        self.0.lock(&hex(name.iter().take(8)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(access: &str) -> Login {
        let value = |text: &str| Value::new(text.to_owned()).unwrap();
        Login {
            app: "far".to_owned(),
            server: "https://api.example.org/mcp".to_owned(),
            issuer: "https://login.example.org/".to_owned(),
            endpoint: "https://login.example.org/token".to_owned(),
            client: "client".to_owned(),
            client_secret: None,
            resource: "https://api.example.org/mcp".to_owned(),
            access: value(access),
            refresh: Some(value("refresh-one")),
            expires: None,
        }
    }

    fn granted(access: &str, refresh: Option<&str>, seconds: Option<u64>) -> Granted {
        Granted {
            access: access.to_owned(),
            refresh: refresh.map(str::to_owned),
            seconds,
        }
    }

    #[test]
    fn a_login_is_of_one_app_at_one_server() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("secrets");
        let logins = Logins(PrivateFile::new(folder, "logins.json"));
        let one = login("access-one");
        logins.keep(&one).unwrap();
        let found = |app: &str, server: &str| logins.find(app, server).unwrap();
        assert!(found("far", &one.server).is_some());
        assert!(found("near", &one.server).is_none());
        assert!(found("far", "https://api.example.org/other").is_none());
        // A renewal does not replace a login that the user has made meanwhile.
        let two = login("access-two");
        logins.renew(&one, Some(&two)).unwrap();
        logins.renew(&one, Some(&login("access-late"))).unwrap();
        assert_eq!(found("far", &one.server).unwrap().access, two.access);
        logins.renew(&one, None).unwrap();
        assert!(found("far", &one.server).is_some());
        logins.renew(&two, None).unwrap();
        logins.renew(&two, Some(&one)).unwrap();
        assert!(found("far", &one.server).is_none());
        logins.keep(&one).unwrap();
        assert_eq!(logins.forget("far").unwrap(), [&*one.server]);
        assert!(logins.forget("far").unwrap().is_empty());
    }

    #[test]
    fn a_token_is_good_until_it_runs_out_or_is_refused() {
        let mut login = login("access-one");
        assert!(login.is_good(None) && login.is_good(Some("another")));
        assert!(!login.is_good(Some("access-one")));
        login.take(granted("access-two", None, Some(3600))).unwrap();
        assert!(login.is_good(Some("access-one")));
        assert_eq!(login.refresh.as_ref().unwrap().reveal(), "refresh-one");
        login
            .take(granted("access-three", Some("refresh-two"), Some(5)))
            .unwrap();
        assert!(!login.is_good(None));
        assert_eq!(login.refresh.as_ref().unwrap().reveal(), "refresh-two");
        login
            .take(granted("access-four", None, Some(u64::MAX)))
            .unwrap();
        assert!(login.is_good(None));
        // Half of it is not taken.
        assert!(
            login
                .take(granted("fine", Some("not\nfine"), None))
                .is_err()
        );
        assert_eq!(login.access.reveal(), "access-four");
    }

    #[test]
    fn no_token_is_shown() {
        let shown = format!("{:?}", login("access-one"));
        assert!(
            !shown.contains("access-one") && !shown.contains("refresh-one"),
            "{shown}"
        );
    }
}
