/**
 * Asks the server of this machine, as the configuration of this process describes it, whether its
 * storage works. Ends with 0 if so and with 1 otherwise, which is what container engines look at.
 * It trusts any certificate: the server is at the other end of the loopback interface.
 */
import { readFileSync } from "node:fs";
import { request as requestPlain } from "node:http";
import { request as requestTls } from "node:https";
import { loadConfig, urlOf } from "../../packages/server/src/exports/config/index.ts";

const timeoutMs = 5000;

function fail(message: string): never {
  process.stderr.write(`health check: ${message}\n`);
  process.exit(1);
}

const readFile = (path: string): string => readFileSync(path, "utf8");
const loaded = loadConfig({ argv: process.argv.slice(2), env: process.env, readFile });
if (!loaded.ok) fail(`the configuration is invalid: ${loaded.problems.join("; ")}`);
const { config } = loaded;
const everywhere: Readonly<Record<string, string>> = { "0.0.0.0": "127.0.0.1", "::": "::1" };
const host = everywhere[config.host] ?? config.host;
const url = new URL("/healthz", urlOf({ ...config, host }, config.port));
const request = url.protocol === "https:" ? requestTls : requestPlain;
const options = { timeout: timeoutMs, rejectUnauthorized: false };
request(url, options, ({ statusCode }) => {
  if (statusCode !== 200) fail(`${url} answered ${statusCode}`);
  process.exit(0);
})
  .on("timeout", () => fail(`${url} did not answer within ${timeoutMs} ms`))
  .on("error", ({ message }) => fail(`${url} cannot be reached: ${message}`))
  .end();
