import { python } from '@codemirror/lang-python';
import { nullTranslator } from '@jupyterlab/translation';

import { diffLines } from './diff';
import { showLines, versionsOf } from './linesEditor';
import { WIDE } from './mergeView';

const trans = nullTranslator.load('tk-ai-extension');
const DIFF =
  '@@ -3,3 +3,4 @@\n a\n-plt.title("celcius")\n+plt.title("celsius")\n+b\n c\n@@ -9,2 +10 @@\n d\n-e';

afterEach(() => document.body.replaceChildren());

/** A node of a width, with lines in it. */
function shown(diff: string, width = 300): HTMLElement {
  const node = document.createElement('div');
  Object.defineProperty(node, 'clientWidth', { value: width });
  document.body.append(node);
  showLines(node, diffLines(diff), python(), trans);
  return node;
}

const texts = (node: ParentNode, selector: string): (string | null)[] =>
  [...node.querySelectorAll(selector)].map(each => each.textContent);

describe('the two versions of a diff', () => {
  it('have the line numbers of the whole text', () => {
    const { before, now } = versionsOf(diffLines(DIFF));
    expect(before).toEqual({
      text: 'a\nplt.title("celcius")\nc\n⋯\nd\ne',
      numbers: ['3', '4', '5', '', '9', '10']
    });
    expect(now).toEqual({
      text: 'a\nplt.title("celsius")\nb\nc\n⋯\nd',
      numbers: ['3', '4', '5', '6', '', '10']
    });
  });
});

describe('the lines of a diff in the editor', () => {
  it('are unified, with changes within a line marked', () => {
    const node = shown(DIFF);
    expect(node.querySelectorAll('.cm-editor')).toHaveLength(1);
    expect(texts(node, '.cm-deletedLine')).toEqual(['plt.title("celcius")', 'e']);
    expect(texts(node, '.cm-changedLine')).toEqual(['plt.title("celsius")', 'b']);
    expect(texts(node, '.cm-deletedText')).toContain('celcius');
    expect(texts(node, '.cm-changedText')).toContain('celsius');
  });

  it('are side by side if there is room', () => {
    const node = shown(DIFF, WIDE);
    expect(node.querySelectorAll('.cm-mergeView .cm-editor')).toHaveLength(2);
    const names = [...node.querySelectorAll('.cm-content')].map(each =>
      each.getAttribute('aria-label')
    );
    expect(names).toEqual(['Before', 'Now']);
  });

  it('have the colours of their language, and cannot be edited', () => {
    const node = shown(' def f():');
    expect(node.querySelector('.cm-line span')?.textContent).toBe('def');
    expect(node.querySelector('.cm-content')?.getAttribute('contenteditable')).toBe('false');
  });

  it('are not compared if all of them are new, removed or unchanged', () => {
    expect(texts(shown('+a\n+b'), '.cm-insertedDoc')).toEqual(['a', 'b']);
    expect(texts(shown('-a\n-b'), '.cm-deletedDoc')).toEqual(['a', 'b']);
    const stays = shown(' a\n b', WIDE);
    expect(texts(stays, '.cm-line')).toEqual(['a', 'b']);
    expect(stays.querySelectorAll('.cm-insertedDoc, .cm-deletedDoc, .cm-changedLine')).toHaveLength(
      0
    );
  });

  it('show hidden characters', () => {
    const node = shown('+admin\u202e = 1');
    expect(texts(node, '.cm-specialChar')).toEqual(['•']);
  });
});
