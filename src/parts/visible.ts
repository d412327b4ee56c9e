/** What a name or code would hide: controls, and what turns the direction of writing around. */
const HIDDEN = /(?![\t\n\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** The text with everything to be seen that it holds: nobody agrees to code that looks like other. */
export function visible(text: string): string {
  return text.replace(HIDDEN, found => {
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
