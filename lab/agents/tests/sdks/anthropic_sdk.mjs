// The official `@anthropic-ai/sdk`: a tool round trip, streamed and not, parallel calls, an image, an error.
import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";
import { IMAGE, PARALLEL, PLAN, REFUSED, SEEN, weather } from "./plans.mjs";

const client = new Anthropic({ maxRetries: 0 });
const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const tools = [{ name: "get_weather", description: "The weather of a city.", input_schema: schema }];

async function ask(messages, stream) {
  const request = { model: "worst-case", max_tokens: 1000, tools, messages };
  return stream ? client.messages.stream(request).finalMessage() : client.messages.create(request);
}

async function answer(content, stream, calls) {
  const messages = [{ role: "user", content }];
  for (;;) {
    const message = await ask(messages, stream);
    const uses = message.content.filter((block) => block.type === "tool_use");
    if (uses.length === 0) return message.content.map((block) => block.text).join("");
    assert.equal(uses.length, calls);
    const results = uses.map((use) => ({ type: "tool_result", tool_use_id: use.id, content: weather(use.input.city) }));
    messages.push({ role: "assistant", content: message.content }, { role: "user", content: results });
  }
}

for (const stream of [false, true]) {
  assert.equal(await answer(PLAN, stream, 1), "It is sunny.");
  assert.equal(await answer(PARALLEL, stream, 2), "Rome is rainy.");
  const error = await answer(REFUSED, stream, 0).catch((error) => error);
  assert.ok(error instanceof Anthropic.RateLimitError, String(error));
  assert.equal(error.headers.get("retry-after"), "7");
  assert.equal(error.error.error.type, "rate_limit_error");
}
const source = { type: "base64", media_type: "image/png", data: IMAGE };
assert.equal(await answer([{ type: "image", source }, { type: "text", text: SEEN }], false, 0), "Seen.");
