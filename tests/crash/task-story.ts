/**
 * What clients were told about one task, and therefore what any later look at it may show.
 *
 *   free   created or given back; it may be ready or waiting for its time
 *   held   a claim was acknowledged and nothing that ends it
 *   ended  a result or a burial was acknowledged; nothing may change any more
 *
 * A request whose answer never came leaves a doubt: it was done or it was not. The next look decides
 * which, and from then on that is as good as acknowledged.
 */
export interface Submission {
  readonly status: "COMPLETED" | "FAILED";
  /** JSON text; empty when there is none. */
  readonly resultJson: string;
  readonly error: string;
}

export type Doubt =
  | { readonly verb: "nack" | "abandon" | "interrupt" }
  | { readonly verb: "submit"; readonly submission: Submission };

export type Place = "ready" | "delayed" | "held" | "leased" | "dead" | "done";

/** A task as somebody sees it, over HTTP or in the files. */
export interface Seen {
  readonly place: Place;
  readonly attempts: number;
  /** Only looked at while the task is leased. */
  readonly leaseToken: number;
  /** When the lease ends, where that can be seen. */
  readonly untilMs?: number;
  readonly payload: string;
  readonly result: (Submission & { readonly record: string }) | undefined;
}

/** Interrupted hand-backs in a row that are not counted. */
const freeHandBacks = 3;

export class TaskStory {
  readonly number: number;
  readonly payload: string;
  readonly idempotencyKey: string;
  readonly maxAttempts: number;
  /** Not due as long as the test runs. */
  readonly isFarAway: boolean;
  /** What was sent to create it. */
  readonly body: string;
  id = "";
  state: "unknown" | "free" | "held" | "ended" = "unknown";
  attempts = 0;
  handBacks = 0;
  token = 0;
  /** The lease was acknowledged up to here, by a claim or a heartbeat. */
  leasedUntilMs = 0;
  doubt: Doubt | undefined;
  end: { place: "dead" | "done"; submission: Submission; record: string } | undefined;

  constructor(
    parts: Pick<
      TaskStory,
      "number" | "payload" | "idempotencyKey" | "maxAttempts" | "isFarAway" | "body"
    >,
  ) {
    this.number = parts.number;
    this.payload = parts.payload;
    this.idempotencyKey = parts.idempotencyKey;
    this.maxAttempts = parts.maxAttempts;
    this.isFarAway = parts.isFarAway;
    this.body = parts.body;
  }

  created(id: string): string[] {
    if (this.id !== "" && this.id !== id) return [`${this} is also ${id}`];
    this.id = id;
    if (this.state === "unknown") this.state = "free";
    return [];
  }

  /** A claim brought it. */
  claimed(seen: Seen): string[] {
    const problems: string[] = [];
    const { doubt } = this;
    // The answer to what gave it back may be read after the one that gives it out again.
    if (doubt !== undefined && doubt.verb !== "submit") this.cameBack(doubt.verb);
    if (this.state === "held") problems.push(`${this} was given out twice`);
    if (this.state === "ended") problems.push(`${this} came back after its end`);
    if (this.isFarAway) problems.push(`${this} was given out before its time`);
    if (seen.leaseToken <= this.token) problems.push(`${this} got token ${seen.leaseToken} again`);
    if (seen.attempts !== this.attempts) problems.push(this.#differs("attempts", seen.attempts));
    if (seen.payload !== this.payload) problems.push(`${this} was given out with other contents`);
    this.state = "held";
    this.token = seen.leaseToken;
    this.leasedUntilMs = seen.untilMs ?? 0;
    return problems;
  }

  /** A nack, an abandon or an interrupted hand-back was acknowledged. */
  cameBack(verb: "nack" | "abandon" | "interrupt"): void {
    this.doubt = undefined;
    const counts = verb !== "interrupt" || this.handBacks >= freeHandBacks;
    this.attempts += counts ? 1 : 0;
    this.handBacks = counts ? 0 : this.handBacks + 1;
    this.state = "free";
    if (this.attempts < this.maxAttempts) return;
    this.state = "ended";
    const error = verb === "nack" ? nackReason : "MAX_ATTEMPTS";
    this.end = {
      place: "dead",
      submission: { status: "FAILED", resultJson: "", error },
      record: "",
    };
  }

  /** `record` is the answer, or empty when it was one of many. */
  submitted(submission: Submission, record: string): void {
    this.doubt = undefined;
    this.state = "ended";
    this.end = { place: "done", submission, record };
  }

  /**
   * Compares a look with what was acknowledged and settles the doubts. `mayBeClaimed` allows that a
   * claim without an answer took it.
   */
  check(seen: Seen | undefined, mayBeClaimed: () => boolean): string[] {
    if (seen === undefined) return this.state === "unknown" ? [] : [`${this} is gone`];
    const problems = this.#settle(seen, mayBeClaimed);
    if (seen.payload !== this.payload) problems.push(`${this} has other contents`);
    if (seen.attempts !== this.attempts) problems.push(this.#differs("attempts", seen.attempts));
    return problems;
  }

  toString(): string {
    const { number, id, state, attempts, token } = this;
    const doubt = this.doubt === undefined ? "" : `, ${this.doubt.verb} without an answer`;
    return `task ${number} (${id}, ${state}, ${attempts} attempts, token ${token}${doubt})`;
  }

  #settle(seen: Seen, mayBeClaimed: () => boolean): string[] {
    if (this.state === "unknown") this.state = "free";
    if (this.doubt !== undefined) this.#settleDoubt(this.doubt, seen);
    switch (this.state) {
      case "held":
        if (seen.place !== "leased") return [this.#differs("place", seen.place)];
        if (seen.leaseToken !== this.token) return [this.#differs("token", seen.leaseToken)];
        if (seen.untilMs === undefined || seen.untilMs >= this.leasedUntilMs) return [];
        return [`${this} was leased until ${this.leasedUntilMs}, now it is ${seen.untilMs}`];
      case "ended":
        return this.#checkEnd(seen);
      case "free":
        return this.#checkFree(seen, mayBeClaimed);
    }
  }

  #settleDoubt(doubt: Doubt, seen: Seen): void {
    this.doubt = undefined;
    if (seen.place === "leased" && seen.leaseToken === this.token) return;
    if (doubt.verb === "submit") this.submitted(doubt.submission, "");
    else this.cameBack(doubt.verb);
  }

  #checkEnd(seen: Seen): string[] {
    const end = this.end;
    if (end === undefined) throw new Error(`${this} ended without an end`);
    if (seen.place !== end.place) return [this.#differs("place", seen.place)];
    const { result } = seen;
    if (result === undefined) return [`${this} has no result`];
    const { status, resultJson, error } = end.submission;
    const same =
      result.status === status && result.resultJson === resultJson && result.error === error;
    if (!same) {
      const [is, was] = [result, end.submission].map((each) => JSON.stringify(each));
      return [`${this} has the result ${is}, was given ${was}`];
    }
    if (result.record === "") return [];
    if (end.record === "") end.record = result.record;
    return end.record === result.record
      ? []
      : [`${this} had the result ${end.record}, now it is ${result.record}`];
  }

  #checkFree(seen: Seen, mayBeClaimed: () => boolean): string[] {
    if (seen.place === "delayed") return [];
    if (this.isFarAway) return [this.#differs("place", seen.place)];
    if (seen.place === "ready") return [];
    if (seen.place !== "leased" || seen.leaseToken <= this.token || !mayBeClaimed()) {
      return [this.#differs("place", seen.place)];
    }
    this.state = "held";
    this.token = seen.leaseToken;
    this.leasedUntilMs = 0;
    return [];
  }

  #differs(what: string, value: unknown): string {
    return `${this}: ${what} is ${value}`;
  }
}

/** Every nack gives it, so that a burial can be recognised. */
export const nackReason = "try again";
