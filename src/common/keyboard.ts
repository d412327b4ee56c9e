/** Keyboard rules of a panel or dialog, for all of its content. */

/** A group that gets the focus if the focused element within it is removed. */
const PLACE = ':is(section, [role="group"])[tabindex]';

/**
 * Keep the keyboard in an element: a held key presses no button, and the focus is not lost.
 *
 * The press of another button may have shown the button that has the focus now. If the focused element is
 * removed or disabled, the focus goes to the group that it was in, or to the fallback.
 *
 * @param root - The element.
 * @param fallback - Returns the element that gets the focus if there is no such group.
 */
export function keepKeyboard(root: HTMLElement, fallback: () => HTMLElement | null): void {
  let last: Element | null = null;
  let place: HTMLElement | null = null;
  const isLost = (): boolean => last !== null && (!last.isConnected || last.matches(':disabled'));
  root.addEventListener('focusin', ({ target }) => {
    last = target as Element;
    place = last.parentElement?.closest<HTMLElement>(PLACE) ?? null;
  });
  root.addEventListener('focusout', () =>
    // Some browsers emit it for elements that are about to be removed, too.
    queueMicrotask(() => {
      if (last !== document.activeElement && !isLost()) {
        last = null;
      }
    })
  );
  root.addEventListener(
    'keydown',
    event => {
      const isPress = event.key === 'Enter' || event.key === ' ';
      if (event.repeat && isPress && event.target instanceof HTMLButtonElement) {
        event.preventDefault();
      }
    },
    true
  );
  new MutationObserver(() => {
    if (isLost()) {
      const { activeElement, body } = document;
      if (activeElement === last || activeElement === body) {
        (place?.isConnected === true ? place : fallback())?.focus({ preventScroll: true });
      }
      last = null;
    }
  }).observe(root, { attributeFilter: ['disabled'], childList: true, subtree: true });
}
