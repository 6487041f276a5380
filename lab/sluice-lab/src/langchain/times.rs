//! Where the time of a query went, by its trace (SecGPT's Table 3).

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Milliseconds and completions of one query, by component.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Times {
    /// The hub's planner: its completions.
    pub(super) hub_planning: f64,
    /// The hub's memory.
    pub(super) hub_memory: f64,
    /// The spokes' model: the completions of steps and answers.
    pub(super) spoke_planning: f64,
    /// Screening and judging.
    pub(super) screening: f64,
    /// Calls in the apps.
    pub(super) execution: f64,
    /// From the plan until all spokes run: sandboxes and apps.
    pub(super) sandbox: f64,
    /// All the rest: labels, redaction, decisions, the protocol to model and spokes, the trace.
    pub(super) hub: f64,
    /// From the first record to the last.
    pub(super) total: f64,
    /// Completions of the planner, of steps, of judges.
    pub(super) calls: [usize; 3],
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
    let [mut planned, mut plans, mut steps, mut judgements] = [first, 0.0, 0.0, 0.0];
    for record in records {
        let now = at(record);
        let event = record.get("event").unwrap_or(&Value::Null);
        let text = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default();
        let usage = event.pointer("/usage/total_ms").and_then(Value::as_f64);
        let [of_plans, of_steps, of_judges] = &mut times.calls;
        match text("kind") {
            "consulted" if text("purpose").starts_with("plan") => {
                plans += usage.unwrap_or_default();
                *of_plans += 1;
            }
            "consulted" => {
                judgements += usage.unwrap_or_default();
                *of_judges += 1;
            }
            "completed" => {
                steps += usage.unwrap_or_default();
                *of_steps += 1;
            }
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
    times.hub_planning = plans;
    times.spoke_planning = steps;
    times.screening = judgements;
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
        assert_eq!(times.calls, [1, 2, 1]);
    }
}
