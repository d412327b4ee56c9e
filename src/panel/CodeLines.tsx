import { useCallback, useMemo } from 'react';
import type { JSX } from 'react';

import type { CellChangedEvent } from '../api/events';
import { diffLines, type ILine } from '../parts/diff';
import { Lines } from '../parts/Lines';
import { useServices } from './services';

interface IProps {
  lines: readonly ILine[];
  /** What they are written in; null for plain text. */
  mime: string | null;
  /** Whether all lines are shown at once, however many. */
  whole?: boolean;
}

/** Lines in the colours of their language, as plain ones until the editor is loaded. */
export function CodeLines({ lines, mime, whole = false }: IProps): JSX.Element {
  const { languages, trans } = useServices();
  const draw = useCallback(
    async (node: HTMLElement, shown: readonly ILine[]) => {
      const spec = mime === null ? null : (languages?.findByMIME(mime) ?? null);
      const [editor, found] = await Promise.all([
        // Without a connection, the plain lines stay.
        import(/* webpackChunkName: "diff-editor" */ '../parts/linesEditor').catch(() => null),
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

/** What a call changed in a cell. */
export function ChangeLines({ change }: { change: CellChangedEvent }): JSX.Element {
  const { notebook } = useServices();
  const lines = useMemo(() => diffLines(change.diff), [change.diff]);
  return <CodeLines lines={lines} mime={notebook.mimeOf(change.notebook, change.cell_type)} />;
}
