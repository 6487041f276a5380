//! PostgreSQL: connections, tables, deadlines, errors.

use std::io::ErrorKind;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgPool, PgTransaction};

use crate::StateError;
use crate::database::{Fault, Stop};

/// The versions of the tables: each entry turns the one before into its own. One that was released is not changed.
const MIGRATIONS: [&str; 3] = [
    include_str!("../migrations/postgres/1_state.sql"),
    include_str!("../migrations/postgres/2_audit.sql"),
    include_str!("../migrations/postgres/3_desk.sql"),
];

/// Settings of each connection. All tables are in a schema of their own. A statement that waits longer than these is given up.
const SESSION: &str = "SET search_path = sluice; SET statement_timeout = '4s'; SET lock_timeout = '3s';
    SET idle_in_transaction_session_timeout = '30s'; SET default_transaction_isolation = 'read committed'";
/// Of two processes that start, one makes the tables, which may take longer. The number of the lock is `SLUICE` in ASCII.
const MIGRATION: &str = "SET LOCAL statement_timeout = '60s'; SET LOCAL lock_timeout = '60s';
    SELECT pg_advisory_xact_lock(91587313484613);
    CREATE SCHEMA IF NOT EXISTS sluice; CREATE TABLE IF NOT EXISTS sluice.version (number integer NOT NULL)";

/// How long one operation takes at most, with its retries. A server that is cut off sends no error.
const DEADLINE: Duration = Duration::from_secs(5);
/// Retries of a transaction that PostgreSQL has rolled back for another one.
const RETRIES: usize = 5;
/// A connection that has rested for this long is tested before use: the server may have been restarted.
const RESTED: Duration = Duration::from_secs(1);
/// After no connection could be had, operations fail at once for this long. Requests that wait for each other would else
/// wait for the timeout of each.
const PAUSE: Duration = Duration::from_millis(500);
/// A database that has answered within this time is busy, and not gone: only the operation that had no connection fails.
const BUSY: Duration = Duration::from_secs(1);

/// How many connections a process has.
#[derive(Debug, Clone, Copy)]
pub struct PoolSettings {
    /// Most connections. The default is 10.
    pub connections: u32,
    /// How long an operation waits for one. The default is 2 s.
    pub wait: Duration,
}

impl Default for PoolSettings {
    fn default() -> Self {
        Self {
            connections: 10,
            wait: Duration::from_secs(2),
        }
    }
}

/// A database with our tables.
#[derive(Debug)]
pub(crate) struct Postgres(Mutex<Link>);

#[derive(Debug)]
struct Link {
    pool: PgPool,
    /// When the pool was made.
    since: Instant,
    /// When no connection could be had.
    failed: Option<Instant>,
    /// When an operation was done.
    answered: Option<Instant>,
}

impl Postgres {
    /// Connects, and makes or upgrades the tables.
    pub(crate) async fn connect(url: &str, settings: &PoolSettings) -> Result<Self, StateError> {
        let postgres = Self::unconnected(url, settings)?;
        let pool = postgres.link().pool.clone();
        migrate(&pool)
            .await
            .map_err(|error| error.at(&postgres.place()))?;
        Ok(postgres)
    }

    fn unconnected(url: &str, settings: &PoolSettings) -> Result<Self, StateError> {
        let options = options(url)?;
        let pool = PgPoolOptions::new()
            .max_connections(settings.connections)
            .acquire_timeout(settings.wait)
            .test_before_acquire(false)
            .before_acquire(|connection, meta| {
                Box::pin(async move {
                    if meta.idle_for > RESTED {
                        connection.ping().await?;
                    }
                    Ok(true)
                })
            })
            .after_connect(|connection, _| {
                Box::pin(async move {
                    sqlx::raw_sql(SESSION).execute(connection).await?;
                    Ok(())
                })
            })
            .connect_lazy_with(options);
        let since = Instant::now();
        let link = Link {
            pool,
            since,
            failed: None,
            answered: None,
        };
        Ok(Self(Mutex::new(link)))
    }

    /// Connects, and makes and changes nothing. `None`: the tables of this version are not there yet.
    pub(crate) async fn reach(
        url: &str,
        settings: &PoolSettings,
    ) -> Result<Option<Self>, StateError> {
        let postgres = Self::unconnected(url, settings)?;
        let pool = postgres.link().pool.clone();
        let select = sqlx::query_scalar::<_, i32>("SELECT number FROM version");
        let known = MIGRATIONS.len() as i32;
        match select.fetch_optional(&pool).await {
            // The table does not exist.
            Err(error) if code(&error).as_deref() == Some("42P01") => Ok(None),
            Err(error) => Err(fault(&error).at(&postgres.place())),
            Ok(Some(found)) if found > known => Err(StateError::Newer { found, known }),
            Ok(found) => Ok((found == Some(known)).then_some(postgres)),
        }
    }

    /// A transaction without a deadline, begun by these statements, for work that takes long.
    pub(crate) async fn begin(
        &self,
        statements: &'static str,
    ) -> Result<PgTransaction<'static>, StateError> {
        let pool = self.link().pool.clone();
        let begun = pool.begin_with(statements).await;
        begun.map_err(|error| fault(&error))
    }

    /// The database, without the password.
    pub(crate) fn place(&self) -> String {
        place(&self.link().pool.connect_options())
    }

    /// Runs `work` until it is done, within the deadline. It runs again if PostgreSQL rolled it back for another transaction,
    /// so it has to be one transaction, or one statement.
    pub(crate) async fn run<T, E, F>(&self, work: impl Fn(PgPool) -> F) -> Result<T, E>
    where
        E: From<StateError>,
        F: Future<Output = Result<T, Stop<E>>>,
    {
        let (pool, broken) = {
            let link = self.link();
            (link.pool.clone(), link.failed)
        };
        if broken.is_some_and(|at| at.elapsed() < PAUSE) {
            return Err(StateError::Unavailable("no connection".to_owned()).into());
        }
        let attempts = async {
            let mut retries = 0;
            loop {
                match work(pool.clone()).await {
                    Err(Stop::Failed(error)) if is_rolled_back(&error) && retries < RETRIES => {
                        retries += 1;
                    }
                    result => break result,
                }
            }
        };
        let stop = match tokio::time::timeout(DEADLINE, attempts).await {
            Ok(Ok(done)) => {
                self.link().answered = Some(Instant::now());
                return Ok(done);
            }
            Ok(Err(stop)) => stop,
            Err(_) => sqlx::Error::PoolTimedOut.into(),
        };
        if let Stop::Failed(Fault::Postgres(sqlx::Error::PoolTimedOut)) = &stop {
            self.link().fail();
        }
        Err(failed(stop))
    }

    fn link(&self) -> MutexGuard<'_, Link> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Link {
    /// No connection could be had in time. The network may have lost those of the pool without a word, and the pool would
    /// wait for them for as long as TCP does, so that they are left and others are made. Not more often than an operation
    /// takes at most: the server has a limit, too.
    fn fail(&mut self) {
        let now = Instant::now();
        // New connections would only make a busy server slower.
        if self.answered.is_some_and(|at| at.elapsed() < BUSY) {
            return;
        }
        self.failed = Some(now);
        if now.duration_since(self.since) > DEADLINE {
            let options = self.pool.connect_options();
            let pool = self.pool.options().clone();
            self.pool = pool.connect_lazy_with((*options).clone());
            self.since = now;
        }
    }
}

/// One value of each, as a parameter of `unnest`.
pub(crate) fn each<'a, T, V>(all: &'a [T], value: impl Fn(&'a T) -> V) -> Vec<V> {
    all.iter().map(value).collect()
}

/// Makes the tables, or upgrades them.
async fn migrate(pool: &PgPool) -> Result<(), StateError> {
    let known = MIGRATIONS.len();
    let work = async {
        let mut transaction = pool.begin().await?;
        sqlx::raw_sql(MIGRATION).execute(&mut *transaction).await?;
        let select = sqlx::query_scalar::<_, i32>("SELECT number FROM version");
        let found = select.fetch_optional(&mut *transaction).await?;
        let from = usize::try_from(found.unwrap_or(0)).unwrap_or(usize::MAX);
        for migration in MIGRATIONS.iter().skip(from) {
            sqlx::raw_sql(*migration).execute(&mut *transaction).await?;
        }
        if from < known {
            let set = match found {
                Some(_) => "UPDATE version SET number = $1",
                None => "INSERT INTO version VALUES ($1)",
            };
            let set = sqlx::query(set).bind(known as i32);
            set.execute(&mut *transaction).await?;
        }
        transaction.commit().await?;
        Ok::<_, sqlx::Error>(found.unwrap_or(0))
    };
    let (found, known) = (work.await.map_err(|error| fault(&error))?, known as i32);
    match found > known {
        true => Err(StateError::Newer { found, known }),
        false => Ok(()),
    }
}

/// Whether PostgreSQL has rolled a transaction back so that another one could go on.
fn is_rolled_back(fault: &Fault) -> bool {
    let code = match fault {
        Fault::Postgres(error) => code(error),
        _ => None,
    };
    code.is_some_and(|code| ["40001", "40P01"].contains(&&*code))
}

fn code(error: &sqlx::Error) -> Option<String> {
    let code = error.as_database_error()?.code()?;
    Some(code.into_owned())
}

/// A database, without the password.
fn place(options: &PgConnectOptions) -> String {
    let (host, port) = (options.get_host(), options.get_port());
    let name = options.get_database().unwrap_or(options.get_username());
    match options.get_socket() {
        Some(socket) => format!("postgres:{name} at {}", socket.display()),
        None => format!("postgres://{host}:{port}/{name}"),
    }
}

fn options(url: &str) -> Result<PgConnectOptions, StateError> {
    if !(url.starts_with("postgres://") || url.starts_with("postgresql://")) {
        return Err(StateError::Url("it does not begin with postgres://"));
    }
    // The reason of the parser may quote the URL, which has a password.
    let options = url.parse::<PgConnectOptions>();
    let options = options.map_err(|_| StateError::Url("it cannot be read"))?;
    // No column is a float, and PgBouncer refuses a connection that sets how floats are written.
    let options = options.extra_float_digits(None);
    Ok(options.application_name("sluice"))
}

/// Why an operation stopped.
pub(crate) fn failed<E: From<StateError>>(stop: Stop<E>) -> E {
    match stop {
        Stop::Refused(error) => error,
        Stop::Failed(Fault::Postgres(error)) => fault(&error).into(),
        Stop::Failed(fault) => StateError::Failed(fault.to_string()).into(),
    }
}

/// An error of PostgreSQL. Its words name no password: they are of the server, the system or the TLS library.
pub(crate) fn fault(error: &sqlx::Error) -> StateError {
    use sqlx::Error;
    let text = match error {
        // The name of a prepared statement that another connection has.
        Error::Database(error) if matches!(error.code().as_deref(), Some("42P05" | "26000")) => {
            format!(
                "{}; PgBouncer has to use pool_mode = session",
                error.message()
            )
        }
        Error::Database(error) if error.code().as_deref() == Some("28P01") => {
            let message = error.message();
            format!("{message}; set PGPASSWORD, or write the password to ~/.pgpass or the URL")
        }
        Error::Database(error) => error.message().to_owned(),
        Error::PoolTimedOut => "no connection in time".to_owned(),
        Error::Io(error) if error.kind() == ErrorKind::NotFound => {
            "a file that its URL names does not exist: sslrootcert, sslcert, sslkey or a socket"
                .to_owned()
        }
        error => error.to_string(),
    };
    // Connections, resources, limits of time, locks, access, a server that starts or only reads, and rollbacks. All else is a
    // fault of ours or of the tables.
    let passing = ["08", "53", "57", "55", "28", "25", "40"];
    match (error, code(error)) {
        (_, Some(code)) if !passing.iter().any(|class| code.starts_with(class)) => {
            StateError::Failed(text)
        }
        (Error::ColumnDecode { .. } | Error::Decode(_) | Error::RowNotFound, None) => {
            StateError::Failed(text)
        }
        _ => StateError::Unavailable(text),
    }
}
