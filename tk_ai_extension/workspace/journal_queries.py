"""The journal's tables, migrations and queries (SQLite)."""

from __future__ import annotations

TABLES = """
CREATE TABLE IF NOT EXISTS entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time REAL NOT NULL,
    path TEXT NOT NULL,
    user TEXT NOT NULL,
    caller_key TEXT,
    author TEXT NOT NULL,
    tool TEXT NOT NULL,
    turn TEXT,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    summary TEXT NOT NULL,
    note TEXT NOT NULL DEFAULT '',
    undone_by INTEGER
) STRICT;
CREATE INDEX IF NOT EXISTS entries_by_path ON entries (path, id);
CREATE INDEX IF NOT EXISTS entries_by_caller ON entries (user, caller_key, id);
CREATE INDEX IF NOT EXISTS entries_open ON entries (id) WHERE state = 'intended';
CREATE TABLE IF NOT EXISTS changes (
    entry INTEGER PRIMARY KEY REFERENCES entries (id) ON DELETE CASCADE,
    data TEXT NOT NULL
) STRICT;

-- Which cells they are about, so that nobody reads all sources and outputs in order to know.
CREATE TABLE IF NOT EXISTS touched (
    entry INTEGER NOT NULL REFERENCES entries (id) ON DELETE CASCADE,
    cell TEXT NOT NULL,
    action TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS touched_by_entry ON touched (entry);
CREATE TRIGGER IF NOT EXISTS touched_first AFTER INSERT ON changes BEGIN
    DELETE FROM touched WHERE entry = new.entry;
    INSERT INTO touched
    SELECT new.entry, json_extract(value, '$.cell'), json_extract(value, '$.action')
    FROM json_each(new.data);
END;
CREATE TRIGGER IF NOT EXISTS touched_anew AFTER UPDATE OF data ON changes BEGIN
    DELETE FROM touched WHERE entry = new.entry;
    INSERT INTO touched
    SELECT new.entry, json_extract(value, '$.cell'), json_extract(value, '$.action')
    FROM json_each(new.data);
END;
INSERT INTO touched SELECT entry, json_extract(value, '$.cell'), json_extract(value, '$.action')
FROM changes, json_each(data) WHERE entry NOT IN (SELECT entry FROM touched);
"""

# The size of an entry, so that pruning need not read its body. It is set by a trigger, because a
# server of the previous version may write to the same file.
SIZES = """
ALTER TABLE entries ADD COLUMN size INTEGER NOT NULL DEFAULT 200;
UPDATE entries SET size = 200 + (SELECT length(data) FROM changes WHERE entry = id)
WHERE id IN (SELECT entry FROM changes);
CREATE TRIGGER sized_first AFTER INSERT ON changes BEGIN
    UPDATE entries SET size = 200 + length(new.data) WHERE id = new.entry;
END;
CREATE TRIGGER sized_again AFTER UPDATE OF data ON changes BEGIN
    UPDATE entries SET size = 200 + length(new.data) WHERE id = new.entry;
END;
"""

# The server of an entry in progress, so that another one can check whether it is running: the name of
# its lease; of an earlier version, its process.
OWNERS = """
ALTER TABLE entries ADD COLUMN owner TEXT NOT NULL DEFAULT '';
"""

MIGRATIONS = (TABLES, SIZES, OWNERS)
"""See `Database`. The first migration also accepts files from before there were versions."""

# Times are compared, as what a person keeps: they increase even if the system's clock steps back, by a
# day at most. After a clock that was wrong by more, they are right again at once.
INSERT = """
INSERT INTO entries
    (time, owner, user, caller_key, author, path, tool, turn, kind, state, summary, note)
VALUES (
    max(?, coalesce((
        SELECT time + 1e-6 FROM (SELECT time FROM entries ORDER BY id DESC LIMIT 1)
        WHERE time < ? + 86400
    ), 0.0)),
    ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
) RETURNING id
"""

GOING_ON = "SELECT DISTINCT owner FROM entries WHERE state = 'intended'"

LEFT_OVER = """
UPDATE entries SET state = 'interrupted', note = 'interrupted: the server stopped'
WHERE state = 'intended' AND owner = ?
"""

HISTORY = """
SELECT id, time, path, user, caller_key, author, tool, turn, kind, state, summary, note
FROM entries WHERE path = ? ORDER BY id DESC LIMIT ?
"""

UNDOABLE = """
SELECT id, time, path, user, caller_key, author, tool, turn, kind, state, summary, note, data
FROM entries JOIN changes ON entry = id
WHERE user = :user AND caller_key = :key AND kind = 'change' AND state = 'done'
  AND (:path IS NULL AND instr(path, '//') = 0 OR path = :path)
  AND (:since IS NULL OR id > :since)
  AND (:turn IS NULL OR turn = :turn)
ORDER BY id DESC LIMIT :limit
"""

# One statement: two undos at once, also of two servers, never both claim an entry.
CLAIM = """
UPDATE entries SET state = 'undone'
WHERE id IN (SELECT value FROM json_each(:ids)) AND :count = (
    SELECT count(*) FROM entries
    WHERE id IN (SELECT value FROM json_each(:ids)) AND state = 'done'
)
"""

CHANGES = "SELECT entry, data FROM changes WHERE entry IN (SELECT value FROM json_each(?))"

RELEASE = """
UPDATE entries SET state = 'done'
WHERE id IN (SELECT value FROM json_each(?)) AND state = 'undone' AND undone_by IS NULL
"""

# Where no undo is under way. To release too much is harmless: undo compares before it writes.
RELEASE_LEFT_OVER = """
UPDATE entries SET state = 'done'
WHERE state = 'undone' AND undone_by IS NULL AND NOT EXISTS (
    SELECT 1 FROM entries AS other
    WHERE other.state = 'intended' AND other.kind = 'undo' AND other.path = entries.path
)
"""

# No path of a notebook has two slashes.
DETACH = """
UPDATE entries SET path = path || '//'
WHERE path = :path OR substr(path, 1, length(:folder)) = :folder
"""

STANDING = """
SELECT id, time, path, user, caller_key, author, tool, turn, kind, state, summary, note, data
FROM entries JOIN changes ON entry = id
WHERE path = :path AND kind = 'change' AND state = 'done'
  AND (:ids IS NULL OR id IN (SELECT value FROM json_each(:ids)))
  AND (:before IS NULL OR id < :before)
ORDER BY id DESC LIMIT :limit
"""

# A cell that an undo restored counts as written if an earlier change of it was not undone.
WRITTEN = """
SELECT DISTINCT cell, time, kind = 'change' FROM entries JOIN touched ON entry = id
WHERE path = ? AND kind IN ('change', 'undo') AND state = 'done'
  AND action NOT IN ('move', 'delete')
ORDER BY id
"""

TOUCHED = """
SELECT id, time, path, turn, cell FROM (
    SELECT id, time, path, turn FROM entries
    WHERE user = :user AND caller_key = :key AND kind = 'change' AND state = 'done'
      AND instr(path, '//') = 0
    ORDER BY id DESC LIMIT :limit
) JOIN touched ON entry = id ORDER BY id DESC, touched.rowid
"""

# What is in progress is newer than everything that a person has seen.
UNSETTLED = """
SELECT max(CASE WHEN state = 'intended' AND time < newest THEN newest + 1e-6 ELSE time END)
FROM entries, (SELECT time AS newest FROM entries ORDER BY id DESC LIMIT 1)
WHERE path = ? AND kind IN ('change', 'undo') AND state IN ('intended', 'interrupted', 'unknown')
"""

OVER = """
DELETE FROM entries WHERE id IN (SELECT id FROM (
    SELECT id, sum(size) OVER (ORDER BY id DESC) AS total FROM entries
) WHERE total > ?)
"""
