import { Signal } from '@lumino/signaling';

/** Features that depend on JupyterLab internals, and are switched off where those have changed. */
export type Feature =
  /** Trust in a cell can be withdrawn without writing its outputs again. */
  | 'trust'
  /** Agents read and change notebooks in open tabs. */
  | 'tabs'
  /** Controls have their place in a cell. */
  | 'controls'
  /** Files and cells are dragged to the chat. */
  | 'dragging';

const missing = new Set<Feature>();
const failed = new Signal<object, Feature>(missing);

/** Switch a feature off, since this JupyterLab does not have what it needs. */
export function switchOff(feature: Feature): void {
  if (!missing.has(feature)) {
    missing.add(feature);
    failed.emit(feature);
  }
}

/** Call back for each feature that is switched off, by now or later. */
export function onSwitchedOff(done: (feature: Feature) => void): void {
  missing.forEach(feature => done(feature));
  failed.connect((_, feature) => done(feature));
}

/** Clear all results and callbacks, for tests. */
export function forgetResults(): void {
  missing.clear();
  Signal.clearData(missing);
}
