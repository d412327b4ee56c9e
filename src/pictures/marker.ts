import { MARKER } from './holding';

/** Told of the markers that come into the page and go. */
export interface IMarkers {
  shown(marker: HTMLElement): void;
  gone(marker: HTMLElement): void;
}

/**
 * Has the browser tell of each marker as soon as it is in the page, wherever that is.
 *
 * It does so for elements of a kind of their own, before anything is drawn, and no sooner: what is
 * parsed aside, as for a table of contents, is not in the page.
 */
export function tellOfMarkers(markers: IMarkers): void {
  customElements.define(
    MARKER,
    class extends HTMLElement {
      connectedCallback(): void {
        markers.shown(this);
      }

      disconnectedCallback(): void {
        markers.gone(this);
      }
    }
  );
}
