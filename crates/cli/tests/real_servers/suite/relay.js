// Between the suite and a gateway: adds the token, and the prefix that the gateway gives the names of tools.
const http = require("http");
const [port, token, prefix] = process.argv.slice(2);
http.createServer((request, response) => {
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    const headers = { ...request.headers, authorization: `Bearer ${token}` };
    // A foreign host stays as it is.
    for (const name of ["host", "origin"]) {
      if (headers[name]) headers[name] = headers[name].replace(/(localhost|127\.0\.0\.1):\d+$/, `$1:${port}`);
    }
    let body = Buffer.concat(parts).toString();
    try {
      const message = JSON.parse(body);
      if (message.method === "tools/call") {
        message.params.name = prefix + message.params.name;
        if (headers["mcp-name"] !== undefined) headers["mcp-name"] = prefix + headers["mcp-name"].trim();
        body = JSON.stringify(message);
      }
    } catch {}
    headers["content-length"] = Buffer.byteLength(body);
    const path = request.url;
    const onward = http.request({ port, host: "127.0.0.1", method: request.method, path, headers }, (answer) => {
      const { "content-length": _, ...kept } = answer.headers;
      response.writeHead(answer.statusCode, kept);
      response.flushHeaders();
      answer.on("data", (part) => response.write(part.toString("latin1").replaceAll(prefix, ""), "latin1"));
      answer.on("end", () => response.end());
    });
    // A client that breaks off has cancelled its request.
    response.on("close", () => onward.destroy());
    onward.on("error", () => response.destroy());
    onward.end(body);
  });
}).listen(0, "127.0.0.1", function () {
  console.log(this.address().port);
});
