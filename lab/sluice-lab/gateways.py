#!/usr/bin/env python3
"""Measures Sluice's proxy beside the gateways of the package registries, in one run and by turns.

Installs `litellm` from PyPI and `@portkey-ai/gateway` from npm into a temporary folder, starts each in front of the
scripted upstream of `sluice-lab bench proxy`, and prints that command's table: the latency that each hop adds.

    lab/sluice-lab/gateways.py [--lab target/release/sluice-lab] [--folder FOLDER] [-- OPTIONS OF bench proxy]

The usual rate of 1,000 requests a second is more than either gateway answers on two cores; 50 is the default here.
"""

import argparse
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

UPSTREAM, LITELLM, PORTKEY = 18410, 18411, 18412
# Seconds until a gateway listens: litellm imports for half a minute on a busy machine.
PATIENCE = 180


def install(folder):
    """Installs both gateways, unless the folder has them already, and prints their versions."""
    venv, node = folder / "venv", folder / "node"
    if not (venv / "bin" / "litellm").exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([venv / "bin" / "pip", "install", "-q", "litellm[proxy]"], check=True)
    if not (node / "node_modules" / "@portkey-ai").exists():
        node.mkdir(exist_ok=True)
        words = ["npm", "install", "--no-audit", "--no-fund", "--silent", "@portkey-ai/gateway"]
        subprocess.run(words, cwd=node, check=True)
    script = "import importlib.metadata as m; print('litellm', m.version('litellm'))"
    subprocess.run([venv / "bin" / "python", "-c", script], check=True)
    package = node / "node_modules" / "@portkey-ai" / "gateway" / "package.json"
    print("@portkey-ai/gateway", json.loads(package.read_text())["version"], flush=True)


def start(folder):
    """Starts both gateways in front of the upstream."""
    base = f"http://127.0.0.1:{UPSTREAM}/v1"
    config = folder / "litellm.yaml"
    config.write_text(
        "model_list:\n- model_name: mock\n  litellm_params:\n    model: openai/mock\n"
        f"    api_base: {base}\n    api_key: bench\n"
    )
    env = {
        **os.environ,
        "NODE_ENV": "production",
        "TRUSTED_CUSTOM_HOSTS": "127.0.0.1,localhost",
        # It runs on loopback for a minute; a check of keys would only make it slower.
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    }
    gateway = folder / "node" / "node_modules" / "@portkey-ai" / "gateway" / "build" / "start-server.js"
    commands = [
        [folder / "venv" / "bin" / "litellm", "--config", config, "--host", "127.0.0.1", "--port", str(LITELLM)],
        ["node", gateway, f"--port={PORTKEY}", "--headless"],
    ]
    log = open(folder / "gateways.log", "w", encoding="utf-8")
    return [subprocess.Popen(command, env=env, stdout=log, stderr=log) for command in commands]


def wait_for(port):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.5)
    sys.exit(f"nothing listens on port {port} after {PATIENCE} s; see gateways.log")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lab", default="target/release/sluice-lab", help="the binary sluice-lab")
    parser.add_argument("--folder", type=pathlib.Path, help="keep the installation here")
    parser.add_argument("options", nargs="*", help="options of `sluice-lab bench proxy`")
    arguments = parser.parse_args()
    options = arguments.options or ["--rate", "50", "--connections", "8", "--seconds", "45"]
    with tempfile.TemporaryDirectory() as temporary:
        folder = (arguments.folder or pathlib.Path(temporary)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        install(folder)
        gateways = start(folder)
        try:
            for port in (LITELLM, PORTKEY):
                wait_for(port)
            words = [arguments.lab, "bench", "proxy", "--upstream-port", str(UPSTREAM)]
            words += ["--beside", f"litellm=127.0.0.1:{LITELLM}", "--beside", f"portkey=127.0.0.1:{PORTKEY}"]
            # What tells the second one where its upstream is; the others pass over it.
            words += ["--header", "x-portkey-provider: openai"]
            words += ["--header", f"x-portkey-custom-host: http://127.0.0.1:{UPSTREAM}/v1"]
            return subprocess.run(words + options, check=False).returncode
        finally:
            for gateway in gateways:
                gateway.terminate()
                gateway.wait()


if __name__ == "__main__":
    sys.exit(main())
