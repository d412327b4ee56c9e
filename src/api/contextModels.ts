/* Written by scripts/typescript.py, from the models of the server's routes. */
/** A cell of the notebook, with its outputs and their pictures. */
export interface CellAttachment {
  title?: string | null;
  kind: 'cell';
  cell: string;
}
/** The error of a cell, with its traceback. */
export interface ErrorAttachment {
  title?: string | null;
  kind: 'error';
  cell: string;
}
/** A text file below the root. */
export interface FileAttachment {
  title?: string | null;
  kind: 'file';
  path: string;
}
/** The list of a folder's files, without its subfolders' files. */
export interface FolderAttachment {
  title?: string | null;
  kind: 'folder';
  path: string;
}
/** An image. */
export interface ImageAttachment {
  title?: string | null;
  kind: 'image';
  mime: 'image/png' | 'image/jpeg' | 'image/gif' | 'image/webp';
  data: string;
}
/** One output of a cell, or all, with its images. */
export interface OutputAttachment {
  title?: string | null;
  kind: 'output';
  cell: string;
  output?: number | null;
}
/** Text that the person selected in a cell or a file, as it was then. */
export interface SelectionAttachment {
  title?: string | null;
  kind: 'selection';
  text: string;
  cell?: string | null;
  path?: string | null;
  first_line: number;
  last_line: number;
}
/** A column of a table. */
export interface TableColumn {
  name: string;
  /** Its dtype. */
  type: string;
  /** The values in the first rows, as text. */
  values: readonly string[];
}
/** The columns of a table with its first rows. */
export interface TablePreview {
  /** Number of its rows. */
  rows: number;
  /** Number of its columns. */
  columns: number;
  /** Labels of the first rows. */
  index: readonly string[];
  /** The first columns. */
  head: readonly TableColumn[];
}
/** A variable. */
export interface Variable {
  name: string;
  type: string;
  shape?: string | null;
  size?: number | null;
  value?: string | null;
}
/**
 * A variable of the notebook's kernel: its type and value; of a table its columns and first rows.
 */
export interface VariableAttachment {
  title?: string | null;
  kind: 'variable';
  name: string;
}
/** A kernel's variables. */
export interface VariableList {
  notices?: readonly string[];
  variables: readonly Variable[];
  more?: number;
}
/** A variable for a person. */
export interface VariablePreview {
  name: string;
  /** Its columns and first rows; null if it is not a table of pandas or polars. */
  table: TablePreview | null;
}
export type Attachment =
  | CellAttachment
  | OutputAttachment
  | ErrorAttachment
  | VariableAttachment
  | FileAttachment
  | FolderAttachment
  | SelectionAttachment
  | ImageAttachment;
