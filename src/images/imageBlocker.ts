import type { NotebookPanel } from '@jupyterlab/notebook';
import type { IRenderMime } from '@jupyterlab/rendermime';
import { UUID } from '@lumino/coreutils';
import { DisposableDelegate } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';

import { blockOtherHosts } from '../lab/blocking';
import { whenOff, works } from '../lab/features';
import { replaceSanitize, setSanitizer, showAsText } from '../lab/sanitizer';
import { NotebookBlocker, type IBlockerContext, type BlockingRule } from './notebookBlocker';
import { BlockingSanitizer, unblock } from './blockingSanitizer';
import type { IMarkerObserver } from './marker';

/** A view of a notebook. */
interface IView {
  panel: NotebookPanel;
  blocker: NotebookBlocker;
  /** The name of the notebook in markers. */
  name: string;
}

/**
 * Blocks external resources in all notebooks of the page.
 *
 * JupyterLab's shared sanitizer is replaced, too, since a table of contents renders headings with
 * it outside of their cells. What it blocked is unblocked once attached outside of a notebook.
 */
export class ImageBlocker implements IMarkerObserver, IBlockerContext {
  constructor(
    sanitizer: IRenderMime.ISanitizer,
    private readonly _base: URL,
    context: Omit<IBlockerContext, 'rule'>
  ) {
    ({
      agentCells: this.agentCells,
      reviews: this.reviews,
      contents: this.contents,
      trans: this.trans,
      draw: this.draw
    } = context);
    this._shared = sanitizer;
    (['images', 'diagrams'] as const).forEach(each => whenOff(each, () => this._blockAll()));
    whenOff('trust', () =>
      this._views.forEach(({ panel }) => showAsText(panel.content.rendermime))
    );
    this._within = replaceSanitize(
      sanitizer,
      within => new BlockingSanitizer(within, this._base, '')
    );
  }

  readonly agentCells: IBlockerContext['agentCells'];
  readonly reviews: IBlockerContext['reviews'];
  readonly contents: IBlockerContext['contents'];
  readonly trans: IBlockerContext['trans'];
  readonly draw: IBlockerContext['draw'];

  get rule(): BlockingRule {
    return this._rule;
  }

  setRule(rule: BlockingRule): void {
    this._rule = rule;
    this.update();
  }

  /** Decide again what is blocked in all notebooks. */
  update(): void {
    this._views.forEach(({ blocker }) => blocker.update());
  }

  /**
   * Block external resources in a view of a notebook.
   *
   * @param panel - A new view: it has no cells yet, or its notebook is watched already.
   * @param changed - Emitted when agents may have changed the notebook.
   */
  watch(panel: NotebookPanel, changed: ISignal<unknown, void>): DisposableDelegate {
    const { rendermime } = panel.content;
    // Views of one notebook share their rendermime.
    const known = rendermime.sanitizer instanceof BlockingSanitizer ? rendermime.sanitizer : null;
    const blocking = known ?? new BlockingSanitizer(this._passThrough(), this._base, UUID.uuid4());
    setSanitizer(rendermime, blocking);
    if (works('trust') === false) {
      showAsText(rendermime);
    }
    const blocker = new NotebookBlocker(panel, this);
    const view = { panel, blocker, name: blocking.of };
    this._views.add(view);
    const update = (): void => blocker.update();
    changed.connect(update);
    return new DisposableDelegate(() => {
      changed.disconnect(update);
      blocker.dispose();
      this._views.delete(view);
    });
  }

  onAttached(marker: HTMLElement): void {
    const views = [...this._views];
    const name = marker.dataset['of'] ?? '';
    // A marker outside of all views is in an output view, which belongs to a notebook.
    const view =
      views.find(({ panel }) => panel.node.contains(marker)) ??
      views.find(each => each.name === name);
    if (view !== undefined) {
      view.blocker.onAttached(marker);
    } else if (name === '' && marker.parentElement !== null) {
      unblock(marker.parentElement, this.draw);
    }
  }

  onDetached(marker: HTMLElement): void {
    this._views.forEach(({ blocker }) => blocker.onDetached(marker));
  }

  /** Block all other hosts by a policy for the page, once. */
  private _blockAll(): void {
    if (!this._isBlocked) {
      this._isBlocked = true;
      blockOtherHosts(this._base);
    }
  }

  /** Return a sanitizer that removes scripts and blocks nothing, with JupyterLab's own options. */
  private _passThrough(): IRenderMime.ISanitizer {
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
  private _rule: BlockingRule = 'agents';
}
