/** Opens an address in the browser of the user: the one in BROWSER, or the one of the system. */
import { spawn } from "node:child_process";
import type { Host } from "../host.ts";

const openers: Readonly<Record<string, readonly string[]>> = {
  darwin: ["open"],
  win32: ["cmd", "/c", "start", '""'],
};

/** `failed` is called when there is nothing that could open it. */
export function openInBrowser({ env }: Host, url: string, failed: () => void): void {
  const given = env["BROWSER"];
  const [program = "", ...args] =
    given === undefined || given === "" ? (openers[process.platform] ?? ["xdg-open"]) : [given];
  const child = spawn(program, [...args, url], { stdio: "ignore" });
  child.on("error", failed);
  child.on("exit", (code) => {
    if (code !== 0) failed();
  });
  child.unref();
}
