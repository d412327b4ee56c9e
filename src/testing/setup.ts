/** What a browser has and jsdom has not. */

class Observer {
  observe(): void {
    // Nothing is laid out.
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
    matchMedia: () => ({ matches: false, addEventListener: () => undefined })
  });
  Element.prototype.scrollIntoView = () => undefined;
}
