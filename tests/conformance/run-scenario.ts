/**
 * Plays a scenario: the steps of scenarios.json one after the other, against a real server, through drivers. README.md
 * says what the steps mean. Everything that is waited for has a limit, and the error names the step.
 */
import { type Answer, type DriverCommand, DriverProcess, type Fields } from "./driver-process.ts";
import { fits, type Names, named } from "./matching.ts";
import { FaultyProxy, type ProxyVerb } from "./proxy.ts";
import type { ScenarioServer } from "./scenario-server.ts";

export type Transport = "streams" | "http";
export type Step = Readonly<Record<string, unknown>>;

export interface Scenario {
  readonly kind: string;
  readonly name: string;
  readonly transports?: readonly Transport[];
  readonly needs?: readonly string[];
  /** Of a server of its own. */
  readonly server?: Readonly<Record<string, string>>;
  readonly clients?: readonly string[];
  readonly direct?: readonly string[];
  readonly own?: readonly string[];
  readonly failover?: readonly string[];
  readonly steps: readonly Step[];
}

interface Play {
  readonly scenario: Scenario;
  readonly transport: Transport;
  readonly server: ScenarioServer;
  /** The driver that scenarios share. */
  readonly driver: DriverProcess;
  readonly command: DriverCommand;
}

const stepMsMax = 30_000;
const nobodyListens = "http://127.0.0.1:9";
let lastPlay = 0;

export async function play(parts: Play): Promise<void> {
  const scene = await Scene.open(parts);
  try {
    for (const [index, step] of parts.scenario.steps.entries()) {
      await scene.do(step).catch((cause: Error) => {
        const text = JSON.stringify(step).slice(0, 300);
        throw new Error(`step ${index + 1} ${text}: ${cause.message}`, { cause });
      });
    }
  } finally {
    await scene.close();
  }
}

class Player {
  readonly client: string;
  readonly driver: DriverProcess;
  readonly events: Fields[] = [];
  #came: PromiseWithResolvers<void> = Promise.withResolvers();

  constructor(client: string, driver: DriverProcess) {
    this.client = client;
    this.driver = driver;
    driver.listen(client, (event) => {
      this.events.push(event);
      this.#came.resolve();
      this.#came = Promise.withResolvers();
    });
  }

  /** Resolves when the driver reports something. */
  get came(): Promise<void> {
    return this.#came.promise;
  }
}

class Scene {
  readonly #parts: Play;
  readonly #http: FaultyProxy;
  readonly #streams: FaultyProxy;
  readonly #players = new Map<string, Player>();
  readonly #names: Names;
  readonly #later = new Map<string, Promise<Answer>>();

  private constructor(
    parts: Play,
    proxies: { readonly http: FaultyProxy; readonly streams: FaultyProxy },
  ) {
    this.#parts = parts;
    this.#http = proxies.http;
    this.#streams = proxies.streams;
    lastPlay += 1;
    this.#names = new Map<string, unknown>([["queue", `q${process.pid}-${lastPlay}`]]);
  }

  static async open(parts: Play): Promise<Scene> {
    const { server, scenario } = parts;
    const http = await FaultyProxy.open(server.port);
    const streams = await FaultyProxy.open(server.streamPort);
    const scene = new Scene(parts, { http, streams });
    for (const name of scenario.clients ?? ["p", "w"]) {
      const isOwn = scenario.own?.includes(name) === true;
      const driver = isOwn ? new DriverProcess(parts.command) : parts.driver;
      const player = new Player(`${scene.#names.get("queue")}-${name}`, driver);
      scene.#players.set(name, player);
      await scene.#openClient(name, {});
    }
    return scene;
  }

  async do(given: Step): Promise<void> {
    const step = named(given, this.#names) as Step;
    if (step["to"] !== undefined) return await this.#command(step);
    if (step["await"] !== undefined) return await this.#awaited(step);
    if (step["event"] !== undefined) return await this.#event(step);
    if (step["never"] !== undefined) return this.#never(step);
    if (step["proxy"] !== undefined) return this.#proxy(step["proxy"] as ProxyVerb);
    if (step["server"] !== undefined) return await this.#server(String(step["server"]));
    if (step["queue"] !== undefined) {
      return await this.#until(`/admin/queues/${step["queue"]}`, step["expect"]);
    }
    if (step["topic"] !== undefined) {
      const path = `/admin/topics/${step["topic"]}`;
      return await this.#parts.server.put(path, step["policy"]);
    }
    if (step["lanes"] !== undefined) {
      return await this.#until(`/admin/topics/${step["lanes"]}/lanes`, step["expect"]);
    }
    if (step["task"] !== undefined)
      return await this.#until(`/tasks/${step["task"]}`, step["expect"]);
    if (step["end"] !== undefined) return this.#player(step["end"]).driver.kill();
    throw new Error("no such step");
  }

  async close(): Promise<void> {
    for (const proxy of [this.#http, this.#streams])
      for (const verb of ["release", "accept"] as const) proxy.do(verb);
    for (const { client, driver } of this.#players.values()) {
      if (driver === this.#parts.driver)
        await withLimit(driver.ask({ do: "shut", client }), () => "the client does not close");
      else driver.kill();
    }
    this.#http.close();
    this.#streams.close();
  }

  #player(name: unknown): Player {
    const player = this.#players.get(String(name));
    if (player === undefined) throw new Error(`there is no client ${String(name)}`);
    return player;
  }

  async #openClient(name: string, more: Fields): Promise<Answer> {
    const { scenario, server, transport } = this.#parts;
    const isDirect = scenario.direct?.includes(name) === true;
    const url = `http://127.0.0.1:${isDirect ? server.port : this.#http.port}`;
    const streams = `127.0.0.1:${isDirect ? server.streamPort : this.#streams.port}`;
    const { client, driver } = this.#player(name);
    return await driver.ask({
      do: "open",
      client,
      url: scenario.failover?.includes(name) === true ? [nobodyListens, url] : url,
      ...(transport === "streams" ? { streams } : {}),
      transport,
      token: "dev-token",
      ...more,
    });
  }

  async #command(step: Step): Promise<void> {
    const { to, do: verb, later, as, expect, refused, ...fields } = step;
    const { client, driver } = this.#player(to);
    const answer =
      verb === "open"
        ? this.#openClient(String(to), fields)
        : driver.ask({ do: verb, client, ...fields });
    if (later !== undefined) this.#later.set(String(later), answer);
    else this.#check(await withLimit(answer, () => "no answer came"), { as, expect, refused });
  }

  async #awaited(step: Step): Promise<void> {
    const answer = this.#later.get(String(step["await"]));
    if (answer === undefined) throw new Error("nothing of that name was asked for");
    this.#check(await withLimit(answer, () => "no answer came"), step);
  }

  #check(answer: Answer, { as, expect, refused }: Step): void {
    if ("error" in answer) {
      if (refused === undefined || !fits(answer.error, refused)) {
        throw new Error(`it was refused: ${shown(answer.error)}`);
      }
      return;
    }
    if (refused !== undefined) throw new Error(`it was not refused: ${shown(answer.ok)}`);
    if (expect !== undefined && !fits(answer.ok, expect)) {
      throw new Error(`it answered ${shown(answer.ok)}`);
    }
    if (as !== undefined) this.#names.set(String(as), answer.ok);
  }

  async #event(step: Step): Promise<void> {
    const player = this.#player(step["from"]);
    const isMeant = (event: Fields): boolean =>
      event["event"] === step["event"] && fits(event, step["expect"] ?? {});
    for (;;) {
      const { came, events } = player;
      const at = events.findIndex(isMeant);
      if (at >= 0) {
        const [event] = events.splice(at, 1);
        if (step["as"] !== undefined) this.#names.set(String(step["as"]), event);
        return;
      }
      await withLimit(came, () => `no such event came; there are ${shown(events)}`);
    }
  }

  #never(step: Step): void {
    const found = this.#player(step["from"]).events.find(
      (event) => event["event"] === step["never"] && fits(event, step["expect"] ?? {}),
    );
    if (found !== undefined) throw new Error(`it came: ${shown(found)}`);
  }

  #proxy(verb: ProxyVerb): void {
    for (const proxy of [this.#http, this.#streams]) proxy.do(verb);
  }

  async #server(verb: string): Promise<void> {
    const { server } = this.#parts;
    await server.do(verb);
    this.#http.targetPort = server.port;
    this.#streams.targetPort = server.streamPort;
  }

  async #until(path: string, expect: unknown): Promise<void> {
    const { server } = this.#parts;
    let found: unknown;
    let isLate = false;
    const look = async (): Promise<void> => {
      while (!isLate) {
        // The feed also beats when nothing happens.
        const { changed } = server;
        found = await server.get(path);
        if (fits(found, expect)) return;
        await changed;
      }
    };
    try {
      await withLimit(look(), () => `it is ${shown(found)}`);
    } finally {
      isLate = true;
    }
  }
}

function shown(value: unknown): string {
  return String(JSON.stringify(value)).slice(0, 1_000);
}

async function withLimit<T>(promise: Promise<T>, why: () => string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(why())), stepMsMax);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
