/** Commands of the Go command line that have no counterpart here, and what to do instead. */
export const goneCommands: ReadonlyMap<string, readonly [message: string, next: string]> = new Map([
  [
    "auth login",
    [
      "this version does not sign in anywhere",
      "codeq auth set --producer-token <token> --worker-token <token>",
    ],
  ],
  ["install", ["there is nothing to install besides this package", "codeq serve --help"]],
  [
    "migrate-shards",
    ["this server has no shards in Redis to move", "codeq shards migrate --to <number>"],
  ],
]);
