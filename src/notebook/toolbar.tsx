import { Notification } from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import { caretDownIcon, ReactWidget, UseSignal } from '@jupyterlab/ui-components';
import { useLayoutEffect, useRef } from 'react';
import type { JSX, MouseEvent, ReactNode } from 'react';

import type { CombinedChange } from '../api/events';
import { notifyOnError } from '../api/notifyOnError';
import { leftNote } from '../common/changes';
import { openMenu } from '../common/menu';
import { useRested } from '../common/rested';
import type { NotebookActivity } from './activity';
import { focusOn, goTo } from './cells';
import { cellsOf } from './keys';

/**
 * Announces a text to screen readers once it rests, since agents change and run cell after cell.
 *
 * A live region must exist before its content, or it is not announced.
 */
function Announced({ text }: { text: string }): JSX.Element {
  return (
    <span className="tk-Announced" role="status">
      {useRested(text, '')}
    </span>
  );
}

/** Toolbar item with the agent that runs or shows a cell. A click goes to the cell. */
export class RunningItem extends ReactWidget {
  constructor(
    private readonly _panel: NotebookPanel,
    private readonly _activity: NotebookActivity,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('tk-RunningItem');
  }

  protected override render(): JSX.Element {
    return <UseSignal signal={this._activity.changed}>{() => this._item()}</UseSignal>;
  }

  private _item(): JSX.Element {
    const { running, shown } = this._activity;
    const [first] = running;
    const trans = this._trans;
    const text = first
      ? trans.__('%1 is running a cell', first.author)
      : shown
        ? trans.__('%1 shows you a cell', shown.author)
        : '';
    const there = first ?? shown;
    return (
      <>
        <Announced text={text} />
        {there && (
          <Button
            className="tk-RunningItem-button"
            title={first ? trans.__('Go to the running cell') : trans.__('Go to the cell')}
            panel={this._panel}
            onClick={() => {
              if (there === shown) {
                this._activity.dismiss();
              }
              void goTo(this._panel, there.cell);
            }}
          >
            <span className="tk-Dot" aria-hidden="true" />
            {text}
          </Button>
        )}
      </>
    );
  }
}

/** Toolbar item with the number of changed cells, to visit, keep or undo them. */
export class ReviewItem extends ReactWidget {
  constructor(
    private readonly _panel: NotebookPanel,
    private readonly _activity: NotebookActivity,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('tk-ReviewItem');
  }

  protected override render(): JSX.Element {
    return <UseSignal signal={this._activity.changed}>{() => this._item()}</UseSignal>;
  }

  private _item(): JSX.Element {
    const marks = [...this._activity.marks.values()];
    const text =
      marks.length === 0 ? '' : this._trans._n('%1 cell changed', '%1 cells changed', marks.length);
    return (
      <>
        <Announced text={text} />
        {text !== '' && this._bar(marks, text)}
      </>
    );
  }

  private _bar(marks: readonly CombinedChange[], text: string): JSX.Element {
    const trans = this._trans;
    const yours = marks.filter(mark => mark.yours);
    // Those that the button shows, not one that arrives with the click.
    const items = [
      { label: trans.__('Keep all'), run: () => void notifyOnError(this._activity.keep(marks)) }
    ];
    if (yours.length > 0) {
      items.push({ label: trans.__('Undo all'), run: () => void this._undo(yours) });
    }
    return (
      <span className="tk-ReviewItem-bar" role="group" aria-label={trans.__('Changes by agents')}>
        <Button
          title={trans.__('Go to the next changed cell')}
          panel={this._panel}
          onClick={() => void this._next(marks)}
        >
          {text}
        </Button>
        <Button
          title={trans.__('Keep or undo all changes')}
          panel={this._panel}
          menu
          onClick={({ currentTarget }) => openMenu(currentTarget, items)}
        >
          <caretDownIcon.react tag="span" width="14px" height="14px" />
        </Button>
      </span>
    );
  }

  /** Go to the next changed cell below the active one, or to the first one. */
  private async _next(marks: readonly CombinedChange[]): Promise<void> {
    const { widgets, activeCellIndex } = this._panel.content;
    const cellOf = cellsOf(this._panel);
    const changed = new Map(
      marks.filter(mark => mark.action !== 'delete').map(mark => [cellOf(mark.cell), mark.cell])
    );
    const cells = widgets.filter(cell => changed.has(cell));
    const next = cells.find(cell => widgets.indexOf(cell) > activeCellIndex) ?? cells[0];
    if (next !== undefined) {
      await goTo(this._panel, changed.get(next) ?? '');
    }
  }

  private async _undo(marks: readonly CombinedChange[]): Promise<void> {
    const undo = async (): Promise<void> => {
      const left = leftNote(await this._activity.undo(marks), this._trans);
      if (left !== '') {
        Notification.warning(left);
      }
    };
    await notifyOnError(undo());
  }
}

interface IButtonProps {
  title: string;
  className?: string;
  panel: NotebookPanel;
  /** Whether it opens a menu. */
  menu?: boolean;
  onClick: (event: MouseEvent<HTMLElement>) => void;
  children: ReactNode;
}

/** A button that moves the focus into the notebook when it is removed. */
function Button({ panel, menu = false, children, ...rest }: IButtonProps): JSX.Element {
  const button = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => {
    const node = button.current;
    return () => {
      if (node !== null && node === document.activeElement) {
        focusOn(panel);
      }
    };
  }, [panel]);
  return (
    <button
      ref={button}
      type="button"
      {...(menu && { 'aria-haspopup': 'menu', 'aria-label': rest.title })}
      {...rest}
    >
      {children}
    </button>
  );
}
