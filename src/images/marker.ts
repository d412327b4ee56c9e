import { MARKER } from './blockingSanitizer';

/** Receives the markers that are attached to the page and detached from it. */
export interface IMarkerObserver {
  onAttached(marker: HTMLElement): void;
  onDetached(marker: HTMLElement): void;
}

/**
 * Define the custom element of the markers, whose callbacks notify an observer.
 *
 * The browser calls them when an element is attached, before it paints. Elements that are only
 * parsed, as for a table of contents, are not attached.
 */
export function defineMarker(markers: IMarkerObserver): void {
  customElements.define(
    MARKER,
    class extends HTMLElement {
      connectedCallback(): void {
        markers.onAttached(this);
      }

      disconnectedCallback(): void {
        markers.onDetached(this);
      }
    }
  );
}
