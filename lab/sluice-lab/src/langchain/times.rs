//! Where the time of a query went, by its trace (SecGPT's Table 3).

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Milliseconds of one query, by component.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Times {
    /// The hub's planner: its completions.
    pub(super) hub_planning: f64,
    /// The hub's memory: what is recalled and remembered, and the completions that find facts and summarise.
    pub(super) hub_memory: f64,
    /// The spokes' model: the completions of steps and answers.
    pub(super) spoke_planning: f64,
    /// Screening and judging.
    pub(super) screening: f64,
    /// Calls in the apps, and the completions that apps asked for meanwhile.
    pub(super) execution: f64,
    /// From the plan until all spokes run: sandboxes and apps.
    pub(super) sandbox: f64,
    /// All the rest: labels, redaction, decisions, the protocol to model and spokes, the trace.
    pub(super) hub: f64,
    /// From the first record to the last.
    pub(super) total: f64,
}

/// Reads the records of one query.
pub(super) fn times(records: &[Value]) -> Times {
    let mut times = Times::default();
    let at = |record: &Value| {
        record
            .get("at_ms")
            .and_then(Value::as_f64)
            .unwrap_or_default()
    };
    let first = records.first().map_or(0.0, at);
    let mut before = first;
    let mut planned = first;
    for record in records {
        let now = at(record);
        let event = record.get("event").unwrap_or(&Value::Null);
        let text = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default();
        let usage = event.pointer("/usage/total_ms").and_then(Value::as_f64);
        let usage = usage.unwrap_or_default();
        match text("kind") {
            "consulted" => {
                // The planner's says for which app.
                let purpose = text("purpose").split(' ').next();
                match purpose.unwrap_or_default() {
                    "plan" => times.hub_planning += usage,
                    "judge" => times.screening += usage,
                    "facts" | "summary" => times.hub_memory += usage,
                    "sampling" => times.execution += usage,
                    // Whatever comes later is in the rest until it has a component.
                    _ => {}
                }
            }
            "completed" => times.spoke_planning += usage,
            "planned" => planned = now,
            // Of several spokes the last one counts, which is when all of them run.
            "spoke_started" => times.sandbox = now - planned,
            // A call is recorded as allowed right before it is made.
            "returned" | "call_failed" | "call_unknown" => times.execution += now - before,
            "recalled" | "remembered" => times.hub_memory += now - before,
            _ => {}
        }
        before = now;
    }
    times.total = before - first;
    let known = times.hub_planning
        + times.hub_memory
        + times.spoke_planning
        + times.screening
        + times.execution
        + times.sandbox;
    // Usage is rounded to milliseconds, so the sum may exceed the whole by a few.
    times.hub = (times.total - known).max(0.0);
    times
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_query_is_taken_apart() {
        let usage = |ms: u64| json!({"total_ms": ms});
        let record = |at: u64, event: Value| json!({"at_ms": at, "event": event});
        let records = [
            record(1000, json!({"kind": "session_started"})),
            record(
                1020,
                json!({"kind": "consulted", "purpose": "plan mail", "usage": usage(18)}),
            ),
            record(1020, json!({"kind": "planned"})),
            record(1060, json!({"kind": "spoke_started"})),
            record(1100, json!({"kind": "completed", "usage": usage(39)})),
            record(1101, json!({"kind": "allowed"})),
            record(1106, json!({"kind": "returned"})),
            record(
                1150,
                json!({"kind": "consulted", "purpose": "judge", "usage": usage(40)}),
            ),
            record(1200, json!({"kind": "completed", "usage": usage(49)})),
            record(1200, json!({"kind": "answer"})),
        ];
        let times = times(&records);
        let parts = [
            times.hub_planning,
            times.sandbox,
            times.spoke_planning,
            times.execution,
            times.screening,
            times.hub,
            times.total,
        ];
        assert_eq!(parts, [18.0, 40.0, 88.0, 5.0, 40.0, 9.0, 200.0]);
    }

    #[test]
    fn only_a_judge_screens() {
        let check = |purpose: &str, parts: [f64; 4]| {
            let usage = json!({"total_ms": 30});
            let records = [
                json!({"at_ms": 0, "event": {"kind": "user"}}),
                json!({"at_ms": 40, "event": {"kind": "consulted", "purpose": purpose, "usage": usage}}),
            ];
            let times = times(&records);
            let found = [
                times.hub_planning,
                times.screening,
                times.hub_memory,
                times.execution,
            ];
            assert_eq!(found, parts, "{purpose}");
            assert_eq!(times.total, 40.0);
        };
        check("plan mail", [30.0, 0.0, 0.0, 0.0]);
        check("judge", [0.0, 30.0, 0.0, 0.0]);
        check("facts", [0.0, 0.0, 30.0, 0.0]);
        check("summary", [0.0, 0.0, 30.0, 0.0]);
        check("sampling", [0.0, 0.0, 0.0, 30.0]);
        check("another", [0.0; 4]);
    }
}
