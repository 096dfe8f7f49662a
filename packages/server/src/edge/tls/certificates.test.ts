import assert from "node:assert/strict";
import { createPrivateKey } from "node:crypto";
import { chmodSync, mkdirSync, symlinkSync } from "node:fs";
import { type TestContext, test } from "node:test";
import { TlsWorld } from "../../../test/tls-files.ts";
import { type CheckedCertificates, loadCertificates, type TlsSettings } from "./certificates.ts";

interface World extends TlsWorld {
  load(settings?: Partial<TlsSettings>): CheckedCertificates;
}

function setup(t: TestContext): World {
  const world = new TlsWorld(t);
  world.writeServer(world.issue("server"));
  return Object.assign(world, {
    load: (settings: Partial<TlsSettings> = {}) =>
      loadCertificates({ ...world.settings, ...settings }, world.nowMs),
  });
}

function assertRefused(checked: CheckedCertificates, ...patterns: readonly RegExp[]): void {
  assert.equal(checked.certificates, undefined);
  assert.equal(checked.problems.length, patterns.length, checked.problems.join("\n"));
  for (const [index, pattern] of patterns.entries())
    assert.match(checked.problems[index]!, pattern);
  assert.doesNotMatch(checked.problems.join(), /PRIVATE KEY-----\n/);
}

test("a certificate with its key, and perhaps with CAs of clients, is taken", (t) => {
  const world = setup(t);
  const plain = world.load();
  assert.deepEqual([plain.problems, plain.warnings], [[], []]);
  assert.match(plain.certificates?.subject ?? "", /^CN=server, DNS:localhost.*, serial [0-9A-F]+$/);
  assert.equal(plain.certificates?.clientCas, undefined);
  const tlsClientCaFile = world.write("ca.crt", world.ca.cert + world.authority("other").cert);
  const mutual = world.load({ tlsClientCaFile });
  assert.deepEqual([mutual.problems, mutual.warnings], [[], []]);
  assert.match(mutual.certificates?.clientCas?.toString() ?? "", /BEGIN CERTIFICATE/);
});

test("without files there is nothing to say", (t) => {
  const none = { tlsCertFile: "", tlsKeyFile: "" };
  assert.deepEqual(setup(t).load(none), { certificates: undefined, problems: [], warnings: [] });
});

test("everything that is wrong is said at once, with the key and the path", (t) => {
  const world = setup(t);
  world.write("tls.crt", "not a certificate");
  const path = world.path("gone.crt");
  assertRefused(
    world.load({ tlsKeyFile: world.directory, tlsClientCaFile: path }),
    /^tlsKeyFile: .* is not a file$/,
    new RegExp(`^tlsClientCaFile: ${path} does not exist$`),
    /^tlsCertFile: .*tls\.crt has no certificate in PEM form/,
  );
});

test("a file that may not be read, and a link that leads nowhere, are said so", (t) => {
  const world = setup(t);
  symlinkSync(world.path("nowhere"), world.path("dangling.crt"));
  assertRefused(world.load({ tlsCertFile: world.path("dangling.crt") }), /does not exist$/);
  symlinkSync(world.path("loop.crt"), world.path("loop.crt"));
  assertRefused(world.load({ tlsCertFile: world.path("loop.crt") }), /cannot be read \(ELOOP\)/);
  world.write("large.crt", "x".repeat(1024 * 1024 + 1));
  assertRefused(world.load({ tlsCertFile: world.path("large.crt") }), /more than 1048576 bytes/);
  chmodSync(world.path("tls.key"), 0);
  // The superuser reads everything.
  if (process.getuid?.() !== 0) assertRefused(world.load(), /tls\.key cannot be read \(EACCES\)/);
});

test("what is in the wrong file, or damaged, is said so", (t) => {
  const world = setup(t);
  const { tlsCertFile, tlsKeyFile } = world.settings;
  assertRefused(
    world.load({ tlsCertFile: tlsKeyFile, tlsKeyFile: tlsCertFile }),
    /^tlsCertFile: .* has no certificate in PEM form/,
    /^tlsKeyFile: .* has no private key in PEM form/,
  );
  const { cert } = world.issue("server");
  world.write("tls.crt", cert.replace("\nMI", "\nAA"));
  assertRefused(world.load(), /^tlsCertFile: .* is damaged/);
  mkdirSync(world.path("directory.crt"));
  assertRefused(world.load({ tlsCertFile: world.path("directory.crt") }), /is not a file$/);
});

test("a key that belongs to another certificate, or is encrypted, is refused", (t) => {
  const world = setup(t);
  const other = world.issue("other");
  world.write("tls.key", other.key);
  assertRefused(world.load(), /^tlsKeyFile: .* is not the key of the certificate in tlsCertFile$/);
  const cipher = { cipher: "aes-256-cbc", passphrase: "hush" } as const;
  const encrypted = createPrivateKey(other.key).export({ type: "pkcs8", format: "pem", ...cipher });
  world.write("tls.key", encrypted.toString());
  assertRefused(world.load(), /^tlsKeyFile: .* is encrypted; write it without a passphrase/);
});

test("a chain has the server's own certificate first", (t) => {
  const world = setup(t);
  const middle = world.issue("middle", { isCa: true });
  const own = world.issue("server", { issuer: middle });
  world.writeServer({ ...own, cert: own.cert + middle.cert });
  assert.deepEqual(world.load().problems, []);
  world.writeServer({ ...own, cert: middle.cert + own.cert });
  assertRefused(world.load(), /^tlsCertFile: .* own certificate behind others; put it first$/);
});

test("a certificate whose time is over, or has not come, is refused", (t) => {
  const world = setup(t);
  world.writeServer(world.issue("server", world.days(-30, -1)));
  assertRefused(world.load(), /^tlsCertFile: .* expired on \d{4}-.*Z; renew it$/);
  world.writeServer(world.issue("server", world.days(1, 30)));
  assertRefused(world.load(), /is valid only from \d{4}-.*; check the clock of this machine$/);
});

test("CAs that have all expired are refused, and some of them are a warning", (t) => {
  const world = setup(t);
  const old = world.issue("old", { isCa: true, ...world.days(-30, -1) });
  const only = world.write("ca.crt", old.cert);
  assertRefused(world.load({ tlsClientCaFile: only }), /has only CAs that have expired/);
  world.write("ca.crt", old.cert + world.ca.cert);
  const { problems, warnings } = world.load({ tlsClientCaFile: only });
  assert.deepEqual(problems, []);
  assert.match(warnings.join(), /^tlsClientCaFile: .* has 1 of 2 CAs that have expired$/);
});

test("what only some clients mind is a warning", (t) => {
  const world = setup(t);
  const old = world.issue("old", { isCa: true, ...world.days(-30, -1) });
  const own = world.issue("server", { dnsNames: [], addresses: [] });
  world.writeServer({ ...own, cert: own.cert + old.cert });
  const { problems, warnings } = world.load();
  assert.deepEqual(problems, []);
  assert.equal(warnings.length, 2);
  assert.match(warnings[0]!, /has no subjectAltName/);
  assert.match(warnings[1]!, /has expired \(CN=old/);
});

test("a key that is too short for the library is refused with its reason", (t) => {
  const world = setup(t);
  world.writeServer(world.issue("weak", { rsaBits: 512 }));
  assertRefused(world.load(), /^tlsCertFile: .* cannot be used: ERR_SSL_EE_KEY_TOO_SMALL/);
});
