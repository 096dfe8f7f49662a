/** The other end of a line, played by a test: it sees every event and says what it is told to say. */
import assert from "node:assert/strict";
import { SimClock, settle } from "@codeq/simulated";
import { CodeqError } from "../src/codeq-error.ts";
import type { OpenOptions, Session, SessionListener } from "../src/connection/session.ts";
import type { Runtime } from "../src/runtime.ts";

interface Message {
  readonly case: unknown;
  readonly value?: unknown;
}

export class ScriptedSession<Event extends Message, Reply extends Message>
  implements Session<Event>
{
  readonly options: OpenOptions;
  readonly listener: SessionListener<Reply>;
  readonly events: Event[] = [];
  isCut = false;
  isFinished = false;
  isAwake = true;
  hasRoom = true;

  constructor(options: OpenOptions, listener: SessionListener<Reply>) {
    this.options = options;
    this.listener = listener;
  }

  send(event: Event): boolean {
    assert.ok(!this.isCut, "something was sent after the end");
    this.events.push(event);
    return this.hasRoom;
  }

  flush(): void {}

  finish(): void {
    this.isFinished = true;
  }

  cut(): void {
    this.isCut = true;
  }

  keepAwake(isOn: boolean): void {
    this.isAwake = isOn;
  }

  /** Names of what was sent, in order. */
  get said(): unknown[] {
    return this.events.map((event) => event.case);
  }

  /** Takes the first event of this kind away and gives its value. */
  take<Case extends Event["case"]>(name: Case): Extract<Event, { case: Case }>["value"] {
    const at = this.events.findIndex((event) => event.case === name);
    assert.ok(at >= 0, `no ${String(name)} among ${this.said.join(", ") || "nothing"}`);
    return this.events.splice(at, 1)[0]?.value as never;
  }

  async reply(reply: Reply): Promise<void> {
    this.listener.reply(reply);
    await settle();
  }

  async end(how: "over" | "lost" | "refused", code = "unavailable"): Promise<void> {
    this.listener.ended({ how, error: new CodeqError(code, `ended: ${how}`) });
    await settle();
  }
}

export class ScriptedServer<Event extends Message, Reply extends Message> {
  readonly clock: SimClock = new SimClock();
  readonly sessions: ScriptedSession<Event, Reply>[] = [];
  readonly warnings: string[] = [];
  readonly runtime: Runtime;
  /** What the next dials fail with. */
  failures: CodeqError[] = [];

  constructor() {
    let ids = 0;
    this.runtime = {
      clock: this.clock,
      uniqueId: () => {
        ids += 1;
        return `id${ids}`;
      },
      defer: (run) => void setImmediate(run),
      pauseMs: (tries) => tries * 100,
      fetch: () => Promise.reject(new Error("no HTTP in this test")),
      listen: () => Promise.reject(new Error("no ports in this test")),
      onSignal: () => () => {},
      warn: (code, message) => this.warnings.push(`${code}: ${message}`),
    };
  }

  readonly openSession = async (
    options: OpenOptions,
    listener: SessionListener<Reply>,
  ): Promise<Session<Event>> => {
    const failure = this.failures.shift();
    if (failure !== undefined) throw failure;
    const session = new ScriptedSession<Event, Reply>(options, listener);
    this.sessions.push(session);
    return session;
  };

  /** The session that was begun last. */
  get last(): ScriptedSession<Event, Reply> {
    const last = this.sessions.at(-1);
    assert.ok(last !== undefined, "nobody has dialled");
    return last;
  }

  async advance(ms: number): Promise<void> {
    await this.clock.advance(ms);
    await settle();
  }
}
