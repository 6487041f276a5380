// An MCP server over stdio with what the conformance suite looks for in a server, as far as the gateway declares it.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const sound = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=";
const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");
const pause = () => new Promise((done) => setTimeout(done, 50));
const text = (text) => ({ type: "text", text });
const image = { type: "image", data: pixel, mimeType: "image/png" };
const audio = { type: "audio", data: sound, mimeType: "audio/wav" };
const resource = (uri, mimeType, text) => ({ type: "resource", resource: { uri, mimeType, text } });
const schema = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  $defs: { address: { $anchor: "addressDef", type: "object", properties: { street: { type: "string" }, city: { type: "string" } } } },
  properties: {
    name: { type: "string" }, address: { $ref: "#/$defs/address" },
    contactMethod: { type: "string", enum: ["phone", "email"] }, phone: { type: "string" }, email: { type: "string" },
  },
  allOf: [{ anyOf: [{ required: ["phone"] }, { required: ["email"] }] }],
  if: { properties: { contactMethod: { const: "phone" } }, required: ["contactMethod"] },
  then: { required: ["phone"] },
  else: { required: ["email"] },
  additionalProperties: false,
};
const tools = {
  test_simple_text: () => [text("This is a simple text response for testing.")],
  test_image_content: () => [image],
  test_audio_content: () => [audio],
  test_embedded_resource: () => [resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")],
  test_multiple_content_types: () => [
    text("Multiple content types test:"), image, resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
  ],
  test_error_handling: () => { throw new Error("This tool intentionally returns an error for testing"); },
  test_logging_tool: () => [text("nothing is logged")],
  test_tool_with_progress: async (token) => {
    for (const progress of [0, 50, 100]) {
      say({ method: "notifications/progress", params: { progressToken: token, progress, total: 100 } });
      await pause();
    }
    return [text("done")];
  },
  json_schema_2020_12_tool: () => [text("done")],
  test_streaming_elicitation: async () => {
    const params = { message: "Your name?", requestedSchema: { type: "object", properties: { name: { type: "string" } } } };
    say({ id: "asked", method: "elicitation/create", params });
    await pause();
    return [text("asked")];
  },
};
const resources = {
  "test://static-text": { mimeType: "text/plain", text: "This is the content of the static text resource." },
  "test://static-binary": { mimeType: "image/png", blob: pixel },
  "test://watched-resource": { mimeType: "text/plain", text: "watched" },
};
const prompts = {
  test_simple_prompt: () => [text("This is a simple prompt for testing.")],
  test_prompt_with_arguments: ({ arg1, arg2 }) => [text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`)],
  test_prompt_with_embedded_resource: ({ resourceUri }) => [
    resource(resourceUri, "text/plain", "Embedded resource content for testing."), text("Please process the embedded resource above."),
  ],
  test_prompt_with_image: () => [image, text("Please analyze the image above.")],
};
const required = { test_prompt_with_arguments: ["arg1", "arg2"], test_prompt_with_embedded_resource: ["resourceUri"] };
const refuse = (code, message) => { throw Object.assign(new Error(message), { code }); };

async function answer(method, params) {
  switch (method) {
    case "initialize":
      return { protocolVersion: "2025-11-25", capabilities: { tools: {}, resources: {}, prompts: {} }, serverInfo: { name: "everything", version: "1" } };
    case "tools/list":
      return { tools: Object.keys(tools).map((name) => ({
        name, description: `Does ${name}.`, inputSchema: name.startsWith("json_") ? schema : { type: "object", properties: {} },
      })) };
    case "tools/call":
      try {
        return { content: await tools[params.name](params._meta?.progressToken) };
      } catch (error) {
        return { content: [text(error.message)], isError: true };
      }
    case "resources/list":
      return { resources: Object.entries(resources).map(([uri, { mimeType }]) => ({ uri, name: uri, description: "A resource.", mimeType })) };
    case "resources/templates/list":
      return { resourceTemplates: [{ uriTemplate: "test://template/{id}/data", name: "template", mimeType: "application/json" }] };
    case "resources/read": {
      const { uri } = params;
      const [, id] = uri.match(/^test:\/\/template\/(.+)\/data$/) ?? [];
      const made = id && { mimeType: "application/json", text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }) };
      return { contents: [{ uri, ...(made ?? resources[uri] ?? refuse(-32002, "Resource not found")) }] };
    }
    case "prompts/list":
      return { prompts: Object.keys(prompts).map((name) => ({
        name, description: "A prompt.", arguments: (required[name] ?? []).map((name) => ({ name, description: "An argument.", required: true })),
      })) };
    case "prompts/get":
      return { messages: prompts[params.name](params.arguments ?? {}).map((content) => ({ role: "user", content })) };
    case "ping":
      return {};
    default:
      return refuse(-32601, "no such method");
  }
}
require("readline").createInterface({ input: process.stdin }).on("line", async (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined || method === undefined) return;
  try {
    say({ id, result: await answer(method, params) });
  } catch ({ code, message }) {
    say({ id, error: { code: code ?? -32603, message } });
  }
});
