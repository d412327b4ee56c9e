/** Edits of the source of a cell. */

/** An edit of a text. Offsets are in UTF-16 code units. */
export interface ITextEdit {
  start: number;
  end: number;
  text: string;
}

/** Return the edit between the common prefix and suffix of two texts. */
export function textEdit(old: string, now: string): ITextEdit {
  const shorter = Math.min(old.length, now.length);
  let start = 0;
  while (start < shorter && old[start] === now[start]) {
    start++;
  }
  let same = 0;
  while (same < shorter - start && old.at(-1 - same) === now.at(-1 - same)) {
    same++;
  }
  return { start, end: old.length - same, text: now.slice(start, now.length - same) };
}

/** Apply an edit to a source. Yjs would destroy a surrogate pair of which it replaces one half. */
export function editSource(
  shared: { source: string; updateSource: (start: number, end: number, text: string) => void },
  { start, end, text }: ITextEdit
): void {
  const { source } = shared;
  const splits = (at: number): boolean => (source.codePointAt(at - 1) ?? 0) > 0xffff;
  const [first, last] = [start - Number(splits(start)), end + Number(splits(end))];
  // oxlint-disable-next-line no-restricted-properties -- The one place that may use it.
  shared.updateSource(first, last, source.slice(first, start) + text + source.slice(end, last));
}
