import type { Cell } from '@jupyterlab/cells';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDisposable } from '@lumino/disposable';
import { Widget } from '@lumino/widgets';

import { putInto } from '../notebook/cells';
import { hostOf } from './addresses';
import { DIAGRAM, RUNS } from './holding';

/** So many hosts are named. */
const MAX_HOSTS = 3;
/** So many characters of addresses are shown to who asks for them. */
const MAX_SHOWN = 1000;

/**
 * The button of a cell by which a person loads what is held in it.
 *
 * It stands below what was rendered, not in it, where styles of that could hide or cover it.
 */
export class LoadBar implements IDisposable {
  constructor(
    private readonly _cell: Cell,
    load: () => void,
    private readonly _trans: TranslationBundle
  ) {
    this._button = document.createElement('button');
    this._button.type = 'button';
    this._button.className = 'tk-CellButton';
    this._button.addEventListener('click', load);
    this._widget = new Widget();
    this._widget.addClass('tk-Held');
    this._widget.node.append(this._button);
    putInto(_cell, this._widget, 'end');
  }

  /** What is held. */
  set addresses(held: readonly string[]) {
    const [diagrams, others] = split(held, DIAGRAM);
    const [commands, addresses] = split(others, RUNS);
    const hosts = [...new Set(addresses.map(each => hostOf(each, document.baseURI)))];
    const label = this._label(hosts, diagrams.length > 0);
    const why = this._trans.__('Blocked: loading this could leak data or run actions.');
    const what = [...new Set([...addresses, ...commands])].join('\n').slice(0, MAX_SHOWN);
    const title = `${why}\n${what}`;
    // Whoever reads it now is not told the same again.
    if (this._button.textContent !== label || this._button.title !== title) {
      this._button.textContent = label;
      this._button.title = title;
    }
  }

  get isDisposed(): boolean {
    return this._widget.isDisposed;
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    const within = this._widget.node.contains(document.activeElement);
    this._widget.dispose();
    // Who pressed it is left in its cell, not at the top of the page.
    if (within && !this._cell.isDisposed) {
      this._cell.node.focus({ preventScroll: true });
    }
  }

  private _label(hosts: readonly string[], hasDiagrams: boolean): string {
    const named = hosts.slice(0, MAX_HOSTS).join(', ');
    const more = hosts.length - MAX_HOSTS;
    if (hosts.length === 0) {
      return hasDiagrams
        ? this._trans.__('Show the diagram (may load images)')
        : this._trans.__('Allow its buttons to run commands');
    }
    return more > 0
      ? this._trans._n(
          'Load images from %2 and %1 more',
          'Load images from %2 and %1 more',
          more,
          named
        )
      : this._trans.__('Load images from %1', named);
  }

  private readonly _button: HTMLButtonElement;
  private readonly _widget: Widget;
}

/** Those that begin so, and the others. */
function split(held: readonly string[], beginning: string): [string[], string[]] {
  const those = held.filter(each => each.startsWith(beginning));
  return [those, held.filter(each => !each.startsWith(beginning))];
}
