//! What all processes of one deployment share: the store, and the secret.

use std::env;
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context, Result, anyhow, bail};
use config::{Config, StateSettings};
use rustix::rand::{GetRandomFlags, getrandom};
use sandbox::Container;
use server::audit::{Audit, AuditKeys, AuditSetup, Note};
use sha2::{Digest, Sha256};
use store::{Commit, Committed, Document, PoolSettings, SessionState, SessionWrite, Store};
use tracing::warn;

use crate::hex::hex;
use crate::os_user;
use crate::paths;

/// The variable with the secret of the deployment.
const SECRET: &str = "SLUICE_SECRET";
/// Bytes of a secret at least, so that it cannot be guessed.
const SHORTEST: usize = 32;
/// How often a write is tried beside those of other replicas that start.
const CLAIMS: usize = 16;

/// The address of the database, if the state is not in SQLite. It may have a password.
pub(crate) fn database(state: &StateSettings) -> Result<Option<String>> {
    match &state.url_env {
        Some(name) => {
            let url = env::var(name).ok().filter(|url| !url.is_empty());
            let missing = || {
                format!("the variable {name} of [state] url_env is not set; set it to postgres://…")
            };
            url.with_context(missing).map(Some)
        }
        None => Ok(state.url.clone()),
    }
}

/// Opens the store that the configuration names.
pub(crate) async fn store(config: &Config) -> Result<Store> {
    match database(&config.state)? {
        Some(url) => Ok(Store::postgres(&url, &PoolSettings::default()).await?),
        None => {
            let folder = paths::state()?;
            Store::sqlite(&folder).context("the state cannot be read")
        }
    }
}

/// Checks that a service could use the store, of which nothing is made or changed. `new_secret` is as for [`claim`].
///
/// # Errors
/// The database does not let us in, the secret is missing, or the store is that of another one.
pub(crate) async fn check(config: &Config, new_secret: bool) -> Result<()> {
    let given = given(config)?;
    let folder = paths::state()?;
    let store = match database(&config.state)? {
        Some(url) => Store::reach(&url, &PoolSettings::default()).await?,
        None if !folder.join("state.db").is_file() => None,
        None => Some(Store::sqlite(&folder).context("the state cannot be read")?),
    };
    let Some(store) = store else { return Ok(()) };
    // One that is missing would be made, and be another one.
    let own = || fs::read(folder.join("secret")).unwrap_or_default();
    let secret = given.unwrap_or_else(own);
    let body = claim_of(&Sha256::digest(secret.trim_ascii()).into());
    claimed(&*store.state(), &body, new_secret).await.map(drop)
}

/// Renews in the store what names the secret of its deployment. It is kept as long as a conversation, so services do it each
/// hour. `replaces` takes this secret in the place of another.
///
/// # Errors
/// The store is that of another secret, or does not answer.
pub(crate) async fn claim(
    store: &dyn SessionState,
    secret: &[u8; 32],
    replaces: bool,
) -> Result<()> {
    let (tenant, body) = (claimant(), claim_of(secret));
    // Another replica may write between.
    for _ in 0..CLAIMS {
        let there = claimed(store, &body, replaces).await?;
        let write = SessionWrite {
            key: tenant,
            base: there.map_or(0, |it| it.version),
            body: body.clone(),
        };
        let mut commit = Commit::new(SystemTime::now().into());
        commit.session = Some(write);
        if let Committed::At { .. } = store.commit(&tenant, commit).await? {
            return Ok(());
        }
    }
    bail!("too many services write to the store at once")
}

/// The tenant, and the session, of what names the secret.
fn claimant() -> [u8; 32] {
    Sha256::digest("sluice deployment").into()
}

/// What names this secret.
fn claim_of(secret: &[u8; 32]) -> String {
    let digest = Sha256::new_with_prefix("sluice secret").chain_update(secret);
    format!("\"{}\"", hex(&digest.finalize()))
}

/// What names the secret in the store, if that may be this one.
async fn claimed(store: &dyn SessionState, body: &str, replaces: bool) -> Result<Option<Document>> {
    let tenant = claimant();
    let there = store.load(&tenant, 0, Some(&tenant)).await?.session;
    if there.as_ref().is_some_and(|it| it.body != body) && !replaces {
        bail!(
            "the store is that of a deployment with another secret, by which its conversations are found; use the \
             secret_file, the {SECRET} or the file `secret` of the state folder that it was used with\n`sluice serve \
             --new-secret` takes this one, and finds none of the conversations before"
        );
    }
    Ok(there)
}

/// The secret of the deployment: the one that is given, or else one of this machine, which is made once.
pub(crate) fn secret(config: &Config) -> Result<Vec<u8>> {
    match given(config)? {
        Some(secret) => Ok(secret),
        None => long_enough(&own_secret()?),
    }
}

/// The secret of `[service] secret_file` or of the variable. `None`: that of this machine counts.
pub(crate) fn given(config: &Config) -> Result<Option<Vec<u8>>> {
    let given = match (&config.service.secret_file, env::var(SECRET)) {
        (Some(file), _) => read_secret(file)?,
        (None, Ok(text)) if !text.is_empty() => text.into_bytes(),
        _ if database(&config.state)?.is_some() => bail!(
            "all replicas of a database need the same secret; write it to a file for [service] secret_file, or set {SECRET}:\n\
             openssl rand -hex 32 > secret"
        ),
        _ => return Ok(None),
    };
    long_enough(&given).map(Some)
}

fn read_secret(path: &Path) -> Result<Vec<u8>> {
    let file = path.display();
    let unreadable = |error: std::io::Error| {
        let remedy = match error.kind() {
            ErrorKind::NotFound => {
                format!("; make it:\n(umask 077; openssl rand -hex 32 > {file})")
            }
            _ => String::new(),
        };
        anyhow!("the secret_file {file} cannot be read: {error}{remedy}")
    };
    let found = path.metadata().map_err(unreadable)?;
    // Engines of containers mount secrets so that all users may read them. There are no others inside.
    let others = match Container::here() {
        Some(_) => 0o022,
        None => 0o077,
    };
    if !found.is_file() || found.mode() & others != 0 {
        bail!(
            "the secret_file {file} is open to other users, or no regular file; run `chmod 600 {file}`, or set {SECRET} to the secret"
        );
    }
    if found.mode() & 0o044 != 0 {
        warn!(%file, "all users of this container may read the secret_file");
    }
    fs::read(path).map_err(unreadable)
}

fn long_enough(secret: &[u8]) -> Result<Vec<u8>> {
    let secret = secret.trim_ascii().to_vec();
    if secret.len() < SHORTEST {
        bail!(
            "the secret of the deployment has less than {SHORTEST} characters; make one with openssl rand -hex 32"
        );
    }
    Ok(secret)
}

/// Warns of files of the configuration that other users may write: they could change the policy.
pub(crate) fn warn_of_writers(config: &Config) {
    for file in &config.files {
        if file.metadata().is_ok_and(|it| it.mode() & 0o022 != 0) {
            let file = file.display();
            warn!(%file, "other users may write this file of the configuration; run chmod go-w");
        }
    }
}

/// The file of the heads of the audit log.
pub(crate) fn heads() -> Result<PathBuf> {
    Ok(paths::state()?.join("audit-heads.jsonl"))
}

/// The public keys of the audit log: that of the deployment, and that of commands of this user without a configuration. No
/// secret is made for them.
pub(crate) fn audit_keys(config: &Config) -> Result<Vec<String>> {
    let own = match database(&config.state)? {
        Some(_) => None,
        None => found_secret()?,
    };
    let all = given(config)?.into_iter().chain(own);
    let all: Vec<String> = all
        .map(|secret| Ok(keys(&secret)?.public()))
        .collect::<Result<_>>()?;
    if all.is_empty() {
        bail!(
            "{} has no file `secret`, whose key signs the audit log; a service makes it at its first start\n\
             If the log was copied here, copy this file too, or give --key KEY; `sluice audit key` prints it where the log \
             was written",
            paths::state()?.display()
        );
    }
    Ok(all)
}

fn keys(secret: &[u8]) -> Result<AuditKeys> {
    AuditKeys::new(secret.trim_ascii()).map_err(|why| anyhow!(why))
}

/// The audit log, signed with what this secret makes.
pub(crate) fn audit(store: &Store, secret: &[u8]) -> Result<Arc<Audit>> {
    let setup = AuditSetup {
        heads: Some(heads()?),
        ..AuditSetup::default()
    };
    let keys = Arc::new(keys(secret)?);
    Ok(Audit::open(store.audit(), keys, setup))
}

/// Notes in the audit log what a command is about to do, in a chain of its own. Without a configuration it is the log of this
/// user.
///
/// # Errors
/// It cannot be noted, and so must not be done.
pub(crate) async fn note(config: Option<&Config>, note: Note) -> Result<()> {
    let (store, secret) = match config {
        Some(config) => (store(config).await?, secret(config)?),
        None => (Store::sqlite(&paths::state()?)?, own_secret()?),
    };
    let note = note.with("who", os_user::name()).with("front", "command");
    let noted = audit(&store, &secret)?.close(note).await;
    noted.map_err(|why| anyhow!(why))
}

/// The secret of this machine, if it is there.
fn found_secret() -> Result<Option<Vec<u8>>> {
    match fs::read(paths::state()?.join("secret")) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        read => Ok(Some(
            read.context("the secret of the deployment cannot be read")?,
        )),
    }
}

/// The secret of this machine, made if it is not there.
fn own_secret() -> Result<Vec<u8>> {
    if let Some(secret) = found_secret()? {
        return Ok(secret);
    }
    let folder = paths::state()?;
    // Others who can change the folder could replace what is in it.
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)?;
    let file = folder.join("secret");
    let mut random = [0; 32];
    getrandom(&mut random, GetRandomFlags::empty())?;
    // Its mode is 0600. Another process may be making it too; the first one counts.
    let mut made = tempfile::NamedTempFile::new_in(&folder)?;
    made.write_all(hex(&random).as_bytes())?;
    made.as_file().sync_all()?;
    match made.persist_noclobber(&file) {
        Err(error) if error.error.kind() != ErrorKind::AlreadyExists => {
            Err(error.error).context("the secret of the deployment cannot be saved")
        }
        _ => fs::read(&file).context("the secret of the deployment cannot be read"),
    }
}
