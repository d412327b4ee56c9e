import type { NotebookPanel } from '@jupyterlab/notebook';
import type { IRenderMime } from '@jupyterlab/rendermime';
import { UUID } from '@lumino/coreutils';
import { DisposableDelegate } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';

import { blockOtherHosts } from '../lab/blocking';
import { whenOff, works } from '../lab/features';
import { replaceSanitize, setSanitizer, showAsText } from '../lab/sanitizer';
import { HeldPictures, type ISurroundings, type Rule } from './held';
import { HoldingSanitizer, letGo } from './holding';
import type { IMarkers } from './marker';

/** A view of a notebook. */
interface IView {
  panel: NotebookPanel;
  held: HeldPictures;
  /** What markers call the notebook. */
  name: string;
}

/**
 * What is held in all notebooks of the page.
 *
 * JupyterLab's one sanitizer holds, too: a table of contents renders headings by it, aside from
 * their cells. What it held is let go as soon as it is shown anywhere but in a notebook.
 */
export class Pictures implements IMarkers, ISurroundings {
  constructor(
    sanitizer: IRenderMime.ISanitizer,
    private readonly _base: URL,
    around: Omit<ISurroundings, 'rule'>
  ) {
    ({
      writers: this.writers,
      reviews: this.reviews,
      contents: this.contents,
      trans: this.trans,
      draw: this.draw
    } = around);
    this._shared = sanitizer;
    (['pictures', 'diagrams'] as const).forEach(each => whenOff(each, () => this._blockAll()));
    whenOff('trust', () =>
      this._views.forEach(({ panel }) => showAsText(panel.content.rendermime))
    );
    this._within = replaceSanitize(
      sanitizer,
      within => new HoldingSanitizer(within, this._base, '')
    );
  }

  readonly writers: ISurroundings['writers'];
  readonly reviews: ISurroundings['reviews'];
  readonly contents: ISurroundings['contents'];
  readonly trans: ISurroundings['trans'];
  readonly draw: ISurroundings['draw'];

  get rule(): Rule {
    return this._rule;
  }

  setRule(rule: Rule): void {
    this._rule = rule;
    this.look();
  }

  /** Looks anew at all that is held. */
  look(): void {
    this._views.forEach(({ held }) => held.look());
  }

  /**
   * Holds what comes into a notebook.
   *
   * @param panel - It has no cells yet, or is another view of one that is watched already.
   * @param changed - Emitted when agents may have changed something.
   */
  watch(panel: NotebookPanel, changed: ISignal<unknown, void>): DisposableDelegate {
    const { rendermime } = panel.content;
    // Two views of a notebook share it.
    const known = rendermime.sanitizer instanceof HoldingSanitizer ? rendermime.sanitizer : null;
    const holding = known ?? new HoldingSanitizer(this._passing(), this._base, UUID.uuid4());
    setSanitizer(rendermime, holding);
    if (works('trust') === false) {
      showAsText(rendermime);
    }
    const held = new HeldPictures(panel, this);
    const view = { panel, held, name: holding.of };
    this._views.add(view);
    const look = (): void => held.look();
    changed.connect(look);
    return new DisposableDelegate(() => {
      changed.disconnect(look);
      held.dispose();
      this._views.delete(view);
    });
  }

  shown(marker: HTMLElement): void {
    const views = [...this._views];
    const name = marker.dataset['of'] ?? '';
    // Outside of all views, it is an output in one of its own; then that of its notebook counts.
    const view =
      views.find(({ panel }) => panel.node.contains(marker)) ??
      views.find(each => each.name === name);
    if (view !== undefined) {
      view.held.shown(marker);
    } else if (name === '' && marker.parentElement !== null) {
      letGo(marker.parentElement, this.draw);
    }
  }

  gone(marker: HTMLElement): void {
    this._views.forEach(({ held }) => held.gone(marker));
  }

  /** Block what cannot be held: once, for all of the page. */
  private _blockAll(): void {
    if (!this._isBlocked) {
      this._isBlocked = true;
      blockOtherHosts(this._base);
    }
  }

  /** What takes scripts out, and holds nothing: the rest is as JupyterLab's own. */
  private _passing(): IRenderMime.ISanitizer {
    const { _shared: shared, _within: within } = this;
    return {
      sanitize: within.sanitize,
      getAutolink: () => shared.getAutolink?.() ?? true,
      get allowNamedProperties() {
        return shared.allowNamedProperties ?? false;
      },
      get allowCommandLinker() {
        return shared.allowCommandLinker ?? false;
      }
    };
  }

  private readonly _shared: IRenderMime.ISanitizer;
  private readonly _within: Pick<IRenderMime.ISanitizer, 'sanitize'>;
  private readonly _views = new Set<IView>();
  private _isBlocked = false;
  private _rule: Rule = 'agents';
}
