/**
 * Characters that nobody sees or that change how others are read: controls, format and default
 * ignorable characters, spaces that are not a space, lone surrogates.
 */
const HIDDEN = /(?![\t\n ])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Zs}\p{DI}\u2800]/gu;

/** Joiners and variation selectors are part of these: emoji, and scripts other than these three. */
const JOINED =
  /[\p{Extended_Pictographic}\p{Emoji_Modifier}\p{M}]$|(?![\p{sc=Latn}\p{sc=Grek}\p{sc=Cyrl}])\p{L}$/u;
const JOINERS: readonly string[] = ['\u200c', '\u200d', '\ufe0e', '\ufe0f'];

/** The text with everything visible that it holds: nobody approves code that looks like other code. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (found: string, place: number) => {
    if (JOINERS.includes(found) && JOINED.test(text.slice(Math.max(0, place - 3), place))) {
      return found;
    }
    const code = (found.codePointAt(0) ?? 0).toString(16).toUpperCase();
    return `⟨U+${code.padStart(4, '0')}⟩`;
  });
}

/** A name that somebody chose, as a short line of text. */
export function shortName(name: string, length = 60): string {
  const line = visible(name.replace(/\s+/g, ' ').trim());
  const characters = Array.from(line);
  return characters.length > length ? `${characters.slice(0, length - 1).join('')}…` : line;
}
