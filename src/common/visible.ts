/**
 * Characters that are invisible or change how others are read: controls, format and default ignorable
 * characters, unusual spaces, lone surrogates.
 */
const HIDDEN = /(?![\t\n ])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Zs}\p{DI}\u2800]/gu;

/** Text before a joiner or variation selector that needs it: emoji, and scripts other than these. */
const JOINED =
  /[\p{Extended_Pictographic}\p{Emoji_Modifier}\p{M}]$|(?![\p{sc=Latn}\p{sc=Grek}\p{sc=Cyrl}])\p{L}$/u;
const JOINERS: readonly string[] = ['\u200c', '\u200d', '\ufe0e', '\ufe0f'];

/** Make hidden characters visible, so that approved code is what it looks like. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (found: string, place: number) => {
    if (JOINERS.includes(found) && JOINED.test(text.slice(Math.max(0, place - 3), place))) {
      return found;
    }
    const code = (found.codePointAt(0) ?? 0).toString(16).toUpperCase();
    return `⟨U+${code.padStart(4, '0')}⟩`;
  });
}

/** Return a user-defined name as a short line of text. */
export function shortName(name: string, length = 60): string {
  const line = visible(name.replace(/\s+/g, ' ').trim());
  const characters = Array.from(line);
  return characters.length > length ? `${characters.slice(0, length - 1).join('')}…` : line;
}
