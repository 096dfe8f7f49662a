/** `auth set`, `auth show` and `auth clear`: servers and tokens stored in profiles. */
import type { Call } from "../../call.ts";
import { usageError } from "../../cli-error.ts";
import {
  changeProfile,
  defaultProfile,
  mask,
  type ProfileChanges,
  profilePath,
  readProfiles,
} from "../../profile/profile-file.ts";

export async function set(call: Call): Promise<void> {
  const { options } = call;
  const admin = options.text("admin");
  const given: Record<string, string | boolean | undefined> = {
    baseUrl: options.text("base-url"),
    producerToken: options.text("producer-token") ?? options.text("token"),
    workerToken: options.text("worker-token") ?? options.text("token"),
    admin: admin === undefined ? undefined : admin === "true",
  };
  const changes = Object.fromEntries(
    Object.entries(given).filter(([, value]) => value !== undefined),
  ) as ProfileChanges;
  if (Object.keys(changes).length === 0 && !options.has("current")) {
    throw usageError(
      "no option to set was given",
      "codeq auth set --base-url <url> --producer-token <token> --worker-token <token>",
    );
  }
  const { path, name } = await current(call);
  await changeProfile(path, { name, isCurrent: options.has("current") }, changes);
  call.answer({ ok: true, profile: name }, `[OK] Credentials updated for '${name}'`);
}

export async function clear(call: Call): Promise<void> {
  const { options } = call;
  const all = options.has("all") || !(options.has("producer") || options.has("worker"));
  const changes: ProfileChanges = {
    ...(all || options.has("producer") ? { producerToken: null, token: null } : {}),
    ...(all || options.has("worker") ? { workerToken: null } : {}),
  };
  const { path, name } = await current(call);
  await changeProfile(path, { name }, changes);
  call.answer({ ok: true, profile: name }, `[OK] Tokens cleared for '${name}'`);
}

export async function show(call: Call): Promise<void> {
  const { path, profiles } = await readProfiles(profilePath(call.host));
  const { name } = await current(call);
  const masked = Object.entries(profiles).map(([each, profile]) => ({
    profile: each,
    current: each === name,
    baseUrl: profile.baseUrl,
    producerToken: mask(profile.producerToken ?? profile.token),
    workerToken: mask(profile.workerToken),
    admin: profile.admin,
  }));
  if (call.json) return call.printJson({ path, profiles: masked });
  call.print(path);
  if (masked.length === 0) call.print("there are no profiles yet; create one with codeq auth set");
  for (const { profile, current: isCurrent, ...fields } of masked) {
    call.print(`${isCurrent ? "*" : " "} ${call.style.bold(profile)}`);
    for (const [field, value] of Object.entries(fields)) {
      if (value !== undefined) call.print(`    ${field.padEnd(14)} ${value}`);
    }
  }
}

async function current(call: Call): Promise<{ path: string; name: string }> {
  const path = profilePath(call.host);
  const named = call.options.text("profile") ?? (call.host.env["CODEQ_PROFILE"] || undefined);
  const name = named ?? (await readProfiles(path)).currentProfile ?? defaultProfile;
  return { path, name };
}
