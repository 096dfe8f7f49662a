import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { test } from "node:test";
import { SimIssuer } from "@codeq/simulated";
import { readSigningKeys } from "./signing-keys.ts";

async function read(...entries: unknown[]): Promise<[kid: string, algorithms: string[]][]> {
  const keys = await readSigningKeys(JSON.stringify({ keys: entries }));
  return (keys ?? []).map(({ kid, byAlgorithm }) => [kid, [...byAlgorithm.keys()]]);
}

const issuer = new SimIssuer().addKey("rsa", "RS256").addKey("ec", "ES256").addKey("ed", "EdDSA");
const rsa = issuer.jwkOf("rsa");
const ec = issuer.jwkOf("ec");
const ed = issuer.jwkOf("ed");

test("keys of the three kinds are read, each for the algorithms it may be used with", async () => {
  assert.deepEqual(await read(rsa, ec, ed), [
    ["rsa", ["RS256"]],
    ["ec", ["ES256"]],
    ["ed", ["EdDSA"]],
  ]);
  assert.deepEqual(await read({ ...rsa, alg: undefined }, { ...rsa, alg: "RS512" }), [
    ["rsa", ["RS256", "RS384", "RS512"]],
    ["rsa", ["RS512"]],
  ]);
});

test("entries that cannot be used are passed over, whatever they are", async () => {
  const weak = generateKeyPairSync("rsa", { modulusLength: 1024 }).publicKey;
  const p384 = generateKeyPairSync("ec", { namedCurve: "P-384" }).publicKey;
  const junk = [
    null,
    7,
    "key",
    [],
    {},
    { kty: "RSA" },
    { ...rsa, kid: undefined },
    { ...rsa, kid: "" },
    { ...rsa, kid: 7 },
    { ...rsa, kid: "k".repeat(257) },
    { ...rsa, use: "enc" },
    { ...rsa, key_ops: ["encrypt"] },
    { ...rsa, alg: "RSA-OAEP" },
    { ...rsa, alg: "PS256" },
    { ...rsa, alg: "ES256" },
    { ...rsa, alg: "none" },
    { ...rsa, n: "!" },
    { ...rsa, n: "" },
    { ...rsa, n: 7 },
    { ...rsa, e: undefined },
    { ...weak.export({ format: "jwk" }), kid: "weak" },
    { ...p384.export({ format: "jwk" }), kid: "p384" },
    { ...ec, x: ed["x"], y: ed["x"] },
    { ...ec, alg: "EdDSA" },
    { ...ed, crv: "X25519" },
    { ...ed, x: "AAAA" },
    { kty: "oct", k: "c2VjcmV0", kid: "shared", alg: "HS256" },
  ];
  assert.deepEqual(await read(...junk, ed, ...junk), [["ed", ["EdDSA"]]]);
});

test("a private key that was published by mistake is used as the public key it contains", async () => {
  const { privateKey } = generateKeyPairSync("ed25519");
  const text = JSON.stringify({ keys: [{ ...privateKey.export({ format: "jwk" }), kid: "p" }] });
  const [key] = (await readSigningKeys(text)) ?? [];
  assert.equal(key?.byAlgorithm.get("EdDSA")?.type, "public");
  assert.doesNotMatch(key?.material ?? "", /"d"/);
});

test("the same key is recognised when it is read again, another one of the same name is not", async () => {
  const material = async (entry: object) =>
    (await readSigningKeys(JSON.stringify({ keys: [entry] })))?.[0]?.material;
  assert.equal(await material(ed), await material({ ...ed, x5t: "whatever", use: undefined }));
  const other = new SimIssuer().addKey("ed").jwkOf("ed");
  assert.notEqual(await material(ed), await material(other));
  assert.notEqual(await material(rsa), await material({ ...rsa, alg: "RS512" }));
});

test("what is not a key set is told from one without keys", async () => {
  for (const text of ["", "<html>", "null", "7", "[]", "{}", '{"keys":{}}', '{"keys":null}']) {
    assert.equal(await readSigningKeys(text), undefined, text);
  }
  assert.deepEqual(await readSigningKeys('{"keys":[]}'), []);
});

test("no more than a hundred entries are looked at", async () => {
  const many = Array.from({ length: 100 }, () => ({}));
  assert.deepEqual(await read(...many, ed), []);
  assert.deepEqual(await read(...many.slice(1), ed), [["ed", ["EdDSA"]]]);
});
