/** A position in the text of an element, in characters. */
interface IPlace {
  offset: number;
}

/**
 * Save the selection in an element, to restore it after the element was rendered again.
 *
 * @returns Restores the selection.
 */
export function keepSelection(host: HTMLElement): () => void {
  const selection = document.getSelection();
  if (selection === null || selection.isCollapsed) {
    return () => undefined;
  }
  const { anchorNode, anchorOffset, focusNode, focusOffset } = selection;
  const anchor = placeOf(host, anchorNode, anchorOffset);
  const focus = placeOf(host, focusNode, focusOffset);
  if (anchor === null && focus === null) {
    return () => undefined;
  }
  return () => {
    const from = anchor === null ? { node: anchorNode, at: anchorOffset } : found(host, anchor);
    const to = focus === null ? { node: focusNode, at: focusOffset } : found(host, focus);
    if (from?.node?.isConnected === true && to?.node?.isConnected === true) {
      selection.setBaseAndExtent(from.node, from.at, to.node, to.at);
    }
  };
}

function placeOf(host: HTMLElement, node: Node | null, at: number): IPlace | null {
  if (node === null || !host.contains(node)) {
    return null;
  }
  const before = document.createRange();
  before.selectNodeContents(host);
  before.setEnd(node, at);
  return { offset: before.toString().length };
}

function found(host: HTMLElement, { offset }: IPlace): { node: Node | null; at: number } | null {
  const texts = document.createTreeWalker(host, NodeFilter.SHOW_TEXT);
  let left = offset;
  for (let node = texts.nextNode(); node !== null; node = texts.nextNode()) {
    const { length } = node as Text;
    if (left <= length) {
      return { node, at: left };
    }
    left -= length;
  }
  return null;
}
