/** Return the cards of approval requests that are shown in a part of the panel, in order. */
export function requestCards(root: ParentNode): HTMLElement[] {
  const cards = [...root.querySelectorAll<HTMLElement>('.tk-Question')];
  return cards.filter(card => card.closest('[hidden]') === null);
}
