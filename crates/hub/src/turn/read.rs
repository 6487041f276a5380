//! A proposed call as the monitor decides on it.

use ifc::{Arguments, Call, Effect, Label, Sink};

use super::machine::TurnMachine;
use super::state::{Rejection, StepCall};
use crate::isc::{Functionality, Offer, ServedBy};
use crate::trace::Event;
use crate::{Completion, ProposedCall};

impl TurnMachine {
    /// A completion with the names of its tools in full, where the model left out the app. What it depends on is the
    /// prompt that it answers, whose label its calls have.
    pub(super) fn in_full(&mut self, mut completion: Completion) -> Completion {
        let label = self.names(&self.turn.offered.label);
        for call in &mut completion.calls {
            if let Some(meant) = self.apps.in_full(&call.tool, &self.turn.offered.tools) {
                let said = std::mem::replace(&mut call.tool, meant.to_owned());
                self.events.push(Event::NamedInFull {
                    step: self.turn.step,
                    said: said.into(),
                    meant: meant.into(),
                    label: label.clone(),
                });
            }
        }
        completion
    }

    /// A call of a step as the monitor decides on it.
    pub(super) fn read_step(&self, step: &StepCall, label: &Label) -> Result<Call, Rejection> {
        let call = self.read(&step.proposed, label)?;
        Ok(Call {
            arguments: step.kept.restrict(call.arguments),
            ..call
        })
    }

    /// A proposed call as the monitor decides on it. A tool whose name is above the step's label does
    /// not exist for it, whether it was guessed or heard of: a call depends on the name of its tool.
    pub(super) fn read(&self, proposed: &ProposedCall, label: &Label) -> Result<Call, Rejection> {
        if let Some(functionality) = self.asks.named(&proposed.tool) {
            return self.read_request(functionality, proposed, label);
        }
        let known = self.apps.resolve(&proposed.tool);
        // Before any rule is asked for: that there is one would tell that there is such a tool.
        let known = known.filter(|_| self.history.tool_at(label, &proposed.tool).is_some());
        let (app, tool) = known.ok_or_else(|| self.no_tool(&proposed.tool, label))?;
        Ok(Call {
            app,
            tool,
            arguments: Arguments::parse(&proposed.arguments, label)?,
            label: label.clone(),
        })
    }

    /// Why no tool is meant by a name. Names in it are those that every prompt at this label shows: a tool above it does
    /// not exist here either.
    fn no_tool(&self, said: &str, label: &Label) -> Rejection {
        let tools = self.history.tools().iter();
        let known = tools.filter(|tool| tool.label.flows_to(label));
        match self.apps.named(said, known.map(|tool| tool.name.as_str()))[..] {
            [] | [_] => Rejection::UnknownTool,
            ref several => {
                Rejection::SeveralTools(several.iter().map(|name| (*name).to_owned()).collect())
            }
        }
    }

    /// A call of `ask__NAME` as the monitor decides on it, once it is known which app serves it.
    fn read_request(
        &self,
        functionality: &Functionality,
        proposed: &ProposedCall,
        label: &Label,
    ) -> Result<Call, Rejection> {
        let offer = self
            .offer(functionality)
            .ok_or(Rejection::NoFunctionality)?;
        let arguments = request_of(functionality, proposed, label)?;
        Ok(call_of(functionality, offer, &arguments, label))
    }

    /// Whether a call under this label only reads, so that it can be made again.
    pub(super) fn reads(&self, proposed: &ProposedCall, label: &Label) -> bool {
        self.effect(proposed, label) == Some(Effect::Read)
    }

    /// What a call under this label does; `None` if there is no rule for it.
    pub(super) fn effect(&self, proposed: &ProposedCall, label: &Label) -> Option<Effect> {
        let call = self.read(proposed, label).ok()?;
        let rule = self.rule(&Sink::Call(&call)).ok()?;
        Some(rule.effect)
    }
}

/// The call that a request is. Of a conversation that serves it there is no such tool, and the call is
/// known again by it where the user has refused it.
pub(super) fn call_of(
    functionality: &Functionality,
    offer: &Offer,
    arguments: &Arguments,
    label: &Label,
) -> Call {
    let tool = match &offer.by {
        ServedBy::Tool(tool) => tool.clone(),
        ServedBy::Conversation => functionality.shown(),
    };
    Call {
        app: offer.app.clone(),
        tool,
        arguments: arguments.clone(),
        label: label.clone(),
    }
}

/// The arguments of a request, if they are of its form.
pub(super) fn request_of(
    functionality: &Functionality,
    proposed: &ProposedCall,
    label: &Label,
) -> Result<Arguments, Rejection> {
    let arguments = Arguments::parse(&proposed.arguments, label)?;
    let form = functionality.request.check(&arguments.to_json());
    // Before anything is decided: whoever serves it, and whether anybody does, gets only what the user's schema has
    // room for.
    form.map_err(Rejection::Request)?;
    Ok(arguments)
}
