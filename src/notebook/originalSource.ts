/** Reconstructs the source of a cell before a change from its diff. */

const HEAD = /^@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@/;

/**
 * Apply a unified diff backwards.
 *
 * A part of it that was reverted already, line for line, stays as it is.
 *
 * @param now - The source after the change.
 * @param diff - A unified diff without file names.
 * @returns The source before; null if the diff does not fit the source.
 */
export function originalSource(now: string, diff: string): string | null {
  const lines = now.split('\n');
  const found: string[] = [];
  let place = 0;
  // The offset of the remaining lines, because of reverted parts.
  let moved = 0;
  for (const { start, removed, added, same } of partsOf(diff)) {
    const from = start === null ? place : start + moved;
    if (from < place || from > lines.length) {
      return null;
    }
    found.push(...lines.slice(place, from));
    place = from;
    const fits = (side: readonly string[]): boolean =>
      [...side, ...same].every((text, offset) => lines[place + offset] === text);
    const isLast = removed.length > 0 && same.length === 0 && added.length === 0;
    const isBack =
      fits(removed) && (!fits(added) || (isLast && place + removed.length === lines.length));
    if (!isBack && !fits(added)) {
      return null;
    }
    moved += isBack ? removed.length - added.length : 0;
    found.push(...removed, ...same);
    place += (isBack ? removed : added).length + same.length;
  }
  return [...found, ...lines.slice(place)].join('\n');
}

interface IPart {
  /** The index of its first line after the change; null for that after the former part. */
  start: number | null;
  removed: string[];
  added: string[];
  /** The unchanged lines that follow. */
  same: string[];
}

/** Split a diff into parts: removed lines, added lines, and unchanged lines after them. */
function partsOf(diff: string): IPart[] {
  const parts: IPart[] = [];
  const begin = (start: number | null): IPart => {
    const part = { start, removed: [], added: [], same: [] };
    parts.push(part);
    return part;
  };
  let part: IPart | undefined;
  for (const line of diff.replace(/\n$/, '').split('\n')) {
    const head = HEAD.exec(line);
    const text = line.slice(1);
    if (head !== null) {
      // A hunk without remaining lines has the number of the line before it.
      part = begin(Number(head[1]) - (head[2] === '0' ? 0 : 1));
    } else {
      part ??= begin(null);
      const isChange = !line.startsWith(' ');
      if (isChange && part.same.length > 0) {
        part = begin(null);
      }
      (line.startsWith('-') ? part.removed : isChange ? part.added : part.same).push(text);
    }
  }
  return parts;
}
