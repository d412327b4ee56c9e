/** What code that Claude ran has put out, as the server's tools tell it. Plain values. */

import type { Json } from '../api/events';

/** A cell that was run, or code outside of one. */
export interface IRun {
  /** Its place in the notebook; null for code outside of one. */
  index: number | null;
  /** What a person reads of it, cut where it is long. */
  output: string;
  /** Where the whole output is; null where it is not longer. */
  artifact: string | null;
  /** The values of its JSON outputs. */
  data: readonly unknown[];
}

/** The runs of an answer; none where it tells of something else. */
export function runsOf(structured: Json): IRun[] {
  const { runs } = structured;
  if (!Array.isArray(runs)) {
    return [];
  }
  return (runs as Json[]).map(({ index, output, artifact, data }) => {
    const values = Array.isArray(data) ? (data as unknown[]) : [];
    return {
      index: typeof index === 'number' ? index : null,
      output: typeof output === 'string' ? shown(output, values) : '',
      artifact: typeof artifact === 'string' ? artifact : null,
      data: values
    };
  });
}

/** What of an output is text: pictures and values are shown as what they are. */
function shown(output: string, data: readonly unknown[]): string {
  const values = new Set(data.map(value => JSON.stringify(value)));
  const lines = output.split('\n').filter(line => !/^\[image\/[\w.+-]+\]$/.test(line));
  const text = lines.join('\n').trim();
  return values.has(compact(text)) ? '' : text === '' ? '' : lines.join('\n');
}

/** A JSON text without the spaces between its parts; another text as it is. */
function compact(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text));
  } catch {
    return text;
  }
}

/** The lines of the whole of a text that was cut, as the cut itself says; null for a whole text. */
export function linesOfWhole(text: string): number | null {
  const said = /^\[… [\d,]+ characters, [\d,]+ lines left out of ([\d,]+)[;\]]/m.exec(text)?.[1];
  return said === undefined ? null : Number(said.replaceAll(',', ''));
}
