/**
 * Gets Prisma from npm into the user's cache folder and generates a client there. Its engine is part of the npm package;
 * only its migrations need a program from elsewhere, which is replaced by one that does nothing.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { PrismaTransaction } from "../../packages/outbox/src/adapters/prisma.ts";
import { toolCache } from "../tool-cache.ts";

const version = "7.10.1";
const dependencies = {
  prisma: version,
  // The version that belongs to it.
  "@prisma/client": "7.10.0",
  "@prisma/adapter-pg": version,
};
const schema = `generator client {
  provider = "prisma-client-js"
}
datasource db {
  provider = "postgresql"
}
model Order {
  id Int @id
  @@map("orders")
}
`;
const kept = join(toolCache, `prisma-${version}`);

/** The folder with the packages, or why there is none. */
export function prismaPackages(): { readonly path: string } | { readonly missing: string } {
  if (!existsSync(kept)) install();
  return existsSync(kept) ? { path: kept } : { missing: "npm does not get prisma" };
}

function install(): void {
  mkdirSync(toolCache, { recursive: true });
  const cwd = mkdtempSync(join(toolCache, "prisma-"));
  try {
    const manifest = { name: "prisma-of-tests", private: true, dependencies };
    writeFileSync(join(cwd, "package.json"), JSON.stringify(manifest));
    writeFileSync(join(cwd, "schema.prisma"), schema);
    const words = ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"];
    if (spawnSync("npm", words, { cwd, stdio: "ignore" }).status !== 0) return;
    const env = {
      ...process.env,
      PRISMA_SCHEMA_ENGINE_BINARY: "/bin/true",
      CHECKPOINT_DISABLE: "1",
    };
    const prisma = join(cwd, "node_modules/prisma/build/index.js");
    const args = [prisma, "generate", "--schema", "schema.prisma"];
    if (spawnSync(process.execPath, args, { cwd, env, stdio: "ignore" }).status !== 0) return;
    // At once, because several tests may do it at the same time.
    if (!existsSync(kept)) renameSync(cwd, kept);
  } finally {
    rmSync(cwd, { recursive: true, force: true });
  }
}

interface PrismaClient {
  $transaction<T>(run: (tx: PrismaTransaction) => Promise<T>): Promise<T>;
  $disconnect(): Promise<void>;
}

export async function openPrisma(connectionString: string): Promise<PrismaClient> {
  const load = (path: string) =>
    import(pathToFileURL(join(kept, "node_modules", path)).href).then(
      (module) => module.default ?? module,
    );
  const { PrismaClient } = await load(".prisma/client/index.js");
  const { PrismaPg } = await load("@prisma/adapter-pg/dist/index.js");
  return new PrismaClient({ adapter: new PrismaPg({ connectionString }) });
}
