// Small servers with the tools that the packages of these names have. `kind` is set before this text.
const fs = require("fs"), path = require("path");
const reads = { readOnlyHint: true };
const inbox = () => fs.readdirSync(process.argv[2]).sort().reverse();
const mail = (id) => fs.readFileSync(path.join(process.argv[2], path.basename(id)), "utf8");
const servers = {
  files: {
    read_text_file: { about: "Reads a file as text.", takes: ["path"], hints: reads, run: ({ path }) => fs.readFileSync(path, "utf8") },
    list_directory: { about: "Lists a folder.", takes: ["path"], hints: reads, run: ({ path }) => fs.readdirSync(path).sort().join("\n") },
    write_file: { about: "Writes a file.", takes: ["path", "content"], run: ({ path, content }) => (fs.writeFileSync(path, content), "written") },
  },
  memory: {
    read_graph: { about: "Reads everything that is remembered.", hints: reads, run: () => "{}" },
    search_nodes: { about: "Searches what is remembered.", takes: ["query"], hints: reads, run: () => "{}" },
    create_entities: { about: "Remembers.", takes: ["entities"], run: () => "remembered" },
  },
  thinking: { sequentialthinking: { about: "Notes a thought.", takes: ["thought"], run: () => "noted" } },
  context7: {
    "resolve-library-id": { about: "Finds a library.", takes: ["libraryName"], hints: reads, run: () => "/tokio" },
    "query-docs": { about: "Reads the documentation of a library.", takes: ["libraryId", "query"], hints: reads, run: () => "nothing" },
  },
  time: {
    get_current_time: { about: "Tells the time in a timezone.", takes: ["timezone"], hints: reads, run: () => "12:00" },
    convert_time: { about: "Converts a time between timezones.", takes: ["source_timezone", "time", "target_timezone"], hints: reads, run: () => "12:00" },
  },
  fetch: { fetch: { about: "Fetches an address.", takes: ["url"], run: () => "nothing" } },
  git: {
    git_status: { about: "Shows the status of the working tree.", takes: ["repo_path"], hints: reads, run: () => "clean" },
    git_log: { about: "Shows the commits.", takes: ["repo_path"], hints: reads, run: () => "first" },
    git_commit: { about: "Commits what is staged.", takes: ["repo_path", "message"], run: () => "committed" },
  },
  mail: {
    list_emails: { about: "Lists the mails, newest first.", hints: reads, run: () => inbox().join("\n") },
    read_email: { about: "Reads a mail.", takes: ["id"], hints: reads, run: ({ id }) => mail(id) },
    send_email: { about: "Sends a mail.", takes: ["to", "subject", "body"], run: ({ to }) => `sent to ${to}` },
  },
};
const tools = servers[kind];
const of = (name) => (name === "entities" ? { type: "array", items: { type: "object" } } : { type: "string" });
const listed = Object.entries(tools).map(([name, { about, takes = [], hints }]) => ({
  name, description: about, annotations: hints,
  inputSchema: { type: "object", properties: Object.fromEntries(takes.map((it) => [it, of(it)])), required: takes },
}));
const text = (it) => ({ content: [{ type: "text", text: it }] });
const answers = {
  initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: kind, version: "1" } }),
  "tools/list": () => ({ tools: listed }),
  "tools/call": ({ name, arguments: given }) => {
    try { return text(tools[name].run(given || {})); } catch (error) { return { ...text(error.message), isError: true }; }
  },
};
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id !== undefined) console.log(JSON.stringify({ jsonrpc: "2.0", id, result: (answers[method] || (() => ({})))(params) }));
});
