/**
 * Gets Prisma from npm into the user's cache folder and generates a client there. Its engine is part of the npm package;
 * only its migrations need a program from elsewhere, which is replaced by one that does nothing.
 */
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { PrismaTransaction } from "../../packages/outbox/src/adapters/prisma.ts";
import { npmPackages } from "../npm-packages.ts";

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
/** The folder with the packages, or why there is none. */
export function prismaPackages(): { readonly path: string } | { readonly missing: string } {
  return npmPackages({ name: `prisma-${version}`, dependencies, prepare: generate });
}

function generate(cwd: string): boolean {
  writeFileSync(join(cwd, "schema.prisma"), schema);
  const env = { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: "/bin/true", CHECKPOINT_DISABLE: "1" };
  const prisma = join(cwd, "node_modules/prisma/build/index.js");
  const args = [prisma, "generate", "--schema", "schema.prisma"];
  return spawnSync(process.execPath, args, { cwd, env, stdio: "ignore" }).status === 0;
}

interface PrismaClient {
  $transaction<T>(run: (tx: PrismaTransaction) => Promise<T>): Promise<T>;
  $disconnect(): Promise<void>;
}

export async function openPrisma(connectionString: string): Promise<PrismaClient> {
  const got = prismaPackages();
  if ("missing" in got) throw new Error(got.missing);
  const load = (path: string) =>
    import(pathToFileURL(join(got.path, "node_modules", path)).href).then(
      (module) => module.default ?? module,
    );
  const { PrismaClient } = await load(".prisma/client/index.js");
  const { PrismaPg } = await load("@prisma/adapter-pg/dist/index.js");
  return new PrismaClient({ adapter: new PrismaPg({ connectionString }) });
}
