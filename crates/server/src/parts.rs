//! What a front is driven with, the same for every front.

use std::sync::Arc;
use std::time::Duration;

use hub::Settings;
use ifc::{Label, Lattice, Policy, Screener};
use llm::Broker;
use tokio::sync::Semaphore;

use crate::egress::{Resolve, SystemResolver};
use crate::limits::Limits;
use crate::sink::Sinks;

/// The longest time of one turn where the configuration says nothing: as long as a person may
/// need to come back and answer a question.
const TURN_TIMEOUT: Duration = Duration::from_secs(900);

/// The longest time of a conversation in which an app answers another one's request, with all that it
/// asks of further apps. The asking app's turn goes on after it.
const SERVING_TIMEOUT: Duration = Duration::from_secs(180);

/// Screenings that compute at once. Each holds the keys and values of a whole history (46 KB a token for the shipped
/// model), and each can use all cores. Two, so that a short history need not wait for a long one.
const SCREENINGS: usize = 2;

/// A tool of a gateway, as a proxy in front of the same agent knows it.
#[derive(Debug, Clone)]
pub struct GatewayTool {
    /// Its name in the gateway's list.
    pub name: String,
    /// The app that it is a tool of.
    pub app: String,
    /// Its name there.
    pub tool: String,
    /// The label of its name.
    pub named: Label,
    /// The label of what the list says of it.
    pub described: Label,
}

/// The parts that every turn is driven with, for every front. The composition root makes them
/// from a configuration, in one way for all fronts.
#[derive(Clone)]
pub struct Parts {
    /// The lattice that all labels are of.
    pub lattice: Arc<Lattice>,
    /// The policy of all apps.
    pub policy: Arc<dyn Policy>,
    /// The language models, each with its clearance.
    pub broker: Arc<Broker>,
    /// The dependency screener.
    pub screener: Arc<dyn Screener>,
    /// Limits how many screenings compute at once. All sessions of a process share it, because it bounds the memory of the
    /// process. Waiting screenings run in the order in which they came.
    pub screenings: Arc<Semaphore>,
    /// Where the names are looked up that apps connect to.
    pub resolver: Arc<dyn Resolve>,
    /// How turns run. The front alone decides who executes calls.
    pub settings: Settings,
    /// How long one turn may take, questions to the user included.
    pub turn_timeout: Duration,
    /// How long a conversation may take that serves another app's request, questions included.
    pub serving_timeout: Duration,
    /// Who watches all fronts.
    pub sinks: Sinks,
    /// What the tenants of a service may use.
    pub limits: Limits,
}

impl Parts {
    /// Parts with the default settings and limits, and a limit on screenings of their own.
    pub fn new(
        broker: Arc<Broker>,
        policy: Arc<dyn Policy>,
        lattice: Arc<Lattice>,
        screener: Arc<dyn Screener>,
    ) -> Self {
        Self {
            lattice,
            policy,
            broker,
            screener,
            screenings: Arc::new(Semaphore::new(SCREENINGS)),
            resolver: Arc::new(SystemResolver),
            settings: Settings::default(),
            turn_timeout: TURN_TIMEOUT,
            serving_timeout: SERVING_TIMEOUT,
            sinks: Sinks::default(),
            limits: Limits::default(),
        }
    }
}

/// Learns the label of text that a client is given, before the client gets it.
pub type Told = Arc<dyn Fn(&Label) + Send + Sync>;
