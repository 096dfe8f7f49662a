/** Every scenario with every driver, over streams and over HTTP. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { DriverProcess } from "./driver-process.ts";
import { drivers } from "./drivers.ts";
import { play, type Scenario } from "./run-scenario.ts";
import { ScenarioServer } from "./scenario-server.ts";

const scenarios = JSON.parse(
  readFileSync(join(import.meta.dirname, "scenarios.json"), "utf8"),
) as readonly Scenario[];

/** A language, then words that names of scenarios have; all without. */
const [language = "", ...words] = (process.env["CODEQ_CONFORMANCE"] ?? "").split(" ");
const isChosen = ({ kind, name }: Scenario): boolean =>
  words.every((word) => `${kind} ${name}`.includes(word));

/** Most of the time a scenario waits for a lease to end or a retry to come. */
const concurrency = 8;

for (const { language: name, can, prepare } of drivers) {
  if (language !== "" && name !== language) continue;
  test(`the client for ${name} conforms`, { concurrency }, async (t) => {
    const command = await prepare();
    if ("missing" in command) {
      t.skip(command.missing);
      return;
    }
    const startedMs = performance.now();
    const driver = new DriverProcess(command);
    t.after(() => driver.kill());
    const shared = await ScenarioServer.open();
    t.after(() => shared[Symbol.asyncDispose]());
    const plays = scenarios
      .filter((scenario) => isChosen(scenario))
      .filter(({ needs = [] }) => needs.every((need) => can.includes(need)))
      .flatMap((scenario) =>
        (scenario.transports ?? (["streams", "http"] as const)).map((transport) => ({
          scenario,
          transport,
        })),
      );
    const run = async ({ scenario, transport }: (typeof plays)[number]): Promise<void> => {
      if (scenario.server === undefined) {
        await play({ scenario, transport, server: shared, driver, command });
        return;
      }
      await using server = await ScenarioServer.open(scenario.server);
      await play({ scenario, transport, server, driver, command });
    };
    await Promise.all(
      plays.map((each) => {
        const { scenario, transport } = each;
        return t.test(`${scenario.kind}, ${transport}: ${scenario.name}`, () => run(each));
      }),
    );
    const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
    t.diagnostic(`${name}: ${plays.length} plays of ${scenarios.length} scenarios in ${seconds} s`);
  });
}
