import type { Cell } from '@jupyterlab/cells';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDisposable } from '@lumino/disposable';
import { Widget } from '@lumino/widgets';

import { putInto } from '../notebook/cells';
import { hostOf } from './addresses';
import { DIAGRAM_LABEL, COMMAND_LABEL } from './blockingSanitizer';

/** Maximum number of hosts in the label. */
const MAX_HOSTS = 3;
/** Maximum characters of addresses in the tooltip. */
const MAX_SHOWN = 1000;

/**
 * The button of a cell that loads what is blocked in it.
 *
 * It is below the rendered content, not within it, where styles of the content could cover it.
 */
export class LoadButton implements IDisposable {
  constructor(
    cell: Cell,
    load: () => void,
    private readonly _trans: TranslationBundle
  ) {
    this._button = document.createElement('button');
    this._button.type = 'button';
    this._button.className = 'tk-CellButton';
    this._button.addEventListener('click', load);
    this._widget = new Widget();
    this._widget.addClass('tk-Blocked');
    this._widget.node.append(this._button);
    putInto(cell, this._widget, 'end');
  }

  /** The blocked addresses, diagrams and commands. */
  set addresses(blocked: readonly string[]) {
    const [diagrams, others] = partition(blocked, DIAGRAM_LABEL);
    const [commands, addresses] = partition(others, COMMAND_LABEL);
    const hosts = [...new Set(addresses.map(each => hostOf(each, document.baseURI)))];
    const label = this._label(hosts, diagrams.length > 0);
    const why = this._trans.__('Blocked: loading this could leak data or run actions.');
    const what = [...new Set([...addresses, ...commands])].join('\n').slice(0, MAX_SHOWN);
    const title = `${why}\n${what}`;
    // An unchanged label is not set, so that screen readers do not repeat it.
    if (this._button.textContent !== label || this._button.title !== title) {
      this._button.textContent = label;
      this._button.title = title;
    }
  }

  get isDisposed(): boolean {
    return this._widget.isDisposed;
  }

  dispose(): void {
    this._widget.dispose();
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

/** Return the items with this prefix, and the others. */
function partition(blocked: readonly string[], beginning: string): [string[], string[]] {
  const those = blocked.filter(each => each.startsWith(beginning));
  return [those, blocked.filter(each => !each.startsWith(beginning))];
}
