/** With real files and real handshakes. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { type AddressInfo, connect as connectPlain, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { type ConnectionOptions, connect, createServer } from "node:tls";
import { SimClock } from "@codeq/simulated";
import { TlsWorld } from "../../../test/tls-files.ts";
import { type Clock, systemClock } from "../../core/clock.ts";
import { createLogger } from "../../telemetry/logger.ts";
import { loadCertificates, type TlsSettings } from "./certificates.ts";
import { ServerTls } from "./server-tls.ts";

/** Without the look once a minute, which would find what the watch has missed. */
const watchOnly: Clock = {
  ...systemClock,
  after: (ms, run) => (ms >= 60_000 ? () => {} : systemClock.after(ms, run)),
};

class World extends TlsWorld {
  readonly lines: string[] = [];
  readonly #t: TestContext;
  #onLine: () => void = () => {};
  port = 0;

  constructor(t: TestContext) {
    super(t);
    this.#t = t;
  }

  async start(clock: Clock, settings: TlsSettings = this.settings): Promise<ServerTls> {
    const { certificates, problems } = loadCertificates(settings, this.nowMs);
    assert.ok(certificates !== undefined, problems.join("\n"));
    const logger = createLogger({
      level: "debug",
      format: "json",
      nowMs: () => this.nowMs,
      write: (line) => {
        this.lines.push(line);
        this.#onLine();
      },
    });
    const tls = new ServerTls({ settings, certificates, logger, clock });
    const server = createServer(tls.options, (socket) => socket.end("hello"));
    tls.attach(server);
    await once(server.listen(0, "127.0.0.1"), "listening");
    this.port = (server.address() as AddressInfo).port;
    this.#t.after(() => {
      tls[Symbol.dispose]();
      server.close();
    });
    return tls;
  }

  /** What the server says after the handshake, or how it failed, and the name it showed. */
  async handshake(
    options: ConnectionOptions = {},
  ): Promise<{ text: string; name: string | undefined; protocol: string | null }> {
    const socket = connect({
      port: this.port,
      host: "127.0.0.1",
      ca: this.ca.cert,
      servername: "localhost",
      ...options,
    });
    let text = "";
    let name: string | undefined;
    let protocol: string | null = null;
    socket.on("secureConnect", () => {
      name = socket.getPeerX509Certificate()?.subject.replace("CN=", "");
      protocol = socket.getProtocol();
    });
    socket.on("data", (chunk) => {
      text += chunk;
    });
    socket.on("error", (error: NodeJS.ErrnoException) => {
      text += error.code;
    });
    await closed(socket);
    return { text, name, protocol };
  }

  /** The next line of the log with such a message. */
  async line(message: string): Promise<string> {
    for (;;) {
      const at = this.lines.findIndex((line) => line.includes(`"msg":"${message}"`));
      if (at >= 0) return this.lines.splice(0, at + 1).at(-1) ?? "";
      await new Promise<void>((resolve) => {
        this.#onLine = resolve;
      });
    }
  }

  async assertReplaced(name: string): Promise<void> {
    assert.match(await this.line("TLS certificate replaced"), new RegExp(`CN=${name}`));
    assert.equal((await this.handshake()).name, name);
  }
}

function closed(socket: Socket): Promise<void> {
  return new Promise((resolve) => void socket.once("close", () => resolve()));
}

/** A server whose files are watched. */
async function setup(t: TestContext): Promise<World> {
  const world = new World(t);
  world.writeServer(world.issue("first"));
  await world.start(watchOnly);
  return world;
}

test("a renewed certificate is used for the next handshake", async (t) => {
  const world = await setup(t);
  assert.deepEqual(await world.handshake(), { text: "hello", name: "first", protocol: "TLSv1.3" });
  world.writeServer(world.issue("second"));
  await world.assertReplaced("second");
  // Files that are written in place, byte by byte.
  const { cert, key } = world.issue("third");
  writeFileSync(world.settings.tlsCertFile, cert);
  writeFileSync(world.settings.tlsKeyFile, key);
  await world.assertReplaced("third");
});

test("links that are turned to another directory are followed", async (t) => {
  // As Kubernetes mounts a secret.
  const world = new World(t);
  const put = (version: string, name: string): void => {
    const { cert, key } = world.issue(name);
    mkdirSync(world.path(version));
    world.write(`${version}/tls.crt`, cert);
    world.write(`${version}/tls.key`, key);
    symlinkSync(version, world.path("..data.new"));
    renameSync(world.path("..data.new"), world.path("..data"));
  };
  put("..1", "first");
  symlinkSync("..data/tls.crt", world.path("tls.crt"));
  symlinkSync("..data/tls.key", world.path("tls.key"));
  await world.start(watchOnly);
  for (const [version, name] of [
    ["..2", "second"],
    ["..3", "third"],
  ] as const) {
    put(version, name);
    await world.assertReplaced(name);
    rmSync(world.path(`..${Number(version.slice(2)) - 1}`), { recursive: true });
  }
});

test("links to files elsewhere, and directories that are moved, are followed", async (t) => {
  const world = new World(t);
  mkdirSync(world.path("live"));
  const put = (name: string): void => {
    const { cert, key } = world.issue(name);
    world.replace("live/1.crt", cert);
    world.replace("live/1.key", key);
  };
  put("first");
  symlinkSync("live/1.crt", world.path("tls.crt"));
  symlinkSync(world.path("live/1.key"), world.path("tls.key"));
  await world.start(watchOnly);
  put("second");
  await world.assertReplaced("second");
  renameSync(world.path("live"), world.path("old"));
  mkdirSync(world.path("live"));
  put("third");
  await world.assertReplaced("third");
  put("fourth");
  await world.assertReplaced("fourth");
});

test("files that cannot be used leave the old certificate in place and are named", async (t) => {
  const world = await setup(t);
  const second = world.issue("second");
  world.replace("tls.crt", second.cert);
  const refused = await world.line("new TLS files cannot be used; the old certificate stays");
  assert.match(refused, /"level":"error".*tlsKeyFile: .*tls\.key is not the key of.*CN=first/);
  assert.equal((await world.handshake()).name, "first");
  world.replace("tls.key", second.key);
  await world.assertReplaced("second");
  for (const [text, why] of [
    ["", /has no certificate in PEM form/],
    [world.issue("old", world.days(-3, -1)).cert, /expired on/],
  ] as const) {
    world.replace("tls.crt", text);
    const line = await world.line("new TLS files cannot be used; the old certificate stays");
    assert.match(line, why);
    assert.doesNotMatch(line, /BEGIN .*KEY/);
  }
  rmSync(world.path("tls.crt"));
  assert.match(
    await world.line("new TLS files cannot be used; the old certificate stays"),
    /tls\.crt does not exist/,
  );
  assert.equal((await world.handshake()).name, "second");
});

test("without a word from the system the files are looked at once a minute", async (t) => {
  const world = new World(t);
  world.writeServer(world.issue("first"));
  const clock = new SimClock({ wallMs: world.nowMs });
  const tls = await world.start(clock);
  world.writeServer(world.issue("second"));
  await clock.advance(60_000);
  assert.match(tls.certificates.subject, /CN=second/);
  world.writeServer(world.issue("third"));
  await clock.advance(60_000);
  assert.match(tls.certificates.subject, /CN=third/);
  assert.equal((await world.handshake()).name, "third");
  const lines = world.lines.length;
  await clock.advance(600_000);
  assert.equal(world.lines.length, lines, "files that are as they were are not worth a line");
});

test("a certificate near its end is asked for every day until it is renewed", async (t) => {
  const world = new World(t);
  world.writeServer(world.issue("server", world.days(-1, 100)));
  const clock = new SimClock({ wallMs: world.nowMs });
  const tls = await world.start(clock);
  const reminders = () => world.lines.filter((line) => line.includes("has to be renewed")).length;
  const dayMs = 24 * 60 * 60 * 1000;
  const skip = async (days: number): Promise<void> => {
    clock.stepWall(days * dayMs);
    await clock.advance(61_000);
  };
  await skip(89);
  assert.equal(reminders(), 0);
  await skip(2);
  assert.equal(reminders(), 1);
  await skip(0);
  assert.equal(reminders(), 1);
  await skip(1);
  assert.equal(reminders(), 2);
  world.writeServer(world.issue("server", world.days(90, 200)));
  tls.reload();
  await skip(1);
  assert.equal(reminders(), 2);
});

test("a client with a certificate of the CA is let in, one with another is not", async (t) => {
  const world = await setup(t);
  const good = world.issue("good");
  const foreign = world.issue("foreign", { issuer: world.authority("foreign-ca") });
  const expired = world.issue("expired", world.days(-3, -1));
  for (const auth of ["required", "optional"] as const) {
    await world.start(watchOnly, world.mutual(auth));
    for (const version of ["TLSv1.2", "TLSv1.3"] as const) {
      const versions = { minVersion: version, maxVersion: version } as const;
      const greeting = async (client: ConnectionOptions): Promise<string> =>
        (await world.handshake({ ...versions, ...client })).text;
      assert.equal(await greeting({ cert: good.cert, key: good.key }), "hello");
      for (const { cert, key, name } of [foreign, expired]) {
        assert.doesNotMatch(await greeting({ cert, key }), /hello/, `${name} ${auth} ${version}`);
      }
      const none = await greeting({});
      if (auth === "optional") assert.equal(none, "hello");
      else assert.match(none, /ALERT_(CERTIFICATE_REQUIRED|HANDSHAKE_FAILURE)/);
    }
  }
});

test("a session of a CA that was taken away is not resumed", async (t) => {
  const world = await setup(t);
  const tls = await world.start(watchOnly, world.mutual("required"));
  const { cert, key } = world.issue("good");
  const { port } = world;
  const first = connect({ port, host: "127.0.0.1", ca: world.ca.cert, cert, key });
  const sessions: Buffer[] = [];
  first.on("session", (session) => sessions.push(session));
  await closed(first.resume());
  const session = sessions.at(-1);
  assert.ok(session !== undefined);
  assert.equal((await world.handshake({ cert, key, session })).text, "hello");
  world.replace("clients.crt", world.authority("new-ca").cert);
  tls.reload();
  assert.doesNotMatch((await world.handshake({ cert, key, session })).text, /hello/);
});

test("versions of TLS before 1.2 are refused", async (t) => {
  const world = await setup(t);
  for (const version of ["TLSv1", "TLSv1.1"] as const) {
    const { text, protocol } = await world.handshake({
      minVersion: version,
      maxVersion: version,
      // Without this the client's own library would not even try.
      ciphers: "DEFAULT@SECLEVEL=0",
    });
    assert.match(text, /ALERT_PROTOCOL_VERSION/);
    assert.equal(protocol, null);
  }
  const { protocol } = await world.handshake({ maxVersion: "TLSv1.2" });
  assert.equal(protocol, "TLSv1.2");
});

test("what is not TLS at all is cut off and does no harm", async (t) => {
  const world = await setup(t);
  const socket = connectPlain(world.port, "127.0.0.1");
  socket.on("error", () => {});
  socket.write("GET / HTTP/1.1\r\n\r\n");
  await closed(socket.resume());
  await world.line("TLS handshake failed");
  assert.equal((await world.handshake()).text, "hello");
});
