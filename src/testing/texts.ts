/** Texts for tests of edits. */

/** Characters that are surrogate pairs of one high half or of one low half, and a letter. */
const CHARACTERS = ['🔴', '🟢', '🤴', 'a'];

/** All texts of up to two of these characters. */
export const TEXTS = [1, 2].reduce<string[]>(
  texts => ['', ...CHARACTERS.flatMap(each => texts.map(text => each + text))],
  ['']
);

/** Throw an error if a text has one half of a surrogate pair, or what replaces it. */
export function expectWhole(text: string): void {
  expect(() => encodeURIComponent(text)).not.toThrow();
  expect(text).not.toContain('\uFFFD');
}
