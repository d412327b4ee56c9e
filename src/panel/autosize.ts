import { type RefObject, useEffect, useLayoutEffect } from 'react';

/** Keep a text area as high as its text, up to its maximum height, also when its width changes. */
export function useAutosize(box: RefObject<HTMLTextAreaElement>, text: string): void {
  useLayoutEffect(() => fit(box.current), [box, text]);
  useEffect(() => {
    const node = box.current;
    if (node === null) {
      return;
    }
    let width = 0;
    // In a hidden panel the text has no height, so fit again when the width changes.
    const observer = new ResizeObserver(() => {
      if (node.clientWidth !== width) {
        width = node.clientWidth;
        fit(node);
      }
    });
    observer.observe(node);
    return () => observer.disconnect();
  }, [box]);
}

function fit(box: HTMLTextAreaElement | null): void {
  if (box !== null) {
    box.style.height = 'auto';
    box.style.height = `${box.scrollHeight + box.offsetHeight - box.clientHeight}px`;
  }
}
