#!/usr/bin/env node
// A small agent of Anthropic's API with the tools of a large one. It does what its model says, and prints the answer.
const { execSync } = require("child_process");
const fs = require("fs");
const base = process.env.ANTHROPIC_BASE_URL;
const json = { "content-type": "application/json" };
const args = process.argv.slice(2);
const servers = JSON.parse(args[args.indexOf("--mcp-config") + 1]).mcpServers;
// As some agents end.
process.on("SIGINT", () => process.exit(0));
let session;
async function post(url, headers, body) {
  const answer = await fetch(url, { method: "POST", headers: { ...json, ...headers }, body: JSON.stringify(body) });
  session = answer.headers.get("mcp-session-id") || session;
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${answer.status} ${text}`);
  const event = text.split("\n").filter((line) => line.startsWith("data: ") && line.includes('"result"')).pop();
  return event ? JSON.parse(event.slice(6)) : text && JSON.parse(text);
}
async function mcp(method, params) {
  const { url, headers } = servers.sluice;
  const authorization = headers.Authorization.replace(/\$\{(\w+)\}/, (_, name) => process.env[name]);
  const own = { authorization, accept: "application/json, text/event-stream", ...(session && { "mcp-session-id": session }) };
  return (await post(url, own, { jsonrpc: "2.0", id: 1, method, params })).result;
}
async function call({ name, input }) {
  try {
    if (name === "Bash") return execSync(input.command, { encoding: "utf8" });
    if (name === "Write") return fs.writeFileSync(input.file_path, input.content) || "written";
    if (name === "Read") return fs.readFileSync(input.file_path, "utf8");
    const result = await mcp("tools/call", { name: name.replace("mcp__sluice__", ""), arguments: input });
    return result.content.map((block) => block.text).join("");
  } catch (error) {
    return `failed: ${error.message}`;
  }
}
(async () => {
  const tools = ["Bash", "Read", "Write"].map((name) => ({ name, input_schema: { type: "object" } }));
  if (servers.sluice) {
    await mcp("initialize", { protocolVersion: "2025-11-25", capabilities: { elicitation: {} }, clientInfo: { name: "a", version: "1" } });
    for (const { name, inputSchema } of (await mcp("tools/list", {})).tools)
      tools.push({ name: `mcp__sluice__${name}`, input_schema: inputSchema });
  }
  const direct = /^CALL (\w+)/.exec(args.at(-1));
  if (direct) await call({ name: direct[1], input: {} });
  // What is piped in stands below the prompt, or is the prompt.
  const prompt = args.at(-1) === "-p" ? "" : args.pop();
  const piped = process.stdin.isTTY ? "" : fs.readFileSync(0, "utf8");
  const messages = [{ role: "user", content: `${prompt}\n${piped}` }];
  for (;;) {
    const key = { authorization: `Bearer ${process.env.ANTHROPIC_AUTH_TOKEN}`, "anthropic-version": "2023-06-01" };
    const answer = await post(`${base}/v1/messages`, key, { model: "big", max_tokens: 99, tools, messages });
    messages.push({ role: "assistant", content: answer.content });
    const results = [];
    for (const block of answer.content)
      if (block.type === "text") console.log(block.text);
      else results.push({ type: "tool_result", tool_use_id: block.id, content: await call(block) });
    if (!results.length) return;
    messages.push({ role: "user", content: results });
  }
})().catch((error) => { console.error(error); process.exit(9); });
