// The official `openai`, in both of its APIs: a tool round trip, streamed and not, parallel calls, an image, an error.
import assert from "node:assert/strict";
import OpenAI from "openai";
import { IMAGE, PARALLEL, PLAN, REFUSED, SEEN, weather } from "./plans.mjs";

const client = new OpenAI({ maxRetries: 0 });
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false };
const definition = { name: "get_weather", description: "The weather of a city.", parameters };
const url = `data:image/png;base64,${IMAGE}`;

async function chat(content, stream, calls) {
  const messages = [{ role: "user", content }];
  for (;;) {
    const request = { model: "worst-case", messages, tools: [{ type: "function", function: definition }] };
    const completions = client.chat.completions;
    const completion = stream ? await completions.stream(request).finalChatCompletion() : await completions.create(request);
    const { message } = completion.choices[0];
    if (!message.tool_calls?.length) return message.content;
    assert.equal(message.tool_calls.length, calls);
    messages.push({ role: "assistant", content: message.content, tool_calls: message.tool_calls });
    for (const call of message.tool_calls) {
      const result = weather(JSON.parse(call.function.arguments).city);
      messages.push({ role: "tool", tool_call_id: call.id, content: result });
    }
  }
}

async function responses(content, stream, calls) {
  const input = [{ role: "user", content }];
  for (;;) {
    const request = { model: "worst-case", input, store: false, tools: [{ type: "function", strict: true, ...definition }] };
    const response = stream ? await client.responses.stream(request).finalResponse() : await client.responses.create(request);
    const made = response.output.filter((item) => item.type === "function_call");
    if (made.length === 0) return response.output_text;
    assert.equal(made.length, calls);
    input.push(...response.output);
    for (const call of made) {
      const output = weather(JSON.parse(call.arguments).city);
      input.push({ type: "function_call_output", call_id: call.call_id, output });
    }
  }
}

for (const answer of [chat, responses]) {
  for (const stream of [false, true]) {
    assert.equal(await answer(PLAN, stream, 1), "It is sunny.");
    assert.equal(await answer(PARALLEL, stream, 2), "Rome is rainy.");
    const error = await answer(REFUSED, stream, 0).catch((error) => error);
    assert.ok(error instanceof OpenAI.RateLimitError, String(error));
    assert.equal(error.headers.get("retry-after"), "7");
    assert.equal(error.type, "rate_limit_error");
  }
}
assert.equal(await chat([{ type: "image_url", image_url: { url } }, { type: "text", text: SEEN }], false, 0), "Seen.");
assert.equal(await responses([{ type: "input_image", image_url: url }, { type: "input_text", text: SEEN }], false, 0), "Seen.");
