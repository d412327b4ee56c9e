import { withMore } from './completer';
import { together } from './completion';
import type { IOption } from './prefix';

function options(kind: 'cell' | 'file' | 'variable', count: number): IOption[] {
  return Array.from({ length: count }, (_, place) => ({
    // Some have the same name.
    label: `x${place}`,
    note: kind,
    text: `@x${place} `,
    attached: { label: '', attachment: { kind } as never }
  }));
}

describe('the chosen completion', () => {
  it('stays the chosen one while more are found, in any order', () => {
    const random = (count: number): number => Math.floor(Math.random() * count);
    for (let round = 0; round < 300; round++) {
      const key = 'x';
      const lists = (['cell', 'variable', 'file'] as const).map(kind => options(kind, random(30)));
      const arrived = lists.map((list, place) => (place === 0 ? list : []));
      let search = {};
      const NONE = { key: '', search: null, options: [], notice: '', chosen: null };
      let found = withMore(NONE, { key, search, options: together(...arrived), notice: '' });
      for (let step = 0; step < 6; step++) {
        const { chosen, search: former } = found;
        const place = random(lists.length);
        arrived[place] = lists[place] ?? [];
        if (Math.random() < 0.2) {
          // The notebook has changed: all are searched again.
          search = {};
          arrived[0] = options('cell', lists[0]?.length ?? 0);
        }
        found = withMore(found, { key, search, options: together(...arrived), notice: '' });
        expect(found.chosen === null).toBe(found.options.length === 0);
        expect(found.chosen === null || found.options.includes(found.chosen)).toBe(true);
        if (chosen !== null && former === search) {
          expect([found.chosen?.label, found.chosen?.note]).toEqual([chosen.label, chosen.note]);
        }
        if (Math.random() < 0.5 && found.options.length > 0) {
          found = { ...found, chosen: found.options[random(found.options.length)] ?? null };
        }
      }
      const next = withMore(found, { key: 'xy', search, options: options('file', 3), notice: '' });
      expect(next.chosen).toBe(next.options[0]);
    }
  });
});
