import { Signal } from '@lumino/signaling';

/** Features that depend on JupyterLab internals, and are switched off if those have changed. */
export type Feature =
  /** Trust in a cell can be withdrawn without writing its outputs again. */
  | 'trust'
  /** Agents read and change notebooks in open tabs. */
  | 'tabs';

const results = new Map<Feature, boolean>();
const failed = new Signal<object, Feature>(results);

/** Return whether a feature works in this JupyterLab; undefined until it is known. */
export const works = (feature: Feature): boolean | undefined => results.get(feature);

/** Return the features that are switched off. */
export const switchedOff = (): Feature[] =>
  [...results].flatMap(([feature, ok]) => (ok ? [] : [feature]));

/** Report whether a feature works. What has failed once stays switched off. */
export function report(feature: Feature, ok: boolean): void {
  if (works(feature) !== false) {
    results.set(feature, ok);
    if (!ok) {
      failed.emit(feature);
    }
  }
}

/** Call back for each feature that is switched off from now on. */
export function onSwitchedOff(done: (feature: Feature) => void): void {
  failed.connect((_, feature) => done(feature));
}

/** Call back when a feature is switched off; immediately if it is already. */
export function whenOff(feature: Feature, done: () => void): void {
  if (works(feature) === false) {
    done();
  } else {
    onSwitchedOff(each => each === feature && done());
  }
}

/** Clear all results and callbacks, for tests. */
export function forgetResults(): void {
  results.clear();
  Signal.clearData(results);
}
