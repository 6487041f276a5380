//! Entries in the form of the Open Cybersecurity Schema Framework.

use serde_json::{Value, json};

use super::entry::{Entry, Note};

/// The version of the schema.
pub const OCSF_VERSION: &str = "1.3.0";

/// Classes of the schema.
const AUTHENTICATION: u32 = 3002;
const ENTITY_MANAGEMENT: u32 = 3004;
const APPLICATION_LIFECYCLE: u32 = 6002;
const API_ACTIVITY: u32 = 6003;

/// An entry as an event of OCSF: API Activity for what an agent does and what becomes of it, Authentication, Entity
/// Management for tokens, permissions and the configuration, Application Lifecycle for start and stop. `text` is the entry as
/// it is stored, so that its digest can be checked.
pub fn ocsf(entry: &Entry, text: &str) -> Value {
    let note = &entry.note;
    let (class, activity) = class(note);
    let front = note.text("front").unwrap_or("sluice");
    let who = note.text("who");
    let product =
        json!({"name": "Sluice", "vendor_name": "Sluice", "version": env!("CARGO_PKG_VERSION")});
    let denies = ["deny", "denied", "reject", "no", "dropped", "none in time"];
    let is_denied = denies.contains(&note.outcome.as_str()) || note.kind == "refusal";
    let is_failed = is_denied || ["failed", "error", "unknown"].contains(&note.outcome.as_str());
    let mut event = json!({
        "category_uid": class / 1000,
        "class_uid": class,
        "activity_id": activity,
        "type_uid": class * 100 + activity,
        "time": entry.at.millis(),
        // Informational, or low: what was denied is worth a look, and is what the policy is for.
        "severity_id": if is_failed { 2 } else { 1 },
        "status_id": if is_failed { 2 } else { 1 },
        "status_detail": note.outcome,
        "message": format!("{}: {}", note.kind, note.outcome),
        "metadata": {
            "version": OCSF_VERSION,
            "uid": format!("{}:{}", entry.chain, entry.number),
            "sequence": entry.number,
            "log_name": "audit",
            "event_code": note.kind,
            "product": product,
        },
        "actor": {"app_name": front},
        "raw_data": text,
        "unmapped": {"sluice": note.about},
    });
    // Each place is there: `json!` has made it, or makes it.
    let mut set = |place: &str, name: &str, value: Value| {
        let place = event.pointer_mut(place).and_then(Value::as_object_mut);
        place.and_then(|place| place.insert(name.to_owned(), value));
    };
    let names = [
        ("tenant", "tenant_uid"),
        ("conversation", "correlation_uid"),
    ];
    for (own, name) in names {
        if let Some(value) = note.text(own) {
            set("/metadata", name, value.into());
        }
    }
    if let Some(who) = who {
        set("/actor", "user", json!({"name": who}));
    }
    match class {
        AUTHENTICATION => {
            set("", "user", json!({"name": who.unwrap_or("unknown")}));
            set("", "service", json!({"name": front}));
        }
        ENTITY_MANAGEMENT => {
            let name = note.text("name").unwrap_or(&note.kind);
            set("", "entity", json!({"name": name, "type": note.kind}));
        }
        APPLICATION_LIFECYCLE => set("", "app", product),
        _ => {
            let operation = note.text("tool").unwrap_or(&note.kind);
            let service = note.text("app").unwrap_or(front);
            set(
                "",
                "api",
                json!({"operation": operation, "service": {"name": service}}),
            );
            set("", "src_endpoint", json!({"svc_name": front}));
        }
    }
    let decides = [
        "decision",
        "grant",
        "refusal",
        "connection",
        "clearance",
        "message",
    ];
    let is_open = ["ask", "reported"].contains(&note.outcome.as_str());
    if decides.contains(&note.kind.as_str()) && !is_open {
        // Allowed or denied, as an action; allowed or blocked, as a disposition.
        let action = if is_denied { 2 } else { 1 };
        set("/metadata", "profiles", json!(["security_control"]));
        set("", "action_id", action.into());
        set("", "disposition_id", action.into());
        if let Some(rule) = note.text("rule") {
            set("", "policy", json!({"name": rule}));
        }
    }
    event
}

/// The class of a note, and the activity.
fn class(note: &Note) -> (u32, u32) {
    match (note.kind.as_str(), note.outcome.as_str()) {
        ("login", _) => (AUTHENTICATION, 1),
        ("token" | "permission", "revoke") => (ENTITY_MANAGEMENT, 4),
        ("token" | "permission", _) => (ENTITY_MANAGEMENT, 1),
        ("reload", _) => (ENTITY_MANAGEMENT, 3),
        ("start", _) => (APPLICATION_LIFECYCLE, 3),
        ("stop", _) => (APPLICATION_LIFECYCLE, 4),
        _ => match note.text("effect") {
            Some("read") => (API_ACTIVITY, 2),
            Some(_) => (API_ACTIVITY, 3),
            None => (API_ACTIVITY, 99),
        },
    }
}
