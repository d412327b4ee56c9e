// Does with the TypeScript SDK what an agent does, and prints what it got as JSON.
// Usage: node list_and_call.mjs ADDRESS TOKEN NOTEBOOK

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [address, token, notebook] = process.argv.slice(2);
const uri = `notebook://${notebook}`;
const progress = [];

const client = new Client({ name: "typescript", version: "1.0.0" });
await client.connect(
  new StreamableHTTPClientTransport(new URL(address), {
    requestInit: { headers: { Authorization: `Bearer ${token}` } },
  }),
);

const call = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options);

const found = {
  tools: (await client.listTools()).tools,
  failed: await call("list_cells", {}),
  used: await call("use_notebook", { notebook }),
};
found.ran = await call(
  "insert_and_execute_cell",
  { source: "import time\nfor i in range(3):\n    print('step', i, flush=True)\n    time.sleep(0.4)\n6 * 7" },
  { onprogress: (report) => progress.push(report) },
);
found.progress = progress;
found.unknown = await call("sing", {}).catch((error) => ({ code: error.code, message: error.message }));
found.resources = (await client.listResources()).resources;
found.templates = (await client.listResourceTemplates()).resourceTemplates;
found.notebook = (await client.readResource({ uri })).contents;
found.prompts = (await client.listPrompts()).prompts;
found.prompt = await client.getPrompt({ name: "explain", arguments: { notebook } });
found.ping = await client.ping();
await client.close();
console.log(JSON.stringify(found));
