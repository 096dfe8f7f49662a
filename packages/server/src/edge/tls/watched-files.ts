/**
 * Notices that a file may have changed, however it is replaced. Editors and certificate tools write a
 * new file and rename it, and Kubernetes points a symbolic link to another directory. So the watch is on
 * directories: that of the file itself and that of every link on the way to it.
 *
 * A directory that cannot be watched is skipped, so callers also check the files periodically.
 */
import { type FSWatcher, readlinkSync, watch } from "node:fs";
import { basename, dirname, join, parse, resolve, sep } from "node:path";

export class WatchedFiles implements Disposable {
  readonly #paths: readonly string[];
  readonly #onChange: () => void;
  readonly #watchers = new Map<string, FSWatcher>();

  constructor(paths: readonly string[], onChange: () => void) {
    this.#paths = paths;
    this.#onChange = onChange;
    this.refresh();
  }

  /** Call this after a change: links may point elsewhere, and directories may have been replaced. */
  refresh(): void {
    const wanted = new Set(this.#paths.flatMap((path) => [...directoriesOf(path)]));
    for (const directory of this.#watchers.keys()) {
      if (!wanted.has(directory)) this.#unwatch(directory);
    }
    for (const directory of wanted) this.#watch(directory);
  }

  [Symbol.dispose](): void {
    for (const directory of this.#watchers.keys()) this.#unwatch(directory);
  }

  #watch(directory: string): void {
    if (this.#watchers.has(directory)) return;
    try {
      const watcher = watch(directory, { persistent: false }, (_event, name) => {
        // The directory was moved or removed; the watch would follow the directory instead of the path.
        if (name === null || name === basename(directory)) this.#unwatch(directory);
        this.#onChange();
      });
      this.#watchers.set(directory, watcher);
      watcher.on("error", () => {
        this.#unwatch(directory);
        this.#onChange();
      });
    } catch {
      // The directory does not exist yet, or the system has no watches left; see above.
    }
  }

  #unwatch(directory: string): void {
    this.#watchers.get(directory)?.close();
    this.#watchers.delete(directory);
  }
}

const linksMax = 40;

/** The directories whose entries decide where the path leads. */
function directoriesOf(path: string): Set<string> {
  const found = new Set<string>();
  let links = 0;
  const follow = (from: string): string => {
    const { root } = parse(from);
    let at = root;
    for (const part of from.slice(root.length).split(sep).filter(Boolean)) {
      const next = join(at, part);
      const target = links < linksMax ? linkTarget(next) : undefined;
      if (target === undefined) {
        at = next;
        continue;
      }
      links += 1;
      found.add(at);
      at = follow(resolve(at, target));
    }
    return at;
  };
  found.add(dirname(follow(resolve(path))));
  return found;
}

function linkTarget(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch {
    // The path is not a link, or does not exist.
    return undefined;
  }
}
