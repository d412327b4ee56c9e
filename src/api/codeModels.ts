/* Written by scripts/typescript.py, from the models of the server's routes. */
/** Tokens of a request for code. */
export interface CodeUsage {
  input_tokens: number;
  output_tokens: number;
}
/** A completion. */
export interface CompletedCode {
  /** To insert at the cursor; empty if there is nothing useful. */
  text: string;
  /** Whether the tour wrote it, because no model is connected. */
  scripted: boolean;
  /** The model's tokens; null for the tour. */
  usage: CodeUsage | null;
}
/** A proposal for a cell. Nothing was written. */
export interface EditedCell {
  /** The whole new source. */
  source: string;
  /** Whether the tour wrote it, because no model is connected. */
  scripted: boolean;
  /** The model's tokens; null for the tour. */
  usage: CodeUsage | null;
}
