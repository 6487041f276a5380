//! Entries in the form of the Open Cybersecurity Schema Framework.

use serde_json::{Map, Value, json};

use super::entry::{Entry, Note};

/// The version of the schema.
pub const OCSF_VERSION: &str = "1.3.0";

/// A class of the schema: its number and that of its category.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Class(u32, u32);

const AUTHENTICATION: Class = Class(3002, 3);
const ENTITY_MANAGEMENT: Class = Class(3004, 3);
const APPLICATION_LIFECYCLE: Class = Class(6002, 6);
const API_ACTIVITY: Class = Class(6003, 6);

/// Activities, by the numbers of their classes.
const CREATE: u32 = 1;
const READ: u32 = 2;
const UPDATE: u32 = 3;
const DELETE: u32 = 4;
const LOGON: u32 = 1;
const START: u32 = 3;
const STOP: u32 = 4;
const OTHER: u32 = 99;

/// An entry as an event of OCSF: API Activity for what an agent does and what becomes of it, Authentication, Entity
/// Management for tokens, permissions and the configuration, Application Lifecycle for start and stop. `text` is the entry as
/// it is stored, so that its digest can be checked.
pub fn ocsf(entry: &Entry, text: &str) -> Value {
    let note = &entry.note;
    let (class, activity) = class(note);
    let failed = matches!(
        note.outcome.as_str(),
        "deny" | "reject" | "no" | "failed" | "error" | "unknown" | "dropped"
    );
    let mut event = json!({
        "category_uid": class.1,
        "class_uid": class.0,
        "activity_id": activity,
        "type_uid": class.0 * 100 + activity,
        "time": entry.at.millis(),
        // Informational, or low: what was denied is worth a look, and is what the policy is for.
        "severity_id": if failed { 2 } else { 1 },
        "status_id": if failed { 2 } else { 1 },
        "status_detail": note.outcome,
        "message": format!("{}: {}", note.kind, note.outcome),
        "metadata": {
            "version": OCSF_VERSION,
            "uid": format!("{}:{}", entry.chain, entry.number),
            "sequence": entry.number,
            "log_name": "audit",
            "event_code": note.kind,
            "product": {
                "name": "Sluice",
                "vendor_name": "Sluice",
                "version": env!("CARGO_PKG_VERSION"),
            },
        },
        "raw_data": text,
        "unmapped": { "sluice": note },
    });
    let mut set = |at: &str, value: Value| {
        if let Some(place) = event.pointer_mut(at).and_then(Value::as_object_mut) {
            place.extend(value.as_object().cloned().unwrap_or_default());
        }
    };
    if let Some(tenant) = &note.tenant {
        set("/metadata", json!({ "tenant_uid": tenant }));
    }
    if let Some(conversation) = &note.conversation {
        set("/metadata", json!({ "correlation_uid": conversation }));
    }
    let user = json!({ "name": note.who.as_deref().unwrap_or("unknown") });
    let front = note.front.as_deref().unwrap_or("sluice");
    let mut actor = Map::from_iter([("app_name".to_owned(), front.into())]);
    if note.who.is_some() {
        actor.insert("user".to_owned(), user.clone());
    }
    set("", json!({ "actor": actor }));
    if class == AUTHENTICATION {
        set("", json!({ "user": user, "service": { "name": front } }));
    } else if class == ENTITY_MANAGEMENT {
        let name = note.what.get("name").and_then(Value::as_str);
        let entity = json!({ "name": name.unwrap_or(&note.kind), "type": note.kind });
        set("", json!({ "entity": entity }));
    } else if class == APPLICATION_LIFECYCLE {
        set(
            "",
            json!({ "app": { "name": "Sluice", "vendor_name": "Sluice", "version": env!("CARGO_PKG_VERSION") } }),
        );
    } else {
        let operation = note.tool.as_deref().unwrap_or(&note.kind);
        let service = note.app.as_deref().unwrap_or(front);
        let api = json!({ "operation": operation, "service": { "name": service } });
        set(
            "",
            json!({ "api": api, "src_endpoint": { "svc_name": front } }),
        );
        if let Some(action) = action(note) {
            let rule = note.rule.as_deref().unwrap_or("none");
            set("/metadata", json!({ "profiles": ["security_control"] }));
            set(
                "",
                json!({ "action_id": action, "disposition_id": action, "policy": { "name": rule } }),
            );
        }
    }
    event
}

fn class(note: &Note) -> (Class, u32) {
    match note.kind.as_str() {
        "login" => (AUTHENTICATION, LOGON),
        "token" | "permission" => match note.outcome.as_str() {
            "revoke" => (ENTITY_MANAGEMENT, DELETE),
            _ => (ENTITY_MANAGEMENT, CREATE),
        },
        "reload" => (ENTITY_MANAGEMENT, UPDATE),
        "start" => (APPLICATION_LIFECYCLE, START),
        "stop" => (APPLICATION_LIFECYCLE, STOP),
        _ => match note.effect.as_deref() {
            Some("read") => (API_ACTIVITY, READ),
            Some("write" | "irreversible") => (API_ACTIVITY, UPDATE),
            _ => (API_ACTIVITY, OTHER),
        },
    }
}

/// Of a decision or an answer: 1 is allowed, 2 is denied (as an action) and blocked (as a disposition).
fn action(note: &Note) -> Option<u32> {
    let decides = [
        "decision",
        "grant",
        "refusal",
        "connection",
        "clearance",
        "message",
    ];
    if !decides.contains(&note.kind.as_str()) {
        return None;
    }
    match note.outcome.as_str() {
        "ask" | "reported" => None,
        "deny" | "reject" | "no" | "dropped" => Some(2),
        _ => Some(if note.kind == "refusal" { 2 } else { 1 }),
    }
}
