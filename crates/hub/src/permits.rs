//! Permits that wait to be redeemed: one front decides on a call, and the call arrives at another.
//!
//! The proxy sees an agent propose a call and decides on it with all that it knows of the conversation. The agent then makes
//! the call at the gateway, which knows less. The permit that the proxy leaves here lets exactly that call run.

use std::collections::VecDeque;
use std::time::Duration;

use ifc::{Arguments, Permit};

/// How long a permit waits. An agent makes its calls at once, and asks its own user first at most.
pub const REDEEMABLE_FOR: Duration = Duration::from_secs(600);

/// Most permits that wait. A step has a few calls; beyond this the oldest are dropped, and their calls are decided on by the
/// gateway.
const MAX_PERMITS: usize = 1024;

/// The permits that wait, oldest first. The time is an argument: `now` is the time since any moment, the same for all calls.
#[derive(Debug, Default)]
pub struct Permits(VecDeque<Waiting>);

#[derive(Debug)]
struct Waiting {
    session: String,
    permit: Permit,
    until: Duration,
}

impl Permits {
    /// Leaves a permit for the client of this session. It is for its call alone: this app, this tool, these arguments.
    pub fn leave(&mut self, session: &str, permit: Permit, now: Duration) {
        self.expire(now);
        if self.0.len() >= MAX_PERMITS {
            self.0.pop_front();
        }
        self.0.push_back(Waiting {
            session: session.to_owned(),
            permit,
            until: now + REDEEMABLE_FOR,
        });
    }

    /// Takes the oldest permit for this call, if one waits. It is gone then, so a second equal call needs another.
    pub fn redeem(
        &mut self,
        session: &str,
        app: &str,
        tool: &str,
        arguments: &Arguments,
        now: Duration,
    ) -> Option<Permit> {
        self.expire(now);
        let at = self.0.iter().position(|waiting| {
            let call = waiting.permit.call();
            waiting.session == session
                && (call.app.as_str(), call.tool.as_str()) == (app, tool)
                && call.arguments.same(arguments)
        })?;
        self.0.remove(at).map(|waiting| waiting.permit)
    }

    fn expire(&mut self, now: Duration) {
        self.0.retain(|waiting| waiting.until > now);
    }
}
