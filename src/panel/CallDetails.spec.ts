import type { ICall } from '../state/chat';
import { ENDED_CALL } from '../testing/events';
import { touchedCell } from './CallDetails';

it('knows which cell a call ran, also where it changed none', () => {
  const answered = (structured: Record<string, unknown>): ICall => ({
    ...ENDED_CALL,
    result: { ok: true, text: '', structured, images: [], seconds: 0 }
  });
  expect(touchedCell(ENDED_CALL)).toBeNull();
  const runs = [{ cell: 'x' }, { cell: 'y' }];
  expect(touchedCell(answered({ notebook: 'a.ipynb', runs }))).toEqual({
    notebook: 'a.ipynb',
    cell: 'y'
  });
  expect(touchedCell(answered({ runs: [{ status: 'ok' }] }))).toBeNull();
});
