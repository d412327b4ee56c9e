import type { MimeData } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';

import { draggedIn } from '../lab/internals';
import type { Found } from '../state/compose';
import { attachLocalFile, attachServerFile } from './attachments';
import type { IPanelServices } from './panelServices';

/** The CSS class while something is dragged over the element that can be dropped. */
const OVER = 'tk-mod-dropping';

/** The events of a Lumino drag. */
type Dragged = MouseEvent & {
  dropAction: string;
  readonly proposedAction: string;
  readonly mimeData: MimeData;
  readonly source: unknown;
};

/**
 * Attaches what is dropped on an element: files of the file browser, cells of a notebook, and images
 * from outside of the page.
 */
export class DropTarget implements IDisposable {
  constructor(
    private readonly _node: HTMLElement,
    private readonly _services: Pick<IPanelServices, 'notebook'>,
    private readonly _attach: (found: (Found | Promise<Found>)[]) => void
  ) {
    for (const type of TYPES) {
      _node.addEventListener(type, this);
    }
  }

  get isDisposed(): boolean {
    return this._disposed;
  }

  dispose(): void {
    this._disposed = true;
    for (const type of TYPES) {
      this._node.removeEventListener(type, this);
    }
  }

  handleEvent(event: Event): void {
    const taken = event.type.startsWith('lm-')
      ? this._within(event as Dragged)
      : this._fromOutside(event as DragEvent);
    if (taken) {
      event.preventDefault();
      event.stopPropagation();
    }
    // A drag that moves to a child element emits another event there.
    this._node.classList.toggle(OVER, taken && /over|enter/.test(event.type));
  }

  private _within(event: Dragged): boolean {
    const dragged = draggedIn(event.mimeData);
    if (dragged === null) {
      return false;
    }
    // Accept the proposed action; the drop itself moves nothing.
    event.dropAction = event.proposedAction;
    if (event.type === 'lm-drop') {
      event.dropAction = 'none';
      const { notebook } = this._services;
      if (dragged.kind === 'files') {
        this._attach(dragged.paths.map(path => attachServerFile(notebook.contents, path)));
      } else {
        this._attach(notebook.attachable(event.source, dragged.ids));
      }
    }
    return true;
  }

  private _fromOutside(event: DragEvent): boolean {
    const files = [...(event.dataTransfer?.files ?? [])];
    if (event.type === 'drop' && files.length > 0) {
      this._attach(files.map(attachLocalFile));
      return true;
    }
    return event.type === 'dragover' && event.dataTransfer?.types.includes('Files') === true;
  }

  private _disposed = false;
}

const TYPES = [
  ...['lm-dragenter', 'lm-dragover', 'lm-dragleave', 'lm-drop'],
  ...['dragover', 'dragleave', 'drop']
];
