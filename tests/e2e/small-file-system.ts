/** A real file system of a few megabytes, so that it can be filled. Needs the right to mount. */
import { spawnSync } from "node:child_process";
import {
  mkdtempSync,
  rmdirSync,
  rmSync,
  statfsSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const mebibyte: number = 1024 * 1024;

export class SmallFileSystem {
  readonly path: string;
  #fillers = 0;

  private constructor(path: string) {
    this.path = path;
  }

  /** The reason, in words, when it cannot be had. */
  static mount(bytes: number): SmallFileSystem | string {
    const path = mkdtempSync(join(tmpdir(), "codeq-small-"));
    const args = ["-t", "tmpfs", "-o", `size=${bytes},mode=0700`, "tmpfs", path];
    const mounted = spawnSync("mount", args, { encoding: "utf8" });
    if (mounted.status === 0) return new SmallFileSystem(path);
    rmdirSync(path);
    return `mounting is not possible here: ${mounted.error?.message ?? mounted.stderr.trim()}`;
  }

  freeBytes(): number {
    const { bavail, bsize } = statfsSync(this.path);
    return bavail * bsize;
  }

  /** Takes up room; fails, with what there was taken, when that is less. */
  fill(bytes: number): void {
    this.#fillers += 1;
    writeFileSync(join(this.path, `filler-${this.#fillers}`), Buffer.alloc(bytes));
  }

  /** Gives back this much of what the last `fill` took. */
  shrink(bytes: number): void {
    const path = join(this.path, `filler-${this.#fillers}`);
    truncateSync(path, Math.max(0, statSync(path).size - bytes));
  }

  /** Gives back what `fill` took. */
  empty(): void {
    for (; this.#fillers > 0; this.#fillers -= 1) {
      rmSync(join(this.path, `filler-${this.#fillers}`));
    }
  }

  /** Makes the whole file system larger or smaller. */
  resize(bytes: number): void {
    const args = ["-o", `remount,size=${bytes}`, this.path];
    const mounted = spawnSync("mount", args, { encoding: "utf8" });
    if (mounted.status !== 0) throw new Error(`mount: ${mounted.stderr}`);
  }

  unmount(): void {
    const unmounted = spawnSync("umount", [this.path], { encoding: "utf8" });
    if (unmounted.status !== 0) throw new Error(`umount: ${unmounted.stderr}`);
    rmdirSync(this.path);
  }
}
