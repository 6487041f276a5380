//! Tokens for running spokes: the saved one, or a renewed one if it expired or was refused.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use async_trait::async_trait;
use config::App;
use names::WebUrl;
use remote::step::Report;
use sandbox::Layer;
use server::{TokenPort, Tokens};
use tokio::sync::{Mutex, watch};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::kept::{Login, Logins, address};
use super::steps::LoginSteps;
use crate::secrets::Value;
use crate::terminal::say;

/// The ports at which a spoke may ask: next to its resolver.
const PORTS: std::ops::Range<u16> = 54..1024;
/// New tokens for one spoke within [`PERIOD`]: a server may refuse every token.
const RENEWALS: usize = 4;
const PERIOD: Duration = Duration::from_secs(60);
/// How long a new token may take, with the wait for another program that renews it.
const PATIENCE: Duration = Duration::from_secs(20);
/// The error for a refresh token that is not valid (RFC 6749 §5.2).
const REVOKED: &str = "invalid_grant";

/// The login of one app, for one spoke.
struct Fresh {
    own: Arc<Own>,
    renewals: Mutex<Renewals>,
}

/// The app and the server of a login.
struct Own {
    steps: LoginSteps,
    server: String,
}

/// The times of the last renewals.
#[derive(Default)]
struct Renewals(VecDeque<Instant>);

impl Renewals {
    /// Whether a renewal is allowed now. It is counted.
    fn take(&mut self, now: Instant) -> bool {
        self.0.retain(|at| now.duration_since(*at) < PERIOD);
        let free = self.0.len() < RENEWALS;
        self.0.extend(free.then_some(now));
        free
    }
}

/// Where the spoke of an app asks for its token; `None` without a login, or with an Authorization header instead.
pub(crate) fn token_port(app: &App, allow_degraded: &BTreeSet<Layer>) -> Result<Option<TokenPort>> {
    let Some(remote) = &app.remote else {
        return Ok(None);
    };
    let server = address(&remote.url);
    if remote.headers.contains_key("authorization")
        || Logins::of_user()?.find(&app.name, &server)?.is_none()
    {
        return Ok(None);
    }
    let taken = app.name_ports();
    let is_free = |port: &u16| {
        !taken.contains(port) && app.egress.iter().all(|egress| egress.listen != *port)
    };
    let port = PORTS.into_iter().find(is_free);
    let steps = LoginSteps {
        app: app.clone(),
        allow_degraded: allow_degraded.clone(),
    };
    let tokens = Fresh {
        own: Arc::new(Own { steps, server }),
        renewals: Mutex::default(),
    };
    Ok(Some(TokenPort {
        port: port.context("no port is free on which the app could ask for its token")?,
        tokens: Arc::new(tokens),
    }))
}

#[async_trait]
impl Tokens for Fresh {
    async fn token(&self, refused: Option<&str>) -> Result<String, String> {
        let token = match timeout(PATIENCE, self.find(refused)).await {
            Ok(found) => found,
            Err(_) => Err(anyhow::anyhow!(
                "there was no new one within {} s",
                PATIENCE.as_secs()
            )),
        };
        let token = token.map_err(|error| format!("{error:#}"))?;
        Ok(token.reveal().to_owned())
    }
}

impl Fresh {
    async fn find(&self, refused: Option<&str>) -> Result<Value> {
        // First without the lock, since most tokens are valid.
        let own = &self.own;
        let known = own.known()?;
        if known.is_good(refused) {
            return Ok(known.access);
        }
        let mut renewals = self.renewals.lock().await;
        // A second use of a rotated refresh token ends the login (RFC 9700 §4.14), so one program renews at a time.
        let (app, server) = (own.steps.app.name.clone(), own.server.clone());
        let locked = spawn_blocking(move || Logins::of_user()?.lock(&app, &server));
        let lock = locked.await??;
        // The last holder of the lock may have renewed it.
        let known = own.known()?;
        if known.is_good(refused) {
            return Ok(known.access);
        }
        if !renewals.take(Instant::now()) {
            bail!("the server refused {RENEWALS} new tokens within a minute");
        }
        // A task of its own saves the new refresh token even if this future is dropped, since the old one is used up.
        let (own, underway) = (Arc::clone(own), Underway::begin());
        let renewed = tokio::spawn(async move {
            let renewed = own.renew(known).await;
            drop((lock, underway));
            renewed
        });
        renewed.await?
    }
}

impl Own {
    fn known(&self) -> Result<Login> {
        let known = Logins::of_user()?.find(&self.steps.app.name, &self.server)?;
        known.with_context(|| format!("you have logged out; {}", self.remedy()))
    }

    /// Asks the authorization server for a new token, and saves it before its use.
    async fn renew(&self, before: Login) -> Result<Value> {
        let Some(refresh) = &before.refresh else {
            bail!(
                "the login has expired and cannot be renewed; {}",
                self.remedy()
            );
        };
        let endpoint = WebUrl::new(&before.endpoint)?;
        let issuer = &before.issuer;
        let form = [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh.reveal()),
            ("resource", &before.resource),
        ];
        let step = before.client().ask(&endpoint, &form);
        match self.steps.run(&endpoint, step).await? {
            Report::Granted(granted) => {
                let mut after = before.clone();
                after.take(granted)?;
                Logins::of_user()?.renew(&before, Some(&after))?;
                Ok(after.access)
            }
            Report::Refused(code) => {
                // The refresh token is of no use any more.
                if code == REVOKED {
                    Logins::of_user()?.renew(&before, None)?;
                }
                bail!("{issuer} refuses a new token ({code}); {}", self.remedy());
            }
            _ => bail!("{issuer} sends an unexpected answer"),
        }
    }

    fn remedy(&self) -> String {
        format!("run `sluice app login {}`", self.steps.app.name)
    }
}

/// The number of renewals that are not saved yet.
static UNDERWAY: LazyLock<watch::Sender<usize>> = LazyLock::new(|| watch::Sender::new(0));

/// A renewal, counted while this lives.
struct Underway;

impl Underway {
    fn begin() -> Self {
        UNDERWAY.send_modify(|count| *count += 1);
        Self
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        UNDERWAY.send_modify(|count| *count = count.saturating_sub(1));
    }
}

/// Waits until every renewed token is saved. Otherwise the login would be lost, since the old refresh token is used up.
pub(crate) async fn settle() {
    let mut underway = UNDERWAY.subscribe();
    if *underway.borrow() > 0 {
        say("waiting for a renewed token to be saved\n");
    }
    // After a timeout the next start says to log in again.
    let settled = underway.wait_for(|count| *count == 0);
    let _ = timeout(PATIENCE, settled).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_tokens_are_asked_for_now_and_then() {
        let mut renewals = Renewals::default();
        let begun = Instant::now();
        for _ in 0..RENEWALS {
            assert!(renewals.take(begun));
        }
        assert!(!renewals.take(begun + PERIOD / 2));
        assert!(renewals.take(begun + PERIOD));
    }
}
