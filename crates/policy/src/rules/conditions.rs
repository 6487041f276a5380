//! Conditions in Cedar on calls: by tool, arguments, label and session.
//!
//! There are three kinds of conditions:
//! - `forbid (…) when {…};` denies the calls that it matches;
//! - `@ask forbid (…) when {…};` always asks the user about them;
//! - `@limit("NAME, …") permit (…) when {…};` joins the limit of the tool with these labels for them. The limits of arguments
//!   still hold.
//!
//! Cedar skips a policy that cannot be evaluated. Here any error of any condition denies the call.

use std::collections::BTreeMap;
use std::sync::Arc;

use cedar_policy::{
    Authorizer, Context as CedarContext, Entities, EntityId, EntityTypeName, EntityUid, Policy,
    PolicySet, Request, RestrictedExpression as Expression, Schema,
};
use ifc::{Dimension, Label, Lattice, Results};
use serde_json::{Map, Value, json};

use super::arguments::{Argument, Arguments, ParameterKind, Parameters};
use super::looks_at::LooksAt;
use super::past::{Counted, record};
use super::session::{Front, SessionFacts};

/// The conditions of one tool, compiled: those of the tool itself and those of its app.
#[derive(Debug, Clone)]
pub struct Conditions(Arc<Compiled>);

#[derive(Debug)]
struct Compiled {
    vocabulary: Arc<Vocabulary>,
    action: EntityUid,
    schema: Schema,
    tool: String,
    sets: Sets,
    looks_at: LooksAt,
    counted: Counted,
}

/// The conditions by kind. The id of each policy is the name of the rule.
#[derive(Debug, Default)]
pub(crate) struct Sets {
    pub(crate) forbid: PolicySet,
    pub(crate) ask: PolicySet,
    pub(crate) permit: PolicySet,
    /// The label with which each permit joins the limit.
    pub(crate) limits: BTreeMap<String, Label>,
}

/// The entities of an app's conditions. They are built once, since parsing their names costs more than the rest of a
/// decision.
#[derive(Debug)]
pub(crate) struct Vocabulary {
    pub(crate) app: String,
    session: EntityUid,
    resource: EntityUid,
    /// In the order of [`Front::ALL`].
    fronts: Vec<(Front, EntityUid)>,
    /// Every taint by name. A label has it if the taint's label flows to it.
    taints: Vec<(String, EntityUid, Label)>,
    /// The taints about integrity.
    pub(crate) integrity: Label,
    pub(crate) confidentiality: Label,
}

impl Vocabulary {
    /// # Errors
    /// A name that no entity can have.
    pub(crate) fn new(lattice: &Lattice, app: &str) -> Result<Self, String> {
        let fronts = Front::ALL.into_iter();
        let fronts = fronts.map(|front| Ok((front, uid("Front", front.name())?)));
        let taints = lattice.taints();
        let taints = taints.map(|(name, label)| Ok((name.to_owned(), uid("Taint", name)?, label)));
        Ok(Self {
            app: app.to_owned(),
            session: uid("Session", "session")?,
            resource: uid("App", app)?,
            fronts: fronts.collect::<Result<_, String>>()?,
            taints: taints.collect::<Result<_, String>>()?,
            integrity: lattice.whole(Dimension::Integrity),
            confidentiality: lattice.whole(Dimension::Confidentiality),
        })
    }
}

/// The result of the conditions for a call that they do not forbid.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The condition that asks the user.
    pub(crate) ask: Option<String>,
    /// The permits that match, each with its label.
    pub(crate) raises: Vec<(String, Label)>,
}

/// Why a call is denied.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// This condition forbids it.
    Forbidden(String),
    /// The conditions cannot be evaluated.
    Error(String),
}

impl Conditions {
    /// # Errors
    /// A name that no entity can have.
    pub(crate) fn new(
        vocabulary: &Arc<Vocabulary>,
        tool: &str,
        parameters: Option<&Parameters>,
        sets: Sets,
        counted: &Counted,
    ) -> Result<Self, String> {
        let all = [&sets.forbid, &sets.ask, &sets.permit].map(PolicySet::policies);
        let all: Vec<&Policy> = all.into_iter().flatten().collect();
        let looks_at = LooksAt::of(all.iter().copied());
        let counted = counted.named_by(all.iter().copied());
        // A request has only the arguments that some condition looks at, so that a value that Cedar cannot represent denies
        // a call only if a condition compares it.
        let seen = parameters.map(|parameters| {
            let seen = parameters.0.iter();
            let seen = seen.filter(|(name, _)| looks_at.contains(name));
            Parameters(seen.map(|(name, it)| (name.clone(), *it)).collect())
        });
        let schema = schema(vocabulary, [(tool, seen.as_ref())], &counted)?;
        Ok(Self(Arc::new(Compiled {
            vocabulary: Arc::clone(vocabulary),
            action: uid("Action", tool)?,
            schema,
            tool: tool.to_owned(),
            sets,
            looks_at,
            counted,
        })))
    }

    /// The join of the labels of all permits.
    pub(crate) fn raised(&self) -> Label {
        self.0.sets.limits.values().collect()
    }

    /// Whether some condition looks at this argument.
    pub(crate) fn looks_at(&self, argument: &str) -> bool {
        self.0.looks_at.contains(argument) || self.0.counted.adds_up(&self.0.tool, argument)
    }

    /// The calls that conditions count or add up.
    pub(crate) fn counted(&self) -> &Counted {
        &self.0.counted
    }

    /// Evaluates the conditions for a call whose arguments are those of `parameters`. `context.control` is about `control`,
    /// the label of the control part. The rest of the context is about `label`, that of the whole call, so that "no secret"
    /// includes data arguments and what the call carries by itself.
    pub(crate) fn judge(
        &self,
        results: &Results<'_>,
        label: &Label,
        control: &Label,
        arguments: &Arguments<'_>,
        parameters: Option<&Parameters>,
        session: &SessionFacts,
    ) -> Result<Finding, Refusal> {
        let error = |error| Refusal::Error(format!("the conditions cannot be judged: {error}"));
        let (app, tool) = (&self.0.vocabulary.app, &self.0.tool);
        let counted = &self.0.counted;
        let (past, has_more) = counted
            .values((app, tool), arguments, results)
            .map_err(error)?;
        let request = self.request(label, control, arguments, parameters, session, past);
        let request = request.map_err(error)?;
        let sets = &self.0.sets;
        // Each kind by itself, since in one set Cedar would not say which permit matched beside a forbid.
        if let Some(name) = matching(&sets.forbid, &request)?.into_iter().next() {
            return Err(Refusal::Forbidden(name));
        }
        let ask = matching(&sets.ask, &request)?.into_iter().next();
        // There may be any number of calls that this decision must not depend on, so the user decides.
        let ask = ask.or(has_more.then(|| format!("{app}.{tool}.cedar")));
        let raises = matching(&sets.permit, &request)?
            .into_iter()
            .filter_map(|name| sets.limits.get_key_value(&name))
            .map(|(name, limit)| (name.clone(), limit.clone()))
            .collect();
        Ok(Finding { ask, raises })
    }

    fn request(
        &self,
        label: &Label,
        control: &Label,
        arguments: &Arguments<'_>,
        parameters: Option<&Parameters>,
        session: &SessionFacts,
        past: Vec<(&'static str, Expression)>,
    ) -> Result<Request, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let Compiled {
            vocabulary,
            action,
            looks_at,
            schema,
            ..
        } = &*self.0;
        // ⊤ has every taint, and so is of both kinds.
        let facts = |label: &Label| {
            let taints = vocabulary.taints.iter();
            let held = taints.filter(|(_, _, taint)| taint.flows_to(label));
            let taints = held.map(|(_, taint, _)| Expression::new_entity_uid(taint.clone()));
            let of = |half: &Label| label.is_top() || !label.meet(half).is_bottom();
            [
                ("label", Expression::new_set(taints)),
                ("untrusted", Expression::new_bool(of(&vocabulary.integrity))),
                (
                    "secret",
                    Expression::new_bool(of(&vocabulary.confidentiality)),
                ),
            ]
        };
        let mut fronts = vocabulary.fronts.iter();
        let front = fronts.find(|(front, _)| *front == session.front);
        // A front that is missing in `Front::ALL` is an error, and so a denial.
        let (_, front) = front.ok_or("the session comes from nowhere")?;
        let user = session.user.as_ref();
        let user = user.map(|user| ("user", Expression::new_string(user.to_string())));
        let session = [
            ("attended", Expression::new_bool(session.attended)),
            ("front", Expression::new_entity_uid(front.clone())),
        ];
        let session = record(session.into_iter().chain(user).chain(past))?;
        let arguments = parameters.map_or(Ok(Vec::new()), |p| visible(p, looks_at, arguments))?;
        let beside = [
            ("arguments", record(arguments)?),
            ("control", record(facts(control))?),
            ("session", session),
        ];
        let pairs = facts(label).into_iter().chain(beside);
        let context = CedarContext::from_pairs(pairs.map(|(name, value)| (name.to_owned(), value)))
            .map_err(|error| text(&error))?;
        Request::new(
            vocabulary.session.clone(),
            action.clone(),
            vocabulary.resource.clone(),
            context,
            Some(schema),
        )
        .map_err(|error| text(&error))
    }
}

/// The sorted names of the policies that match. Cedar gives the deciding policies as reasons, and a set holds one kind only.
fn matching(policies: &PolicySet, request: &Request) -> Result<Vec<String>, Refusal> {
    if policies.is_empty() {
        return Ok(Vec::new());
    }
    // Entities have no attributes and no parents. All facts are in the context.
    let response = Authorizer::new().is_authorized(request, policies, &Entities::empty());
    let diagnostics = response.diagnostics();
    // Cedar skips a policy that fails. A skipped forbid would allow.
    if let Some(error) = diagnostics.errors().next() {
        return Err(Refusal::Error(format!(
            "a condition cannot be evaluated: {error}"
        )));
    }
    let mut names: Vec<String> = diagnostics.reason().map(ToString::to_string).collect();
    // Cedar returns reasons in no order, and a call must get the same explanation each time.
    names.sort();
    Ok(names)
}

/// The arguments that conditions look at.
///
/// # Errors
/// One of them cannot be compared exactly. If it were left out, a condition on its presence would miss it.
fn visible(
    parameters: &Parameters,
    looks_at: &LooksAt,
    arguments: &Arguments<'_>,
) -> Result<Vec<(String, Expression)>, String> {
    let mut found = Vec::new();
    // An argument that is not declared was denied before (`judge`).
    let seen = parameters.0.iter();
    for (name, parameter) in seen.filter(|(name, _)| looks_at.contains(name)) {
        let argument = arguments.get(name);
        if let Some(argument) = argument.filter(|_| parameter.kind != ParameterKind::Any) {
            let expression = expression(parameter.kind, argument).ok_or_else(|| {
                // Only numbers of the right kind can fail here.
                let compared = match parameter.kind {
                    ParameterKind::Integer => "a whole number of 64 bits",
                    _ => "a number up to 900 billion with at most four digits after the point",
                };
                format!("the argument '{name}' cannot be compared, since it is not {compared}")
            })?;
            found.push((name.clone(), expression));
        }
    }
    Ok(found)
}

fn expression(kind: ParameterKind, argument: &Argument<'_>) -> Option<Expression> {
    let value = argument.value();
    let string = |value: &Value| value.as_str().map(|s| Expression::new_string(s.to_owned()));
    Some(match kind {
        ParameterKind::String | ParameterKind::Line => string(value)?,
        ParameterKind::Strings => {
            let items = value.as_array()?.iter().map(string);
            Expression::new_set(items.collect::<Option<Vec<_>>>()?)
        }
        // Numbers are read from the text that is sent, since the value is a rounded double.
        ParameterKind::Integer => Expression::new_long(argument.long()?),
        ParameterKind::Number | ParameterKind::Amount => {
            Expression::new_decimal(argument.decimal()?.to_string())
        }
        ParameterKind::Boolean => Expression::new_bool(value.as_bool()?),
        ParameterKind::Any => return None,
    })
}

pub(super) fn uid(kind: &str, name: &str) -> Result<EntityUid, String> {
    let parsed = kind.parse();
    let kind: EntityTypeName =
        parsed.map_err(|error: cedar_policy::ParseErrors| error.to_string())?;
    Ok(EntityUid::from_type_name_and_id(kind, EntityId::new(name)))
}

/// The schema that conditions of these tools are validated against.
///
/// # Errors
/// A name that no schema can hold.
pub(crate) fn schema<'t>(
    vocabulary: &Vocabulary,
    tools: impl IntoIterator<Item = (&'t str, Option<&'t Parameters>)>,
    counted: &Counted,
) -> Result<Schema, String> {
    let actions: Map<String, Value> = tools
        .into_iter()
        .map(|(name, parameters)| (name.to_owned(), action(parameters, counted)))
        .collect();
    let taints: Vec<&str> = vocabulary
        .taints
        .iter()
        .map(|(name, ..)| name.as_str())
        .collect();
    let fronts = Front::ALL.map(Front::name);
    // Enumerated entities, so that the validator finds a misspelt taint, app or front.
    let document = json!({"": {
        "entityTypes": {
            "Session": {},
            "App": {"enum": [vocabulary.app]},
            "Taint": {"enum": taints},
            "Front": {"enum": fronts},
        },
        "actions": actions,
    }});
    // The reason is in the source of the error.
    Schema::from_json_value(document).map_err(|error| {
        let source = std::error::Error::source(&error).map(ToString::to_string);
        source.unwrap_or_else(|| error.to_string())
    })
}

fn action(parameters: Option<&Parameters>, counted: &Counted) -> Value {
    let mut arguments = Map::new();
    for (name, parameter) in parameters.into_iter().flat_map(|p| &p.0) {
        let mut kind = match parameter.kind {
            // Without a type in the schema, a condition that names it does not validate.
            ParameterKind::Any => continue,
            ParameterKind::String | ParameterKind::Line => json!({"type": "String"}),
            ParameterKind::Strings => json!({"type": "Set", "element": {"type": "String"}}),
            ParameterKind::Integer => json!({"type": "Long"}),
            ParameterKind::Number | ParameterKind::Amount => {
                json!({"type": "Extension", "name": "decimal"})
            }
            ParameterKind::Boolean => json!({"type": "Boolean"}),
        };
        if let Some(kind) = kind.as_object_mut() {
            kind.insert("required".to_owned(), Value::Bool(parameter.required));
        }
        arguments.insert(name.clone(), kind);
    }
    let record = |attributes: Value| json!({"type": "Record", "attributes": attributes});
    let label = json!({"type": "Set", "element": {"type": "Entity", "name": "Taint"}});
    let boolean = json!({"type": "Boolean"});
    let facts = [
        ("attended", boolean.clone()),
        ("front", json!({"type": "Entity", "name": "Front"})),
        ("user", json!({"type": "String", "required": false})),
    ];
    let facts = facts.map(|(name, kind)| (name.to_owned(), kind));
    let session: Map<String, Value> = facts.into_iter().chain(counted.schema()).collect();
    let context = record(json!({
        "arguments": record(Value::Object(arguments)),
        "label": label,
        "untrusted": boolean,
        "secret": boolean,
        "control": record(json!({"label": label, "untrusted": boolean, "secret": boolean})),
        "session": record(Value::Object(session)),
    }));
    json!({"appliesTo": {
        "principalTypes": ["Session"],
        "resourceTypes": ["App"],
        "context": context,
    }})
}
