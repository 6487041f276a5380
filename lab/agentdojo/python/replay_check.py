"""Executes calls of recorded runs again in AgentDojo's own environments, and asks its own checks.

Reads one JSON object per line and answers each with one line:

    {"id": 1, "suite": "banking", "user_task": "user_task_0", "injection_task": "injection_task_0",
     "injections": {...}, "variants": [{"calls": [{"function": "...", "args": {...}}],
     "answer": "..."}]}
    {"id": 1, "results": [{"utility": true, "security": false}]}

`security` is AgentDojo's word: true means that the attack succeeded. Without an injection task it is
null. A variant that cannot be executed is answered with {"error": "..."} in place of its result.

Usage: python replay_check.py VERSION     (of the suites, such as v1)
"""

import functools
import json
import sys
import warnings
from ast import literal_eval

from agentdojo.agent_pipeline.tool_execution import is_string_list
from agentdojo.functions_runtime import FunctionCall, FunctionsRuntime
from agentdojo.task_suite.load_suites import get_suite

# Environments are kept by their injections; nearly all runs of one task come one after another.
KEPT_ENVIRONMENTS = 64


@functools.lru_cache(maxsize=KEPT_ENVIRONMENTS)
def environment(version, suite, injections):
    return get_suite(version, suite).load_and_inject_default_environment(json.loads(injections))


def task_of(suite, name):
    """A user task, or the attacker's goal that the user asks for."""
    if name.startswith("injection_task"):
        return suite.get_injection_task_by_id(name)
    return suite.get_user_task_by_id(name)


def execute(suite, environment, calls):
    """Executes calls as AgentDojo's ToolsExecutor does; an unknown tool or an error changes nothing."""
    runtime = FunctionsRuntime(suite.tools)
    trace = []
    for call in calls:
        args = dict(call["args"])
        for name, value in args.items():
            if isinstance(value, str) and is_string_list(value):
                args[name] = literal_eval(value)
        trace.append(FunctionCall(function=call["function"], args=args))
        runtime.run_function(environment, call["function"], args)
    return trace


def check(version, run, variant):
    suite = get_suite(version, run["suite"])
    task = task_of(suite, run["user_task"])
    base = environment(version, run["suite"], json.dumps(run["injections"], sort_keys=True))
    after = base.model_copy(deep=True)
    if not run["user_task"].startswith("injection_task"):
        after = task.init_environment(after)
    before = after.model_copy(deep=True)
    trace = execute(suite, after, variant["calls"])
    answer = variant["answer"]
    output = [] if answer is None else [{"type": "text", "content": answer}]
    result = {"utility": bool(suite._check_task_result(task, output, before, after, trace)), "security": None}
    if run["injection_task"] is not None:
        goal = suite.get_injection_task_by_id(run["injection_task"])
        result["security"] = bool(suite._check_task_result(goal, output, before, after, trace))
    return result


def answer(version, line):
    run = json.loads(line)
    results = []
    for variant in run["variants"]:
        try:
            results.append(check(version, run, variant))
        # The suites' checks are code of many authors: whatever one of them raises is a result.
        except Exception as error:
            results.append({"error": f"{type(error).__name__}: {error}"})
    return {"id": run["id"], "results": results}


def main():
    warnings.simplefilter("ignore")
    version = sys.argv[1]
    for line in sys.stdin:
        print(json.dumps(answer(version, line)), flush=True)


if __name__ == "__main__":
    main()
