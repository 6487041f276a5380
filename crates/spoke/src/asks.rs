//! What the app has asked the hub for and has no answer to.

use std::collections::BTreeMap;

use mcp::Request;
use wire::{Refusal, Reply, SpokeFrame};

/// The open requests, by the call that each belongs to: one at a time for each.
#[derive(Debug, Default)]
pub(crate) struct Asks {
    open: BTreeMap<u64, (u64, Request)>,
    last: u64,
}

impl Asks {
    /// The frame for a request, if it can be bound to one of the running calls. Nothing in a request
    /// says which call it is for, so there must be exactly one.
    ///
    /// # Errors
    /// Why it is refused; it is answered here.
    pub(crate) fn begin(
        &mut self,
        mut running: impl Iterator<Item = u64>,
        request: Request,
    ) -> Result<SpokeFrame, Refusal> {
        let refuse = |request: Request, why| {
            request.answer(Reply::Refused(why));
            Err(why)
        };
        let (Some(call), None) = (running.next(), running.next()) else {
            return refuse(request, Refusal::NoCall);
        };
        if self.open.contains_key(&call) {
            return refuse(request, Refusal::Busy);
        }
        // Never used again, so that a late reply cannot answer another request of the same call.
        self.last += 1;
        let frame = SpokeFrame::Request {
            call,
            request: self.last,
            form: request.form.clone(),
        };
        self.open.insert(call, (self.last, request));
        Ok(frame)
    }

    /// The hub's answer. One to a request that is not open crossed the end of its call.
    pub(crate) fn answer(&mut self, request: u64, reply: Reply) {
        let mut found = self
            .open
            .extract_if(.., |_, (number, _)| *number == request);
        if let Some((_, (_, request))) = found.next() {
            request.answer(reply);
        }
    }

    /// The call is over, so its request needs no answer.
    pub(crate) fn forget(&mut self, call: u64) {
        self.open.remove(&call);
    }
}
