/** `mcp`: the Model Context Protocol on standard input and output, for agents. */
import type { Call } from "../call.ts";
import { CliError } from "../cli-error.ts";
import { type Arguments, inputSchema, problemOf, type Tool, tools } from "../mcp/tools.ts";
import { cliVersion } from "../version.ts";

const instructions =
  "codeQ is a durable task queue. Find tasks with search_tasks, and ask explain_task why one does not run. To work on " +
  "tasks: claim_task, then report_progress before the lease ends, then complete_task, fail_task or release_task, each with " +
  "the leaseToken of the claim. When the lease was lost, the server refuses the call: stop working on that task.";

export async function run(call: Call): Promise<void> {
  const { Server, StdioServerTransport, types } = await loadSdk();
  const api = await call.api();
  const offered = tools.filter(({ isReading }) => isReading || !call.options.has("read-only"));
  const info = { name: "codeq", version: cliVersion };
  const server = new Server(info, { capabilities: { tools: {} }, instructions });
  server.setRequestHandler(types.ListToolsRequestSchema, () => ({
    tools: offered.map((tool) => ({
      name: tool.name,
      description: tool.about,
      inputSchema: inputSchema(tool) as { type: "object" },
      annotations: { readOnlyHint: tool.isReading, openWorldHint: false },
    })),
  }));
  server.setRequestHandler(types.CallToolRequestSchema, async ({ params }) => {
    const tool = offered.find(({ name }) => name === params.name);
    const { arguments: given = {} } = params;
    const answer = await answerOf(tool, given, (of) => of.run(given, api));
    return {
      content: [{ type: "text", text: JSON.stringify(answer) }],
      isError: "error" in answer,
    };
  });
  const ended = Promise.withResolvers<void>();
  server.onclose = () => ended.resolve();
  await server.connect(new StdioServerTransport());
  process.stdin.once("end", () => void server.close());
  call.host.stopped().addEventListener("abort", () => void server.close());
  await ended.promise;
}

/** A refusal is an answer, from which the model learns what to do. */
async function answerOf(
  tool: Tool | undefined,
  given: Arguments,
  run: (tool: Tool) => Promise<unknown>,
): Promise<object> {
  if (tool === undefined) return { error: "there is no such tool" };
  const problem = problemOf(tool, given);
  if (problem !== undefined) return { error: problem, code: "invalid_argument" };
  try {
    return (await run(tool)) as object;
  } catch (error) {
    const { message, serverCode: code, next } = error as CliError;
    return { error: message, code, next };
  }
}

async function loadSdk() {
  try {
    const [{ Server }, { StdioServerTransport }, types] = await Promise.all([
      import("@modelcontextprotocol/sdk/server/index.js"),
      import("@modelcontextprotocol/sdk/server/stdio.js"),
      import("@modelcontextprotocol/sdk/types.js"),
    ]);
    return { Server, StdioServerTransport, types };
  } catch (cause) {
    throw new CliError("codeq mcp needs the package @modelcontextprotocol/sdk", {
      exit: "failed",
      next: "npm install @modelcontextprotocol/sdk",
      cause,
    });
  }
}
