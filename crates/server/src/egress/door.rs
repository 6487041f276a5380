//! Connections of a spoke to names: what is looked at, decided and resolved before anything is opened.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hub::trace::Event;
use ifc::{Answer, Connection, Permit, Question};
use names::first_bytes::{HTTP, HTTPS, MOST, Misfit, Verdict, come_first, look};
use names::{DomainName, Pattern};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::timeout;

use super::accepting::accept_all;
use super::passage::Passage;
use super::reach::{Access, Lease, Reach};
use super::resolver::Resolver;

/// Connections of one spoke to names at a time. A browser has some dozens.
const CONNECTIONS: usize = 64;
/// Bytes of one connection, both ways together: a large download, and not a disk.
const MOST_BYTES: u64 = 1 << 30;
/// How long a connection may be silent. Servers close idle connections after one to five minutes.
const SILENCE: Duration = Duration::from_secs(300);
const LIFETIME: Duration = Duration::from_secs(3600);
/// How long the first bytes may take, where they are waited for. They are sent at once.
const FIRST_BYTES: Duration = Duration::from_secs(10);
/// How long a connection waits for the user. Few programs wait for longer, and the next try is asked about anew.
pub(super) const QUESTION: Duration = Duration::from_secs(120);
/// How long saying why a connection is closed may take. It is a few hundred bytes.
const FAREWELL: Duration = Duration::from_millis(50);
/// TLS says so where a client may not in (RFC 8446 §6.2): access denied, fatal.
const ACCESS_DENIED: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];

/// A connection about which the user is asked.
pub struct AskedConnection {
    question: Question<Connection>,
    name: DomainName,
    port: u16,
    reach: Arc<Reach>,
    reply: oneshot::Sender<Result<(Permit<Connection>, Lease), String>>,
}

impl AskedConnection {
    /// The question, if it is still one: not after another answer has decided it, nor when the connection has given up.
    pub fn still_asked(self) -> Option<Self> {
        if self.reply.is_closed() {
            return None;
        }
        match self.reach.open(&self.name, self.port) {
            // A yes for longer, to another connection, has come in the meantime.
            Access::Open(permit, lease) => self.reply(Ok((permit, lease))),
            Access::Denied(denial) => self.reply(Err(denial.to_string())),
            Access::Ask(question) => return Some(Self { question, ..self }),
        }
        None
    }

    /// Resolves when the connection has given up waiting: its time is over, or the spoke is gone.
    pub async fn lapsed(&mut self) {
        self.reply.closed().await;
    }

    /// What is asked.
    pub fn question(&self) -> &Question<Connection> {
        &self.question
    }

    /// Does what the user answered; why the connection is not opened, if it is not. Trusted: the answer must be the
    /// user's.
    pub fn settle_tcb(self, answer: Answer) -> Option<String> {
        let settled = self.reach.settle_tcb(self.question, answer);
        let refused = settled.as_ref().err().cloned();
        // Who has given up connecting may do so again: a yes for longer holds.
        let _ = self.reply.send(settled);
        refused
    }

    /// Refuses without a question.
    pub fn refuse(self, why: &str) {
        self.reply(Err(why.to_owned()));
    }

    fn reply(self, outcome: Result<(Permit<Connection>, Lease), String>) {
        let _ = self.reply.send(outcome);
    }
}

#[derive(Clone)]
pub(super) struct Door {
    pub(super) reach: Arc<Reach>,
    pub(super) resolver: Arc<Resolver>,
    /// Addresses that names may stand for although they are not public.
    pub(super) addresses: Arc<[(Pattern, Vec<IpAddr>)]>,
    pub(super) questions: mpsc::Sender<AskedConnection>,
    /// How long a connection waits for the user.
    pub(super) patience: Duration,
    pub(super) events: mpsc::Sender<Event>,
}

pub(super) fn places() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(CONNECTIONS))
}

impl Door {
    /// Accepts connections to names on this port until it is dropped.
    pub(super) async fn accept(self, listener: TcpListener, port: u16, places: Arc<Semaphore>) {
        let to = format!("port {port}");
        let full = || self.report(to.clone(), "refused: too many connections");
        let pass = |inside| {
            // The address says which name was asked for. What is said inside the connection is the app's word, and is
            // only compared with that.
            let Some(name) = self.name(&inside) else {
                let outcome = "refused: the address stands for no name that the app has asked for";
                self.report(to.clone(), outcome);
                return None;
            };
            let door = self.clone();
            Some(async move {
                let outcome = door.pass(inside, &name, port).await;
                door.report(format!("{name}:{port}"), &outcome);
            })
        };
        accept_all(listener, places, full, pass).await;
    }

    fn name(&self, inside: &TcpStream) -> Option<DomainName> {
        match inside.local_addr() {
            Ok(SocketAddr::V4(address)) => self.resolver.name(*address.ip()),
            _ => None,
        }
    }

    /// One connection, from its first bytes to its end; what became of it.
    async fn pass(&self, mut inside: TcpStream, name: &DomainName, port: u16) -> String {
        let mut first = Vec::new();
        let looked_at = come_first(port);
        let opened = async {
            // Before the permit, so that the user is not asked about a connection which is refused in any case.
            if looked_at {
                first_bytes(&mut inside, &mut first, name, port).await?;
            }
            let (permit, lease) = self.permit(name, port).await?;
            let outside = self.connect(permit).await?;
            Ok::<_, Refusal>((outside, lease))
        };
        match opened.await {
            Ok((outside, lease)) => {
                let passage = Passage {
                    most: MOST_BYTES,
                    silence: SILENCE,
                    lifetime: LIFETIME,
                    first,
                    look_at: (!looked_at).then_some((name, port)),
                    lease: Some(&lease),
                };
                passage.run(inside, outside).await
            }
            Err(refusal) => {
                say_why(&mut inside, port, &refusal).await;
                refusal.0
            }
        }
    }

    /// The right to open the connection, from the user if need be.
    async fn permit(
        &self,
        name: &DomainName,
        port: u16,
    ) -> Result<(Permit<Connection>, Lease), String> {
        let question = match self.reach.open(name, port) {
            Access::Open(permit, lease) => return Ok((permit, lease)),
            Access::Denied(denial) => return Err(format!("refused: {denial}")),
            Access::Ask(question) => question,
        };
        if !self.reach.is_called() {
            let rule = &question.rule().name;
            return Err(format!(
                "refused: the rule {rule} asks, and the user can be asked only while a call of the app runs"
            ));
        }
        let (reply, answer) = oneshot::channel();
        let asked = AskedConnection {
            question,
            name: name.clone(),
            port,
            reach: Arc::clone(&self.reach),
            reply,
        };
        // Not awaited: an app that floods the user is refused, and takes no memory here.
        if self.questions.try_send(asked).is_err() {
            return Err("refused: too many questions at once".to_owned());
        }
        match timeout(self.patience, answer).await {
            Ok(Ok(settled)) => settled.map_err(|refusal| format!("refused: {refusal}")),
            Ok(Err(_)) => Err("refused: the user could not be asked".to_owned()),
            Err(_) => Err(format!("refused: no answer within {:?}", self.patience)),
        }
    }

    async fn connect(&self, permit: Permit<Connection>) -> Result<TcpStream, String> {
        let Connection { host, port, .. } = permit.spend();
        let name = DomainName::new(&host).map_err(|error| error.to_string())?;
        // An address that is not public is for the names for which the configuration says it, and for no others:
        // the owner of a name can have it resolve to any address.
        let addresses = self.addresses.iter();
        let named = addresses.filter(|(pattern, _)| pattern.covers(&name));
        let named: Vec<IpAddr> = named.flat_map(|(_, all)| all).copied().collect();
        self.reach.gate().connect(&host, port, &named).await
    }

    fn report(&self, to: String, outcome: &str) {
        // A spoke that connects faster than the hub writes loses entries, not the hub its memory.
        let _ = self.events.try_send(Event::Egress {
            app: self.reach.app().to_owned(),
            to,
            outcome: outcome.to_owned().into(),
        });
    }
}

/// Why a connection is not opened, and the status of HTTP that says so.
struct Refusal(String, &'static str);

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Self(why, "403 Forbidden")
    }
}

/// Reads until the first bytes are known to be for this name.
async fn first_bytes(
    inside: &mut TcpStream,
    first: &mut Vec<u8>,
    name: &DomainName,
    port: u16,
) -> Result<(), Refusal> {
    let mut buffer = vec![0; MOST];
    let looking = async {
        loop {
            let room = buffer.get_mut(first.len()..).unwrap_or_default();
            let read = match inside.read(room).await {
                Ok(0) => return Err("closed before it said what it wants".to_owned().into()),
                Ok(read) => read,
                Err(error) => return Err(format!("broken: {error}").into()),
            };
            first.extend(room.get(..read).unwrap_or_default());
            match look(name, port, first) {
                Verdict::Fits => return Ok(()),
                Verdict::Refused(misfit @ Misfit::NoHost) => {
                    return Err(Refusal(format!("refused: {misfit}"), "400 Bad Request"));
                }
                Verdict::Refused(misfit) => return Err(format!("refused: {misfit}").into()),
                Verdict::More | Verdict::FitsYet => {}
            }
        }
    };
    let late = format!("refused: it did not say what it wants within {FIRST_BYTES:?}");
    let seen = timeout(FIRST_BYTES, looking).await;
    seen.unwrap_or_else(|_| Err(late.into()))
}

/// Tells a program why it is not connected, in its own protocol. The reason quotes nothing that the program has not said
/// or the configuration does not say.
async fn say_why(inside: &mut TcpStream, port: u16, Refusal(why, status): &Refusal) {
    let words = match port {
        HTTPS => ACCESS_DENIED.to_vec(),
        HTTP => {
            let body = format!("Sluice: {why}\n");
            format!(
                "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n\
                 Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            )
            .into_bytes()
        }
        _ => return,
    };
    // A program that does not read it is not waited for.
    let said = timeout(FAREWELL, async {
        inside.write_all(&words).await?;
        inside.shutdown().await
    });
    let _ = said.await;
}

#[cfg(test)]
mod tests {
    use ifc::{Effect, Label, Monitor, Rule};

    use super::*;
    use crate::egress::Gate;
    use crate::egress::tests::OnePort;

    fn door(patience: Duration) -> (Door, mpsc::Receiver<AskedConnection>) {
        let rule = Rule {
            always_ask: true,
            ..Rule::asking("asks".to_owned(), Effect::Write, Label::bottom())
        };
        let gate = Gate::new(Monitor::new(), Arc::new(OnePort(443, rule)));
        let reach = Arc::new(Reach::new("app", gate, Label::bottom()));
        let (events, _) = mpsc::channel(1);
        let (questions, asked) = mpsc::channel(1);
        let door = Door {
            resolver: Arc::new(Resolver::new(Arc::clone(&reach), vec![443], events.clone())),
            reach,
            addresses: Arc::new([]),
            questions,
            patience,
            events,
        };
        (door, asked)
    }

    fn refusal(outcome: Result<(Permit<Connection>, Lease), String>) -> String {
        outcome.err().unwrap()
    }

    #[tokio::test]
    async fn a_question_that_nobody_answers_is_a_no_after_its_time() {
        let (mut door, mut asked) = door(Duration::from_millis(50));
        let name = DomainName::new("example.org").unwrap();
        let reach = Arc::clone(&door.reach);
        let running = reach.running();
        let why = refusal(door.permit(&name, 443).await);
        assert_eq!(why, "refused: no answer within 50ms");
        // A late answer opens nothing: it is not even asked any more.
        let mut late = asked.try_recv().unwrap();
        late.lapsed().await;
        assert!(late.still_asked().is_none());
        // Who is there, and goes away, says no as well.
        door.patience = QUESTION;
        let (why, ()) = tokio::join!(door.permit(&name, 443), async {
            drop(asked.recv().await);
        });
        assert_eq!(refusal(why), "refused: the user could not be asked");
        drop(running);
        let why = refusal(door.permit(&name, 443).await);
        assert!(why.contains("only while a call of the app runs"), "{why}");
    }

    /// The words of one refusal may be quoted in another.
    #[tokio::test]
    async fn a_refusal_has_the_status_of_its_kind() {
        let (door, _asked) = door(QUESTION);
        let name = DomainName::new("example.org").unwrap();
        let quoted = format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", Misfit::NoHost);
        for (request, expected) in [
            ("GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 400 "),
            (&quoted, "HTTP/1.1 403 "),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let app = async {
                let mut app = TcpStream::connect(listener.local_addr().unwrap())
                    .await
                    .unwrap();
                app.write_all(request.as_bytes()).await.unwrap();
                let mut answer = String::new();
                app.read_to_string(&mut answer).await.unwrap();
                answer
            };
            let pass = async {
                let (inside, _) = listener.accept().await.unwrap();
                door.pass(inside, &name, HTTP).await
            };
            let (answer, outcome) = tokio::join!(app, pass);
            assert!(answer.starts_with(expected), "{answer} {outcome}");
        }
    }

    #[tokio::test]
    async fn what_was_given_while_a_question_waited_makes_its_answer_void() {
        let (door, mut asked) = door(QUESTION);
        let name = DomainName::new("example.org").unwrap();
        let reach = Arc::clone(&door.reach);
        let _running = reach.running();
        let answer = async {
            let asked = asked.recv().await.unwrap().still_asked().unwrap();
            reach.give(&Label::top());
            assert!(asked.settle_tcb(Answer::Once).is_some());
        };
        let (outcome, ()) = tokio::join!(door.permit(&name, 443), answer);
        assert!(refusal(outcome).contains("given more while the question waited"));
    }
}
