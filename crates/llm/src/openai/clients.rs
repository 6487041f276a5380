//! The HTTP clients of one provider: one for each runtime that asks it.

use std::sync::{PoisonError, RwLock};

use reqwest::{Client, header::HeaderMap, redirect};
use tokio::runtime::{Handle, Id};

use super::{
    config::{OpenAiConfig, OpenAiConfigError, Timeouts},
    failure::describe,
};

/// Runtimes whose clients are kept. A program has one, and the guard proxy one for each of its threads.
const KEPT: usize = 1024;

/// One client for each runtime. A client's connections belong to the runtime on which they were opened: a request from
/// another would wake a thread of that one for each piece that it sends and gets, and fail once that runtime has ended.
#[derive(Debug)]
pub(super) struct Clients {
    recipe: Recipe,
    by_runtime: RwLock<Vec<(Id, Client)>>,
    kept: usize,
}

/// What a client is made of.
#[derive(Debug)]
struct Recipe {
    headers: HeaderMap,
    timeouts: Timeouts,
    /// Whether the server is on this machine.
    loopback: bool,
    /// Whether the connection is encrypted.
    tls: bool,
}

impl Clients {
    /// Makes one to see that it can be made. Nothing is sent.
    ///
    /// # Errors
    /// There can be none, as on a machine without CA certificates.
    pub(super) fn new(
        config: &OpenAiConfig,
        headers: HeaderMap,
        loopback: bool,
        tls: bool,
    ) -> Result<Self, OpenAiConfigError> {
        // Fails when the process has chosen a provider already; that one serves as well.
        drop(rustls::crypto::ring::default_provider().install_default());
        let recipe = Recipe {
            headers,
            timeouts: config.timeouts,
            loopback,
            tls,
        };
        let client = recipe.make().map_err(|error| OpenAiConfigError::Client {
            provider: config.name.clone(),
            reason: describe(error),
        })?;
        // For the runtime that it is made on, which is usually the one that asks.
        let here = Handle::try_current().ok().map(|here| (here.id(), client));
        Ok(Self {
            recipe,
            by_runtime: RwLock::new(here.into_iter().collect()),
            kept: KEPT,
        })
    }

    /// That of the runtime that this runs on.
    ///
    /// # Errors
    /// A first one for this runtime cannot be made.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub(super) fn here(&self) -> Result<Client, reqwest::Error> {
        let here = Handle::current().id();
        let known = self.by_runtime.read();
        let known = known.unwrap_or_else(PoisonError::into_inner);
        if let Some((_, client)) = known.iter().find(|(id, _)| *id == here) {
            return Ok(client.clone());
        }
        drop(known);
        // Outside of the lock, since it reads the machine's certificates. If two tasks make one, the first is kept.
        let made = self.recipe.make()?;
        let kept = self.by_runtime.write();
        let mut kept = kept.unwrap_or_else(PoisonError::into_inner);
        if let Some((_, client)) = kept.iter().find(|(id, _)| *id == here) {
            return Ok(client.clone());
        }
        if kept.len() >= self.kept {
            // The oldest, whose runtime has most likely ended.
            kept.remove(0);
        }
        kept.push((here, made.clone()));
        Ok(made)
    }
}

impl Recipe {
    fn make(&self) -> Result<Client, reqwest::Error> {
        let mut builder = Client::builder()
            .default_headers(self.headers.clone())
            // A redirect would take the prompt, and the key, to an address that nobody has cleared.
            .redirect(redirect::Policy::none())
            .connect_timeout(self.timeouts.connect)
            .read_timeout(self.timeouts.read);
        if self.loopback {
            // A proxy that the environment names would see prompts that are to stay on this machine.
            builder = builder.no_proxy();
        }
        if !self.tls {
            // Never used, and must not be missed on a machine without CA certificates.
            builder = builder.tls_certs_only([]);
        }
        builder.build()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader, Write},
        net::{SocketAddr, TcpListener},
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        thread,
    };

    use tokio::runtime::{Builder, Runtime};

    use super::*;

    /// A server that says yes to everything, and how many connections it has got.
    fn server() -> (SocketAddr, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                counted.fetch_add(1, Ordering::Relaxed);
                thread::spawn(move || {
                    for line in BufReader::new(stream.try_clone().unwrap()).lines() {
                        if line.unwrap().is_empty() {
                            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
                            stream.write_all(answer).unwrap();
                        }
                    }
                });
            }
        });
        (address, count)
    }

    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_all().build().unwrap()
    }

    fn clients(address: SocketAddr) -> Clients {
        let config = OpenAiConfig::new("upstream", &format!("http://{address}/v1"), "model");
        Clients::new(&config, HeaderMap::new(), true, false).unwrap()
    }

    #[test]
    fn each_runtime_has_connections_of_its_own() {
        let (address, connections) = server();
        let clients = clients(address);
        let ask = |runtime: &Runtime| {
            runtime.block_on(async {
                let client = clients.here().unwrap();
                let response = client.get(format!("http://{address}/")).send().await;
                // Read to its end, so that the connection can be used again.
                response.unwrap().bytes().await.unwrap();
            });
            connections.load(Ordering::Relaxed)
        };
        let (first, second) = (runtime(), runtime());
        assert_eq!([ask(&first), ask(&first)], [1, 1]);
        // That of the first is idle, and stays with it.
        assert_eq!([ask(&second), ask(&second)], [2, 2]);
        assert_eq!(ask(&first), 2);
        drop(first);
        assert_eq!(ask(&second), 2);
    }

    #[test]
    fn runtimes_without_end_do_not_fill_memory() {
        let mut clients = clients(SocketAddr::from(([127, 0, 0, 1], 1)));
        clients.kept = 2;
        for _ in 0..4 {
            let made = runtime().block_on(async { clients.here().map(drop) });
            made.unwrap();
        }
        assert_eq!(clients.by_runtime.read().unwrap().len(), 2);
    }
}
