import { type RefObject, useEffect, useLayoutEffect } from 'react';

/** Keeps a box as high as its text, up to what its style allows, whatever its width becomes. */
export function useAutosize(box: RefObject<HTMLTextAreaElement>, text: string): void {
  useLayoutEffect(() => fit(box.current), [box, text]);
  useEffect(() => {
    const node = box.current;
    if (node === null) {
      return;
    }
    let width = 0;
    // A panel that is not shown has no width, and so its text no height.
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
