import type { INotebookTracker } from '@jupyterlab/notebook';
import { Signal } from '@lumino/signaling';

import { FocusReport } from './focusReport';

it('reports the active cell and the selection, debounced, and again after a reconnect', () => {
  jest.useFakeTimers();
  const source = 'rows = load()\nrows.mean()\n';
  const end = { line: 1, column: 4 };
  const editor = {
    getSelection: () => ({ start: { line: 1, column: 0 }, end }),
    getOffsetAt: ({ line, column }: { line: number; column: number }) => 14 * line + column,
    model: { sharedModel: { getSource: () => source } }
  };
  const widgets = ['a', 'b', 'c'].map(id => ({ editor, model: { id, sharedModel: { source } } }));
  const content = {
    widgets,
    model: null,
    activeCellIndex: 1,
    get activeCell() {
      return widgets[this.activeCellIndex];
    },
    isSelectedOrActive: (cell: object) => cell !== widgets[2]
  };
  const tracker = {
    currentWidget: { content },
    currentChanged: new Signal<object, void>({}),
    activeCellChanged: new Signal<object, void>({}),
    selectionChanged: new Signal<object, void>({})
  };
  const sent: object[] = [];
  let isKnown = false;
  const report = new FocusReport(
    tracker as unknown as INotebookTracker,
    () => (isKnown ? 'n1' : undefined),
    message => sent.push(message) > 0
  );
  const rest = (): unknown => jest.advanceTimersByTime(200);
  tracker.currentChanged.emit();
  rest();
  expect(sent).toEqual([]);
  isKnown = true;
  report.soon();
  tracker.activeCellChanged.emit();
  rest();
  expect(sent).toMatchObject([
    {
      focus: 'n1',
      cell: 'b',
      selected: ['a', 'b'],
      selection: { text: 'rows', first_line: 2, last_line: 2 }
    }
  ]);
  // Nothing changed.
  document.dispatchEvent(new Event('selectionchange'));
  rest();
  expect(sent).toHaveLength(1);
  end.column = 0;
  content.activeCellIndex = 0;
  document.dispatchEvent(new Event('selectionchange'));
  rest();
  expect(sent[1]).toMatchObject({ cell: 'a', selection: null });
  report.again();
  rest();
  expect(sent[2]).toEqual(sent[1]);
  jest.useRealTimers();
});
