/** Keys on a simulated disk that can crash between any two of its operations, and run full. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { put } from "@codeq/engine";
import { limits } from "@codeq/protocol";
import { refuse, type TenantId } from "@codeq/queue";
import { SimDisk, settle } from "../../../../../simulated/src/index.ts";
import { BrokerWorld } from "../../../../test/broker-world.ts";
import { engineOf } from "../../../../test/engine-of.ts";
import { LocalControl } from "../../../core/control/local-control.ts";
import { apiKeyKey, apiKeysPrefix, apiKeyUseKey, quarantineKey } from "../../../core/store/keys.ts";
import type { Store } from "../../../core/store/store.ts";
import { Revocations } from "../token-provider.ts";
import { drawApiKey } from "./api-key-text.ts";
import { type ApiKeyRequest, ApiKeys, type Audit, type CreatedApiKey } from "./api-keys.ts";

const acme = "acme" as TenantId;
const globex = "globex" as TenantId;
const alphabet = "0123456789abcdefghjkmnpqrstvwxyz";

interface Opened {
  readonly world: BrokerWorld;
  readonly store: Store;
  readonly keys: ApiKeys;
  readonly revocations: Revocations;
}

async function open(world: BrokerWorld = new BrokerWorld()): Promise<Opened> {
  const store = await world.openStore();
  const revocations = new Revocations();
  const { clock, random } = world;
  const randomBytes = (into: Uint8Array): void => random.bytes(into);
  const keys = await ApiKeys.open({
    store: new LocalControl(store),
    clock,
    revocations,
    randomBytes,
  });
  return { world, store, keys, revocations };
}

async function reopen({ world, store }: Opened): Promise<Opened> {
  await store[Symbol.asyncDispose]();
  return open(world);
}

function request(fields: Partial<ApiKeyRequest> = {}): ApiKeyRequest {
  return {
    tenantId: acme,
    name: "ci",
    createdBy: "boss",
    role: "none",
    expiresMs: undefined,
    scopes: ["codeq:create"],
    eventTypes: ["*"],
    ...fields,
  };
}

const unheard: Audit = () => ({ writes: [], log: () => {} });

/** A record that can be told from others. */
function heard(verb: "create" | "revoke"): Audit {
  return ({ id }) => ({ writes: [put(`codeq/audit/all/${verb}/${id}`, "")], log: () => {} });
}

async function created(
  keys: ApiKeys,
  fields: Partial<ApiKeyRequest> = {},
  audit: Audit = unheard,
): Promise<CreatedApiKey> {
  const outcome = await keys.create(request(fields), audit);
  assert.ok(outcome.ok);
  return outcome.value;
}

test("a key is accepted with what it was made for, also after a restart", async () => {
  const first = await open();
  const expiresMs = first.world.clock.nowMs() + 1000;
  const fields = { role: "admin", eventTypes: ["render"], expiresMs } as const;
  const { key, token } = await created(first.keys, fields);
  for (const { keys } of [first, await reopen(first)]) {
    const verified = keys.verify(token);
    assert.ok(verified.ok);
    const { isRevoked, ...claims } = verified.value;
    assert.equal(isRevoked(), false);
    assert.deepEqual(claims, {
      subject: key.id,
      apiKeyId: key.id,
      scopes: ["codeq:create", "codeq:admin"],
      eventTypes: ["render"],
      raw: { tenantId: "acme", role: "admin" },
      issuedBy: "API key",
      expiresMs,
    });
  }
});

test("the store holds a hash and nothing of the secret", async () => {
  const opened = await open();
  const { key, token } = await created(opened.keys);
  await opened.store[Symbol.asyncDispose]();
  const secret = token.slice(key.id.length + 1, -7);
  const stored = [...opened.world.contents].map(([name, value]) => `${name} ${value}`).join("\n");
  assert.ok(stored.includes(key.id));
  assert.equal(stored.includes(secret), false);
});

test("another secret with the same id, an unknown id and a mistyped key are refused", async () => {
  const { keys } = await open();
  const { key, token } = await created(keys);
  const forged = drawApiKey(key.createdMs, (into) => {
    // The first bytes are those of the id.
    const chance = [...key.id.slice(-6)].map((digit) => alphabet.indexOf(digit) << 3);
    into.set(into.length === chance.length ? chance : new Uint8Array(into.length));
  });
  assert.equal(forged.id, key.id);
  assert.deepEqual(keys.verify(forged.token), refuse("invalid_token"));
  const stranger = await created((await open(new BrokerWorld({ seed: 2 }))).keys);
  assert.deepEqual(keys.verify(stranger.token), refuse("invalid_token"));
  assert.deepEqual(keys.verify(`${token.slice(0, -1)}!`), refuse("mistyped_key"));
  assert.deepEqual(keys.verify("dev-token"), refuse("invalid_token"));
  assert.ok(keys.verify(token).ok);
});

test("a revoked key is refused at once and for ever, and whoever watches it is told", async () => {
  const first = await open();
  const { key, token } = await created(first.keys);
  const verified = first.keys.verify(token);
  assert.ok(verified.ok);
  const { isRevoked } = verified.value;
  let told = 0;
  first.revocations.watch({ isRevoked } as never, () => {
    told += 1;
  });
  const other = await created(first.keys, { name: "other" });
  assert.deepEqual(await first.keys.revoke({ id: key.id, tenantId: undefined }, unheard), key);
  assert.equal(told, 1);
  assert.equal(isRevoked(), true);
  for (const { keys } of [first, await reopen(first)]) {
    assert.deepEqual(keys.verify(token), refuse("invalid_token"));
    assert.equal(await keys.revoke({ id: key.id, tenantId: undefined }, unheard), undefined);
    assert.ok(keys.verify(other.token).ok);
    assert.equal(keys.size, 1);
  }
});

test("a key is not revoked in the name of another tenant", async () => {
  const { keys } = await open();
  const { key, token } = await created(keys);
  assert.equal(await keys.revoke({ id: key.id, tenantId: globex }, unheard), undefined);
  assert.ok(keys.verify(token).ok);
  assert.deepEqual(await keys.revoke({ id: key.id, tenantId: acme }, unheard), key);
});

test("pages go through a tenant from the oldest to the newest, and through all tenants", async () => {
  const { keys, world } = await open();
  const names: string[] = [];
  for (const tenantId of [globex, acme, globex, acme, acme]) {
    await world.clock.advance(1);
    const name = `${tenantId} ${names.length}`;
    await created(keys, { tenantId, name });
    names.push(name);
  }
  const walk = async (tenantId: TenantId | undefined, limit: number): Promise<string[]> => {
    const found: string[] = [];
    for (let after: string | undefined = ""; after !== undefined; ) {
      const page = await keys.list({ tenantId, after, limit });
      assert.ok(page.keys.length <= limit && page.keys.length > 0);
      found.push(...page.keys.map(({ key }) => key.name));
      after = page.next;
    }
    return found;
  };
  for (const limit of [1, 2, 3, 10]) {
    assert.deepEqual(await walk(acme, limit), ["acme 1", "acme 3", "acme 4"]);
    assert.deepEqual(await walk(globex, limit), ["globex 0", "globex 2"]);
    const all = ["acme 1", "acme 3", "acme 4", "globex 0", "globex 2"];
    assert.deepEqual(await walk(undefined, limit), all);
  }
});

test("a tenant has so many keys and no more, however many are asked for at once", async () => {
  const { keys, world } = await open(new BrokerWorld({ flushBytes: 1 << 30 }));
  const expiresMs = world.clock.nowMs() + 1000;
  const max = limits.apiKeysPerTenantMax;
  const asked = Array.from({ length: max + 5 }, (_, number) =>
    keys.create(request(number < 3 ? { expiresMs } : {}), unheard),
  );
  const outcomes = await Promise.all(asked);
  assert.equal(outcomes.filter(({ ok }) => ok).length, max);
  assert.deepEqual(outcomes.at(-1), refuse("too_many_keys"));
  assert.ok((await keys.create(request({ tenantId: globex }), unheard)).ok, "others have room");
  await world.clock.advance(1000);
  assert.ok((await keys.create(request(), unheard)).ok, "expired keys made room");
  assert.equal(keys.size, max + 1 - 3 + 1);
});

test("uses are written seldom and together, and come back after a restart", async () => {
  const first = await open();
  const { keys, world, store } = first;
  const { key } = await created(keys);
  const stored = (): string | undefined => engineOf(store).getText(apiKeyUseKey(key.id));
  let woken = 0;
  keys.onUsed = () => {
    woken += 1;
  };
  assert.equal(keys.find(key.id)?.lastUsedMs, undefined);
  assert.equal(keys.writeUsesAtMs, undefined);
  const usedMs = world.clock.nowMs();
  for (let times = 0; times < 1000; times += 1) keys.noteUse(key.id);
  assert.equal(woken, 1);
  assert.equal(keys.writeUsesAtMs, world.clock.monotonicMs() + 60_000);
  assert.equal(stored(), undefined);
  await keys.writeUses();
  assert.equal(stored(), String(usedMs));
  assert.equal(keys.writeUsesAtMs, undefined);
  await world.clock.advance(9 * 60_000);
  keys.noteUse(key.id);
  assert.equal(keys.writeUsesAtMs, undefined, "the store knows of a use not long ago");
  assert.equal(keys.find(key.id)?.lastUsedMs, usedMs + 9 * 60_000);
  await world.clock.advance(60_000);
  keys.noteUse(key.id);
  await keys[Symbol.asyncDispose]();
  const second = await reopen(first);
  assert.equal(second.keys.find(key.id)?.lastUsedMs, usedMs + 10 * 60_000);
  await second.keys.revoke({ id: key.id, tenantId: acme }, unheard);
  assert.equal(engineOf(second.store).getText(apiKeyUseKey(key.id)), undefined);
});

test("a use that is written while its key is revoked does not bring anything back", async () => {
  const { keys, store } = await open();
  const { key, token } = await created(keys);
  keys.noteUse(key.id);
  await Promise.all([keys.revoke({ id: key.id, tenantId: acme }, unheard), keys.writeUses()]);
  keys.noteUse(key.id);
  await keys.writeUses();
  assert.deepEqual(
    await engineOf(store).scanKeys({ after: "codeq/key", before: "codeq/key~" }, 9),
    [],
  );
  assert.deepEqual(keys.verify(token), refuse("invalid_token"));
});

test("a full disk refuses a key and a revocation, and neither happened", async () => {
  const { keys, world } = await open(new BrokerWorld({ segmentBytes: 4096, minFreeBytes: 100 }));
  const { key, token } = await created(keys);
  world.disk.capacityBytes = 0;
  const large = request({ name: "x".repeat(6000) });
  await assert.rejects(keys.create(large, unheard), { code: "disk_full" });
  await assert.rejects(keys.revoke({ id: key.id, tenantId: acme }, unheard), { code: "disk_full" });
  assert.ok(keys.verify(token).ok, "what was refused did not happen");
  assert.equal(keys.size, 1);
  world.disk.capacityBytes = Number.MAX_SAFE_INTEGER;
  await world.clock.advance(1000);
  assert.ok((await keys.create(large, unheard)).ok);
  await keys.revoke({ id: key.id, tenantId: acme }, unheard);
  assert.deepEqual(keys.verify(token), refuse("invalid_token"));
});

test("a record that cannot be read opens nothing and is kept aside", async () => {
  const first = await open();
  const { key, token } = await created(first.keys);
  const at = apiKeyKey(acme, key.id);
  await first.store.commitRecords([put(at, "[]")]).done;
  const { keys, store } = await reopen(first);
  assert.deepEqual(keys.verify(token), refuse("invalid_token"));
  assert.equal(store.quarantined, 1);
  assert.equal(engineOf(store).getText(quarantineKey(at)), "[]");
});

test("a record under another tenant's name opens nothing", async () => {
  const first = await open();
  const { key, token } = await created(first.keys);
  const record = engineOf(first.store).getText(apiKeyKey(acme, key.id)) as string;
  await first.keys.revoke({ id: key.id, tenantId: acme }, unheard);
  await first.store.commitRecords([put(apiKeyKey(globex, key.id), record)]).done;
  const { keys } = await reopen(first);
  assert.deepEqual(keys.verify(token), refuse("invalid_token"));
});

/** A disk on which nothing happens any more after so many operations. */
function dyingWorld(seed: number): { world: BrokerWorld; dieAfter: (operations: number) => void } {
  const world = new BrokerWorld({ seed, segmentBytes: 4096, flushBytes: 2000 });
  let left = Number.POSITIVE_INFINITY;
  const random = world.random.fork("dying disk");
  world.disk = new SimDisk({
    random: () => random.next(),
    latency: () => {
      left -= 1;
      return left >= 0 ? Promise.resolve() : new Promise(() => {});
    },
  });
  return {
    world,
    dieAfter: (operations) => {
      left = operations;
    },
  };
}

test("whenever the power fails, what was answered is so and nothing is half there", async () => {
  for (let operations = 0; operations < 60; operations += 1) {
    const { world, dieAfter } = dyingWorld(operations);
    const { keys } = await open(world);
    const alive = new Set<string>();
    const gone = new Set<string>();
    const undecided = new Set<string>();
    dieAfter(operations);
    const life = async (number: number): Promise<void> => {
      const { key, token } = await created(keys, { name: `key ${number}` }, heard("create"));
      alive.add(token);
      keys.noteUse(key.id);
      if (number % 3 === 0) await keys.writeUses();
      if (number % 2 === 1) return;
      alive.delete(token);
      undecided.add(token);
      await keys.revoke({ id: key.id, tenantId: acme }, heard("revoke"));
      undecided.delete(token);
      gone.add(token);
    };
    for (let number = 0; number < 12; number += 1) void life(number);
    await settle(200);
    dieAfter(Number.POSITIVE_INFINITY);
    world.disk = world.disk.crash("power");
    const next = await open(world);
    for (const token of alive) assert.ok(next.keys.verify(token).ok, `after ${operations}`);
    for (const token of gone)
      assert.equal(next.keys.verify(token).ok, false, `after ${operations}`);
    assert.ok(next.keys.size >= alive.size);
    assert.equal(next.store.quarantined, 0);
    const records = await engineOf(next.store).scanKeys(
      { after: apiKeysPrefix, before: `${apiKeysPrefix}~` },
      1000,
    );
    assert.equal(records.length, next.keys.size);
    const told = async (verb: string): Promise<string[]> => {
      const prefix = `codeq/audit/all/${verb}/`;
      const found = await engineOf(next.store).scanKeys(
        { after: prefix, before: `${prefix}~` },
        100,
      );
      return found.map((key) => key.slice(prefix.length));
    };
    const revoked = await told("revoke");
    const left = (await told("create")).filter((id) => !revoked.includes(id));
    const ids = records.map((key) => key.slice(key.lastIndexOf("/") + 1));
    assert.deepEqual(left, ids, "every change has its record, and every record its change");
    if (operations === 59) assert.ok(alive.size + gone.size > 3, "the last ones got somewhere");
  }
});
