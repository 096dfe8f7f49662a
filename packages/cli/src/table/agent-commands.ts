/** The rows of commands for agents. */
import type { CommandRow } from "../command.ts";

export const agentCommands: readonly CommandRow[] = [
  {
    name: "mcp",
    group: "tasks",
    about: "Speaks the Model Context Protocol on its standard input and output, for agents.",
    details: [
      "An agent gets tools to find, explain and enqueue tasks, to group failures, to replay dead letters after a dry run,",
      "and to work on tasks under a lease. It may do what the token allows; the audit trail shows it as any other caller.",
      "Needs the package @modelcontextprotocol/sdk, which the executable contains.",
    ],
    connects: true,
    options: [{ name: "read-only", about: "Offer only tools that change nothing." }],
    examples: [
      { line: "mcp --read-only", about: "let an agent look, and change nothing" },
      { line: "mcp --token $AGENT_TOKEN", about: "with a token of its own, which names the agent" },
    ],
    run: async (call) => (await import("../commands/mcp.ts")).run(call),
  },
];
