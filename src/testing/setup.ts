/** Browser APIs that jsdom lacks, and random numbers that can be repeated. */

import { seedRandom } from './random';

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

seedRandom();
