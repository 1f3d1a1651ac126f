CREATE TABLE policy (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL UNIQUE, config bytea NOT NULL, created bigint NOT NULL, head bigint NOT NULL
);
CREATE TABLE event (
  policy bigint NOT NULL, seq bigint NOT NULL, kind bigint NOT NULL, key text COLLATE "C" NOT NULL,
  turn bigint NOT NULL, number bigint, at bigint NOT NULL, body bytea NOT NULL,
  PRIMARY KEY (policy, seq)
);
CREATE UNIQUE INDEX event_of ON event(policy, key, turn);
CREATE TABLE stray (
  policy bigint NOT NULL, key text COLLATE "C" NOT NULL, turn bigint NOT NULL, at bigint NOT NULL,
  fate text NOT NULL, body bytea NOT NULL,
  PRIMARY KEY (policy, key, turn)
);
CREATE TABLE snapshot (
  policy bigint NOT NULL, seq bigint NOT NULL, version text NOT NULL, sha256 bytea NOT NULL,
  payload bytea NOT NULL,
  PRIMARY KEY (policy, seq)
);
CREATE TABLE counter (
  policy bigint NOT NULL, minute bigint NOT NULL, name text NOT NULL, value bigint NOT NULL,
  PRIMARY KEY (policy, minute, name)
);
CREATE TABLE api_key (
  id text PRIMARY KEY, sha256 bytea NOT NULL, scopes text NOT NULL, label text NOT NULL, rate double precision NOT NULL,
  created bigint NOT NULL, revoked bigint
);
