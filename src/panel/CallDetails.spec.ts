import type { ICall } from '../state/chat';
import { touchedCell } from './CallDetails';

const CALL: ICall = {
  kind: 'call',
  id: '1',
  tool: 'execute_cell',
  arguments: { cell: 0 },
  status: 'complete',
  progress: null,
  question: null,
  asked: false,
  changes: [],
  result: null
};

it('knows which cell a call ran, also where it changed none', () => {
  const answered = (structured: Record<string, unknown>): ICall => ({
    ...CALL,
    result: { ok: true, text: '', structured, images: [], seconds: 0, notices: [] }
  });
  expect(touchedCell(CALL)).toBeNull();
  const runs = [{ cell: 'x' }, { cell: 'y' }];
  expect(touchedCell(answered({ notebook: 'a.ipynb', runs }))).toEqual({
    notebook: 'a.ipynb',
    cell: 'y'
  });
  expect(touchedCell(answered({ runs: [{ status: 'ok' }] }))).toBeNull();
});
