/** Browser APIs that jsdom lacks, and random numbers that can be repeated. */

class Observer {
  observe(): void {
    // There is no layout.
  }
  disconnect(): void {
    // As above.
  }
}

class DragEventStub extends Event {}

if (typeof window !== 'undefined') {
  Object.assign(window, {
    DragEvent: DragEventStub,
    ResizeObserver: Observer,
    IntersectionObserver: Observer,
    requestIdleCallback: (done: () => void) => window.setTimeout(done),
    cancelIdleCallback: (number: number) => window.clearTimeout(number),
    matchMedia: () => ({
      matches: false,
      addEventListener: () => undefined,
      removeEventListener: () => undefined,
      // CodeMirror asks for these where there is one of them.
      addListener: () => undefined,
      removeListener: () => undefined
    })
  });
  Element.prototype.scrollIntoView = () => undefined;
}

// Mulberry32. What a search draws in a file is repeated by `jlpm jest --seed NUMBER FILE`.
let state = jest.getSeed();
Math.random = () => {
  state = (state + 0x6d2b79f5) | 0;
  let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
};
