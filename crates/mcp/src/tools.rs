//! The app's list of tools, bounded and compiled. What cannot be used is left out, by name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jsonschema::Validator;
use rmcp::model::ListToolsRequest;
use rmcp::service::{Peer, RoleClient};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use wire::limits::{MAX_DESCRIPTION_BYTES, MAX_SCHEMA_BYTES, MAX_TOOLS, MAX_TOOLS_BYTES};
use wire::{
    Breach, FailureReason, Hints, Offer, Refusal, SpokeFault, ToolDescription, ToolFilter,
    ToolProblem, Wish, head, is_tool_name,
};

use crate::extras::Extra;
use crate::process::Ending;
use crate::{exact, pages, schema};

/// What stands at the end of a description that is longer than it may be.
const CUT: &str = "\n[The rest of this description is left out.]";

/// Most tools that are read of an app of whose tools the configuration uses some.
const MAX_LISTED: usize = 16 * MAX_TOOLS;

/// The tools of an app: as described to the hub, and with what checks their arguments.
#[derive(Debug, Default)]
pub(crate) struct Toolbox {
    pub(crate) described: Vec<ToolDescription>,
    /// `None` for a tool whose schema cannot be used: its arguments are unchecked.
    pub(crate) validators: BTreeMap<String, Option<Arc<Validator>>>,
    /// Those that are not the app's own tools.
    pub(crate) extras: BTreeMap<&'static str, Extra>,
    /// What is left out or unchecked, and which tools it concerns.
    pub(crate) notes: Notes,
    /// Which tools are used.
    filter: ToolFilter,
    /// The names of all tools, used or not.
    listed: BTreeSet<String>,
}

/// The number and the names of the tools with the same note.
type Notes = BTreeMap<(Wish, Refusal), (u64, String)>;

impl Toolbox {
    /// Whether a tool of this box is in the other as it is described here.
    pub(crate) fn is_unchanged(&self, tool: &str, now: &Self) -> bool {
        let described = |toolbox: &Self| {
            let tool = toolbox.described.iter().find(|it| it.name == tool);
            tool.map(ToolDescription::without_orders)
        };
        let before = described(self);
        before.is_some() && before == described(now)
    }

    /// Notes the names of the filter that are none of a tool.
    fn note_unlisted(&mut self) {
        let listed: Vec<&str> = self.listed.iter().map(String::as_str).collect();
        let unlisted = self.filter.unmatched(&listed).map(str::to_owned);
        for name in unlisted.collect::<Vec<_>>() {
            self.note(Wish::Tool, Refusal::Unlisted, &name);
        }
    }

    fn note(&mut self, wish: Wish, why: Refusal, name: &str) {
        let (count, names) = self.notes.entry((wish, why)).or_default();
        *count += 1;
        // The quote has a limit; a text that is longer is of no use to it.
        if names.len() < wire::limits::MAX_QUOTE_BYTES && !name.is_empty() {
            if !names.is_empty() {
                names.push_str(", ");
            }
            names.push_str(name);
        }
    }
}

/// Asks for all pages, until the deadline, and accepts the tools of the pages that came.
pub(crate) async fn list(
    peer: &Peer<RoleClient>,
    offer: &Offer,
    deadline: Instant,
    ending: &Ending,
) -> Result<Toolbox, FailureReason> {
    let has = peer.peer_info().map(|info| info.capabilities.clone());
    let has = has.unwrap_or_default();
    let extras: Vec<Extra> = Extra::offered(offer, &has).collect();
    // By the protocol a client asks only for what the server has announced.
    let (tools, cut) = match has.tools {
        Some(_) => {
            // What is not used does not count.
            let filtered = offer.tools != ToolFilter::default();
            let most = if filtered { MAX_LISTED } else { MAX_TOOLS };
            let most = most.saturating_sub(extras.len());
            let page = |params| async {
                let request = ListToolsRequest::with_param(params);
                exact::ask(peer, request, Breach::ListTools, ending).await
            };
            pages::all("tools", most, deadline, Breach::ListTools, page).await?
        }
        None => Default::default(),
    };
    let filter = offer.tools.clone();
    // Compiling a schema can take long, and the supervisor must go on meanwhile.
    let accepted = tokio::task::spawn_blocking(move || {
        let mut toolbox = Toolbox {
            filter,
            ..Toolbox::default()
        };
        // Before the app's own: one that is called the same is left out as a second one of its name.
        for extra in extras {
            let described = extra.tool();
            accept(&mut toolbox, &described.to_string());
            toolbox.extras.insert(extra.name(), extra);
        }
        tools
            .iter()
            .for_each(|tool| accept(&mut toolbox, tool.get()));
        match cut {
            Some(why) => toolbox.note(Wish::Page, why, ""),
            None => toolbox.note_unlisted(),
        }
        toolbox
    });
    accepted
        .await
        .map_err(|_| FailureReason::Spoke(SpokeFault::Internal))
}

/// The annotations without their title, which is shown nowhere: a tool is known by its name. A hint that is neither yes
/// nor no counts as the stricter one.
fn hints(annotations: Option<&Value>) -> Hints {
    let hint = |name: &str, strict: bool| match annotations.and_then(|said| said.get(name)) {
        None | Some(Value::Null) => None,
        Some(said) => Some(said.as_bool().unwrap_or(strict)),
    };
    Hints {
        read_only: hint("readOnlyHint", false),
        destructive: hint("destructiveHint", true),
        idempotent: hint("idempotentHint", false),
        open_world: hint("openWorldHint", true),
    }
}

/// Takes a tool, or notes why it is left out.
fn accept(toolbox: &mut Toolbox, text: &str) {
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    let name = serde_json::from_str(text).map_or(String::new(), |it: Named| it.name);
    if is_tool_name(&name) {
        toolbox.listed.insert(name.clone());
    }
    if !toolbox.filter.shows(&name) {
        return;
    }
    match described(toolbox, &name, text) {
        Ok(tool) => toolbox.described.push(tool),
        Err(problem) => toolbox.note(Wish::Tool, Refusal::Tool(problem), head(&name, 200)),
    }
}

fn described(
    toolbox: &mut Toolbox,
    name: &str,
    text: &str,
) -> Result<ToolDescription, ToolProblem> {
    let tool: Map<String, Value> =
        serde_json::from_str(text).map_err(|_| ToolProblem::Unreadable)?;
    if !is_tool_name(name) {
        return Err(ToolProblem::Name);
    }
    if toolbox.validators.contains_key(name) {
        return Err(ToolProblem::Duplicate);
    }
    if toolbox.described.len() >= MAX_TOOLS {
        return Err(ToolProblem::TooMany);
    }
    let any = json!({"type": "object"});
    let schema = tool.get("inputSchema").filter(|schema| schema.is_object());
    let input_schema = schema.unwrap_or(&any).to_string();
    // Before it is compiled, which takes longer the longer it is.
    if input_schema.len() > MAX_SCHEMA_BYTES {
        return Err(ToolProblem::SchemaTooLong);
    }
    let mut description = tool
        .get("description")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if description.len() > MAX_DESCRIPTION_BYTES {
        description = head(&description, MAX_DESCRIPTION_BYTES - CUT.len()).to_owned() + CUT;
    }
    let described = ToolDescription {
        name: name.to_owned(),
        description,
        input_schema,
        hints: hints(tool.get("annotations")),
    };
    let bytes = toolbox
        .described
        .iter()
        .map(ToolDescription::described_bytes);
    if bytes.sum::<usize>() + described.described_bytes() > MAX_TOOLS_BYTES {
        return Err(ToolProblem::TotalTooLong);
    }
    // The policy reads the arguments themselves, so it limits a tool without a validator all the same.
    let validator = schema.and_then(schema::compile).map(Arc::new);
    if validator.is_none() {
        toolbox.note(Wish::Tool, Refusal::Unchecked, name);
    }
    toolbox.validators.insert(name.to_owned(), validator);
    Ok(described)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toolbox(tools: &[&str]) -> Toolbox {
        let mut toolbox = Toolbox::default();
        tools.iter().for_each(|tool| accept(&mut toolbox, tool));
        toolbox
    }

    fn names(toolbox: &Toolbox) -> Vec<&str> {
        toolbox
            .described
            .iter()
            .map(|it| it.name.as_str())
            .collect()
    }

    #[test]
    fn an_odd_tool_is_left_out_by_name() {
        let many = toolbox(&[
            r#"{"name":"good","inputSchema":{"type":"object"}}"#,
            r#"{"name":"send mail","inputSchema":{"type":"object"}}"#,
            r#"{"name":"good","inputSchema":{"type":"object"}}"#,
            r#"{"name":"half","description":"\ud800","inputSchema":{"type":"object"}}"#,
            r#"{"name":"huge","inputSchema":{"type":"object","x":1e400}}"#,
            r#"{"inputSchema":{"type":"object"}}"#,
            "7",
        ]);
        assert_eq!(names(&many), ["good"]);
        let note = |problem| many.notes.get(&(Wish::Tool, Refusal::Tool(problem)));
        let said = |count: u64, names: &str| Some((count, names.to_owned()));
        assert_eq!(note(ToolProblem::Name).cloned(), said(2, "send mail"));
        assert_eq!(note(ToolProblem::Duplicate).cloned(), said(1, "good"));
        assert_eq!(
            note(ToolProblem::Unreadable).cloned(),
            said(3, "half, huge")
        );
    }

    #[test]
    fn an_unusable_schema_leaves_arguments_unchecked() {
        for schema in [
            "",
            r#","inputSchema":null"#,
            r#","inputSchema":[]"#,
            r#","inputSchema":{"type":"any"}"#,
        ] {
            let one = toolbox(&[&format!(r#"{{"name":"a"{schema}}}"#)]);
            assert!(matches!(one.validators.get("a"), Some(None)), "{schema}");
            let noted = one.notes.get(&(Wish::Tool, Refusal::Unchecked));
            assert_eq!(noted.cloned(), Some((1, "a".to_owned())), "{schema}");
        }
    }

    #[test]
    fn what_is_optional_and_odd_is_as_if_absent() {
        let odd = r#"{"name":"a","title":7,"icons":[{"src":"data:x","sizes":"48x48"}],"outputSchema":[],
            "description":["x"],"inputSchema":{"type":"object"},"execution":"later",
            "annotations":{"readOnlyHint":"true","destructiveHint":"false","openWorldHint":null}}"#;
        let one = toolbox(&[odd]);
        let [tool] = one.described.as_slice() else {
            panic!("{:?}", one.notes)
        };
        assert!(one.notes.is_empty());
        assert_eq!(tool.description, "");
        let strict = Hints {
            read_only: Some(false),
            destructive: Some(true),
            idempotent: None,
            open_world: None,
        };
        assert_eq!(tool.hints, strict);
    }

    #[test]
    fn a_description_that_is_cut_says_so() {
        let long = "é".repeat(MAX_DESCRIPTION_BYTES / 2);
        let of = |description: &str| {
            let tool =
                json!({"name": "a", "description": description, "inputSchema": {"type": "object"}});
            toolbox(&[&tool.to_string()])
                .described
                .remove(0)
                .description
        };
        assert_eq!(of(&long), long);
        let cut = of(&(long + "x"));
        assert!(cut.ends_with(CUT) && cut.len() <= MAX_DESCRIPTION_BYTES);
    }

    #[test]
    fn tools_beyond_the_most_are_named() {
        let tools: Vec<String> = (0..MAX_TOOLS + 2)
            .map(|i| format!(r#"{{"name":"t{i}","inputSchema":{{"type":"object"}}}}"#))
            .collect();
        let many = toolbox(&tools.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(many.described.len(), MAX_TOOLS);
        let noted = many
            .notes
            .get(&(Wish::Tool, Refusal::Tool(ToolProblem::TooMany)));
        assert_eq!(noted.cloned(), Some((2, "t1024, t1025".to_owned())));
    }
}
