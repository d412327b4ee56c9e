import { runsOf, textOf } from './runs';

it('reads the runs of an answer, and none of another', () => {
  const run = { status: 'ok', output: 'Hm' };
  expect(runsOf({ status: 'ok', runs: [run] })).toEqual([run]);
  expect([runsOf({}), runsOf({ runs: 3 })]).toEqual([[], []]);
});

it('takes as text what stands for nothing else, whatever it looks like', () => {
  const output = '[image/png]\nDrawn:\n[image/png]\n{"a": 1}';
  expect(textOf({ status: 'ok', output, placeholders: [2, 3] })).toBe('[image/png]\nDrawn:');
  expect(textOf({ status: 'ok', output })).toBe(output);
  expect(textOf({ status: 'ok' })).toBe('');
});
