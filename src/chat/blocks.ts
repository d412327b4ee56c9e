/** An answer in blocks that are rendered one by one: while it grows, only the last of them changes. */

export interface IBlock {
  kind: 'markdown' | 'code';
  /** Markdown, or the code between the fences. */
  text: string;
  /** What a code block is written in. */
  language: string;
  /** Whether the fence is closed, or the text goes on after it. */
  closed: boolean;
}

const FENCE = /^(`{3,}|~{3,})\s*([^\s`{]*)[^`]*$/;

/**
 * The blocks of a Markdown text.
 *
 * It is cut at empty lines and at fences that begin a line, never inside a fence, a formula in `$$`
 * or what is indented below a list's item.
 */
export function blocksOf(text: string): IBlock[] {
  const blocks: IBlock[] = [];
  let lines: string[] = [];
  let formula = false;
  let fence: { mark: string; language: string } | null = null;

  const flush = (): void => {
    const markdown = lines.join('\n').trim();
    if (markdown !== '') {
      blocks.push({ kind: 'markdown', text: lines.join('\n'), language: '', closed: true });
    }
    lines = [];
  };
  const close = (closed: boolean): void => {
    blocks.push({ kind: 'code', text: lines.join('\n'), language: fence?.language ?? '', closed });
    lines = [];
    fence = null;
  };

  for (const line of text.split('\n')) {
    if (fence !== null) {
      if (
        line.trimEnd().startsWith(fence.mark) &&
        line.trim() === line.trim()[0]?.repeat(line.trim().length)
      ) {
        close(true);
      } else {
        lines.push(line);
      }
      continue;
    }
    const opening = formula ? null : FENCE.exec(line);
    if (opening !== null) {
      flush();
      fence = { mark: opening[1] ?? '```', language: opening[2] ?? '' };
      continue;
    }
    if (!formula && lines.at(-1)?.trim() === '' && line.trim() !== '' && !/^\s/.test(line)) {
      flush();
    }
    lines.push(line);
    if ((line.match(/\$\$/g)?.length ?? 0) % 2 === 1) {
      formula = !formula;
    }
  }
  if (fence !== null) {
    close(false);
  } else {
    flush();
  }
  return blocks;
}

/** A Markdown block of some code, whatever fences the code has itself. */
export function fenced(text: string, language: string): string {
  const longest = Math.max(2, ...(text.match(/`{3,}/g) ?? []).map(mark => mark.length));
  const mark = '`'.repeat(longest + 1);
  return `${mark}${language}\n${text}\n${mark}`;
}
