import { linesOfWhole, runsOf } from './runs';

it('reads the runs of an answer, and none of another', () => {
  const run = {
    cell: 'x',
    index: 3,
    status: 'ok',
    output: 'Hm',
    artifact: 'T_1',
    data: [{ a: 1 }]
  };
  expect(runsOf({ status: 'ok', runs: [run, { status: 'ok' }] })).toEqual([
    { index: 3, output: 'Hm', artifact: 'T_1', data: [{ a: 1 }] },
    { index: null, output: '', artifact: null, data: [] }
  ]);
  expect([runsOf({}), runsOf({ runs: 3 })]).toEqual([[], []]);
});

it('says in words only what is not shown as a picture or as a tree', () => {
  const outputs = ['{"a": [1, 2]}', '[image/png]', 'Drawn:\n[image/png]', '[1, 2]'];
  const runs = outputs.map(output => ({ output, data: [{ a: [1, 2] }] }));
  expect(runsOf({ runs }).map(run => run.output)).toEqual(['', '', 'Drawn:', '[1, 2]']);
});

it('knows how long the whole of a cut text is', () => {
  const cut =
    'line 0\n[… 30,120 characters, 4,150 lines left out of 4,210; read_output T_1]\nline 9';
  expect(linesOfWhole(cut)).toBe(4210);
  expect(linesOfWhole('a line\nand another')).toBeNull();
});
