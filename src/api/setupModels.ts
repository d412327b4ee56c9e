/* Written by scripts/typescript.py, from the models of the server's routes. */
/** What a user's chats are set up with. */
export interface ChatSetupInfo {
  /** The file of instructions; None if there is none. */
  instructions: InstructionsInfo | null;
  /** The names that it may have, the first one first. */
  names: readonly string[];
  prompts: readonly PromptInfo[];
  servers: ServersInfo;
}
/** The file of instructions that a chat reads when its agent starts. */
export interface InstructionsInfo {
  /** The file below the root. */
  path: string;
  /** Its length. */
  characters: number;
  /** The length that is read, in characters; the middle of a longer one is left out. */
  limit: number;
}
/** A prompt, for a list of them. */
export interface PromptInfo {
  /** What a person types after `/`. */
  name: string;
  /** What it is for; may be empty. */
  description: string;
  /** Its arguments; may be empty. */
  hint: string;
  /** Whose it is. */
  origin: 'user' | 'project';
  /** A command or a skill. */
  kind: 'command' | 'skill';
  /** The file, relative to the root or to the home folder. */
  path: string;
}
/** A server of the user's, without its arguments, variables and headers. */
export interface ServerStatus {
  /** Its name. */
  name: string;
  /** The program, or the host of the address. */
  place: string;
  /** Whether chats use it. */
  enabled: boolean;
  /** Why it cannot be used; empty if it can. */
  problem: string;
}
/** The MCP servers of a user. */
export interface ServersInfo {
  /** Whether chats may use servers here. */
  allowed: boolean;
  /** The path of the file, for the user who runs the server; else empty. */
  file: string;
  /** Why the file cannot be used; empty if it can. */
  problem: string;
  servers: readonly ServerStatus[];
}
/** A standing approval. */
export interface StandingInfo {
  id: string;
  effect: 'READ' | 'WRITE' | 'EXECUTE';
  /** The only tool that it applies to; None for all tools of the effect. */
  tool: string | null;
  /** The notebook that it applies to; None if it applies to a caller. */
  notebook: string | null;
  /** The key of the caller that it applies to, for a chat its id; None for a notebook. */
  caller: string | null;
  /** The display name of the caller that asked. */
  author: string;
  /** The interface of that caller. */
  interface: string;
  /** Seconds since the epoch. */
  created: number;
}
