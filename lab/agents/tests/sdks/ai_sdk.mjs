// The AI SDK over Chat Completions, Responses and Messages.
import assert from "node:assert/strict";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { PARALLEL, PLAN, REFUSED, weather } from "./plans.mjs";

const baseURL = process.env.OPENAI_BASE_URL;
const apiKey = process.env.OPENAI_API_KEY;
const models = [
  createOpenAICompatible({ name: "up", baseURL, apiKey })("worst-case"),
  createOpenAI({ baseURL, apiKey }).responses("worst-case"),
  createAnthropic({ baseURL, apiKey })("worst-case"),
];
const execute = async ({ city }) => weather(city);
const tools = { get_weather: tool({ description: "The weather of a city.", inputSchema: z.object({ city: z.string() }), execute }) };
const providerOptions = { openai: { store: false } };
for (const model of models) {
  const options = { model, tools, providerOptions, stopWhen: stepCountIs(5), maxRetries: 0 };
  for (const [prompt, wanted] of [[PLAN, "It is sunny."], [PARALLEL, "Rome is rainy."]]) {
    assert.equal((await generateText({ ...options, prompt })).text, wanted, model.provider);
    assert.equal(await streamText({ ...options, prompt }).text, wanted, model.provider);
  }
  const error = await generateText({ ...options, prompt: REFUSED }).catch((error) => error);
  assert.ok(APICallError.isInstance(error), String(error));
  assert.equal(error.statusCode, 429);
  assert.equal(error.responseHeaders["retry-after"], "7");
}
