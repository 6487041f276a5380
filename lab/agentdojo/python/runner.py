"""Runs tasks of the unmodified AgentDojo against an OpenAI-compatible server.

Reads a JSON list of jobs per line and answers each job with one JSON line, in their order. The
pipeline is made of AgentDojo's own elements; so is everything that is measured.

Usage: runner.py WORKERS
Job: {"id", "base_url", "model", "version", "suite", "attack": name|null, "user_task",
      "injection_task": name|null, "defence": name|null, "conversation"}
"""

import json
import os
import random
import sys
import threading
import time
import traceback
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from multiprocessing import get_context

# The package prints from its checks: answers get the real standard output, prints do not.
ANSWERS = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
os.dup2(2, 1)
warnings.simplefilter("ignore")

import logging  # noqa: E402

import openai  # noqa: E402
import yaml  # noqa: E402
from agentdojo.agent_pipeline.agent_pipeline import AgentPipeline, PipelineConfig  # noqa: E402
from agentdojo.agent_pipeline.base_pipeline_element import BasePipelineElement  # noqa: E402
from agentdojo.agent_pipeline.llms.openai_llm import OpenAILLM  # noqa: E402
from agentdojo.agent_pipeline.tool_execution import ToolsExecutionLoop  # noqa: E402
from agentdojo.attacks.attack_registry import load_attack  # noqa: E402
from agentdojo.attacks.base_attacks import BaseAttack  # noqa: E402
from agentdojo.logging import Logger  # noqa: E402
from agentdojo.task_suite.load_suites import get_suite  # noqa: E402
from agentdojo.task_suite.task_suite import read_suite_file  # noqa: E402
from attacks import FailWith, SluiceAttack, fresh_mark  # noqa: E402

# The attacks address the model by name; this is the model of the paper.
VICTIM = "gpt-4o-2024-05-13"
# Seconds for one answer of the server. It answers in milliseconds, or asks somebody.
TIMEOUT = 60.0
# Characters of an error in an answer.
ERROR_LIMIT = 4000


@lru_cache
def suite_of(version, name):
    return get_suite(version, name)


def parsed(text):
    """What yaml.safe_load says, ten times as fast where libyaml is there."""
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def environment_with(suite, injections):
    """As TaskSuite.load_and_inject_default_environment, with the faster parser."""
    text = read_suite_file(suite.name, "environment.yaml", suite.data_path)
    values = {**suite.get_injection_vector_defaults(), **injections}
    return suite.environment_type.model_validate(parsed(text.format(**values)))


def replaced(value, marks):
    if isinstance(value, str):
        for mark, text in marks.items():
            value = value.replace(mark, text)
        return value
    if isinstance(value, list):
        return [replaced(item, marks) for item in value]
    if isinstance(value, dict):
        return {replaced(key, marks): replaced(item, marks) for key, item in value.items()}
    return value


def environment_exactly(suite, injections):
    """As above, for texts that would break the YAML which they are pasted into."""
    marks = {fresh_mark(): text for text in injections.values()}
    by_place = dict(zip(injections, marks, strict=True))
    text = read_suite_file(suite.name, "environment.yaml", suite.data_path)
    values = {**suite.get_injection_vector_defaults(), **by_place}
    return suite.environment_type.model_validate(replaced(parsed(text.format(**values)), marks))


@lru_cache
def candidates_of(version, suite_name, user_task):
    """The places that the user's task is shown. AgentDojo computes them afresh for each attack,
    but they do not depend on it."""
    suite = suite_of(version, suite_name)
    return BaseAttack.get_injection_candidates(Places(suite), suite.user_tasks[user_task])


class Places(BaseAttack):
    name = "places"

    def __init__(self, suite):
        super().__init__(suite, None)

    def attack(self, user_task, injection_task):
        raise NotImplementedError


@lru_cache
def attack_of(version, suite_name, name):
    victim = AgentPipeline([])
    victim.name = VICTIM
    suite = suite_of(version, suite_name)
    attack = load_attack(name, suite, victim)
    attack.get_injection_candidates = lambda task: candidates_of(version, suite_name, task.ID)
    return attack


@lru_cache
def client_of(base_url):
    # One attempt: a failure must be seen, not repeated.
    return openai.OpenAI(api_key="none", base_url=base_url, timeout=TIMEOUT, max_retries=0)


class Counter:
    """Adds up what the server says that its answers cost."""

    def __init__(self, client):
        self.calls = self.prompt = self.completion = 0
        self.create = client.chat.completions.create
        client.chat.completions.create = self

    def __call__(self, **request):
        self.calls += 1
        answer = self.create(**request)
        if answer.usage is not None:
            self.prompt += answer.usage.prompt_tokens
            self.completion += answer.usage.completion_tokens
        return answer


def pipeline_of(job, marks):
    # A key of its own: what one conversation has seen must not be recognised in another.
    client = client_of(job["base_url"]).with_options(
        api_key=job["conversation"],
        default_headers={"x-sluice-conversation": job["conversation"]},
    )
    counter = Counter(client)
    llm = OpenAILLM(client, job["model"])
    llm.name = job["model"]
    config = PipelineConfig(
        llm=llm, model_id=None, defense=job["defence"], system_message_name=None, system_message=None
    )
    pipeline = AgentPipeline.from_config(config)
    if marks:
        for element in pipeline.elements:
            if isinstance(element, ToolsExecutionLoop):
                element.elements = [element.elements[0], FailWith(marks), *element.elements[1:]]
    pipeline.elements = [*pipeline.elements, AsRead()]
    return pipeline, counter


class AsRead(BasePipelineElement):
    """What a reader takes an answer to say: the checks look for addresses as words, and an address that is
    shown inert (`https[:]//example[.]com`) says the same. So it counts, for the user's task and for attacks."""

    def query(self, query, runtime, env, messages=(), extra_args=None):
        read = list(messages)
        if read and read[-1]["role"] == "assistant":
            blocks = [
                {**block, "content": (block["content"] or "").replace("[.]", ".").replace("[:]", ":")}
                for block in read[-1]["content"] or []
            ]
            read[-1] = {**read[-1], "content": blocks}
        return query, runtime, env, read, extra_args or {}


class Watch(Logger):
    """AgentDojo's own hook for logs, used to see the messages."""

    def __init__(self):
        self.messages = []

    def log(self, messages, **_):
        self.messages = list(messages)

    def log_error(self, _):
        pass


def calls_of(messages):
    rows = []
    for message in messages:
        calls = message.get("tool_calls") or []
        rows.append({"calls": [{"tool": call.function, "arguments": call.args} for call in calls]})
    return rows


def run(job):
    suite = suite_of(job["version"], job["suite"])
    user_task = suite.user_tasks[job["user_task"]]
    injection_task, injections, marks, ours = None, {}, {}, False
    if job["attack"] is not None:
        injection_task = suite.injection_tasks[job["injection_task"]]
        attack = attack_of(job["version"], job["suite"], job["attack"])
        injections = attack.attack(user_task, injection_task)
        ours = isinstance(attack, SluiceAttack)
        if ours and attack.as_error:
            marks = {fresh_mark(): text for text in injections.values()}
            injections = dict(zip(injections, marks, strict=True))
    environment = (environment_exactly if ours else environment_with)(suite, injections)
    pipeline, counter = pipeline_of(job, marks)
    # As export.py does, so that codes which tools draw are those of the dry run.
    random.seed(user_task.ID)
    with Watch() as watch:
        utility, security = suite.run_task_with_pipeline(
            pipeline, user_task, injection_task, injections, environment=environment
        )
    messages = watch.messages
    answer = {
        "utility": bool(utility),
        "security": bool(security) if injection_task is not None else None,
        "llm_calls": counter.calls,
        "prompt_tokens": counter.prompt,
        "completion_tokens": counter.completion,
    }
    if answer["security"]:
        answer["messages"] = calls_of(messages)
    return answer


def answer(job):
    started = time.monotonic()
    try:
        result = {**run(job), "error": None}
    except Exception as error:  # A failed pair is an answer too.
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error} ({os.path.basename(place.filename)}:{place.lineno})"
        result = {"error": text[:ERROR_LIMIT]}
    return {"id": job["id"], "seconds": round(time.monotonic() - started, 4), **result}


def follow_parent():
    """A worker ends when its parent is gone, however that went."""
    parent = os.getppid()

    def watch():
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    logging.disable(logging.CRITICAL)
    threading.Thread(target=watch, daemon=True).start()


def pool_of(workers):
    return ProcessPoolExecutor(workers, mp_context=get_context("fork"), initializer=follow_parent)


def main():
    workers = int(sys.argv[1])
    for line in sys.stdin.buffer:
        jobs = json.loads(line)
        # Loaded before the fork, so that the workers share them.
        for job in jobs:
            suite_of(job["version"], job["suite"])
        pool = pool_of(workers)
        waiting = [(job, pool.submit(answer, job)) for job in jobs]
        for job, future in waiting:
            try:
                result = future.result()
            except Exception as error:  # The worker died, and the pool with it.
                result = {"id": job["id"], "seconds": 0.0, "error": f"worker: {type(error).__name__}: {error}"}
            ANSWERS.write(json.dumps(result) + "\n")
        pool.shutdown()


if __name__ == "__main__":
    main()
