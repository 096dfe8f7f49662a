import assert from "node:assert/strict";
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { CliWorld } from "../../test/cli-world.ts";
import { Options } from "../options.ts";
import { connection } from "../shared-options.ts";
import { type Connection, resolveConnection } from "./connection.ts";
import { changeProfile, mask, profilePath, readProfiles } from "./profile-file.ts";

/** As the Go command line writes it. */
const written = `currentProfile: prod
profiles:
    prod:
        baseUrl: https://queue.example.com
        iamBaseUrl: https://iam.example.com
        producerToken: producer-of-prod
        workerToken: worker-of-prod
        admin: true
    # for experiments
    stage:
        baseUrl: http://stage:8080
        token: signed-in
`;

function worldWith(text?: string): CliWorld {
  const world = new CliWorld();
  mkdirSync(join(world.home, ".codeq"), { recursive: true });
  if (text !== undefined) writeFileSync(join(world.home, ".codeq/config.yaml"), text);
  return world;
}

function resolve(
  world: CliWorld,
  env: Record<string, string> = {},
  options: Record<string, string> = {},
): Promise<Connection> {
  const values = new Map(Object.entries(options).map(([name, value]) => [name, [value]]));
  return resolveConnection({ env, home: world.home }, new Options(connection, values));
}

test("without anything it is a server on this machine, with the development token", async () => {
  using world = new CliWorld();
  const found = await resolve(world);
  assert.deepEqual(found.baseUrl, { value: "http://localhost:8080", source: "default" });
  assert.equal(found.producerToken?.value, "dev-token");
  assert.equal(found.workerToken?.value, "dev-token");
  assert.equal(found.workerTokenOf, "producer");
  assert.equal(found.admin, true);
});

test("what cannot be sent is refused without being shown", async () => {
  using world = new CliWorld();
  const hidden = (error: Error): boolean => !error.message.includes("hunter2");
  for (const CODEQ_TOKEN of ["hunter2\nhunter3", "hunter2\u0000", "a\thunter2"]) {
    await assert.rejects(resolve(world, { CODEQ_TOKEN }), /CODEQ_TOKEN.*control character/);
    await assert.rejects(resolve(world, { CODEQ_TOKEN }), hidden);
  }
  for (const CODEQ_BASE_URL of ["http://me:hunter2@host", "me:hunter2@host", "ftp://hunter2@h"]) {
    await assert.rejects(resolve(world, { CODEQ_BASE_URL }), /not the address of a server/);
    await assert.rejects(resolve(world, { CODEQ_BASE_URL }), hidden);
  }
  const { baseUrl } = await resolve(world, { CODEQ_BASE_URL: "http://host/a@b/" });
  assert.equal(baseUrl.value, "http://host/a@b");
});

test("the development token goes nowhere but to this machine", async () => {
  using world = new CliWorld();
  const found = await resolve(world, { CODEQ_BASE_URL: "https://queue.example.com/" });
  assert.equal(found.baseUrl.value, "https://queue.example.com");
  assert.equal(found.producerToken, undefined);
  assert.equal(found.workerToken, undefined);
  assert.equal(found.admin, false);
});

test("a profile of the Go command line is read, the current one or the one that is named", async () => {
  using world = worldWith(written);
  const current = await resolve(world);
  assert.equal(current.baseUrl.value, "https://queue.example.com");
  assert.equal(current.producerToken?.value, "producer-of-prod");
  assert.equal(current.workerToken?.value, "worker-of-prod");
  assert.equal(current.workerTokenOf, "worker");
  assert.equal(current.admin, true);
  for (const named of [
    await resolve(world, { CODEQ_PROFILE: "stage" }),
    await resolve(world, { CODEQ_PROFILE: "prod" }, { profile: "stage" }),
  ]) {
    assert.equal(named.baseUrl.value, "http://stage:8080");
    assert.equal(named.producerToken?.value, "signed-in");
  }
  await assert.rejects(resolve(world, {}, { profile: "none" }), /no profile "none".*prod, stage/);
});

test("options win over variables, and variables over the profile", async () => {
  using world = worldWith(written);
  const env = {
    CODEQ_PRODUCER_TOKEN: "from-env",
    CODEQ_BASE_URL: "http://env",
    CODEQ_ADMIN: "false",
  };
  const byEnv = await resolve(world, env);
  assert.equal(byEnv.producerToken?.value, "from-env");
  assert.equal(byEnv.baseUrl.value, "http://env");
  assert.equal(byEnv.admin, false);
  const both = await resolve(world, { ...env, CODEQ_URL: "http://url" });
  assert.deepEqual(both.baseUrl, { value: "http://url", source: "CODEQ_URL" });
  assert.equal((await resolve(world, { ...env, CODEQ_URL: " " })).baseUrl.value, "http://env");
  const byOption = await resolve(world, env, { "producer-token": "opt", "base-url": "http://opt" });
  assert.equal(byOption.producerToken?.value, "opt");
  assert.deepEqual(byOption.baseUrl, { value: "http://opt", source: "--base-url" });
  const empty = await resolve(world, { CODEQ_PRODUCER_TOKEN: "" });
  assert.equal(empty.producerToken?.value, "producer-of-prod");
});

test("one token for all is taken where nothing closer speaks of one side", async () => {
  using world = worldWith(written);
  const any = await resolve(world, {}, { token: "any" });
  assert.equal(any.producerToken?.value, "any");
  assert.equal(any.workerToken?.value, "any");
  const mixed = await resolve(world, { CODEQ_TOKEN: "any" }, { "worker-token": "mine" });
  assert.equal(mixed.producerToken?.value, "any");
  assert.equal(mixed.workerToken?.value, "mine");
});

test("an address that is none is refused with its source", async () => {
  using world = new CliWorld();
  await assert.rejects(
    resolve(world, { CODEQ_BASE_URL: "localhost:8080" }),
    /CODEQ_BASE_URL.*not the address/,
  );
  await assert.rejects(resolve(world, {}, { "base-url": "ftp://x" }), /--base-url/);
});

test("a change keeps the rest of the file and is for its owner only", async () => {
  using world = worldWith(written);
  const path = profilePath({ env: {}, home: world.home });
  await changeProfile(path, { name: "stage" }, { token: null, producerToken: "new", admin: false });
  const text = readFileSync(path, "utf8");
  assert.match(text, /# for experiments/);
  assert.match(text, /iamBaseUrl: https:\/\/iam\.example\.com/);
  const { profiles, currentProfile } = await readProfiles(path);
  assert.equal(currentProfile, "prod");
  assert.deepEqual(profiles["stage"], {
    baseUrl: "http://stage:8080",
    producerToken: "new",
    admin: false,
  });
  assert.equal(statSync(path).mode & 0o777, 0o600);
  assert.deepEqual(readdirSync(join(world.home, ".codeq")), ["config.yaml"]);
});

test("a profile becomes the current one when that is asked for, and not before", async () => {
  using world = new CliWorld();
  const path = profilePath({
    env: { CODEQ_CONFIG_DIR: join(world.directory, "conf") },
    home: "/x",
  });
  assert.equal(path, join(world.directory, "conf", "config.yaml"));
  await changeProfile(path, { name: "mine" }, { baseUrl: "http://a" });
  assert.equal((await readProfiles(path)).currentProfile, undefined);
  await changeProfile(path, { name: "mine", isCurrent: true }, {});
  assert.equal((await readProfiles(path)).currentProfile, "mine");
});

test("a file that cannot be used is told without its contents", async () => {
  for (const text of ["profiles: [", "just text", "profiles: 5", "{a: s3cret"]) {
    using world = worldWith(text);
    await assert.rejects(resolve(world), (error: Error) => {
      assert.match(error.message, /cannot be used/);
      return !error.message.includes("s3cret");
    });
  }
});

test("a masked secret is not the secret", () => {
  assert.equal(mask(undefined), undefined);
  assert.equal(mask("short"), "****");
  assert.equal(mask("dev-token"), "****");
  assert.equal(mask("abcdefghijklmnop"), "abcd****");
});
