/** What a source was before a change, from what it is now and the change's diff. */

const HEAD = /^@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@/;

/**
 * Apply a unified diff backwards.
 *
 * @param now - The source after the change.
 * @param diff - A unified diff without file names.
 * @returns The source before; null where the diff does not fit the source.
 */
export function beforeOf(now: string, diff: string): string | null {
  const lines = now.split('\n');
  const found: string[] = [];
  let place = 0;
  for (const line of diff.replace(/\n$/, '').split('\n')) {
    const head = HEAD.exec(line);
    if (head !== null) {
      // A hunk that leaves no line names the line before it.
      const start = Number(head[1]) - (head[2] === '0' ? 0 : 1);
      if (start < place) {
        return null;
      }
      found.push(...lines.slice(place, start));
      place = start;
    } else if (line.startsWith('-')) {
      found.push(line.slice(1));
    } else if (line.startsWith('+') || line.startsWith(' ')) {
      if (lines[place] !== line.slice(1)) {
        return null;
      }
      place++;
      if (line.startsWith(' ')) {
        found.push(line.slice(1));
      }
    } else {
      return null;
    }
  }
  return [...found, ...lines.slice(place)].join('\n');
}
