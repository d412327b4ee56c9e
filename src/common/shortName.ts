/** Return a user-defined name as a short line of text. */
export function shortName(name: string, length = 60): string {
  const characters = Array.from(name.replace(/\s+/g, ' ').trim());
  return characters.length > length
    ? `${characters.slice(0, length - 1).join('')}…`
    : characters.join('');
}
