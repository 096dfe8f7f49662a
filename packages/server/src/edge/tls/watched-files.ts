/**
 * Notices that a file may have changed, however it is replaced. Editors and certificate tools write a
 * new file and rename it, and Kubernetes turns a symbolic link to another directory, so it is the
 * directories that are watched: of the file itself and of every link on the way to it.
 *
 * A directory that cannot be watched is passed over; whoever needs certainty looks from time to time.
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

  /** To be called after a change: links may lead elsewhere, and directories may have been renewed. */
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
        // The directory itself was moved or removed: the watch follows it, the path does not.
        if (name === null || name === basename(directory)) this.#unwatch(directory);
        this.#onChange();
      });
      this.#watchers.set(directory, watcher);
      watcher.on("error", () => {
        this.#unwatch(directory);
        this.#onChange();
      });
    } catch {
      // It does not exist yet, or the system has no watch to give; see above.
    }
  }

  #unwatch(directory: string): void {
    this.#watchers.get(directory)?.close();
    this.#watchers.delete(directory);
  }
}

const linksMax = 40;

/** The directories in which it is decided what the path leads to. */
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
    // Not a link, or not there: then it stands for itself.
    return undefined;
  }
}
