import { useCallback, useMemo } from 'react';
import type { JSX } from 'react';

import type { CellChangedEvent } from '../api/events';
import { diffLines, type ILine } from '../common/diff';
import { Lines } from '../common/Lines';
import { useServices } from './services';

interface IProps {
  lines: readonly ILine[];
  /** Their MIME type; null for plain text. */
  mime: string | null;
  /** Whether all lines are shown initially. */
  whole?: boolean;
}

/** Lines with syntax highlighting, or plain lines until the editor is loaded. */
export function CodeLines({ lines, mime, whole = false }: IProps): JSX.Element {
  const { languages, trans } = useServices();
  const draw = useCallback(
    async (node: HTMLElement, shown: readonly ILine[]) => {
      const spec = mime === null ? null : (languages?.findByMIME(mime) ?? null);
      const [editor, found] = await Promise.all([
        // If the chunk does not load, plain lines stay.
        import(/* webpackChunkName: "diff-editor" */ '../common/linesEditor').catch(() => null),
        spec && languages?.getLanguage(spec)
      ]);
      return editor && editor.showLines(node, shown, found?.support ?? [], trans);
    },
    [languages, mime, trans]
  );
  return (
    <Lines lines={lines} trans={trans} whole={whole} draw={languages === null ? undefined : draw} />
  );
}

/** The diff of a cell that a call changed. */
export function ChangeLines({ change }: { change: CellChangedEvent }): JSX.Element {
  const { notebook } = useServices();
  const lines = useMemo(() => diffLines(change.diff), [change.diff]);
  return <CodeLines lines={lines} mime={notebook.mimeOf(change.notebook, change.cell_type)} />;
}
