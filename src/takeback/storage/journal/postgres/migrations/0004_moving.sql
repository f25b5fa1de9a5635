-- Why nobody may write to a workspace here: it was taken to another place, or is on its way in. Empty: everybody may.
ALTER TABLE takeback_store.workspaces ADD COLUMN shut text NOT NULL DEFAULT '';
