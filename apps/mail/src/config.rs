//! The configuration, from the environment.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use app_support::is_address;
use lettre::message::Mailbox;
use lettre::transport::smtp::client::Certificate;

use crate::maildir::Maildir;

/// How a certificate begins in a PEM file.
const PEM_BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// What the app needs to know. Made by [`Config::from_vars`] only, so that what is here is valid.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) maildir: Maildir,
    pub(crate) smtp: Smtp,
}

#[derive(Clone)]
pub(crate) struct Smtp {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) from: Mailbox,
    pub(crate) security: Security,
    /// The authorities to trust instead of the public ones.
    pub(crate) authority: Option<Certificate>,
    pub(crate) login: Option<(String, String)>,
}

/// How the connection to the SMTP server is protected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Security {
    /// Not at all; allowed to loopback only.
    None,
    /// STARTTLS is required; the certificate must be for this name.
    StartTls(String),
    /// TLS from the first byte; the certificate must be for this name.
    Tls(String),
}

impl Config {
    /// Reads the variables `MAILDIR`, `SMTP_SERVER`, `MAIL_FROM`, `SMTP_TLS` (`none`, `starttls`, `tls`; default `none`),
    /// `SMTP_TLS_NAME` (default: the host of `SMTP_SERVER`), `SMTP_TLS_CA` (a PEM file; only its certificates are then
    /// trusted, else the public authorities compiled in), `SMTP_USER` and `SMTP_PASSWORD` through `var`.
    /// An empty value counts as unset.
    pub(crate) fn from_vars(var: impl Fn(&str) -> Option<String>) -> Result<Config, String> {
        let var = |name: &str| var(name).filter(|value| !value.is_empty());
        let maildir = maildir(var("MAILDIR"))?;
        let (host, port) = server(var("SMTP_SERVER"))?;
        let from = from(var("MAIL_FROM"))?;
        let security = security(var("SMTP_TLS"), var("SMTP_TLS_NAME"), &host)?;
        let authority = authority(var("SMTP_TLS_CA"), &security)?;
        let login = login(var("SMTP_USER"), var("SMTP_PASSWORD"), &security)?;
        Ok(Config {
            maildir,
            smtp: Smtp {
                host,
                port,
                from,
                security,
                authority,
                login,
            },
        })
    }
}

fn maildir(value: Option<String>) -> Result<Maildir, String> {
    let path = value
        .map(PathBuf::from)
        .ok_or("MAILDIR is not set: give the path of a maildir (with cur, new and tmp)")?;
    Maildir::open(&path).map_err(|missing| {
        format!(
            "MAILDIR is not a maildir: {} is not a directory that can be opened",
            missing.display()
        )
    })
}

fn server(value: Option<String>) -> Result<(String, u16), String> {
    let value = value.ok_or("SMTP_SERVER is not set: give host:port, for example 127.0.0.1:25")?;
    let wrong = || {
        format!("SMTP_SERVER is {value:?}: give host:port, for example 127.0.0.1:25 or [::1]:25")
    };
    // The last colon, since an IPv6 address has more of them.
    let (host, port) = value.rsplit_once(':').ok_or_else(wrong)?;
    let host = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    let port = port
        .parse()
        .ok()
        .filter(|&port| port != 0)
        .ok_or_else(wrong)?;
    // A host name has the form of what may follow the `@` of an address.
    let known = host.parse::<IpAddr>().is_ok() || is_address(&format!("x@{host}"));
    if known {
        Ok((host.to_owned(), port))
    } else {
        Err(wrong())
    }
}

fn from(value: Option<String>) -> Result<Mailbox, String> {
    let value = value
        .ok_or("MAIL_FROM is not set: give the user's address, for example anna@example.org")?;
    let mailbox = value.parse::<Mailbox>().ok().filter(|mailbox| {
        // The display name goes into a header as well, and a line break must not get there.
        is_address(mailbox.email.as_ref()) && !value.chars().any(char::is_control)
    });
    mailbox.ok_or_else(|| format!("MAIL_FROM is {value:?}: give an address such as anna@example.org or Anna <anna@example.org>"))
}

fn security(kind: Option<String>, name: Option<String>, host: &str) -> Result<Security, String> {
    let name = || name.unwrap_or_else(|| host.to_owned());
    match kind.as_deref().unwrap_or("none") {
        "none" if is_loopback(host) => Ok(Security::None),
        "none" => Err(
            "SMTP_TLS is none, but SMTP_SERVER is not on loopback: set SMTP_TLS to starttls or tls"
                .to_owned(),
        ),
        "starttls" => Ok(Security::StartTls(name())),
        "tls" => Ok(Security::Tls(name())),
        other => Err(format!("SMTP_TLS is {other:?}: give none, starttls or tls")),
    }
}

fn authority(path: Option<String>, security: &Security) -> Result<Option<Certificate>, String> {
    let Some(path) = path else { return Ok(None) };
    if security == &Security::None {
        return Err(
            "SMTP_TLS_CA is set, but SMTP_TLS is none: set SMTP_TLS to starttls or tls".to_owned(),
        );
    }
    let pem = std::fs::read(&path)
        .map_err(|error| format!("SMTP_TLS_CA cannot be read: {path:?}: {error}"))?;
    // The parser takes a file without a certificate as an empty list, which would trust no server, without an error.
    let has_one = pem
        .windows(PEM_BEGIN.len())
        .any(|window| window == PEM_BEGIN);
    let certificate = Certificate::from_pem(&pem).ok().filter(|_| has_one);
    certificate
        .map(Some)
        .ok_or_else(|| format!("SMTP_TLS_CA is {path:?}: give a PEM file with certificates"))
}

fn login(
    user: Option<String>,
    password: Option<String>,
    security: &Security,
) -> Result<Option<(String, String)>, String> {
    match (user, password) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) if security == &Security::None => Err(
            "SMTP_USER is set, but SMTP_TLS is none: a password is only sent over starttls or tls"
                .to_owned(),
        ),
        (Some(user), Some(password)) => Ok(Some((user, password))),
        _ => Err("set both SMTP_USER and SMTP_PASSWORD, or neither".to_owned()),
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

impl fmt::Debug for Smtp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Smtp")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("from", &self.from)
            .field("security", &self.security)
            .field("login", &self.login.as_ref().map(|(user, _)| user))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(vars: &[(&str, &str)]) -> Result<Config, String> {
        let home = tempfile::tempdir().unwrap();
        for part in ["cur", "new", "tmp"] {
            std::fs::create_dir(home.path().join(part)).unwrap();
        }
        let find = |name: &str| {
            let given = vars
                .iter()
                .rev()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned());
            given.or_else(|| match name {
                "MAILDIR" => Some(home.path().to_str().unwrap().to_owned()),
                "SMTP_SERVER" => Some("127.0.0.1:25".to_owned()),
                "MAIL_FROM" => Some("anna@example.org".to_owned()),
                _ => None,
            })
        };
        Config::from_vars(find)
    }

    #[test]
    fn good_configurations() {
        assert_eq!(check(&[]).unwrap().smtp.security, Security::None);
        let tls = check(&[
            ("SMTP_SERVER", "127.0.0.1:465"),
            ("SMTP_TLS", "tls"),
            ("SMTP_TLS_NAME", "mail.example.org"),
            ("SMTP_USER", "u"),
            ("SMTP_PASSWORD", "hidden"),
        ])
        .unwrap();
        assert_eq!(
            tls.smtp.security,
            Security::Tls("mail.example.org".to_owned())
        );
        assert!(!format!("{tls:?}").contains("hidden"));
        let starttls = check(&[
            ("SMTP_SERVER", "mail.example.org:587"),
            ("SMTP_TLS", "starttls"),
        ])
        .unwrap();
        assert_eq!(
            starttls.smtp.security,
            Security::StartTls("mail.example.org".to_owned())
        );
        assert_eq!(
            check(&[("SMTP_SERVER", "[::1]:25"), ("MAIL_FROM", "Anna <a@b.org>")])
                .unwrap()
                .smtp
                .host,
            "::1"
        );
    }

    #[test]
    fn bad_configurations_name_the_variable() {
        for (vars, want) in [
            (&[("MAILDIR", "")][..], "MAILDIR is not set"),
            (&[("MAILDIR", "/nonexistent")], "MAILDIR is not a maildir"),
            (&[("SMTP_SERVER", "")], "SMTP_SERVER is not set"),
            (&[("SMTP_SERVER", "127.0.0.1")], "SMTP_SERVER is"),
            (&[("SMTP_SERVER", "127.0.0.1:0")], "SMTP_SERVER is"),
            (&[("SMTP_SERVER", "a b:25")], "SMTP_SERVER is"),
            (&[("MAIL_FROM", "anna")], "MAIL_FROM is"),
            (&[("MAIL_FROM", "a@b\r\nBcc: c@d")], "MAIL_FROM is"),
            (&[("SMTP_TLS", "maybe")], "SMTP_TLS is \"maybe\""),
            (&[("SMTP_SERVER", "192.0.2.1:25")], "SMTP_TLS is none"),
            (
                &[("SMTP_USER", "u"), ("SMTP_PASSWORD", "p")],
                "SMTP_USER is set",
            ),
            (&[("SMTP_USER", "u")], "set both"),
            (
                &[("SMTP_TLS_CA", "/nonexistent")],
                "SMTP_TLS_CA is set, but",
            ),
            (
                &[("SMTP_TLS", "tls"), ("SMTP_TLS_CA", "/nonexistent")],
                "SMTP_TLS_CA cannot be read",
            ),
            (
                &[("SMTP_TLS", "tls"), ("SMTP_TLS_CA", "/proc/self/status")],
                "SMTP_TLS_CA is \"/proc",
            ),
        ] {
            let error = check(vars).unwrap_err();
            assert!(error.starts_with(want), "{error}");
        }
    }
}
