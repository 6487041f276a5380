//! Resources and prompts: asked for by methods of their own, and decided on, run and labelled as calls of an app's tools
//! `resources/list`, `resources/read`, `prompts/list` and `prompts/get`.

use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::call::Returned;
use super::listing::{Listed, Listing};
use super::rpc::{self, CallParams, Members};
use super::stateless::Reply;
use super::{Caller, Client};

/// What stands before an address where several apps have resources, with the app after it. Before a prompt stands `APP:`.
const SCHEME: &str = "sluice://";

/// What a client asks for by a method.
#[derive(Debug, Clone, Copy)]
pub(super) struct Native {
    method: &'static str,
    /// The app's tool that gives it.
    tool: &'static str,
    /// Of a list: the member with its entries, and that of an entry by which a client asks for it.
    list: Option<(&'static str, &'static str)>,
}

const NATIVES: [Native; 5] = [
    native("resources/list", Some(("resources", "uri"))),
    Native {
        method: "resources/templates/list",
        tool: "resources/list",
        list: Some(("resourceTemplates", "uriTemplate")),
    },
    native("resources/read", None),
    native("prompts/list", Some(("prompts", "name"))),
    native("prompts/get", None),
];

const fn native(method: &'static str, list: Option<(&'static str, &'static str)>) -> Native {
    let tool = method;
    Native { method, tool, list }
}

impl Native {
    fn is_prompt(self) -> bool {
        self.tool.starts_with("prompts")
    }

    /// The name that a client has for what an app calls this, where several apps have such.
    fn outside(self, app: &str, own: &str) -> String {
        match self.is_prompt() {
            true => format!("{app}:{own}"),
            false => format!("{SCHEME}{app}/{own}"),
        }
    }

    /// The app and its own name for what a client calls this.
    fn inside(self, name: &str) -> Option<(&str, &str)> {
        match self.is_prompt() {
            true => name.split_once(':'),
            false => name.strip_prefix(SCHEME)?.split_once('/'),
        }
    }
}

impl Listing {
    /// Whether a method runs apps.
    pub(super) fn runs(&self, method: &str) -> bool {
        method == "tools/call" || self.native(method).is_some()
    }

    /// What a method asks for, with the tools that give it, one for each app that has it. `None`: no app has it.
    pub(super) fn native(&self, method: &str) -> Option<(Native, Vec<&Listed>)> {
        let native = NATIVES.into_iter().find(|it| it.method == method)?;
        let all = self.all().map(|(_, listed)| listed);
        let apps: Vec<&Listed> = all.filter(|it| it.tool == native.tool).collect();
        (!apps.is_empty()).then_some((native, apps))
    }

    /// What the server can do, as clients are told it.
    pub(super) fn capabilities(&self) -> Value {
        let natives = ["resources", "prompts"].into_iter();
        let has = natives.filter(|name| self.native(&format!("{name}/list")).is_some());
        let all = has.chain(["tools"]);
        Value::Object(all.map(|name| (name.to_owned(), json!({}))).collect())
    }
}

impl Client {
    /// Answers a request for resources or prompts. `None`: the client has cancelled it.
    pub(super) async fn answer_native(
        self: &Arc<Self>,
        native: Native,
        apps: Vec<&Listed>,
        params: &CallParams<'_>,
        caller: &Caller<'_>,
    ) -> Option<Reply> {
        if let Some(list) = native.list {
            return self.list(native, list, &apps, caller).await;
        }
        let name = match native.is_prompt() {
            true => &params.name,
            false => &params.uri,
        };
        let unknown = |why: &str| {
            let data = json!({ "uri": name });
            Some(Reply::Error(rpc::INVALID_PARAMS, why.to_owned(), data))
        };
        // One app keeps its own names.
        let found = match apps.as_slice() {
            [only] => Some((*only, name.as_str())),
            several => native.inside(name).and_then(|(app, own)| {
                Some((*several.iter().find(|listed| listed.app == app)?, own))
            }),
        };
        let Some((listed, own)) = found else {
            return unknown("there is none of this name; see the list");
        };
        let own = json!(own);
        let arguments = match (native.is_prompt(), params.arguments) {
            (false, _) => format!(r#"{{"uri":{own}}}"#),
            (true, None) => format!(r#"{{"name":{own}}}"#),
            (true, Some(given)) => format!(r#"{{"name":{own},"arguments":{}}}"#, given.get()),
        };
        let returned = match self.execute(listed, &arguments, caller, false).await? {
            Ok(returned) => returned,
            Err(reply) => return Some(reply.or_error()),
        };
        match &returned.exact {
            Some(exact) => Some(Reply::Result(returned.labelled(exact), Some(0))),
            None if returned.is_known => unknown(&returned.text),
            None => Some(Reply::Error(rpc::INTERNAL, returned.text, Value::Null)),
        }
    }

    /// A list of all apps: one page. An app whose list does not come is left out, unless no other comes.
    async fn list(
        self: &Arc<Self>,
        native: Native,
        (kind, member): (&str, &str),
        apps: &[&Listed],
        caller: &Caller<'_>,
    ) -> Option<Reply> {
        let (mut entries, mut all, mut failed) = (Vec::new(), None, None);
        for listed in apps {
            let returned = match self.execute(listed, "{}", caller, false).await? {
                Ok(returned) => returned,
                Err(reply) => {
                    failed = Some(reply.or_error());
                    continue;
                }
            };
            if returned.is_failed {
                failed = Some(Reply::Error(rpc::INTERNAL, returned.text, Value::Null));
                continue;
            }
            let page = Members::read(&returned.text);
            let page = page.iter().find(|(name, _)| name == kind);
            let page = page.map_or("[]", |(_, entries)| entries.get());
            let page: Vec<&RawValue> = serde_json::from_str(page).unwrap_or_default();
            entries.extend(page.iter().map(|entry| match apps {
                [_] => entry.get().to_owned(),
                _ => renamed(entry.get(), member, |own| native.outside(&listed.app, own)),
            }));
            let labels = all.get_or_insert_with(Returned::default);
            labels.label.extend(returned.label);
            labels.client = returned.client;
        }
        let Some(mut all) = all else { return failed };
        all.label.sort();
        all.label.dedup();
        let list = format!(r#"{{"{kind}":[{}]}}"#, entries.join(","));
        Some(Reply::Result(all.labelled(&list), Some(0)))
    }
}

/// An entry with another name, and all else as it is written.
fn renamed(entry: &str, member: &str, rename: impl Fn(&str) -> String) -> String {
    let mut out = String::new();
    for (name, value) in Members::read(entry) {
        let own = Some(value.get()).filter(|_| name == member);
        match own.and_then(|own| serde_json::from_str::<String>(own).ok()) {
            Some(own) => rpc::push(&mut out, &name, &json!(rename(&own)).to_string()),
            None => rpc::push(&mut out, &name, value.get()),
        }
    }
    format!("{{{out}}}")
}
