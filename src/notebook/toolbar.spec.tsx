import type { NotebookPanel } from '@jupyterlab/notebook';
import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';
import { act, fireEvent, screen } from '@testing-library/react';

import { AnswerGuard } from '../common/answerGuard';
import type { NotebookActivity } from './activity';
import type { IMark } from './marks';
import { ReviewItem } from './toolbar';

describe('the review of a notebook', () => {
  let armed: boolean;
  let decided: string[];
  let item: ReviewItem;

  beforeEach(async () => {
    armed = false;
    decided = [];
    jest.spyOn(AnswerGuard.prototype, 'armed', 'get').mockImplementation(() => armed);
    const activity = {
      changed: new Signal<object, void>({}),
      marks: new Map([['x', { cell: 'x', yours: true, deleted: false } as IMark]]),
      keep: () => Promise.resolve(void decided.push('Keep')),
      undo: () => Promise.resolve(decided.push('Undo') - 1)
    } as unknown as NotebookActivity;
    const panel = { content: { widgets: [], activeCellIndex: 0 } } as unknown as NotebookPanel;
    item = new ReviewItem(panel, activity, nullTranslator.load(''));
    await act(async () => {
      Widget.attach(item, document.body);
      await item.renderPromise;
    });
  });

  afterEach(() => {
    act(() => item.dispose());
    jest.restoreAllMocks();
  });

  const click = (began: string, ended: string): void => {
    fireEvent.pointerDown(screen.getByText(began));
    // It may have come to rest meanwhile.
    armed = true;
    fireEvent.click(screen.getByText(ended), { detail: 1 });
  };

  it.each(['Keep', 'Undo'])('takes no click on %s that began while it moved', name => {
    click(name, name);
    expect(decided).toEqual([]);
    click(name, name);
    expect(decided).toEqual([name]);
  });

  it('takes no click that began elsewhere, and no second one of a double click', () => {
    armed = true;
    click('Keep', 'Undo');
    fireEvent.click(screen.getByText('Keep'), { detail: 2 });
    expect(decided).toEqual([]);
  });

  it('takes a key at once', () => {
    fireEvent.click(screen.getByText('Keep'), { detail: 0 });
    expect(decided).toEqual(['Keep']);
  });
});
