/**
 * What a program allocates on the JavaScript heap, and what collections of the young generation copy:
 * the sizes before and after each collection tell, so nothing is counted object by object. Buffers
 * outside of the heap are not part of it.
 */
import { GCProfiler, getHeapSpaceStatistics } from "node:v8";

export interface HeapUse {
  readonly seconds: number;
  readonly allocatedBytes: number;
  /** Moved by collections of the young generation, within it or out of it. */
  readonly copiedBytes: number;
  /** Of those, moved out of it. */
  readonly promotedBytes: number;
}

/** Used bytes of the generations. */
export interface Spaces {
  readonly young: number;
  readonly old: number;
}

export interface Collection {
  readonly isYoung: boolean;
  readonly before: Spaces;
  readonly after: Spaces;
}

/** Starts to watch; what it returns ends that. */
export function watchHeap(): () => HeapUse {
  const profiler = new GCProfiler();
  const startedMs = performance.now();
  const first = currentSpaces();
  profiler.start();
  return () => {
    const last = currentSpaces();
    const seconds = (performance.now() - startedMs) / 1000;
    const collections = profiler.stop()?.statistics.map(toCollection) ?? [];
    return { seconds, ...heapUse(first, collections, last) };
  };
}

/** Between two collections a generation only grows by what is allocated; sweeping may shrink the old one. */
export function heapUse(
  first: Spaces,
  collections: readonly Collection[],
  last: Spaces,
): Omit<HeapUse, "seconds"> {
  let allocatedBytes = 0;
  let copiedBytes = 0;
  let promotedBytes = 0;
  let from = first;
  const grownTo = (spaces: Spaces): void => {
    allocatedBytes += Math.max(0, spaces.young - from.young) + Math.max(0, spaces.old - from.old);
  };
  for (const { isYoung, before, after } of collections) {
    grownTo(before);
    if (isYoung) {
      const promoted = Math.max(0, after.old - before.old);
      promotedBytes += promoted;
      copiedBytes += promoted + after.young;
    }
    from = after;
  }
  grownTo(last);
  return { allocatedBytes, copiedBytes, promotedBytes };
}

const youngNames = new Set(["new_space", "new_large_object_space"]);
const oldNames = new Set(["old_space", "large_object_space"]);

function spacesOf(sizes: readonly { readonly name: string; readonly used: number }[]): Spaces {
  const sum = (names: ReadonlySet<string>): number =>
    sizes.reduce((total, { name, used }) => total + (names.has(name) ? used : 0), 0);
  return { young: sum(youngNames), old: sum(oldNames) };
}

function currentSpaces(): Spaces {
  return spacesOf(
    getHeapSpaceStatistics().map((space) => ({
      name: space.space_name,
      used: space.space_used_size,
    })),
  );
}

type Profile = NonNullable<ReturnType<GCProfiler["stop"]>>["statistics"][number];

function toCollection({ gcType, beforeGC, afterGC }: Profile): Collection {
  const spaces = ({ heapSpaceStatistics }: Profile["beforeGC"]): Spaces =>
    spacesOf(
      heapSpaceStatistics.map(({ spaceName, spaceUsedSize }) => ({
        name: spaceName,
        used: spaceUsedSize,
      })),
    );
  return { isYoung: gcType === "Scavenge", before: spaces(beforeGC), after: spaces(afterGC) };
}
