import {
  addIcon,
  closeIcon,
  LabIcon,
  notebookIcon,
  codeIcon,
  editIcon,
  fileIcon,
  folderIcon,
  imageIcon,
  kernelIcon,
  textEditorIcon
} from '@jupyterlab/ui-components';
import type { JSX } from 'react';

import { cellName } from '../common/position';
import type { Attachment } from '../api/events';
import { ToolButton } from './controls';
import { useServices } from './services';
import { goesWith, type IDraft, type ISeen } from '../state/compose';

/** The icon of each kind of attachment. */
export const ICONS: Record<Attachment['kind'], LabIcon> = {
  cell: codeIcon,
  output: codeIcon,
  error: codeIcon,
  variable: kernelIcon,
  file: fileIcon,
  folder: folderIcon,
  selection: textEditorIcon,
  image: imageIcon
};

interface IProps {
  draft: IDraft;
  /** The message that it replaces; null for none. */
  replaced: string | null;
  seen: ISeen | null;
  activeCell: boolean;
  onAttach: () => void;
}

/** Chip of a message that answers a plan, which has no other context. */
export function PlanChip(): JSX.Element {
  const { controller, trans } = useServices();
  return (
    <div className="tk-Chips" role="group" aria-label={trans.__('Included in the message')}>
      <Chip
        icon={editIcon}
        label={trans.__('Changes to the plan')}
        onRemove={() => controller.composeNew()}
      />
    </div>
  );
}

/** Chips of the context and attachments of the next message. */
export function ContextChips(props: IProps): JSX.Element {
  const { draft, replaced, seen, activeCell, onAttach } = props;
  const { controller, trans } = useServices();
  const onChange = (change: Partial<IDraft>): void => controller.change(change, true);
  const notebook = seen !== null && !draft.withoutNotebook ? seen : null;
  const cell = draft.withoutCell ? null : notebook;
  const cells =
    cell &&
    (cell.selected.length > 0
      ? trans._n('%1 cell', '%1 cells', cell.selected.length)
      : activeCell && cell.cell && cellName(cell.cell.index, trans));
  return (
    <div className="tk-Chips" role="group" aria-label={trans.__('Included in the message')}>
      {replaced !== null && (
        <Chip
          icon={editIcon}
          label={trans.__('Instead of “%1”', replaced)}
          onRemove={() => controller.composeNew()}
        />
      )}
      {notebook !== null && (
        <Chip
          icon={notebookIcon}
          label={notebook.notebook}
          onRemove={() => onChange({ withoutNotebook: true })}
        />
      )}
      {cells && (
        <Chip icon={codeIcon} label={cells} onRemove={() => onChange({ withoutCell: true })} />
      )}
      {draft.attached.map((each, place) => (
        <Chip
          key={place}
          icon={ICONS[each.attachment.kind]}
          label={each.label}
          excluded={
            goesWith(each, notebook?.notebook)
              ? undefined
              : trans.__('Not included in the message: it belongs to %1', each.notebook ?? '')
          }
          onRemove={() =>
            onChange({ attached: draft.attached.filter((_, other) => other !== place) })
          }
        />
      ))}
      <ToolButton
        icon={addIcon}
        label={trans.__('Attach a file')}
        title={trans.__('Attach a file of the server. Pictures can be pasted.')}
        onClick={onAttach}
      />
    </div>
  );
}

interface IChipProps {
  icon: LabIcon;
  label: string;
  /** The reason if it is not included in the message. */
  excluded?: string | undefined;
  onRemove: () => void;
}

function Chip({ icon, label, excluded, onRemove }: IChipProps): JSX.Element {
  const { trans } = useServices();
  return (
    <span
      className={excluded === undefined ? 'tk-Chip' : 'tk-Chip tk-mod-left'}
      title={excluded ?? label}
    >
      <icon.react tag="span" width="12px" height="12px" />
      <span className="tk-Chip-label">{label}</span>
      <button
        type="button"
        className="tk-Chip-remove"
        aria-label={trans.__('Remove %1', label)}
        onClick={onRemove}
        onKeyDown={({ key }) => (key === 'Backspace' || key === 'Delete') && onRemove()}
      >
        <closeIcon.react tag="span" width="10px" height="10px" />
      </button>
    </span>
  );
}
