/** Reads the Prometheus text format, as far as the server writes it. */
export interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export class MetricsText {
  readonly #samples: Map<string, Sample[]> = new Map();

  constructor(text: string) {
    for (const line of text.split("\n")) {
      const [, name, labels = "", value = ""] =
        /^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/.exec(line) ?? [];
      if (name === undefined) continue;
      const samples = this.#samples.get(name) ?? [];
      samples.push({ labels: labelsIn(labels), value: numberOf(value) });
      this.#samples.set(name, samples);
    }
  }

  has(name: string): boolean {
    return this.#samples.has(name);
  }

  all(name: string): readonly Sample[] {
    return this.#samples.get(name) ?? [];
  }

  /** The sum over all samples that carry these labels. */
  value(name: string, labels: Readonly<Record<string, string>> = {}): number {
    const wanted = Object.entries(labels);
    return this.all(name)
      .filter((sample) => wanted.every(([label, value]) => sample.labels[label] === value))
      .reduce((sum, sample) => sum + sample.value, 0);
  }
}

const escaped: Readonly<Record<string, string>> = { n: "\n", '"': '"', "\\": "\\" };

function labelsIn(text: string): Record<string, string> {
  const labels: Record<string, string> = {};
  for (const [, name = "", value = ""] of text.matchAll(/(\w+)="((?:\\.|[^"\\])*)"/g)) {
    labels[name] = value.replace(/\\(.)/g, (_, letter: string) => escaped[letter] ?? letter);
  }
  return labels;
}

function numberOf(text: string): number {
  if (text === "+Inf") return Number.POSITIVE_INFINITY;
  return text === "-Inf" ? Number.NEGATIVE_INFINITY : Number(text);
}
