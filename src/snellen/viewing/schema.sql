CREATE TABLE run (
  id INTEGER PRIMARY KEY,
  folder TEXT NOT NULL UNIQUE,
  stamp TEXT NOT NULL,      -- what the index of this run was made from
  fault TEXT NOT NULL,      -- why it could not be scored, or nothing
  summary BLOB NOT NULL,    -- JSON: what the table of runs shows
  details BLOB NOT NULL,    -- JSON: what the run's own page shows besides
  indexed REAL NOT NULL,    -- seconds since 1970
  seconds REAL NOT NULL     -- what indexing took
);
CREATE TABLE question (
  id INTEGER PRIMARY KEY,
  benchmark TEXT NOT NULL,
  build TEXT NOT NULL,      -- digest of the benchmark's questions
  sample_id TEXT NOT NULL,
  turn INTEGER NOT NULL,
  place INTEGER NOT NULL,
  dimension TEXT NOT NULL,
  share_right REAL,         -- over runs and protocols; NULL where nothing is right or wrong
  disagree INTEGER NOT NULL DEFAULT 0,
  unstable INTEGER NOT NULL DEFAULT 0,
  UNIQUE (benchmark, build, sample_id, turn)
);
-- Records stand apart, so that whoever looks through all questions or entries need not read them.
CREATE TABLE question_record (question INTEGER PRIMARY KEY, sample BLOB NOT NULL, answer BLOB); -- JSON
CREATE INDEX question_of_dimension ON question (dimension);
CREATE INDEX question_in_order ON question (benchmark, place, turn);
CREATE TABLE tag (question INTEGER NOT NULL, tag TEXT NOT NULL, PRIMARY KEY (tag, question)) WITHOUT ROWID;
CREATE TABLE entry (
  id INTEGER PRIMARY KEY,
  question INTEGER NOT NULL,
  run INTEGER NOT NULL,
  protocol TEXT NOT NULL,
  outcome INTEGER NOT NULL,  -- index in OUTCOMES
  unstable INTEGER NOT NULL,
  presentations INTEGER NOT NULL,
  reading TEXT NOT NULL,     -- what the shown presentation was read as, in short
  words INTEGER              -- the replies, in reply_words; entries with the same replies share them
);
CREATE TABLE entry_record (entry INTEGER PRIMARY KEY, predictions BLOB NOT NULL, scores BLOB NOT NULL); -- JSON
CREATE UNIQUE INDEX entry_of_question ON entry (question, run, protocol);
CREATE INDEX entry_of_words ON entry (words, question);
CREATE INDEX entry_by_outcome ON entry (run, protocol, outcome, question);
CREATE TABLE exchange (run INTEGER NOT NULL, question INTEGER NOT NULL, journal INTEGER NOT NULL, offset INTEGER NOT NULL);
CREATE INDEX exchange_of_question ON exchange (question, run);
CREATE TABLE picture (
  digest TEXT PRIMARY KEY, folder TEXT NOT NULL, media_type TEXT NOT NULL, width INTEGER NOT NULL, height INTEGER NOT NULL
);
CREATE VIRTUAL TABLE question_words USING fts5 (words, tokenize = 'trigram');
CREATE VIRTUAL TABLE reply_words USING fts5 (words, tokenize = 'trigram');
CREATE TABLE reply_digest (digest BLOB PRIMARY KEY, words INTEGER NOT NULL) WITHOUT ROWID; -- of a text in reply_words
