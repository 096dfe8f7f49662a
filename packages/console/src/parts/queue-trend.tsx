/** How many tasks a queue completed in each of the last minutes. */
import type { JSX } from "preact";
import { count } from "../format.ts";
import { useTrend } from "../model/series.ts";
import { Sparkline } from "./sparkline.tsx";

export function QueueTrend({ queue }: { readonly queue: string }): JSX.Element {
  const { data = [] } = useTrend(queue);
  const sum = data.reduce((total, each) => total + each, 0);
  return <Sparkline values={data} label={`${count(sum)} completed in the last 30 minutes`} />;
}
