"""Writes what AgentDojo's suites contain as one JSON document: tasks, goals, ground truth, tools.

Usage: export.py VERSION OUT.json

The ground truth is what the package itself computes on its default environment. It is executed
once, step by step, and what each step returns is written too: the unprotected dry run.
"""

import json
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


def steps(task, suite):
    """The calls of the ground truth, each with what it returns in the default environment."""
    environment = suite.load_and_inject_default_environment({})
    if isinstance(task, BaseUserTask):
        environment = task.init_environment(environment)
    runtime = FunctionsRuntime(suite.tools)
    rows = []
    for call in task.ground_truth(environment):
        result, error = runtime.run_function(environment, call.function, call.args)
        rows.append(
            {
                "tool": call.function,
                "arguments": plain(call.args),
                "result": tool_result_to_str(result) if error is None else error,
                "is_error": error is not None,
            }
        )
    return rows


def user_task(task, suite):
    return {
        "id": task.ID,
        "prompt": task.PROMPT,
        "steps": steps(task, suite),
        "output": task.GROUND_TRUTH_OUTPUT,
    }


def injection_task(task, suite):
    return {"id": task.ID, "goal": task.GOAL, "steps": steps(task, suite)}


def suite_document(suite):
    return {
        "user_tasks": [user_task(task, suite) for task in suite.user_tasks.values()],
        "injection_tasks": [injection_task(task, suite) for task in suite.injection_tasks.values()],
        "injection_vectors": suite.get_injection_vector_defaults(),
        "tools": [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters.model_json_schema()}
            for tool in suite.tools
        ],
    }


def main():
    version, out = sys.argv[1], Path(sys.argv[2])
    warnings.simplefilter("ignore")
    suites = {name: suite_document(suite) for name, suite in get_suites(version).items()}
    if not suites:
        raise SystemExit(f"agentdojo has no benchmark version {version}")
    document = {"format": FORMAT, "version": version, "suites": suites}
    part = out.with_suffix(".part")
    part.write_text(json.dumps(document, ensure_ascii=False, sort_keys=True), encoding="utf-8")
    part.replace(out)


if __name__ == "__main__":
    main()
