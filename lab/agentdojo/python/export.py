"""Writes what AgentDojo's suites contain as one JSON document: tasks, goals, ground truth, tools.

Usage: export.py VERSION OUT.json [PLACEHOLDERS]

The ground truth is what the package itself computes on its default environment. It is executed
once, step by step, and what each step returns is written too: the unprotected dry run. A value that
is known only then, a one-time code for example, is a placeholder in it; PLACEHOLDERS, a JSON object,
has a regular expression for each, which finds it in the results so far.
"""

import json
import random
import re
import sys
import warnings
from pathlib import Path

from agentdojo.agent_pipeline.tool_execution import tool_result_to_str
from agentdojo.base_tasks import BaseUserTask
from agentdojo.functions_runtime import FunctionCall, FunctionsRuntime
from agentdojo.task_suite.load_suites import get_suites

FORMAT = 1


def plain(value):
    """An argument as JSON. The suites in use nest no calls; one that does must not pass unseen."""
    if isinstance(value, FunctionCall):
        raise SystemExit("a ground truth nests a call in an argument; export.py cannot write that")
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def arguments_of(call, placeholders, results):
    """The arguments, with what placeholders stand for: the last match in the newest result that has one."""
    arguments = dict(call.args)
    for name, placeholder in (call.placeholder_args or {}).items():
        pattern = placeholders.get(placeholder) if isinstance(placeholder, str) else None
        found = [list(re.finditer(pattern, result)) for result in reversed(results)] if pattern else []
        match = next((matches[-1] for matches in found if matches), None)
        if match is not None:
            arguments[name] = match.group(match.lastindex or 0)
    return arguments


def steps(task, suite, placeholders):
    """The calls of the ground truth, each with what it returns in the default environment."""
    # As the runner does: what tools draw at random is the same in every run of this task.
    random.seed(task.ID)
    environment = suite.load_and_inject_default_environment({})
    if isinstance(task, BaseUserTask):
        environment = task.init_environment(environment)
    runtime = FunctionsRuntime(suite.tools)
    rows = []
    for call in task.ground_truth(environment):
        arguments = arguments_of(call, placeholders, [row["result"] for row in rows])
        result, error = runtime.run_function(environment, call.function, arguments)
        rows.append(
            {
                "tool": call.function,
                "arguments": plain(arguments),
                "result": tool_result_to_str(result) if error is None else error,
                "is_error": error is not None,
            }
        )
    return rows


def user_task(task, suite, placeholders):
    return {
        "id": task.ID,
        "prompt": task.PROMPT,
        "steps": steps(task, suite, placeholders),
        "output": task.GROUND_TRUTH_OUTPUT,
    }


def injection_task(task, suite, placeholders):
    return {"id": task.ID, "goal": task.GOAL, "steps": steps(task, suite, placeholders)}


def suite_document(suite, placeholders):
    return {
        "user_tasks": [user_task(task, suite, placeholders) for task in suite.user_tasks.values()],
        "injection_tasks": [injection_task(task, suite, placeholders) for task in suite.injection_tasks.values()],
        "injection_vectors": suite.get_injection_vector_defaults(),
        "tools": [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters.model_json_schema()}
            for tool in suite.tools
        ],
    }


def main():
    version, out = sys.argv[1], Path(sys.argv[2])
    placeholders = json.loads(sys.argv[3]) if len(sys.argv) > 3 else {}
    warnings.simplefilter("ignore")
    suites = {name: suite_document(suite, placeholders) for name, suite in get_suites(version).items()}
    if not suites:
        raise SystemExit(f"agentdojo has no benchmark version {version}")
    document = {"format": FORMAT, "version": version, "suites": suites}
    part = out.with_suffix(".part")
    part.write_text(json.dumps(document, ensure_ascii=False, sort_keys=True), encoding="utf-8")
    part.replace(out)


if __name__ == "__main__":
    main()
